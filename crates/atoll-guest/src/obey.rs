//! One message of the engine: what is asked, and who does it.

use crate::agent::{Agent, MAX_WALKS};
use crate::collect::collect;
use crate::files::{self, Listing, Removal, resolve};
use crate::left::Left;
use crate::process::{Processes, Spawn};
use crate::refused::Refused;
use atoll_core::wire::agent::{Answer, Ask, Entry, ListBound, Refusal, TerminalSize};
use atoll_jail::channel::ChannelError;
use nix::sys::signal::Signal;
use rustix::fd::OwnedFd;

impl Agent {
    pub(crate) fn obey(&mut self, request: u32, ask: Ask, fds: Vec<OwnedFd>) -> Result<(), ChannelError> {
        match ask {
            Ask::Spawn {
                argv,
                env,
                cwd,
                terminal,
            } => {
                let spawn = Spawn {
                    argv,
                    env,
                    cwd,
                    terminal,
                    fds,
                };
                self.spawn(request, spawn)
            }
            Ask::Signal { process, signal } => {
                self.processes.signal(process, signal);
                Ok(())
            }
            Ask::Interrupt { process, again } => {
                self.processes.interrupt(process, again);
                self.outbox.tell(request, Answer::Done)
            }
            Ask::Resize { process, size } => self.resize(request, process, size),
            Ask::KillAll => {
                Processes::signal_all(Signal::SIGKILL);
                Ok(())
            }
            Ask::Limit { limits } => {
                self.start.set_limits(&limits);
                self.outbox.tell(request, Answer::Done)
            }
            Ask::Freeze { on } => {
                Processes::signal_all(if on { Signal::SIGSTOP } else { Signal::SIGCONT });
                self.outbox.tell(request, Answer::Done)
            }
            Ask::Collect { dir, max_files } => collect(&mut self.outbox, request, &dir, max_files),
            Ask::Left { dir } => self.outbox.tell(request, Left::below(&dir).into_answer()),
            Ask::Scratch => self.outbox.tell(request, crate::usage::scratch(&self.ground.home)),
            Ask::Usage {
                exact_above_bytes: above,
            } => self.outbox.tell(request, crate::usage::read(above).into_answer()),
            Ask::Stat { path } => {
                let entry = self.resolve(&path).and_then(|path| self.ground.entry(&path));
                self.answer_entry(request, entry)
            }
            Ask::Read { path } => self.read(request, &path),
            Ask::List {
                path,
                depth,
                after,
                most,
            } => self.list(request, &path, depth, after.as_deref(), most),
            Ask::MakeDir { path } => {
                let made = self
                    .resolve(&path)
                    .and_then(|path| files::make_dir(&self.ground, &path));
                self.changed(request, made)
            }
            Ask::Move { from, to } => {
                let paths = self.resolve(&from).and_then(|from| Ok((from, self.resolve(&to)?)));
                let moved = paths.and_then(|(from, to)| files::move_to(&self.ground, &from, &to));
                self.changed(request, moved)
            }
            Ask::Remove { path } => self.remove(request, &path),
            Ask::Write { path, metadata } => {
                let path = self.resolve(&path);
                let started = path.and_then(|path| self.uploads.start(request, path, metadata, fds));
                self.or_refuse(request, started, |_, ()| ())
            }
            Ask::Commit { write } => {
                self.uploads.commit(write);
                Ok(())
            }
            Ask::Abort { write } => match self.uploads.abort(write) {
                true => self.refuse(write, Refused::new(Refusal::Failed, "the upload was aborted")),
                false => Ok(()),
            },
            Ask::Watch { path, recursive } => {
                let path = self.resolve(&path);
                match path.and_then(|path| self.watches.start(&self.ground, request, &path, recursive)) {
                    Ok(()) => self.outbox.tell(request, Answer::Watching),
                    Err(refused) => self.refuse(request, refused),
                }
            }
            Ask::Unwatch { watch } => {
                self.watches.stop(watch);
                Ok(())
            }
            Ask::Connect { port } => {
                let started = self.ports.start(request, port);
                self.or_refuse(request, started, |_, ()| ())
            }
        }
    }

    fn spawn(&mut self, request: u32, spawn: Spawn) -> Result<(), ChannelError> {
        let started = self.processes.start(&self.start, &self.ground.home, request, spawn);
        match started {
            Ok((pid, fds)) => self.outbox.tell_with(request, Answer::Spawned { pid }, fds),
            Err(refused) => self.refuse(request, refused),
        }
    }

    fn read(&mut self, request: u32, path: &str) -> Result<(), ChannelError> {
        let opened = self.resolve(path).and_then(|path| Ok((files::read(&path)?, path)));
        match opened {
            Ok(((file, size), path)) => {
                let answer = Answer::File { path, size };
                self.outbox.tell_with(request, answer, vec![file])
            }
            Err(refused) => self.refuse(request, refused),
        }
    }

    fn list(
        &mut self,
        request: u32,
        path: &str,
        depth: u32,
        after: Option<&str>,
        most: ListBound,
    ) -> Result<(), ChannelError> {
        let listing = self
            .start_walk(path)
            .and_then(|path| Listing::start(request, &path, depth, most))
            .and_then(|listing| listing.go_on_after(&self.ground, after));
        self.or_refuse(request, listing, |agent, listing| agent.listings.push(listing))
    }

    fn resize(&mut self, request: u32, process: u32, size: TerminalSize) -> Result<(), ChannelError> {
        let resized = self.processes.resize(process, size);
        self.outbox.tell(request, resized.unwrap_or_else(Refused::into_answer))
    }

    fn remove(&mut self, request: u32, path: &str) -> Result<(), ChannelError> {
        match self.start_walk(path).and_then(|path| Removal::start(request, &path)) {
            Ok(Some(removal)) => {
                self.removals.push(removal);
                Ok(())
            }
            Ok(None) => self.removed(request, Ok(())),
            Err(refused) => self.removed(request, Err(refused)),
        }
    }

    fn resolve(&self, path: &str) -> Result<String, Refused> {
        resolve(&self.ground.home, path)
    }

    fn start_walk(&self, path: &str) -> Result<String, Refused> {
        match self.listings.len() + self.removals.len() < MAX_WALKS {
            true => self.resolve(path),
            false => Err(Refused::new(
                Refusal::Failed,
                format!("too many concurrent listings and removals (limit {MAX_WALKS})"),
            )),
        }
    }

    pub(crate) fn changed(&mut self, request: u32, entry: Result<Entry, Refused>) -> Result<(), ChannelError> {
        self.tell_changes(false)?;
        self.answer_entry(request, entry)
    }

    pub(crate) fn removed(&mut self, request: u32, removed: Result<(), Refused>) -> Result<(), ChannelError> {
        self.tell_changes(false)?;
        match removed {
            Ok(()) => self.outbox.tell(request, Answer::Done),
            Err(refused) => self.refuse(request, refused),
        }
    }

    pub(crate) fn answer_entry(&mut self, request: u32, entry: Result<Entry, Refused>) -> Result<(), ChannelError> {
        match entry {
            Ok(entry) => self.outbox.tell(request, Answer::Entry { entry }),
            Err(refused) => self.refuse(request, refused),
        }
    }

    fn or_refuse<T>(
        &mut self,
        request: u32,
        started: Result<T, Refused>,
        go_on: impl FnOnce(&mut Self, T),
    ) -> Result<(), ChannelError> {
        match started {
            Ok(started) => {
                go_on(self, started);
                Ok(())
            }
            Err(refused) => self.refuse(request, refused),
        }
    }

    pub(crate) fn refuse(&mut self, request: u32, refused: Refused) -> Result<(), ChannelError> {
        self.outbox.tell(request, refused.into_answer())
    }
}
