//! What files tell of the host, where code is not given a clock or randomness: who writes a file could read the time from it, and
//! the host's numbers of files cannot be foretold. All else is done by wasmtime's own files.

use crate::host::State;
use atoll_core::Gives;
use std::collections::HashMap;
use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::filesystem::WasiFilesystemCtxView;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream,
    ErrorCode, Filesize, Host, HostDescriptor, HostDirectoryEntryStream, MetadataHashValue, NewTimestamp, OpenFlags,
    PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

/// Files whose numbers are remembered. Who sees more begins anew.
const MOST: usize = 1 << 20;

/// Files are numbered in the order in which code asks for them.
#[derive(Default)]
pub(crate) struct Numbers(HashMap<u64, u64>);

impl Numbers {
    fn of(&mut self, host: &MetadataHashValue) -> MetadataHashValue {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let next = self.0.len() as u64 + 1;
        let lower = *self.0.entry(host.lower).or_insert(next);
        MetadataHashValue { lower, upper: 0 }
    }
}

/// Files that tell less.
pub(crate) struct Tells<'a> {
    pub(crate) files: WasiFilesystemCtxView<'a>,
    pub(crate) gives: Gives,
    pub(crate) numbers: &'a mut Numbers,
}

struct HasTells;

impl HasData for HasTells {
    type Data<'a> = Tells<'a>;
}

/// In place of the files that are in the linker.
pub(crate) fn add(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    types::add_to_linker::<State, HasTells>(linker, State::tells)?;
    linker.allow_shadowing(false);
    Ok(())
}

impl Tells<'_> {
    fn timeless(&self, stat: DescriptorStat) -> DescriptorStat {
        match self.gives.clock {
            true => stat,
            false => DescriptorStat {
                data_access_timestamp: None,
                data_modification_timestamp: None,
                status_change_timestamp: None,
                ..stat
            },
        }
    }

    fn numbered(&mut self, host: MetadataHashValue) -> MetadataHashValue {
        match self.gives.random {
            true => host,
            false => self.numbers.of(&host),
        }
    }
}

type Fd = Resource<Descriptor>;

/// Calls that are wasmtime's as they are.
macro_rules! as_they_are {
    ($(async $name:ident($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
        $(async fn $name(&mut self, $($arg: $type),*) -> $out {
            self.files.$name($($arg),*).await
        })*
    };
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
        $(fn $name(&mut self, $($arg: $type),*) -> $out {
            self.files.$name($($arg),*)
        })*
    };
}

impl Host for Tells<'_> {
    as_they_are! {
        convert_error_code(error: FsError) -> wasmtime::Result<ErrorCode>;
        filesystem_error_code(error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>>;
    }
}

impl HostDescriptor for Tells<'_> {
    async fn stat(&mut self, fd: Fd) -> FsResult<DescriptorStat> {
        let stat = self.files.stat(fd).await?;
        Ok(self.timeless(stat))
    }

    async fn stat_at(&mut self, fd: Fd, flags: PathFlags, path: String) -> FsResult<DescriptorStat> {
        let stat = self.files.stat_at(fd, flags, path).await?;
        Ok(self.timeless(stat))
    }

    async fn metadata_hash(&mut self, fd: Fd) -> FsResult<MetadataHashValue> {
        let host = self.files.metadata_hash(fd).await?;
        Ok(self.numbered(host))
    }

    async fn metadata_hash_at(&mut self, fd: Fd, flags: PathFlags, path: String) -> FsResult<MetadataHashValue> {
        let host = self.files.metadata_hash_at(fd, flags, path).await?;
        Ok(self.numbered(host))
    }

    as_they_are! {
        async advise(fd: Fd, offset: Filesize, length: Filesize, advice: Advice) -> FsResult<()>;
        async sync_data(fd: Fd) -> FsResult<()>;
        async get_flags(fd: Fd) -> FsResult<DescriptorFlags>;
        async get_type(fd: Fd) -> FsResult<DescriptorType>;
        async set_size(fd: Fd, size: Filesize) -> FsResult<()>;
        async set_times(fd: Fd, access: NewTimestamp, change: NewTimestamp) -> FsResult<()>;
        async read(fd: Fd, length: Filesize, offset: Filesize) -> FsResult<(Vec<u8>, bool)>;
        async write(fd: Fd, bytes: Vec<u8>, offset: Filesize) -> FsResult<Filesize>;
        async read_directory(fd: Fd) -> FsResult<Resource<DirectoryEntryStream>>;
        async sync(fd: Fd) -> FsResult<()>;
        async create_directory_at(fd: Fd, path: String) -> FsResult<()>;
        async set_times_at(
            fd: Fd, flags: PathFlags, path: String, access: NewTimestamp, change: NewTimestamp
        ) -> FsResult<()>;
        async link_at(fd: Fd, flags: PathFlags, path: String, other: Fd, name: String) -> FsResult<()>;
        async open_at(fd: Fd, flags: PathFlags, path: String, how: OpenFlags, may: DescriptorFlags) -> FsResult<Fd>;
        async readlink_at(fd: Fd, path: String) -> FsResult<String>;
        async remove_directory_at(fd: Fd, path: String) -> FsResult<()>;
        async rename_at(fd: Fd, path: String, other: Fd, name: String) -> FsResult<()>;
        async symlink_at(fd: Fd, target: String, path: String) -> FsResult<()>;
        async unlink_file_at(fd: Fd, path: String) -> FsResult<()>;
        async is_same_object(one: Fd, other: Fd) -> wasmtime::Result<bool>;
    }
    as_they_are! {
        read_via_stream(fd: Fd, offset: Filesize) -> FsResult<Resource<DynInputStream>>;
        write_via_stream(fd: Fd, offset: Filesize) -> FsResult<Resource<DynOutputStream>>;
        append_via_stream(fd: Fd) -> FsResult<Resource<DynOutputStream>>;
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        HostDescriptor::drop(&mut self.files, fd)
    }
}

impl HostDirectoryEntryStream for Tells<'_> {
    as_they_are! {
        async read_directory_entry(stream: Resource<DirectoryEntryStream>) -> FsResult<Option<DirectoryEntry>>;
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        HostDirectoryEntryStream::drop(&mut self.files, stream)
    }
}
