//! A claimed sandbox: contexts that run side by side, what is inside, its end. Reached through the door only (`door/`).

mod judging;
mod saving;
mod spec;

use crate::audit::{Actor, Behind, FileFact};
use crate::backend::{BareSandbox, Inspected};
use crate::contexts::{Contexts, HOME, Slot};
use crate::engine::{Engine, EngineError};
use crate::environment::{check_environment, with_secrets};
use crate::execute::{Ended, Job, Sink, execute, limit_in_words};
use crate::files::{SavedFiles, save};
use crate::gate::Approver;
use crate::guarded::Care;
use crate::hint::Refusals;
use crate::input::prepare_inputs;
use crate::inside::Commands;
use crate::lost;
use crate::out_dir::OutDir;
use crate::policy::Policy;
use crate::routing::Guests;
use crate::template::Programs;
use atoll_core::execution::{Execution, LeftOut, Provenance, Receipt};
use atoll_core::{ContextId, EndReason, Finding, Language, Limits, SandboxId, Tier};
use atoll_guard::redact::Secrets;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

pub use spec::{Choice, Origin, Request, SandboxSpec, SandboxUsage};

/// What an execution gave, and who let it run or did not, if somebody was asked.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) execution: Execution,
    pub(crate) approver: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Walled {
    /// How it is known. Its wall has a name of its own, and may be another one later.
    id: SandboxId,
    pub(crate) bare: BareSandbox,
    pub(crate) limits: Limits,
    pub(crate) env: BTreeMap<String, String>,
    /// Variables of its programs, too.
    pub(crate) secrets: Secrets,
    /// Those, and what single calls have brought: the sandbox can have kept them.
    pub(crate) known: std::sync::Mutex<Secrets>,
    /// New ones are added one call after the other.
    pub(crate) learning: tokio::sync::Mutex<()>,
    /// Files are looked at for them one after the other.
    pub(crate) scanning: tokio::sync::Mutex<()>,
    pub(crate) commands: Commands,
    contexts: Contexts,
    once: bool,
    policy: Arc<Policy>,
    /// Whether its tier is the wall that the policy demands.
    guests: Arc<Guests>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    /// Names of the files in `/data/input`.
    inputs: Vec<String>,
    /// In the same order, as soon as they are read; empty if nobody reads them.
    pub(crate) input_digests: watch::Sender<Option<Vec<FileFact>>>,
    template_digest: String,
    /// What a snapshot of it belongs to, if its tier has them.
    pub(crate) saves_for: Option<String>,
    pub(crate) programs: Programs,
    /// The tenant for whom it was made.
    owner: Arc<str>,
    origin: Origin,
    /// When processor time was last asked for, and what it was.
    sampled: std::sync::Mutex<(std::time::Instant, u64)>,
}

impl Walled {
    /// Applies what is personal to a prepared sandbox whose context was forked ahead.
    pub(crate) async fn claim(
        engine: &Engine,
        mut bare: BareSandbox,
        python: Inspected,
        spec: SandboxSpec,
    ) -> Result<Self, EngineError> {
        let (inputs, _copies) = prepare_inputs(&spec.inputs, &engine.spool)?;
        let made_with = bare.limits();
        let limits = spec.limits.with_execution_of(&made_with);
        bare.claim(limits, inputs).await?;
        let python = match (
            limits == made_with,
            same_for_a_process(&limits, &made_with, bare.has_cgroups()),
        ) {
            (true, _) => Some(python),
            // The receipt must tell the limits that hold now.
            (false, true) => Some({
                let layers = bare.inspect(&python.0).await?;
                (python.0, layers)
            }),
            // What a process may do is fixed when it is forked: another warm fork, made when it is first used.
            (false, false) => None,
        };
        Ok(Self::with(engine, bare, python, spec, Origin::Pool))
    }

    /// Takes over a sandbox that was made for `spec`.
    pub(crate) fn with(
        engine: &Engine,
        bare: BareSandbox,
        python: Option<Inspected>,
        spec: SandboxSpec,
        origin: Origin,
    ) -> Self {
        Self {
            id: bare.id.clone(),
            origin,
            sampled: std::sync::Mutex::new((std::time::Instant::now(), 0)),
            bare,
            limits: spec.limits,
            owner: spec.by.tenant.into(),
            env: spec.env,
            known: std::sync::Mutex::new(spec.secrets.clone()),
            learning: tokio::sync::Mutex::default(),
            scanning: tokio::sync::Mutex::default(),
            secrets: spec.secrets,
            commands: Commands::default(),
            contexts: Contexts::new(python),
            once: spec.once,
            policy: spec.policy.unwrap_or_else(Policy::standard),
            guests: Arc::clone(&engine.guests),
            approver: spec.approver,
            input_digests: watch::Sender::default(),
            inputs: spec.inputs.into_iter().map(|input| input.name).collect(),
            template_digest: engine.digest.clone(),
            saves_for: engine.saves_for().map(str::to_owned),
            programs: engine.programs(),
        }
    }

    /// One that was brought back has contexts already.
    pub(crate) fn having(self, contexts: Contexts) -> Self {
        Self { contexts, ..self }
    }

    /// One that goes on under the name of another wall's.
    pub(crate) fn called(self, id: &SandboxId) -> Self {
        Self { id: id.clone(), ..self }
    }

    pub(crate) fn id(&self) -> &SandboxId {
        &self.id
    }

    pub(crate) fn tier(&self) -> Tier {
        self.bare.tier
    }

    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    pub(crate) async fn restart_context(&self, id: &ContextId) -> Result<(), EngineError> {
        self.contexts.restart(&self.bare, id).await
    }

    pub(crate) async fn remove_context(&self, id: &ContextId) -> Result<(), EngineError> {
        self.contexts.remove(&self.bare, id).await
    }

    /// Runs code in a context, which keeps its state. Executions of one context wait for each other; those of
    /// different contexts run side by side. A context that did not survive is replaced.
    pub(crate) async fn execute(
        &self,
        by: &Actor,
        request: Request<'_>,
        sink: Sink<'_>,
    ) -> Result<Executed, EngineError> {
        let slot = self.contexts.find(&request.context)?;
        let mut settled = self.judged(by, &slot, &request, sink).await?;
        let (approver, found) = (settled.approver, (settled.findings, settled.policy));
        if let Some(refusal) = settled.refusal.take() {
            let execution = self.refused(&slot, request.id, refusal, found);
            return Ok(Executed { execution, approver });
        }
        let env = self.environment(slot.language, &request.env, &request.secrets)?;
        let taken = tokio::select! {
            taken = slot.take(self) => taken,
            () = request.control.interrupted() => return Err(EngineError::Interrupted),
        };
        let (mut seat, mut context, layers) = taken?;
        context.belongs_to(&self.owner);
        request.room.belongs_to(&self.owner);
        let limits = request.limits.unwrap_or(self.limits);
        slot.runs(Some(request.control.clone()));
        let job = Job {
            id: request.id,
            code: request.code,
            env: &env,
            limits: &limits,
            control: &request.control,
            room: request.room,
            care: Care {
                raw: request.raw_results,
                hides: self.hides(),
            },
            once: self.once,
        };
        let ended = execute(&self.bare, &mut context, job, sink).await;
        slot.runs(None);
        let ended = ended?;
        let id = slot.id.clone();
        let before = slot.lost();
        let lost = (!ended.context_lives).then(|| lost::why(&ended, &limits));
        match &lost {
            None => *seat = Some((context, layers.clone())),
            Some(why) => self.contexts.lost(&slot, why),
        }
        let mut execution = self.execution(&slot, id, ended, &limits, layers, found);
        match (lost, before) {
            (Some(why), _) if !self.once => lost::say_now(&mut execution, &why),
            (None, Some(before)) if lost::say_later(&mut execution, &before) => slot.lost_is_told(),
            _ => {}
        }
        Ok(Executed { execution, approver })
    }

    pub(crate) fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// As the audit log tells of it.
    pub(crate) fn behind(&self) -> Behind {
        Behind::new(self.tier(), &self.policy.name)
    }

    /// What an execution's interpreter is told. Python was forked before anybody knew the sandbox's environment; the others
    /// were started in it, and what their code made of it stays.
    fn environment(
        &self,
        language: Language,
        own: &BTreeMap<String, String>,
        secrets: &Secrets,
    ) -> Result<BTreeMap<String, String>, EngineError> {
        let own = with_secrets(own, secrets)?;
        let mut all = self.variables();
        all.extend(own.clone());
        check_environment(&all)?;
        Ok(if language == Language::Python { all } else { own })
    }

    fn execution(
        &self,
        slot: &Slot,
        context: ContextId,
        ended: Ended,
        limits: &Limits,
        layers: Map<String, Value>,
        (findings, policy): (Vec<Finding>, String),
    ) -> Execution {
        let of_tier = match self.bare.tier {
            Tier::Wasm => crate::hint::of_wasm(&ended),
            _ => None,
        };
        let hint = of_tier.or_else(|| crate::hint::of(&ended, limits, &self.inputs));
        let in_words = limit_in_words(ended.outcome, limits);
        let error = ended
            .error
            .map(crate::hint::with_reason)
            .or_else(|| crate::hint::error_of(ended.outcome, ended.exit_code, ended.signal, in_words));
        Execution {
            provenance: Provenance::of(&ended.id, self.bare.tier),
            dry_run: None,
            tier_choice: None,
            execution_id: ended.id,
            sandbox_id: Some(self.id.clone()),
            context_id: Some(context),
            language: slot.language,
            tier: self.bare.tier,
            outcome: ended.outcome,
            exit_code: ended.exit_code,
            stdout: ended.stdout,
            stderr: ended.stderr,
            truncated: ended.truncated,
            results: ended.results,
            error,
            hint,
            files: Vec::new(),
            left_out: LeftOut::default(),
            findings,
            usage: ended.usage,
            receipt: Receipt {
                tier: self.bare.tier,
                layers,
                template: Some(self.template_digest.clone()),
                policy: Some(policy),
                egress: Some(self.policy.egress_digest()),
            },
        }
    }

    /// Reads the files that the code left in `/data/output`, into a directory that the caller has prepared and gets back.
    pub(crate) async fn collect_into(
        &self,
        mut out: Option<OutDir>,
    ) -> Result<(SavedFiles, Option<OutDir>), EngineError> {
        let mut collected = self.bare.collect("/data/output", crate::files::MAX_FILES).await?;
        let hides = self.hides();
        if let Some(hides) = &hides {
            collected.hide(hides);
        }
        let cap = self.limits.scratch.get();
        let known = hides.clone();
        let saving = tokio::task::spawn_blocking(move || (save(collected, out.as_mut(), cap, known.as_ref()), out));
        let (mut files, out) = saving.await.map_err(|_| crate::files::FilesError::Interrupted)?;
        if self.once {
            let (count, mut names) = self.bare.left(HOME).await?;
            if let Some(hides) = &hides {
                hides.lines(&mut names);
            }
            files.left_behind(count, names);
        }
        Ok((files, out))
    }

    /// Memory in use now, as its agent sees it.
    pub(crate) async fn memory_bytes(&self) -> Result<u64, EngineError> {
        Ok(self.bare.usage(u64::MAX).await?.memory_bytes)
    }

    /// Processor time of all that ever ran in it, in milliseconds; `None` where no cgroup counts it, and after its end.
    pub(crate) fn cpu_ms(&self) -> Option<u64> {
        Some(self.bare.stats.cpu_nanos()? / 1_000_000)
    }

    /// What it uses now, as its agent sees it.
    pub(crate) async fn usage(&self) -> Result<SandboxUsage, EngineError> {
        let in_use = self.bare.usage(u64::MAX).await?;
        let (memory_bytes, cpu_ms) = (in_use.memory_bytes, in_use.cpu_ms);
        let (free, _) = self.bare.scratch().await?;
        let mut sampled = crate::lock::lock(&self.sampled);
        let (since, before) = std::mem::replace(&mut *sampled, (std::time::Instant::now(), cpu_ms));
        let wall_ms = u32::try_from(since.elapsed().as_millis()).unwrap_or(u32::MAX).max(1);
        let used_ms = u32::try_from(cpu_ms.saturating_sub(before)).unwrap_or(u32::MAX);
        Ok(SandboxUsage {
            cpu_percent: f64::from(used_ms) * 100.0 / f64::from(wall_ms),
            memory_bytes,
            disk_bytes: self.limits.scratch.get().saturating_sub(free),
        })
    }

    /// Stops every process where it is, or lets all go on. Memory and files stay as they are.
    pub(crate) async fn freeze(&self, on: bool) -> Result<(), EngineError> {
        Ok(self.bare.freeze(on).await?)
    }

    pub(crate) fn refusals(&self) -> Refusals {
        Refusals {
            oom_kills: self.bare.stats.oom_kills(),
            processes: self.bare.stats.refused_processes(),
        }
    }

    /// Why a sandbox that nobody ended has ended.
    pub(crate) fn why_lost(&self) -> EndReason {
        match self.bare.stats.oom_kills() {
            0 => EndReason::Failed,
            _ => EndReason::MemoryLimit,
        }
    }

    /// Ends the sandbox and waits until nothing of it is left. Whatever runs in it is over.
    pub(crate) async fn end(&self) -> Result<(), EngineError> {
        Ok(self.bare.end().await?)
    }

    /// Waits until the sandbox has ended, whoever ended it.
    pub(crate) async fn ended(&self) {
        self.bare.ended().await;
    }
}

/// Whether a process that was forked under the first limits may go on under the second: these are rlimits, which
/// nobody can raise afterwards. Memory is one of them only where there is no cgroup.
fn same_for_a_process(one: &Limits, other: &Limits, has_cgroups: bool) -> bool {
    let same = (one.open_files, one.scratch, one.processes) == (other.open_files, other.scratch, other.processes);
    same && (has_cgroups || one.memory == other.memory)
}
