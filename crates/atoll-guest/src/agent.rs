//! The agent's loop: messages of the engine, ended children, pipes of uploads, changes of files, connections, terminals that are
//! carried.
//!
//! Nothing in it waits for anybody. What takes long goes on piece by piece, one piece of each per turn.

use crate::files::{Ground, Listing, Removal, Uploads};
use crate::outbox::Outbox;
use crate::port::Ports;
use crate::process::Processes;
use crate::refused::Refused;
use crate::watch::Watches;
use atoll_core::wire::agent::{Answer, Refusal, ToAgent, UNASKED, parse};
use atoll_jail::AgentStart;
use atoll_jail::channel::ChannelError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::{Duration, Instant};

/// Walks (lists and removals) side by side.
pub(crate) const MAX_WALKS: usize = 16;
/// Messages of one turn.
const MESSAGES_PER_TURN: usize = 32;

/// Runs until the engine goes; the sandbox ends with it.
pub fn main(start: AgentStart) -> i32 {
    let Some(mut agent) = Agent::new(start) else { return 1 };
    if agent.outbox.tell(UNASKED, Answer::Ready).is_err() {
        return 1;
    }
    while agent.turn().is_ok() {}
    0
}

pub(crate) struct Agent {
    pub(crate) start: AgentStart,
    pub(crate) ground: Ground,
    pub(crate) outbox: Outbox,
    pub(crate) processes: Processes,
    pub(crate) uploads: Uploads,
    pub(crate) watches: Watches,
    pub(crate) ports: Ports,
    pub(crate) listings: Vec<Listing>,
    pub(crate) removals: Vec<Removal>,
}

/// What a turn was woken for.
#[derive(Default)]
struct Woken {
    engine: bool,
    children: bool,
    changes: bool,
    pipes: Vec<u32>,
    sockets: Vec<u32>,
    relays: bool,
}

impl Agent {
    fn new(mut start: AgentStart) -> Option<Self> {
        // New files and directories are readable for all, as on most systems; commands inherit it.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        let home = start.env.iter().find(|(name, _)| name == "HOME");
        let home = home.map_or_else(|| "/home/user".to_owned(), |(_, home)| home.clone());
        let ground = Ground::new(home, start.scratch.take());
        Some(Self {
            ground,
            outbox: Outbox::new(start.channel.try_clone().ok()?).ok()?,
            processes: Processes::new().ok()?,
            uploads: Uploads::new(),
            watches: Watches::default(),
            ports: Ports::default(),
            listings: Vec::new(),
            removals: Vec::new(),
            start,
        })
    }

    fn turn(&mut self) -> Result<(), ChannelError> {
        let woken = self.wait()?;
        self.outbox.flush()?;
        if woken.children {
            self.processes.reap(&mut self.outbox)?;
        }
        if woken.relays || woken.children {
            self.processes.relay();
        }
        if woken.changes && !self.outbox.is_full() {
            self.tell_changes(false)?;
        }
        if woken.engine {
            self.listen()?;
        }
        for request in woken.pipes {
            if let Err(refused) = self.uploads.pump(request) {
                self.refuse(request, refused)?;
            }
        }
        self.finish_uploads()?;
        for request in woken.sockets {
            self.ports.settle(request, &mut self.outbox)?;
        }
        self.ports.give_up_late(&mut self.outbox)?;
        self.walk()
    }

    fn wait(&self) -> Result<Woken, ChannelError> {
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, !self.outbox.is_full());
        interest.set(PollFlags::OUT, !self.outbox.is_empty());
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.outbox.channel(), interest),
            PollFd::from_borrowed_fd(self.processes.ended(), PollFlags::IN),
        ];
        let queue = self.watches.queue().filter(|_| !self.outbox.is_full());
        fds.extend(queue.map(|queue| PollFd::from_borrowed_fd(queue, PollFlags::IN)));
        let pipes_at = fds.len();
        let (pipes, mut input): (Vec<_>, Vec<_>) = self.uploads.pipes().unzip();
        fds.extend(input.drain(..).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let sockets_at = fds.len();
        let (sockets, mut output): (Vec<_>, Vec<_>) = self.ports.sockets().unzip();
        fds.extend(output.drain(..).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)));
        let relays_at = fds.len();
        let relayed = self.processes.relayed();
        fds.extend(relayed.map(|(fd, interest)| PollFd::from_borrowed_fd(fd, interest)));
        match poll(&mut fds, self.patience().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(ChannelError::Socket(errno)),
        }
        let is_woken = |index: usize| !fds[index].revents().is_empty();
        let those = |requests: Vec<u32>, at: usize| {
            let ready = requests
                .into_iter()
                .enumerate()
                .filter(|(index, _)| is_woken(at + index));
            ready.map(|(_, request)| request).collect()
        };
        let heard = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        Ok(Woken {
            engine: fds[0].revents().intersects(heard),
            children: is_woken(1),
            changes: pipes_at > 2 && is_woken(2),
            pipes: those(pipes, pipes_at),
            sockets: those(sockets, sockets_at),
            relays: (relays_at..fds.len()).any(is_woken),
        })
    }

    /// How long a turn may wait: not at all while there is a walk to go on with.
    fn patience(&self) -> Option<Timespec> {
        let has_walk = !self.listings.is_empty() || !self.removals.is_empty();
        if has_walk && !self.outbox.is_full() {
            return Some(Timespec::default());
        }
        let timeouts = self.ports.next_timeout().into_iter().chain(self.uploads.next_timeout());
        let left = timeouts.min()?.saturating_duration_since(Instant::now());
        // One more, so that it is over when we wake.
        Timespec::try_from(left + Duration::from_millis(1)).ok()
    }

    fn listen(&mut self) -> Result<(), ChannelError> {
        for _ in 0..MESSAGES_PER_TURN {
            if self.outbox.is_full() {
                return Ok(());
            }
            let Some((body, fds)) = self.outbox.hear()? else {
                return Ok(());
            };
            if let Some(message) = parse::<ToAgent>(&body) {
                self.obey(message.request, message.ask, fds)?;
            }
        }
        Ok(())
    }

    /// One piece of every list and removal.
    fn walk(&mut self) -> Result<(), ChannelError> {
        for mut listing in std::mem::take(&mut self.listings) {
            if self.outbox.is_full() || !listing.step(&self.ground, &mut self.outbox)? {
                self.listings.push(listing);
            }
        }
        for mut removal in std::mem::take(&mut self.removals) {
            match removal.step() {
                Ok(false) => self.removals.push(removal),
                Ok(true) => self.removed(removal.request, Ok(()))?,
                Err(refused) => self.removed(removal.request, Err(refused))?,
            }
        }
        Ok(())
    }

    fn finish_uploads(&mut self) -> Result<(), ChannelError> {
        while let Some(upload) = self.uploads.take_finished() {
            let request = upload.request;
            let finished = match upload.prepare() {
                Ok(()) => {
                    self.tell_changes(false)?;
                    upload.finish(&mut self.ground)
                }
                Err(refused) => Err(refused),
            };
            self.tell_changes(matches!(finished, Ok((_, true))))?;
            self.answer_entry(request, finished.map(|(entry, _)| entry))?;
        }
        while let Some(request) = self.uploads.take_forgotten() {
            self.refuse(request, Refused::new(Refusal::Failed, "the upload was never committed"))?;
        }
        Ok(())
    }

    /// Changes are told before the answer to the request that has made them.
    pub(crate) fn tell_changes(&mut self, replaced: bool) -> Result<(), ChannelError> {
        self.watches.tell(&self.ground, &mut self.outbox, replaced)
    }
}
