//! One sandbox: loads the component, locks itself down, and obeys the engine until it hangs up.

use crate::context::{self, Ground, Handle};
use crate::files::{Files, Located};
use crate::memory::Memory;
use crate::outbox::Outbox;
use crate::refused::Refused;
use crate::room::Room;
use crate::start::Start;
use crate::upload::Decision;
use crate::{host, load, lock, upload, user, walk};
use atoll_core::wire::agent::{Answer, Ask, ToAgent, UNASKED, parse};
use atoll_jail::channel;
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::Signal;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The first word of the program that is a Python context here.
const PYTHON: &str = "python";

/// Contexts by the request that has started them.
type Contexts = Arc<Mutex<HashMap<u32, Handle>>>;

struct Agent {
    ground: Arc<Ground>,
    outbox: Arc<Outbox>,
    contexts: Contexts,
    uploads: HashMap<u32, Decision>,
}

/// `atoll __wasm`, with the engine's channel as its input. What goes wrong before the first answer is told on stderr.
pub fn main() -> i32 {
    match serve() {
        Ok(()) => 0,
        Err(error) => {
            use std::io::Write;
            writeln!(std::io::stderr(), "{error:#}").ok();
            1
        }
    }
}

fn serve() -> wasmtime::Result<()> {
    let channel = rustix::io::dup(rustix::stdio::stdin())?;
    let (start, fds): (Start, Vec<OwnedFd>) = channel::receive(&channel)?;
    let start = user::hold(start)?;
    let component = fds.into_iter().next();
    let component = component.ok_or_else(|| wasmtime::Error::msg("received no component descriptor"))?;
    let mut agent = Agent::new(&start, &component, channel.try_clone()?)?;
    channel::send(&channel, &lock::down(&start)?, &[])?;
    agent.watch_room()?;
    agent.outbox.tell(UNASKED, Answer::Ready);
    while let Ok((body, fds)) = channel::receive_bytes(&channel) {
        if let Some(ToAgent { request, ask }) = parse(&body) {
            agent.obey(request, ask, fds);
        }
    }
    Ok(())
}

impl Agent {
    fn new(start: &Start, component: &OwnedFd, channel: OwnedFd) -> wasmtime::Result<Self> {
        let engine = load::engine()?;
        let component = load::load(&engine, component)?;
        let memory = Arc::new(Memory::default());
        memory.set_limit(start.limits.memory.get());
        let room = Room::new(Files::open(&start.files)?, &start.limits)?;
        let ground = Ground {
            room: Arc::clone(&room),
            component: host::linker(&engine, start.gives)?.instantiate_pre(&component)?,
            engine,
            memory,
            stdlib: start.stdlib.clone(),
            files: start.files.clone(),
            gives: start.gives,
        };
        Ok(Self {
            ground: Arc::new(ground),
            outbox: Arc::new(Outbox::new(channel)),
            contexts: Contexts::default(),
            uploads: HashMap::new(),
        })
    }

    /// Who makes too many files is ended.
    fn watch_room(&self) -> std::io::Result<()> {
        let contexts = Arc::clone(&self.contexts);
        self.ground.room.watch(move || kill_all(&contexts))
    }

    fn obey(&mut self, request: u32, ask: Ask, fds: Vec<OwnedFd>) {
        let answer = match ask {
            Ask::Spawn { argv, .. } => self.spawn(request, &argv, fds).map(Some),
            Ask::Signal { process, signal } => {
                if let Some(context) = lock_of(&self.contexts).get(&process) {
                    context.signal(signal);
                }
                Ok(None)
            }
            Ask::KillAll => {
                kill_all(&self.contexts);
                Ok(None)
            }
            Ask::Freeze { on } => {
                lock_of(&self.contexts).values().for_each(|context| context.freeze(on));
                Ok(Some(Answer::Done))
            }
            Ask::Limit { limits } => {
                self.ground.memory.set_limit(limits.memory.get());
                self.ground.room.set_limits(&limits);
                Ok(Some(Answer::Done))
            }
            Ask::Usage { .. } => Ok(Some(self.usage())),
            Ask::Write { path, .. } => {
                let started = upload::start(&self.ground.room, &self.outbox, request, path, fds);
                started
                    .map(|decision| drop(self.uploads.insert(request, decision)))
                    .map(|()| None)
            }
            Ask::Commit { write } => self.decide(write, true),
            Ask::Abort { write } => self.decide(write, false),
            Ask::Watch { .. } | Ask::Unwatch { .. } => Err(Refused::elsewhere("directory watches")),
            Ask::Connect { .. } => Err(Refused::elsewhere("ports")),
            about_files => self.look(request, about_files),
        };
        match answer {
            Ok(None) => {}
            Ok(Some(answer)) => self.outbox.tell(request, answer),
            Err(refused) => self.outbox.answer(request, Err(refused)),
        }
    }

    fn spawn(&mut self, request: u32, argv: &[String], fds: Vec<OwnedFd>) -> Result<Answer, Refused> {
        if argv.first().map(String::as_str) != Some(PYTHON) {
            return Err(Refused::elsewhere("programs other than Python"));
        }
        let context = context::start(&self.ground, &self.outbox, request, fds)?;
        lock_of(&self.contexts).insert(request, context);
        Ok(Answer::Spawned { pid: request })
    }

    fn decide(&mut self, write: u32, commit: bool) -> Result<Option<Answer>, Refused> {
        // One that has failed already has told so.
        self.uploads.remove(&write).map(|decision| decision.send(commit).ok());
        Ok(None)
    }

    fn look(&self, request: u32, ask: Ask) -> Result<Option<Answer>, Refused> {
        let at = |path: &str| self.ground.room.files().locate(path);
        let entry = |located: Located<'_>| located.entry().map(|entry| Some(Answer::Entry { entry }));
        match ask {
            Ask::Collect { dir, max_files } => {
                walk::collect(&self.outbox, request, &at(&dir)?, max_files);
                Ok(None)
            }
            Ask::Left { dir } => Ok(Some(walk::left(&at(&dir)?))),
            Ask::Scratch => Ok(Some(self.scratch())),
            Ask::Stat { path } => entry(at(&path)?),
            Ask::MakeDir { path } => {
                let located = at(&path)?.writable()?;
                located.make_dir()?;
                entry(located)
            }
            Ask::Move { from, to } => {
                let (from, to) = (at(&from)?.changeable()?, at(&to)?.changeable()?);
                from.move_to(&to)?;
                entry(to)
            }
            Ask::Remove { path } => {
                walk::remove(&at(&path)?.changeable()?)?;
                Ok(Some(Answer::Done))
            }
            Ask::Read { path } => {
                let located = at(&path)?;
                let (file, size) = walk::read(&located)?;
                let path = located.path;
                self.outbox
                    .tell_with(request, Answer::File { path, size }, &[file.as_fd()]);
                Ok(None)
            }
            Ask::List {
                path,
                depth,
                after,
                most,
            } => {
                walk::list(&self.outbox, request, &at(&path)?, depth, after.as_deref(), most)?;
                Ok(None)
            }
            _ => Err(Refused::elsewhere("this operation")),
        }
    }

    fn scratch(&self) -> Answer {
        let free = self.ground.room.free();
        Answer::Scratch {
            free_bytes: free.bytes,
            free_inodes: free.inodes,
        }
    }

    fn usage(&self) -> Answer {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let millis = cpu.tv_sec.saturating_mul(1000).saturating_add(cpu.tv_nsec / 1_000_000);
        Answer::Usage {
            memory_bytes: self.ground.memory.used(),
            cpu_ms: u64::try_from(millis).unwrap_or(0),
            tasks: 1,
        }
    }
}

fn kill_all(contexts: &Contexts) {
    lock_of(contexts)
        .values()
        .for_each(|context| context.signal(Signal::KILL.as_raw()));
}

fn lock_of(contexts: &Contexts) -> MutexGuard<'_, HashMap<u32, Handle>> {
    contexts.lock().unwrap_or_else(PoisonError::into_inner)
}
