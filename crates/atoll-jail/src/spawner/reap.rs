//! Ended children of a spawner: a shell (its sandbox is over), a zygote, or a fork of a dead zygote.

use super::sandbox::Progress;
use super::{Fault, FromSpawner, Spawner};
use atoll_core::SandboxId;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

impl Spawner {
    pub(super) fn reap(&mut self) -> Result<(), Fault> {
        while let Ok(Some(_)) = self.children.read_signal() {}
        loop {
            let (pid, end) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid.as_raw(), (Some(code), None)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid.as_raw(), (None, Some(signal as i32))),
                Ok(WaitStatus::StillAlive) | Err(_) => return Ok(()),
                Ok(_) => continue,
            };
            self.child_ended(pid, end)?;
        }
    }

    fn child_ended(&mut self, pid: i32, end: (Option<i32>, Option<i32>)) -> Result<(), Fault> {
        let shell = self
            .sandboxes
            .iter()
            .find(|(_, one)| one.pid == pid)
            .map(|(id, _)| id.clone());
        if let Some(id) = shell {
            return self.sandbox_ended(id);
        }
        let how = match end {
            (_, Some(signal)) => format!("the zygote was terminated by signal {signal}"),
            (Some(code), None) => format!("the zygote exited with status {code}"),
            (None, None) => "the zygote exited".to_owned(),
        };
        match self.zygotes.ended(pid, &how, &self.filters)? {
            Some(events) => self.tell_all(events),
            None => {
                let exited = self.zygotes.forget(pid).map(|owner| owner.exited(end));
                self.tell_all(exited.into_iter().collect())
            }
        }
    }

    /// One that was still being built may have said why it failed.
    fn sandbox_ended(&mut self, id: SandboxId) -> Result<(), Fault> {
        let Some(mut sandbox) = self.sandboxes.remove(&id) else {
            return Ok(());
        };
        while sandbox.sync().is_some() {
            if let Progress::Failed(error) = sandbox.hear() {
                self.tell_failed(&id, error.as_ref())?;
                break;
            }
        }
        self.tell(&FromSpawner::Ended { sandbox: id })
    }
}

pub(super) fn watch_children() -> Result<SignalFd, Fault> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    Ok(SignalFd::with_flags(
        &mask,
        SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC,
    )?)
}
