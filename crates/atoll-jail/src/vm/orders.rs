//! What a keeper does for the engine while its machine lives: hold the talk with the guest still, write the machine's memory down,
//! bring it back. The engine has the machine's monitor: it stops the machine first, and has it go on afterwards.

use super::pages::Memory;
use crate::channel;
use crate::ferry;
use crate::order::{FromKeeper, ToKeeper};
use crate::step::{StepError, chain};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

/// The processes of one machine.
pub(super) struct Machine {
    /// QEMU's number among the keeper's own processes.
    pub(super) pid: i32,
    pub(super) ferry: OwnedFd,
    /// To the ferry.
    pub(super) orders: OwnedFd,
}

/// Until the ferry ends. `ram` is the file that the machine's memory is a mapping of.
pub(super) fn serve(machine: &Machine, mut engine: Option<OwnedFd>, ram: &OwnedFd) {
    loop {
        let nothing = machine.ferry.as_fd();
        let engine_fd = engine.as_ref().map_or(nothing, AsFd::as_fd);
        let mut fds = [nothing, engine_fd].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let [ended, asked] = fds.each_ref().map(|fd| !fd.revents().is_empty());
        if ended {
            return;
        }
        if asked
            && engine
                .as_ref()
                .is_some_and(|engine| obey(machine, engine, ram).is_none())
        {
            engine = None;
        }
    }
}

/// `None` if the engine is gone.
fn obey(machine: &Machine, engine: &OwnedFd, ram: &OwnedFd) -> Option<()> {
    let (order, fds) = channel::receive::<ToKeeper>(engine).ok()?;
    let answer = match done(machine, order, fds, ram) {
        Ok(()) => FromKeeper::Done,
        Err(message) => FromKeeper::Failed { message, over: false },
    };
    channel::send(engine, &answer, &[]).ok()
}

fn done(machine: &Machine, order: ToKeeper, fds: Vec<OwnedFd>, ram: &OwnedFd) -> Result<(), String> {
    let words = |error: StepError| chain(&error);
    let file = || fds.into_iter().next().ok_or("the command carries no file");
    match order {
        ToKeeper::Hold { on: true } => Ok(ferry::hold(&machine.orders)?),
        ToKeeper::Hold { on: false } => {
            ferry::go_on(&machine.orders);
            Ok(())
        }
        ToKeeper::Copy => {
            let (memory, file) = (Memory::of(machine.pid, ram).map_err(words)?, file()?);
            memory.copy(machine.pid, file).map_err(words)
        }
        ToKeeper::Lay => {
            let (memory, file) = (Memory::of(machine.pid, ram).map_err(words)?, file()?);
            memory.lay(file).map_err(words)
        }
        ToKeeper::Adopt { .. } | ToKeeper::Begin { .. } | ToKeeper::Save { .. } => {
            Err("the command is not valid while the VM is running".to_owned())
        }
    }
}
