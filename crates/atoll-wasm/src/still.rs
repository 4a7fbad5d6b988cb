//! What an instance has in place of a clock and of randomness that its policy does not give.

use crate::host::State;
use sha2::{Digest, Sha256};
use std::time::Duration;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorStat, ErrorCode, HostDescriptor, PathFlags};
use wasmtime_wasi::random::Deterministic;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

/// The beginning of 1970, for ever. Waits still take their time.
pub(crate) struct Still;

impl HostWallClock for Still {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

impl HostMonotonicClock for Still {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        0
    }
}

/// Blocks of the sequence before it begins again.
const BLOCKS: u32 = 2048;

/// Bytes that look like random ones and are the same in every instance.
pub(crate) fn foretold() -> Deterministic {
    let blocks = (0..BLOCKS).flat_map(|number| Sha256::digest(number.to_le_bytes()));
    Deterministic::new(blocks.collect())
}

const FILES: &str = "wasi:filesystem/types@0.2.6";

/// A file tells when it was written, and who writes one can read the time from it: without a clock files have no times.
pub(crate) fn hide_times(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut files = linker.instance(FILES)?;
    files.func_wrap_async(
        "[method]descriptor.stat",
        |mut store: StoreContextMut<'_, State>, (fd,): (Resource<Descriptor>,)| {
            Box::new(async move { timeless(store.data_mut().filesystem().stat(fd).await) })
        },
    )?;
    type At = (Resource<Descriptor>, PathFlags, String);
    files.func_wrap_async(
        "[method]descriptor.stat-at",
        |mut store: StoreContextMut<'_, State>, (fd, flags, path): At| {
            Box::new(async move { timeless(store.data_mut().filesystem().stat_at(fd, flags, path).await) })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

type Told = (Result<DescriptorStat, ErrorCode>,);

fn timeless(told: FsResult<DescriptorStat>) -> wasmtime::Result<Told> {
    match told {
        Ok(stat) => Ok((Ok(DescriptorStat {
            data_access_timestamp: None,
            data_modification_timestamp: None,
            status_change_timestamp: None,
            ..stat
        }),)),
        Err(error) => Ok((Err(error.downcast()?),)),
    }
}
