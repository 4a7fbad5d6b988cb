//! Prepared sandboxes: made, forked into, pre-touched and inspected before anybody asks. Each is handed out once.

use crate::engine::{Engine, EngineError};
use crate::jail::{Context, JailSandbox};
use crate::sandbox::{Sandbox, SandboxSpec};
use atoll_core::{Language, Limits};
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{Mutex, Notify};

/// A sandbox that has run no user code.
#[derive(Debug)]
struct Prepared {
    jail: JailSandbox,
    context: Context,
    layers: Map<String, Value>,
}

#[derive(Debug)]
pub struct Pool {
    engine: Arc<Engine>,
    ready: Arc<Mutex<VecDeque<Prepared>>>,
    taken: Arc<Notify>,
    refill: tokio::task::JoinHandle<()>,
}

impl Pool {
    /// Fills up to `size` sandboxes, and again whenever one was taken.
    pub async fn start(engine: Arc<Engine>, size: usize) -> Result<Self, EngineError> {
        engine.ready().await?;
        let ready = Arc::new(Mutex::new(VecDeque::new()));
        let taken = Arc::new(Notify::new());
        for _ in 0..size {
            let prepared = prepare(&engine).await?;
            ready.lock().await.push_back(prepared);
        }
        let refill = tokio::spawn(refill(
            Arc::clone(&engine),
            Arc::clone(&ready),
            Arc::clone(&taken),
            size,
        ));
        Ok(Self {
            engine,
            ready,
            taken,
            refill,
        })
    }

    /// Hands out a prepared sandbox; an empty pool means that one is made now.
    pub async fn claim(&self, spec: SandboxSpec) -> Result<Sandbox, EngineError> {
        // Prepared ones keep their scratch files in memory; room on disk is made for who asks.
        let on_disk = atoll_jail::scratch_is_on_disk(&spec.limits);
        let prepared = if on_disk {
            None
        } else {
            self.ready.lock().await.pop_front()
        };
        self.taken.notify_one();
        match prepared {
            Some(one) => Sandbox::claim(&self.engine, one.jail, (one.context, one.layers), spec).await,
            None => {
                self.engine
                    .create(SandboxSpec {
                        start: Some(Language::Python),
                        ..spec
                    })
                    .await
            }
        }
    }

    /// How many are ready now.
    pub async fn depth(&self) -> usize {
        self.ready.lock().await.len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.refill.abort();
    }
}

async fn refill(engine: Arc<Engine>, ready: Arc<Mutex<VecDeque<Prepared>>>, taken: Arc<Notify>, size: usize) {
    loop {
        taken.notified().await;
        while ready.lock().await.len() < size {
            match prepare(&engine).await {
                Ok(prepared) => ready.lock().await.push_back(prepared),
                // The next claim makes its own and says what is wrong.
                Err(_) => break,
            }
        }
    }
}

async fn prepare(engine: &Engine) -> Result<Prepared, EngineError> {
    let (jail, context) = engine.prepare(Limits::default()).await?;
    let mut context = match context {
        Some(context) => context,
        None => jail.start_python().await?,
    };
    if let Some(warmup) = &engine.template().warmup {
        context.warm(&format!("FORKED = True\n{warmup}")).await?;
    }
    let layers = jail.inspect(&context).await?;
    Ok(Prepared { jail, context, layers })
}
