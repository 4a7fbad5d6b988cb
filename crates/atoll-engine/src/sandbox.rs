//! A claimed sandbox: its contexts, its executions, its files, its end. Owned by one caller at a time.

use crate::engine::{Engine, EngineError};
use crate::execute::{Ended, Job, Sink, execute, limit_in_words};
use crate::files::{SavedFiles, save};
use crate::input::{Copies, Input, prepare_inputs};
use crate::jail::{Context, JailSandbox};
use atoll_core::execution::{Execution, Receipt};
use atoll_core::{ContextId, Language, Limits, SandboxId, Tier};
use atoll_jail::plan::Mode;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Notify;

/// What is personal about a sandbox. Saying nothing means: no inputs, no environment, the small limits.
#[derive(Clone, Debug, Default)]
pub struct SandboxSpec {
    pub limits: Limits,
    pub inputs: Vec<Input>,
    pub env: BTreeMap<String, String>,
    /// Which context is started with the sandbox; others start when they are first used.
    pub start: Option<Language>,
}

#[derive(Debug)]
pub struct Sandbox {
    jail: JailSandbox,
    limits: Limits,
    env: BTreeMap<String, String>,
    template_digest: String,
    python: Option<(Context, Map<String, Value>)>,
    bash: Option<(Context, Map<String, Value>)>,
}

impl Sandbox {
    /// Takes over a sandbox that was made for `spec`.
    pub(crate) async fn open(
        engine: &Engine,
        mut jail: JailSandbox,
        context: Option<Context>,
        spec: SandboxSpec,
    ) -> Result<Self, EngineError> {
        let python = match context {
            Some(context) => {
                let layers = jail.inspect(&context).await?;
                Some((context, layers))
            }
            None => None,
        };
        Ok(Self::with(engine, jail, python, spec))
    }

    /// Applies what is personal to a prepared sandbox whose context was forked ahead.
    pub(crate) async fn claim(
        engine: &Engine,
        mut jail: JailSandbox,
        python: (Context, Map<String, Value>),
        spec: SandboxSpec,
    ) -> Result<Self, EngineError> {
        let inputs = prepare_inputs(&spec.inputs, &engine.spool)?;
        let _copies = Copies::of(&inputs, &engine.spool);
        let made_with = jail.limits();
        jail.claim(spec.limits, inputs).await?;
        let python = match (
            spec.limits == made_with,
            same_for_a_process(&spec.limits, &made_with, engine.link.host.mode),
        ) {
            (true, _) => Some(python),
            // The receipt must tell the limits that hold now.
            (false, true) => Some({
                let layers = jail.inspect(&python.0).await?;
                (python.0, layers)
            }),
            // What a process may do is fixed when it is forked: another warm fork, made when it is first used.
            (false, false) => None,
        };
        Ok(Self::with(engine, jail, python, spec))
    }

    fn with(
        engine: &Engine,
        jail: JailSandbox,
        python: Option<(Context, Map<String, Value>)>,
        spec: SandboxSpec,
    ) -> Self {
        Self {
            jail,
            limits: spec.limits,
            env: spec.env,
            template_digest: engine.template.digest.clone(),
            python,
            bash: None,
        }
    }

    pub fn id(&self) -> &SandboxId {
        &self.jail.id
    }

    /// Runs code in the language's context, which keeps its state; a context that did not survive is replaced.
    pub async fn run(
        &mut self,
        language: Language,
        code: &str,
        interrupt: Arc<Notify>,
        sink: Sink<'_>,
    ) -> Result<Execution, EngineError> {
        let (mut context, layers) = tokio::select! {
            context = self.take_context(language) => context?,
            () = interrupt.notified() => return Err(EngineError::Interrupted),
        };
        let job = Job {
            code,
            env: &self.env,
            limits: &self.limits,
            interrupt,
        };
        let ended = execute(&mut self.jail, &mut context, job, sink).await?;
        let id = context.id.clone();
        if ended.context_lives {
            self.keep_context(language, context, layers.clone());
        }
        Ok(self.execution(language, id, ended, layers))
    }

    async fn take_context(&mut self, language: Language) -> Result<(Context, Map<String, Value>), EngineError> {
        match language {
            Language::Python => {
                if let Some(ready) = self.python.take() {
                    return Ok(ready);
                }
                let context = self.jail.start_python().await?;
                let layers = self.jail.inspect(&context).await?;
                Ok((context, layers))
            }
            Language::Bash => {
                if let Some(ready) = self.bash.take() {
                    return Ok(ready);
                }
                let context = self.jail.start_bash(&self.env).await?;
                let layers = self.jail.inspect(&context).await?;
                Ok((context, layers))
            }
            Language::Javascript | Language::R => Err(EngineError::Language(language)),
        }
    }

    fn keep_context(&mut self, language: Language, context: Context, layers: Map<String, Value>) {
        match language {
            Language::Python => self.python = Some((context, layers)),
            Language::Bash => self.bash = Some((context, layers)),
            Language::Javascript | Language::R => {}
        }
    }

    fn execution(&self, language: Language, context: ContextId, ended: Ended, layers: Map<String, Value>) -> Execution {
        let hint = crate::hint::of(&ended, &self.limits);
        Execution {
            execution_id: ended.id,
            sandbox_id: self.jail.id.clone(),
            context_id: context,
            language,
            tier: Tier::Jail,
            outcome: ended.outcome,
            exit_code: ended.exit_code,
            stdout: ended.stdout,
            stderr: ended.stderr,
            truncated: ended.truncated,
            results: ended.results,
            error: ended.error.or_else(|| {
                crate::hint::error_of(
                    ended.outcome,
                    ended.exit_code,
                    ended.signal,
                    limit_in_words(ended.outcome, &self.limits),
                )
            }),
            hint,
            files: Vec::new(),
            findings: Vec::new(),
            usage: ended.usage,
            receipt: Receipt {
                tier: Tier::Jail,
                layers,
                template: self.template_digest.clone(),
                policy: None,
            },
        }
    }

    /// Reads the files that the code left in `/data/output`; saves them below `out` if it is given.
    pub async fn collect(&mut self, out: Option<&Path>) -> Result<SavedFiles, EngineError> {
        let collected = self.jail.collect("/data/output", crate::files::MAX_FILES).await?;
        let out = out.map(Path::to_owned);
        let cap = self.limits.scratch.get();
        let saved = tokio::task::spawn_blocking(move || save(collected, out.as_deref(), cap)).await;
        Ok(saved.map_err(|_| crate::files::FilesError::Interrupted)??)
    }

    /// Ends the sandbox and waits until nothing of it is left.
    pub async fn end(self) -> Result<(), EngineError> {
        drop((self.python, self.bash));
        Ok(self.jail.end().await?)
    }
}

/// Whether a process that was forked under the first limits may go on under the second: these are rlimits, which
/// nobody can raise afterwards. Memory is one of them only where there is no cgroup.
fn same_for_a_process(one: &Limits, other: &Limits, mode: Mode) -> bool {
    let same = (one.open_files, one.scratch, one.processes) == (other.open_files, other.scratch, other.processes);
    same && (mode == Mode::Root || one.memory == other.memory)
}
