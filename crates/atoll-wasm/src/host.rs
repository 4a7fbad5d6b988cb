//! What an instance can reach: files of its sandbox, a clock and randomness if its policy gives them, two pipes, and the talk with
//! the engine.
//!
//! The component also knows connections; each is refused here, and no socket is ever made.

use crate::context::Talk;
use crate::memory::Portion;
use crate::pipe::{Pipe, Pipes};
use crate::start::PLACES;
use crate::still::{Still, foretold};
use crate::tells::{self, Numbers, Tells};
use atoll_core::Gives;
use std::path::Path;
use std::sync::Arc;
use wasmtime::component::{Accessor, Linker, ResourceTable, Val};
use wasmtime::{Engine, StoreContextMut};
use wasmtime_wasi::filesystem::WasiFilesystemCtxView;
use wasmtime_wasi::{DirPerms, FilePerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

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
    builder.preopened_dir(stdlib, "/python-stdlib", DirPerms::READ, FilePerms::READ)?;
    for place in PLACES {
        let (dirs, plain) = match place.writable {
            true => (DirPerms::all(), FilePerms::all()),
            false => (DirPerms::READ, FilePerms::READ),
        };
        builder.preopened_dir(files.join(place.name), place.inside, dirs, plain)?;
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
    add_no_network(&mut linker)?;
    Ok(linker)
}

type Answer = (Result<String, String>,);

/// `invoke` is how Python calls the host; what it asks for is done before it returns.
fn add_talk(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut root = linker.root();
    root.func_wrap_concurrent(
        "invoke",
        |accessor: &Accessor<State>, (name, text): (String, String)| {
            let talk = accessor.with(|mut access| Arc::clone(&access.get().talk));
            let answer: Answer = (talk.answer(&name, &text),);
            Box::pin(async move { Ok(answer) })
        },
    )?;
    root.func_new("list-callbacks", |_, _, _, results| {
        results[0] = Val::List(Vec::new());
        Ok(())
    })?;
    // Ways of the component that nothing here uses.
    root.func_new("report-trace", |_, _, _, _| Ok(()))?;
    root.func_new("report-output", |_, _, _, _| Ok(()))?;
    Ok(())
}

fn add_no_network(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let refusal = || {
        let words = Val::String("tier `wasm` does not support network access; use tier `jail` or above".to_owned());
        Val::Variant("not-permitted".to_owned(), Some(Box::new(words)))
    };
    let refuse = move |results: &mut [Val], inner: bool| {
        let error = match inner {
            true => Val::Variant("tcp".to_owned(), Some(Box::new(refusal()))),
            false => refusal(),
        };
        results[0] = Val::Result(Err(Some(Box::new(error))));
    };
    for (interface, names, inner) in [
        ("eryx:net/tcp@0.1.0", ["connect", "read", "write"], false),
        ("eryx:net/tls@0.1.0", ["upgrade", "read", "write"], true),
    ] {
        let mut instance = linker.instance(interface)?;
        for name in names {
            instance.func_new(name, move |_: StoreContextMut<'_, State>, _, _, results| {
                refuse(results, inner);
                Ok(())
            })?;
        }
        instance.func_new("close", |_, _, _, _| Ok(()))?;
    }
    Ok(())
}
