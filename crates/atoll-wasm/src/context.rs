//! A Python context: one instance of the component on a thread of its own, with its control socket and two pipes.

use crate::aliases::Aliases;
use crate::host::State;
use crate::memory::{Memory, Portion};
use crate::outbox::Outbox;
use crate::pipe::Pipes;
use crate::refused::Refused;
use crate::room::Room;
use crate::stop::Stop;
use atoll_core::Gives;
use atoll_core::wire::agent::{Answer, Refusal};
use atoll_core::wire::frame::{MAX_FRAME_BYTES, encode};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use wasmtime::component::InstancePre;
use wasmtime::{Engine, Store, UpdateDeadline};

/// The export that runs a context. It returns when the engine hangs up.
const SERVE: &str = "serve";
const SIGSEGV: i32 = rustix::process::Signal::SEGV.as_raw();

/// What all contexts of a sandbox start from.
pub(crate) struct Ground {
    pub(crate) engine: Engine,
    pub(crate) component: InstancePre<State>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) room: Arc<Room>,
    pub(crate) stdlib: PathBuf,
    pub(crate) files: PathBuf,
    pub(crate) gives: Gives,
}

/// A context from the agent's side.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) stop: Arc<Stop>,
    /// Goes with the context.
    talk: Weak<Talk>,
    engine: Engine,
}

impl Handle {
    /// An instance that computes sees it at the next epoch, which is now.
    pub(crate) fn signal(&self, signal: i32) {
        if self.stop.send(signal) {
            self.engine.increment_epoch();
            if let Some(talk) = self.talk.upgrade() {
                talk.hang_up();
            }
        }
    }

    pub(crate) fn freeze(&self, on: bool) {
        self.stop.freeze(on);
        self.engine.increment_epoch();
    }
}

/// The control socket, from the host's side of an instance.
#[derive(Debug)]
pub(crate) struct Talk {
    control: OwnedFd,
    /// What executions are called inside, where their names would be random numbers.
    aliases: Option<Aliases>,
    stop: Arc<Stop>,
    room: Arc<Room>,
}

impl Talk {
    /// The next message of the engine; `None` when it has hung up.
    pub(crate) fn next(&self) -> Option<String> {
        self.set_running(false);
        let mut header = [0; 4];
        self.read(&mut header)?;
        let length = usize::try_from(u32::from_le_bytes(header)).ok()?;
        let mut body = vec![0; Some(length).filter(|length| *length <= MAX_FRAME_BYTES)?];
        self.read(&mut body)?;
        self.set_running(true);
        let text = String::from_utf8(body).ok()?;
        Some(match &self.aliases {
            Some(aliases) => aliases.inside(text),
            None => text,
        })
    }

    fn set_running(&self, on: bool) {
        if self.stop.set_running(on) {
            self.room.set_busy(on);
        }
    }

    pub(crate) fn say(&self, text: &str) -> Result<(), Errno> {
        let text = match &self.aliases {
            Some(aliases) => &aliases.outside(text),
            None => text,
        };
        let frame = encode(text.as_bytes()).ok_or(Errno::MSGSIZE)?;
        let mut left = frame.as_slice();
        while !left.is_empty() {
            let sent = retry_on_intr(|| rustix::net::send(&self.control, left, SendFlags::NOSIGNAL))?;
            left = &left[sent..];
        }
        Ok(())
    }

    fn read(&self, into: &mut [u8]) -> Option<()> {
        let mut have = 0;
        while have < into.len() {
            let (count, _) =
                retry_on_intr(|| rustix::net::recv(&self.control, &mut into[have..], RecvFlags::empty())).ok()?;
            have += Some(count).filter(|count| *count > 0)?;
        }
        Some(())
    }

    fn hang_up(&self) {
        rustix::net::shutdown(&self.control, Shutdown::Read).ok();
    }
}

/// Descriptors as a program gets them: input, stdout, stderr, control.
pub(crate) fn start(
    ground: &Arc<Ground>,
    outbox: &Arc<Outbox>,
    request: u32,
    fds: Vec<OwnedFd>,
) -> Result<Handle, Refused> {
    let Ok([_, stdout, stderr, control]) = <[OwnedFd; 4]>::try_from(fds) else {
        return Err(Refused::new(
            Refusal::Invalid,
            "expected four file descriptors for a context",
        ));
    };
    let stop = Arc::new(Stop::default());
    let talk = Arc::new(Talk {
        control,
        aliases: (!ground.gives.random).then(Aliases::default),
        stop: Arc::clone(&stop),
        room: Arc::clone(&ground.room),
    });
    let handle = Handle {
        stop,
        talk: Arc::downgrade(&talk),
        engine: ground.engine.clone(),
    };
    let (ground, outbox, pipes) = (Arc::clone(ground), Arc::clone(outbox), Pipes::new(stdout, stderr));
    let thread = std::thread::Builder::new().name("context".to_owned());
    let run = move || live(&ground, &outbox, request, talk, pipes);
    thread.spawn(run).map_err(|error| {
        Refused::new(
            Refusal::Failed,
            format!("cannot start a thread for the context: {error}"),
        )
    })?;
    Ok(handle)
}

fn live(ground: &Ground, outbox: &Outbox, request: u32, talk: Arc<Talk>, pipes: Arc<Pipes>) {
    let ended = run(ground, Arc::clone(&talk), &pipes);
    let sent = talk.stop.sent();
    talk.set_running(false);
    // The engine reads the pipes and the socket to their ends before it asks how it ended.
    drop((pipes, talk));
    let (code, signal) = match (sent, ended) {
        (Some(signal), _) => (None, Some(signal)),
        (None, Ok(code)) => (Some(code), None),
        (None, Err(_)) => (None, Some(SIGSEGV)),
    };
    outbox.tell(request, Answer::Exited { code, signal });
}

/// Runs an instance to its end. Code can end it (`os._exit`); what it does wrong is a trap.
fn run(ground: &Ground, talk: Arc<Talk>, pipes: &Arc<Pipes>) -> wasmtime::Result<i32> {
    let stop = Arc::clone(&talk.stop);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let portion = Portion::of(&ground.memory);
    let state = State::new((&ground.stdlib, &ground.files), ground.gives, pipes, portion, talk)?;
    let mut store = Store::new(&ground.engine, state);
    store.limiter(|state| &mut state.portion);
    store.set_epoch_deadline(1);
    let seen = Arc::clone(&stop);
    store.epoch_deadline_callback(move |_| {
        seen.wait_while_frozen();
        Ok(match seen.sent() {
            Some(_) => UpdateDeadline::Interrupt,
            None => UpdateDeadline::Continue(1),
        })
    });
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = serve(ground, &mut store) => ended.map(|()| 0),
            () = stop.woken() => Ok(0),
        }
    });
    match ended {
        Err(error) => match error.downcast_ref::<wasmtime_wasi::I32Exit>() {
            Some(exit) => Ok(exit.0),
            None => Err(error),
        },
        ended => ended,
    }
}

async fn serve(ground: &Ground, store: &mut Store<State>) -> wasmtime::Result<()> {
    let instance = ground.component.instantiate_async(&mut *store).await?;
    let serve = instance.get_typed_func::<(), ()>(&mut *store, SERVE)?;
    serve.call_async(&mut *store, ()).await
}
