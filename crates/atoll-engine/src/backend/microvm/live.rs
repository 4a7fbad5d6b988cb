//! Live guests: saved while they go on, and others from what was saved.
//!
//! The talk with the guest comes to a rest, the machine is stopped, QEMU writes the state of its devices, the keeper its memory, and
//! all goes on. Who comes from it gets a machine of the template's saved guest, whose memory is then made what was written down:
//! what is the same stays shared.

use super::control::Control;
use super::memory;
use super::monitor::Monitor;
use super::wall::MicrovmWall;
use super::{GUEST_BYTES, MicrovmBackend, size_for};
use crate::backend::saved::order;
use crate::backend::{Back, Files, Made, Saved, TierError};
use atoll_jail::order::ToKeeper;
use atoll_jail::vm::ram_bytes_of;
use rustix::fd::OwnedFd;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Arc;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;

/// The state of a machine's devices is some kilobytes.
const MOST_STATE: u64 = 64 << 20;

/// Our ways to one machine.
#[derive(Debug)]
pub(super) struct Ways {
    /// To the guest's first process.
    pub(super) control: Arc<Control>,
    /// To what runs it. One save at a time.
    pub(super) machine: Mutex<Machine>,
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) monitor: Monitor,
    keeper: AsyncFd<OwnedFd>,
}

impl Ways {
    pub(super) fn new(control: Arc<Control>, monitor: Monitor, keeper: AsyncFd<OwnedFd>) -> Self {
        let machine = Mutex::new(Machine { monitor, keeper });
        Self { control, machine }
    }
}

impl Machine {
    /// Between two words of the ferries, so that a copy can go on from there as well. A machine that does not go on is the second
    /// error.
    async fn save(&mut self, files: Files) -> Result<Result<(), TierError>, TierError> {
        if let Err(error) = order(&self.keeper, &ToKeeper::Hold { on: true }, &[]).await {
            return Ok(Err(error));
        }
        let saved = match self.monitor.stop().await {
            Ok(()) => self.write(files).await,
            Err(error) => Err(error),
        };
        self.monitor.go_on().await.map_err(|_| TierError::Over)?;
        order(&self.keeper, &ToKeeper::Hold { on: false }, &[]).await?;
        Ok(saved)
    }

    /// Of a machine that is stopped.
    async fn write(&mut self, [memory, devices]: Files) -> Result<(), TierError> {
        let state = memory::empty("state", 0)?;
        self.monitor.write_devices(&memory::writable(&state)?).await?;
        let mut from = File::from(memory::reopened(&state)?).take(MOST_STATE);
        io::copy(&mut from, &mut File::from(devices)).map_err(TierError::Carry)?;
        order(&self.keeper, &ToKeeper::Copy, &[memory]).await
    }
}

impl MicrovmWall {
    /// One that cannot go on is over.
    pub(super) async fn save_live(&self, files: Files, goes_on: bool) -> Result<(), TierError> {
        let saved = self.ways.machine.lock().await.save(files).await;
        // The clock has stood still.
        let went_on = match &saved {
            Ok(_) if goes_on => self.ways.control.renew().await,
            _ => Err(TierError::Over),
        };
        if went_on.is_err() {
            self.inner.end().await?;
        }
        match goes_on {
            true => went_on.and(saved?),
            false => saved?,
        }
    }
}

impl MicrovmBackend {
    /// A copy of a live guest, whose memory and devices are in these files.
    pub(super) async fn restore_live(&self, made: Made, live: &Saved, files: Files) -> Result<Back, TierError> {
        let [memory, devices] = files.map(File::from);
        let (size, memory) = size_of(memory)?;
        let cell = self.cell(size);
        let saved = cell.get_or_try_init(|| self.saved(size)).await?;
        let state = taken(devices)?;
        let mut running = self.bring_back(&made, (size, saved), live, state).await?;
        let laid = order(&running.kept.keeper, &ToKeeper::Lay, &[memory]).await;
        laid.map_err(|error| match error {
            TierError::NotSaved(why) => TierError::Sandbox(why),
            other => other,
        })?;
        running.monitor.load().await?;
        running.control.renew().await?;
        let (sandbox, _, contexts) = self.behind(running, &saved.about.kernel, size)?;
        // What was counted before is not new.
        sandbox.recount().await;
        let contexts = sandbox.wake(contexts).await?;
        Ok((sandbox, contexts))
    }
}

/// How much memory the sandbox of this guest can have.
fn size_of(mut memory: File) -> Result<(u64, OwnedFd), TierError> {
    let bytes = ram_bytes_of(&mut memory).map_err(TierError::Carry)?;
    memory.rewind().map_err(TierError::Carry)?;
    let size = bytes.checked_sub(GUEST_BYTES).filter(|size| size_for(*size) == *size);
    let size =
        size.ok_or_else(|| TierError::Carry(io::Error::other("the saved memory size does not match any guest size")))?;
    Ok((size, memory.into()))
}

/// QEMU gets bytes that nobody changes, and no file of ours.
fn taken(devices: File) -> Result<OwnedFd, TierError> {
    let mut bytes = Vec::new();
    devices
        .take(MOST_STATE)
        .read_to_end(&mut bytes)
        .map_err(TierError::Carry)?;
    memory::holding("state", &bytes)
}
