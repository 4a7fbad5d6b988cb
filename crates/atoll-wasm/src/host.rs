//! What an instance can reach: files of its sandbox, a clock and randomness if its policy gives them, two pipes, and the talk with
//! the engine.
//!
//! The component also imports sockets; wasmtime's own are refused before a socket is made.

use crate::context::Talk;
use crate::memory::Portion;
use crate::pipe::{Pipe, Pipes};
use crate::start::PLACES;
use crate::still::{Still, foretold};
use crate::tells::{self, Numbers, Tells};
use atoll_core::Gives;
use std::path::Path;
use std::sync::Arc;
use wasmtime::component::{Linker, ResourceTable};
use wasmtime::{Engine, StoreContextMut};
use wasmtime_wasi::filesystem::WasiFilesystemCtxView;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

/// The standard library, as code sees it.
const STDLIB: &str = "/python";

/// Everything of one instance.
pub(crate) struct State {
    wasi: WasiCtx,
    table: ResourceTable,
    pub(crate) portion: Portion,
    talk: Arc<Talk>,
    gives: Gives,
    numbers: Numbers,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl State {
    pub(crate) fn new(
        places: (&Path, &Path),
        gives: Gives,
        pipes: &Arc<Pipes>,
        portion: Portion,
        talk: Arc<Talk>,
    ) -> wasmtime::Result<Self> {
        Ok(Self {
            wasi: wasi(places, gives, pipes)?,
            table: ResourceTable::new(),
            portion,
            talk,
            gives,
            numbers: Numbers::default(),
        })
    }

    /// Its files, where they tell less than the host's.
    pub(crate) fn tells(&mut self) -> Tells<'_> {
        Tells {
            files: WasiFilesystemCtxView {
                ctx: self.wasi.filesystem(),
                table: &mut self.table,
            },
            gives: self.gives,
            numbers: &mut self.numbers,
        }
    }
}

/// No arguments, no environment, no input, no network: what is not given here is not there.
fn wasi((stdlib, files): (&Path, &Path), gives: Gives, pipes: &Arc<Pipes>) -> wasmtime::Result<WasiCtx> {
    let pipe = |which| Pipe {
        pipes: Arc::clone(pipes),
        which,
    };
    let mut builder = WasiCtxBuilder::new();
    if !gives.clock {
        builder.wall_clock(Still).monotonic_clock(Still);
    }
    if !gives.random {
        builder.secure_random(foretold()).insecure_random(foretold());
        builder.insecure_random_seed(0);
    }
    builder.stdout(pipe(0)).stderr(pipe(1));
    // Each context has a thread of its own.
    builder.allow_blocking_current_thread(true);
    builder.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
    builder.preopened_dir(stdlib, STDLIB, FsPerms::ReadOnly)?;
    for place in PLACES {
        let permissions = if place.writable {
            FsPerms::ReadWrite
        } else {
            FsPerms::ReadOnly
        };
        builder.preopened_dir(files.join(place.name), place.inside, permissions)?;
    }
    Ok(builder.build())
}

pub(crate) fn linker(engine: &Engine, gives: Gives) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    if gives != Gives::ALL {
        tells::add(&mut linker)?;
    }
    add_talk(&mut linker)?;
    Ok(linker)
}

/// The two calls of `kernel.wit`. Code can make them itself, so the engine trusts no message.
fn add_talk(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut root = linker.root();
    root.func_wrap("next", |state: StoreContextMut<'_, State>, (): ()| {
        Ok((state.data().talk.next(),))
    })?;
    root.func_wrap("say", |state: StoreContextMut<'_, State>, (text,): (String,)| {
        let said: Result<(), String> = state.data().talk.say(&text).map_err(|errno| errno.to_string());
        Ok((said,))
    })
}
