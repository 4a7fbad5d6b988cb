//! Holding still: a guest is saved between two words, never in the middle of one.
//!
//! The keeper orders the host's ferry to hold. This takes nothing more from its own peers and says so; the guest's ferry
//! does the same and answers. Now the line is empty, and the guest can be saved. Whoever goes on with it, the same ferry or
//! that of a copy, says so first. A copy names the streams that it knows: nobody hears the others any more.

use super::frame::{Broken, Frame};
use super::{Side, Work};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// What a keeper says to its ferry, and the ferry to it.
pub(super) const HOLD: u8 = b'h';
pub(super) const GO: u8 = b'g';
/// How long both ferries may take to hold still.
const STILL_WITHIN: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// A keeper's order, and the wait until nothing is under way. One that is not obeyed in time is taken back.
pub(crate) fn hold(orders: &OwnedFd) -> Result<(), &'static str> {
    let hears = |within: &Timespec| {
        let mut fds = [PollFd::new(orders, PollFlags::IN)];
        poll(&mut fds, Some(within)).is_ok_and(|count| count > 0) && matches!(rustix::io::read(orders, &mut [0]), Ok(1))
    };
    // A word that came too late for who had asked before.
    while hears(&Timespec::default()) {}
    match rustix::io::write(orders, &[HOLD]).is_ok() && hears(&STILL_WITHIN) {
        true => Ok(()),
        false => {
            go_on(orders);
            Err("the sandbox's data streams did not pause in time")
        }
    }
}

pub(crate) fn go_on(orders: &OwnedFd) {
    // A ferry that is gone carries nothing.
    rustix::io::write(orders, &[GO]).ok();
}

/// What a ferry is told of it.
#[derive(Debug, Default)]
pub struct Holds {
    /// Where the keeper orders it. On the host's side only.
    pub orders: Option<OwnedFd>,
    /// The guest was held when it was saved: it is told to go on with what is adopted, and new streams have numbers from here.
    pub next: Option<u32>,
}

#[derive(Debug)]
pub(super) struct Held {
    side: Side,
    orders: Option<OwnedFd>,
    /// Nothing is taken from our own peers.
    still: bool,
    /// The keeper waits for the other side's word.
    awaited: bool,
}

impl Held {
    pub(super) fn new(side: Side, holds: Holds) -> Result<Self, Errno> {
        if let Some(orders) = &holds.orders {
            rustix::io::ioctl_fionbio(orders, true)?;
        }
        Ok(Self {
            side,
            orders: holds.orders,
            still: false,
            awaited: false,
        })
    }

    pub(super) fn is_still(&self) -> bool {
        self.still
    }

    pub(super) fn orders(&self) -> Option<BorrowedFd<'_>> {
        self.orders.as_ref().map(AsFd::as_fd)
    }
}

impl Work {
    /// What the keeper wants. One that is gone wants nothing.
    pub(super) fn obey_keeper(&mut self) {
        let mut order = [0];
        let read = self
            .held
            .orders
            .as_ref()
            .map(|orders| rustix::io::read(orders, &mut order));
        match (read, order) {
            (Some(Ok(1)), [HOLD]) => {
                (self.held.still, self.held.awaited) = (true, true);
                self.line.say(&Frame::Hold);
            }
            (Some(Ok(1)), [GO]) => {
                (self.held.still, self.held.awaited) = (false, false);
                self.line.say(&Frame::Go { only: None });
            }
            (Some(Err(Errno::AGAIN | Errno::INTR)), _) => {}
            _ => self.held.orders = None,
        }
    }

    /// The last word before the other side may save us.
    pub(super) fn hold(&mut self) -> Result<(), Broken> {
        self.only(Side::Guest)?;
        self.held.still = true;
        self.line.say(&Frame::Held);
        Ok(())
    }

    pub(super) fn other_is_held(&mut self) -> Result<(), Broken> {
        self.only(Side::Host)?;
        if let (true, Some(orders)) = (std::mem::take(&mut self.held.awaited), &self.held.orders) {
            rustix::io::write(orders, &[HOLD]).ok();
        }
        Ok(())
    }

    pub(super) fn go_on(&mut self, only: Option<&[u32]>) -> Result<(), Broken> {
        self.only(Side::Guest)?;
        self.held.still = false;
        let Some(only) = only else { return Ok(()) };
        for (number, stream) in &mut self.streams {
            match only.contains(number) {
                true => stream.renew(),
                false => stream.forget(self.line.out()),
            }
        }
        Ok(())
    }

    /// Only one side is ever told this.
    fn only(&self, side: Side) -> Result<(), Broken> {
        match self.held.side == side {
            true => Ok(()),
            false => Err(Broken),
        }
    }
}
