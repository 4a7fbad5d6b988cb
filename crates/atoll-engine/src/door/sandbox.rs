//! A sandbox as its callers hold it. Each call that does something inside has its entry in the audit log.

use super::visits::{Visit, Visits};
use super::{Door, Ticket, Upload};
use crate::audit::{Action, Actor, Behind, Closing, Ending, FileFact, Opening};
use crate::backend::TierError;
use crate::contexts::ContextInfo;
use crate::control::Control;
use crate::engine::EngineError;
use crate::execute::Sink;
use crate::files::SavedFiles;
use crate::gate::{InputFact, PassedCommand};
use crate::hint::Refusals;
use crate::input::Input;
use crate::inside::{Command, CommandEnd, CommandSpec, Commands, FilePage, Listener, OpenFile, Watch};
use crate::out_dir::OutDir;
use crate::policy::Policy;
use crate::sandbox::{Choice, Executed, Origin, Request, SandboxSpec, SandboxUsage, Walled};
use crate::share::Room;
use crate::snapshot::{Draft, SavedLife, SavedState, Snapshot, SnapshotError, Snapshots};
use atoll_core::dry_run::DryRun;
use atoll_core::execution::{Execution, OutputFile};
use atoll_core::wire::agent::{Entry, ListBound};
use atoll_core::{ContextId, EndReason, ExecutionId, Language, Limits, SandboxId, Tier};
use atoll_guard::redact::Secrets;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// A handle for one caller; copies are cheap. When the last one of a sandbox is dropped, the sandbox ends.
#[derive(Clone, Debug)]
pub struct Sandbox {
    inner: Arc<Inner>,
    door: Door,
}

#[derive(Debug)]
struct Inner {
    walled: Walled,
    /// As its maker found it, for an end that nobody asked for.
    door: Door,
    ended: AtomicBool,
    visits: Visits,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !*self.ended.get_mut() {
            let mut opening = self.door.opening(Action::SandboxEnd).within(self.walled.id());
            opening.behind = self.walled.behind();
            self.door.begin_or_later(opening).close(|| end_of(EndReason::Closed));
        }
    }
}

pub(super) fn end_of(reason: EndReason) -> Closing {
    Closing {
        reason: Some(reason.as_str().to_owned()),
        ..Closing::of(Ending::Ok)
    }
}

fn millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// What a snapshot is told of its sandbox by who keeps it.
pub(crate) struct AboutSnapshot {
    pub(crate) tenant: String,
    pub(crate) template: String,
    pub(crate) name: Option<String>,
    pub(crate) passing: bool,
    pub(crate) life: Option<Box<SavedLife>>,
}

/// Code for the language's own context, and nothing else.
fn plain(language: Language, code: &str, limits: Option<Limits>, interrupt: Arc<Notify>) -> Request<'_> {
    Request {
        id: ExecutionId::from_random(crate::random_bytes()),
        context: Choice::Default(language),
        code,
        env: BTreeMap::new(),
        secrets: Secrets::default(),
        limits,
        control: Control::of(interrupt),
        room: Room::default(),
        raw_results: false,
        policy: None,
        approved: false,
    }
}

fn done<T>(_: &T) -> Closing {
    Closing::of(Ending::Ok)
}

impl Sandbox {
    pub(super) fn new(walled: Walled, door: Door) -> Self {
        let inner = Inner {
            visits: Visits::new(walled.behind()),
            walled,
            door: door.clone(),
            ended: AtomicBool::new(false),
        };
        Self {
            inner: Arc::new(inner),
            door,
        }
    }

    /// The same sandbox for somebody else.
    pub fn by(&self, actor: &Actor) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            door: Door::new(self.door.audit.clone(), actor.clone()),
        }
    }

    fn opening(&self, action: Action) -> Opening<'_> {
        let mut opening = self.door.opening(action).within(self.id());
        opening.hides = self.inner.walled.hides();
        opening.behind = self.inner.walled.behind();
        opening
    }

    pub fn id(&self) -> &SandboxId {
        self.inner.walled.id()
    }

    pub fn tier(&self) -> Tier {
        self.inner.walled.tier()
    }

    pub fn origin(&self) -> Origin {
        self.inner.walled.origin()
    }

    pub fn limits(&self) -> &Limits {
        self.inner.walled.limits()
    }

    /// What its code is held against.
    pub fn policy(&self) -> &Arc<Policy> {
        self.inner.walled.policy()
    }

    /// Runs code in the language's own context. Short for [`Sandbox::execute`].
    pub async fn run(
        &self,
        language: Language,
        code: &str,
        interrupt: Arc<Notify>,
        sink: Sink<'_>,
    ) -> Result<Execution, EngineError> {
        self.execute(plain(language, code, None, interrupt), sink).await
    }

    /// The same with other limits of time and output than the sandbox's.
    pub async fn run_within(
        &self,
        limits: Limits,
        language: Language,
        code: &str,
        interrupt: Arc<Notify>,
        sink: Sink<'_>,
    ) -> Result<Execution, EngineError> {
        self.execute(plain(language, code, Some(limits), interrupt), sink).await
    }

    /// Runs code in a context, which keeps its state. Executions of one context wait for each other; those of
    /// different contexts run side by side. A context that did not survive is replaced.
    pub async fn execute(&self, request: Request<'_>, sink: Sink<'_>) -> Result<Execution, EngineError> {
        self.inner.walled.learn(&request.secrets).await?;
        let mut opening = self.opening(Action::Execute);
        opening.execution = Some(request.id.clone());
        opening.code = Some(request.code);
        if let Some(call) = &request.policy {
            opening.behind = Behind::new(self.tier(), &self.policy().name_with(call));
        }
        if let Choice::Default(language) = request.context {
            opening.language = Some(language.as_str().to_owned());
        }
        let control = request.control.clone();
        let work = async {
            control.begin();
            let walled = &self.inner.walled;
            let done = walled.execute(&self.door.actor, request, sink).await?;
            let execution = walled.without_secrets(done.execution);
            Ok(Executed { execution, ..done })
        };
        let facts = |done: &Executed| Closing {
            approver: done.approver.clone(),
            output: self.door.output_of(&done.execution),
            ..Closing::of_execution(&done.execution)
        };
        Ok(self.door.dispatch(opening, work, facts).await?.execution)
    }

    /// Reads the files that the code left in `/data/output`; saves them below `out` if it is given.
    pub async fn collect(&self, out: Option<&Path>) -> Result<SavedFiles, EngineError> {
        let out = out.map(|path| OutDir::later(path.to_owned()));
        Ok(self.collect_into(out).await?.0)
    }

    /// The same, into a directory that the caller has prepared and gets back.
    pub async fn collect_into(&self, out: Option<OutDir>) -> Result<(SavedFiles, Option<OutDir>), EngineError> {
        let work = self.inner.walled.collect_into(out);
        let facts = |saved: &(SavedFiles, _)| Closing::of(Ending::Ok).with_files(&saved.0.files);
        self.door
            .dispatch(self.opening(Action::FilesCollect), work, facts)
            .await
    }

    /// What the code of a dry run has tried, and its saved files against the inputs; `None` for others. Looking at it is no
    /// dispatch.
    pub async fn dry_run(&self, files: &[OutputFile], inputs: &[Input]) -> Option<DryRun> {
        let attempts = self.inner.walled.bare.attempts()?;
        Some(crate::dry_run::told(attempts, files, inputs, self.inner.walled.hides()).await)
    }

    /// What somebody is told who is to judge what was done: the inputs with their digests.
    pub async fn input_facts(&self) -> Vec<InputFact> {
        self.inner.walled.input_facts().await
    }

    /// The variables of the sandbox, without secrets.
    pub fn variables(&self) -> BTreeMap<String, String> {
        self.inner.walled.variables_told(&BTreeMap::new())
    }

    /// The name of a secret whose value is in a text: nobody can be shown such a text.
    pub fn secret_in(&self, text: &str) -> Option<String> {
        self.inner.walled.secret_in(text)
    }

    /// Contexts that are there. Looking at them is no dispatch.
    pub fn contexts(&self) -> Vec<ContextInfo> {
        self.inner.walled.contexts().list()
    }

    /// Gives the default context of a language its name, before it is used. Nothing is started.
    pub fn name_default_context(&self, language: Language) {
        self.inner.walled.contexts().name_default(language);
    }

    /// Makes a context, with its interpreter started; the newest is the last of the list.
    pub async fn create_context(&self, language: Language, cwd: Option<&str>) -> Result<ContextInfo, EngineError> {
        let mut opening = self.opening(Action::ContextCreate);
        opening.language = Some(language.as_str().to_owned());
        let work = self.inner.walled.contexts().create(&self.inner.walled, language, cwd);
        self.door.dispatch(opening, work, done).await
    }

    /// Throws the state away; the name stays.
    pub async fn restart_context(&self, id: &ContextId) -> Result<(), EngineError> {
        let work = self.inner.walled.restart_context(id);
        self.door
            .dispatch(self.opening(Action::ContextRestart), work, done)
            .await
    }

    pub async fn remove_context(&self, id: &ContextId) -> Result<(), EngineError> {
        let work = self.inner.walled.remove_context(id);
        self.door
            .dispatch(self.opening(Action::ContextRemove), work, done)
            .await
    }

    pub fn commands(&self) -> &Commands {
        self.inner.walled.commands()
    }

    /// Starts a program. The listener hears everything from its first byte on. Its entry is closed when it ends.
    pub async fn spawn(&self, spec: CommandSpec) -> Result<(Arc<Command>, Listener), EngineError> {
        let mut opening = self.opening(Action::Command);
        opening.command = spec.argv.clone();
        let ticket = self.door.begin(opening).await?;
        let passed = match self.inner.walled.pass_command(&self.door.actor, &spec).await {
            Ok(passed) => passed,
            Err(error) => {
                ticket.close(|| match &error {
                    EngineError::Policy(refused) => Closing::of_refused(refused),
                    error => Closing::failed(error),
                });
                return Err(error);
            }
        };
        let started = self.inner.walled.spawn(spec).await;
        match &started {
            Err(error) => ticket.close(|| Closing::failed(error)),
            Ok((command, _)) => {
                let work = see_off(Arc::clone(&self.inner), Arc::clone(command), passed, ticket);
                drop(tokio::spawn(work));
            }
        }
        started
    }

    /// Sends a signal to a command. False if it has ended.
    pub async fn signal(&self, command: &Command, signal: i32) -> Result<bool, EngineError> {
        let mut opening = self.opening(Action::CommandSignal);
        let pid = command.info.pid;
        opening.command = vec!["kill".to_owned(), format!("-{signal}"), pid.to_string()];
        let work = async { Ok(command.signal(signal).await) };
        self.door.dispatch(opening, work, done).await
    }

    /// Listens to a command that runs already.
    pub async fn attach(&self, command: &Command) -> Result<Listener, EngineError> {
        let mut opening = self.opening(Action::CommandAttach);
        opening.command = command.info.spec.argv.clone();
        let work = async { Ok(command.listen()) };
        self.door.dispatch(opening, work, done).await
    }

    /// Facts about one file: no dispatch.
    pub async fn stat(&self, path: &str) -> Result<Entry, EngineError> {
        self.inner.walled.stat(path).await
    }

    pub async fn make_dir(&self, path: &str) -> Result<Entry, EngineError> {
        let opening = self.opening(Action::FileChange).at(path);
        self.door
            .dispatch(opening, self.inner.walled.make_dir(path), done)
            .await
    }

    pub async fn rename(&self, from: &str, to: &str) -> Result<Entry, EngineError> {
        let opening = self.opening(Action::FileChange).at(from).at(to);
        self.door
            .dispatch(opening, self.inner.walled.rename(from, to), done)
            .await
    }

    pub async fn remove(&self, path: &str) -> Result<(), EngineError> {
        let opening = self.opening(Action::FileChange).at(path);
        self.door.dispatch(opening, self.inner.walled.remove(path), done).await
    }

    /// What is below a directory, depth first, in lexical order: not more than `most`, behind the `next` of another page.
    pub async fn list(
        &self,
        path: &str,
        depth: u32,
        after: Option<String>,
        most: ListBound,
    ) -> Result<FilePage, EngineError> {
        let opening = self.opening(Action::FileList).at(path);
        let work = self.inner.walled.list(path, depth, after, most);
        self.door.dispatch(opening, work, done).await
    }

    pub async fn read(&self, path: &str) -> Result<OpenFile, EngineError> {
        let facts = |open: &OpenFile| Closing {
            outputs: vec![FileFact {
                size: open.delivered_bytes(),
                sha256: None,
            }],
            ..Closing::of(Ending::Ok)
        };
        let opening = self.opening(Action::FileRead).at(path);
        self.door.dispatch(opening, self.inner.walled.read(path), facts).await
    }

    /// Begins to write a file. Nothing is seen at `path` before the upload is committed.
    pub async fn write(&self, path: &str, metadata: BTreeMap<String, String>) -> Result<Upload<'_>, EngineError> {
        let ticket = self.door.begin(self.opening(Action::FileWrite).at(path)).await?;
        match self.inner.walled.write(path, metadata).await {
            Ok(raw) => Ok(Upload::new(raw, ticket)),
            Err(error) => {
                ticket.close(|| Closing::failed(&error));
                Err(error)
            }
        }
    }

    pub async fn watch(&self, path: &str, recursive: bool) -> Result<Watch, EngineError> {
        let opening = self.opening(Action::FileWatch).at(path);
        self.door
            .dispatch(opening, self.inner.walled.watch(path, recursive), done)
            .await
    }

    /// The agent forgets a watch. Without this it would go on until the sandbox ends.
    pub async fn unwatch(&self, watch: Watch) -> Result<(), EngineError> {
        self.inner.walled.unwatch(watch).await
    }

    /// Connects to a server inside, on the sandbox's own loopback. Whoever moves bytes tells the visit.
    pub async fn connect(&self, port: u16) -> Result<(TcpStream, Visit), EngineError> {
        let visit = self.inner.visits.visit(&self.door, self.id(), port).await?;
        match self.inner.walled.connect(port).await {
            Ok(stream) => Ok((stream, visit)),
            Err(error) => {
                visit.refused();
                Err(error)
            }
        }
    }

    /// Memory in use now, as its agent sees it.
    pub async fn memory_bytes(&self) -> Result<u64, EngineError> {
        self.inner.walled.memory_bytes().await
    }

    /// What it uses now, as its agent sees it.
    pub async fn usage(&self) -> Result<SandboxUsage, EngineError> {
        self.inner.walled.usage().await
    }

    pub(crate) fn cpu_ms(&self) -> Option<u64> {
        self.inner.walled.cpu_ms()
    }

    pub(crate) fn refusals(&self) -> Refusals {
        self.inner.walled.refusals()
    }

    pub(crate) fn why_lost(&self) -> EndReason {
        self.inner.walled.why_lost()
    }

    /// Saves the sandbox, which goes on, as a snapshot of the tenant that it was made for.
    pub(crate) async fn save(
        &self,
        all: &Arc<Snapshots>,
        draft: Draft,
        about: AboutSnapshot,
    ) -> Result<Arc<Snapshot>, EngineError> {
        let opening = self.opening(Action::SnapshotCreate).at(draft.id.as_str());
        let told = |snapshot: &Arc<Snapshot>| Closing {
            reason: Some(snapshot.sha256.clone()),
            ..Closing::of(Ending::Ok)
        };
        self.door.dispatch(opening, self.saved(all, draft, about), told).await
    }

    async fn saved(
        &self,
        all: &Arc<Snapshots>,
        draft: Draft,
        about: AboutSnapshot,
    ) -> Result<Arc<Snapshot>, EngineError> {
        let files = draft.files().map_err(SnapshotError::from)?;
        let state = self.inner.walled.save(files).await?;
        self.finished(all, draft, about, state).await
    }

    async fn finished(
        &self,
        all: &Arc<Snapshots>,
        draft: Draft,
        about: AboutSnapshot,
        state: SavedState,
    ) -> Result<Arc<Snapshot>, EngineError> {
        let walled = &self.inner.walled;
        let snapshot = Snapshot {
            id: draft.id.clone(),
            tenant: about.tenant,
            name: about.name,
            sandbox: walled.id().clone(),
            template: about.template,
            tier: walled.tier(),
            created_ms: millis(),
            bytes: 0,
            limits: *walled.limits(),
            passing: about.passing,
            life: about.life,
            env: walled.env.clone(),
            saves_for: walled.saves_for.clone().unwrap_or_default(),
            state,
            sha256: String::new(),
        };
        let all = Arc::clone(all);
        let finished = tokio::task::spawn_blocking(move || all.finish(draft, snapshot)).await;
        Ok(finished.map_err(|_| EngineError::Interrupted)??)
    }

    /// Stops every process where it is, and brings the sandbox to disk if it can be. What cannot stays in memory as it is, and
    /// the reason is told.
    pub(crate) async fn pause(
        &self,
        to: Result<(Arc<Snapshots>, AboutSnapshot), EngineError>,
    ) -> Result<Result<Arc<Snapshot>, EngineError>, EngineError> {
        let work = async {
            self.inner.walled.freeze(true).await?;
            let saved = match to {
                Ok((all, about)) => self.put_away(&all, about).await,
                Err(why) => Err(why),
            };
            match self.inner.walled.bare.has_ended() {
                true => Err(TierError::Over.into()),
                false => Ok(saved),
            }
        };
        let told = |saved: &Result<Arc<Snapshot>, EngineError>| Closing {
            reason: Some(match saved {
                Ok(saved) => format!("saved to disk: {}", saved.sha256),
                Err(why) => format!("kept in memory: {why}"),
            }),
            ..Closing::of(Ending::Ok)
        };
        self.door.dispatch(self.opening(Action::SandboxPause), work, told).await
    }

    /// Of one whose processes stand still.
    async fn put_away(&self, all: &Arc<Snapshots>, about: AboutSnapshot) -> Result<Arc<Snapshot>, EngineError> {
        self.inner.walled.may_be_put_away()?;
        let draft = all.begin(&about.tenant)?;
        let files = draft.files().map_err(SnapshotError::from)?;
        let state = self.inner.walled.save_paused(files).await?;
        self.finished(all, draft, about, state).await
    }

    /// Lets every process go on.
    pub(crate) async fn thaw(&self) -> Result<(), EngineError> {
        let opening = self.opening(Action::SandboxResume);
        self.door.dispatch(opening, self.inner.walled.freeze(false), done).await
    }

    /// Takes the wall down. That is no end: the sandbox lies on disk, or is behind another wall.
    pub(crate) async fn leave(&self) {
        self.inner.ended.store(true, Ordering::Release);
        // A jailer that is gone has taken the wall with it.
        self.inner.walled.end().await.ok();
        self.inner.visits.close().await;
    }

    /// Whether its tier saves sandboxes.
    pub(crate) fn saves(&self) -> bool {
        self.inner.walled.saves_for.is_some()
    }

    /// Whether both are the same behind the same wall.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// What another one like it is made with. Inputs and secrets are in none that can be saved.
    pub(crate) fn made_with(&self, spec: SandboxSpec) -> SandboxSpec {
        let walled = &self.inner.walled;
        SandboxSpec {
            tier: walled.tier(),
            limits: *walled.limits(),
            env: walled.env.clone(),
            policy: Some(Arc::clone(walled.policy())),
            inputs: Vec::new(),
            secrets: Secrets::default(),
            ..spec
        }
    }

    pub(crate) fn door(&self) -> &Door {
        &self.door
    }

    /// Ends the sandbox and waits until nothing of it is left. Whatever runs in it is over.
    pub async fn end(&self) -> Result<(), EngineError> {
        self.end_because(EndReason::Closed).await
    }

    /// An end is never refused: what cannot be written down is done all the same.
    pub(crate) async fn end_because(&self, reason: EndReason) -> Result<(), EngineError> {
        let ticket = match self.inner.ended.swap(true, Ordering::AcqRel) {
            true => Ticket::none(),
            false => self.door.begin_anyway(self.opening(Action::SandboxEnd)).await,
        };
        let done = self.inner.walled.end().await;
        self.inner.visits.close().await;
        ticket.close(|| end_of(reason));
        done
    }

    /// Waits until the sandbox has ended, whoever ended it.
    pub async fn ended(&self) {
        self.inner.walled.ended().await;
    }
}

/// Closes the entry of a command when that has ended, or its sandbox.
async fn see_off(inner: Arc<Inner>, command: Arc<Command>, passed: PassedCommand, ticket: Ticket) {
    let end = tokio::select! {
        end = command.wait() => end,
        () = inner.walled.ended() => command.end(),
    };
    let outcome = match end {
        Some(CommandEnd { code: Some(0), .. }) => Ending::Ok,
        Some(CommandEnd { code: Some(_), .. }) => Ending::Error,
        Some(CommandEnd { code: None, .. }) | None => Ending::Killed,
    };
    ticket.close(|| Closing::of_command(outcome, passed));
}
