//! The `gvisor` tier: sandboxes under gVisor's own kernel, by `runsc`.
//!
//! The jailer does what it does for a container: host ids, cgroups, inputs, the end. A ready sandbox, with an agent and a
//! warm Python that waits for code, is saved once per template; others are restored from it. Without a saved one, a
//! sandbox is started, which takes longer and is behind the same wall.

mod inside;
mod runsc;
mod saved;
mod stored;
mod wall;

use super::context::Context;
use super::jail::{JailBackend, JailPlan, Kept};
use super::oci::{PythonStart, lay_libraries};
use super::saved::RESEED;
use super::{Back, Backend, BareSandbox, Files, Fresh, Later, Made, Saved, SavedContext, TierError};
use atoll_core::{Gives, Limits, Tier};
use atoll_jail::order::Origin;
use atoll_jail::plan::{Layer, RuntimeKind, RuntimePlan};
use runsc::Runsc;
pub(super) use runsc::find;
use saved::Shelf;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Mutex;
use wall::GvisorWall;

#[derive(Debug)]
pub(crate) struct GvisorBackend {
    jail: Arc<JailBackend>,
    runsc: Arc<Runsc>,
    required: Arc<BTreeSet<Layer>>,
    /// How a context starts in a sandbox that has none waiting.
    python: Arc<PythonStart>,
    /// How the one starts that is saved.
    warm: Arc<PythonStart>,
    shelf: Shelf,
    /// What live sandboxes that are saved belong to.
    saves_for: String,
    /// Looked for once; made by who waits for readiness.
    saved: Mutex<State>,
}

#[derive(Clone, Debug)]
enum State {
    Unknown,
    There(Saved),
    /// Why there is none, if not because no saved sandbox exists yet.
    None(Option<String>),
}

impl GvisorBackend {
    /// The plan is the jail's, without a zygote; who makes the sandboxes is added.
    pub(crate) async fn start(
        mut plan: JailPlan,
        runsc: Runsc,
        home: &Path,
        (python, warm): (PythonStart, PythonStart),
        digest: &str,
    ) -> Result<Self, TierError> {
        let libraries = lay_libraries(home, &plan.program)?;
        let release = runsc.release.to_string();
        let walls = format!("{:?}", plan.template.walls);
        let saves_for = [digest, &walls, &release, runsc.platform, &binary(&plan.program)?].join(" ");
        let depends_on = [
            digest,
            &walls,
            &release,
            runsc.platform,
            &libraries.display().to_string(),
            &binary(&plan.program)?,
            &warm.fingerprint(),
        ];
        let shelf = Shelf::beside(&plan.template.tree, &depends_on);
        plan.template.runtime = Some(RuntimePlan {
            kind: RuntimeKind::Runsc,
            program: runsc.program.clone(),
            agent: plan.program.clone(),
            libraries,
            options: vec![format!("--platform={}", runsc.platform)],
            saved: shelf.dir().is_dir().then(|| shelf.dir().to_owned()),
        });
        Ok(Self {
            required: Arc::new(plan.template.walls.required.clone()),
            jail: Arc::new(JailBackend::start(plan).await?),
            runsc: Arc::new(runsc),
            python: Arc::new(python),
            warm: Arc::new(warm),
            shelf,
            saves_for,
            saved: Mutex::new(State::Unknown),
        })
    }

    /// Whose jailer makes the sandboxes.
    pub(crate) fn jail(&self) -> &Arc<JailBackend> {
        &self.jail
    }

    async fn make_one(&self, made: Made) -> Result<Fresh, TierError> {
        if made.watched {
            return Err(TierError::no_dry_run(Tier::Gvisor));
        }
        match self.state().await {
            State::There(waiting) if self.fits_into(&made.limits) => self
                .restore_ready(made, &waiting)
                .await
                .map_err(|error| self.doubt(error)),
            State::There(_) | State::Unknown | State::None(_) => self.begin(made, &self.python).await,
        }
    }

    /// Whether a saved one, with all that it has imported, has room in so little memory. One that starts from nothing needs less.
    fn fits_into(&self, limits: &Limits) -> bool {
        limits.memory.get() >= 2 * self.shelf.image_bytes()
    }

    /// A sandbox that starts from nothing.
    async fn begin(&self, made: Made, start: &Arc<PythonStart>) -> Result<Fresh, TierError> {
        let (limits, inputs, python) = (made.limits, made.inputs, made.python);
        let kept = self.jail.make_kept(Tier::Gvisor, bare(limits)).await?;
        let mut sandbox = self.behind_wall(kept, None, start);
        sandbox.claim(limits, inputs).await?;
        let python = match python {
            true => Some(sandbox.start_python().await.map_err(|error| self.jail.blame(error))?),
            false => None,
        };
        Ok((sandbox, python))
    }

    /// Its context waits in the wall until a Python context is asked for.
    async fn restore_ready(&self, made: Made, waiting: &Saved) -> Result<Fresh, TierError> {
        let (limits, inputs, wants_python) = (made.limits, made.inputs, made.python);
        let from = (Origin::Ready, Vec::new());
        let made = bare(limits);
        let kept = self.jail.restore_kept(Tier::Gvisor, &made, waiting, (from, None));
        let mut kept = kept.await?;
        let mut context = kept.contexts.pop().ok_or(TierError::Agent)?;
        context.warm(&format!("{RESEED}\n{}", lowered(&limits))).await?;
        // Limits can be lowered in a process that is there; for higher ones another is started.
        let waiting = fits(&limits).then_some(context);
        let mut sandbox = self.behind_wall(kept, waiting, &self.python);
        sandbox.tell_agent_limits(limits).await?;
        sandbox.claim(limits, inputs).await?;
        let python = match wants_python {
            true => Some(sandbox.start_python().await?),
            false => None,
        };
        Ok((sandbox, python))
    }

    /// A copy of a live sandbox. It stands still as the saved one did, until its walls are read back and its sources of random
    /// numbers are renewed.
    async fn restore_live(&self, made: Made, saved: &Saved, files: Files) -> Result<Back, TierError> {
        let next = saved.talk.stream;
        let from = (Origin::Snapshot { next }, files.into());
        let kept = self.jail.restore_kept(Tier::Gvisor, &made, saved, (from, None));
        let mut kept = kept.await?;
        let contexts = std::mem::take(&mut kept.contexts);
        let sandbox = self.behind_wall(kept, None, &self.python);
        let contexts = sandbox.wake(contexts).await?;
        Ok((sandbox, contexts))
    }

    fn behind_wall(&self, kept: Kept, waiting: Option<Context>, start: &Arc<PythonStart>) -> BareSandbox {
        let Kept { sandbox, keeper, .. } = kept;
        let agent = Arc::clone(&sandbox.agent);
        sandbox.put_behind(|inner| {
            Box::new(GvisorWall {
                inner,
                agent,
                keeper: Mutex::new(keeper),
                waiting: std::sync::Mutex::new(waiting),
                runsc: Arc::clone(&self.runsc),
                required: Arc::clone(&self.required),
                python: Arc::clone(start),
            })
        })
    }

    /// What is on the shelf may have gone or been damaged meanwhile: the next one looks again.
    fn doubt(&self, error: TierError) -> TierError {
        if let Ok(mut saved) = self.saved.try_lock() {
            *saved = State::Unknown;
        }
        error
    }

    async fn state(&self) -> State {
        let mut saved = self.saved.lock().await;
        if matches!(*saved, State::Unknown) {
            *saved = self.shelf.look().map_or(State::None(None), State::There);
        }
        saved.clone()
    }

    /// Makes a saved one if there is none. A host that cannot save still has the tier.
    async fn make_ready(&self) -> Map<String, Value> {
        let began = Instant::now();
        self.state().await;
        let mut saved = self.saved.lock().await;
        if matches!(*saved, State::None(_)) {
            *saved = match self.save().await {
                Ok(waiting) => State::There(waiting),
                Err(error) => State::None(Some(chain(&error))),
            };
        }
        let told = match &*saved {
            State::There(_) => json!({"saved": true}),
            State::Unknown | State::None(_) => json!({"saved": false, "why": why(&saved)}),
        };
        let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let facts = [
            ("runtime", self.runsc.facts()),
            ("restores", told),
            ("ready_ms", json!(took)),
        ];
        facts.map(|(name, fact)| (name.to_owned(), fact)).into_iter().collect()
    }

    async fn save(&self) -> Result<Saved, TierError> {
        let made = Made {
            python: true,
            ..bare(Limits::default())
        };
        let (sandbox, python) = self.begin(made, &self.warm).await?;
        let (context, _) = python.ok_or(TierError::Agent)?;
        let contexts = vec![SavedContext::of(&context)?];
        // What was said before has arrived when this is answered: nothing is under way.
        sandbox.scratch().await?;
        let files = self.shelf.open().map_err(TierError::Start)?;
        let waiting = sandbox.save_for_good(contexts, files).await?;
        let kept = self.shelf.close(waiting).map_err(TierError::Start)?;
        sandbox.end().await?;
        Ok(kept)
    }
}

/// Whether these limits are none above those that the saved context has.
fn fits(limits: &Limits) -> bool {
    let saved = Limits::default();
    limits.open_files <= saved.open_files && limits.scratch <= saved.scratch
}

/// Code that gives a context that is there the limits of its sandbox; it cannot raise them again.
fn lowered(limits: &Limits) -> String {
    let (files, bytes) = (limits.open_files.get(), limits.scratch.get());
    format!(
        "import resource\nfor what, most in ((resource.RLIMIT_NOFILE, {files}), (resource.RLIMIT_FSIZE, {bytes})):\n\
         \x20   least = min(most, resource.getrlimit(what)[1])\n    resource.setrlimit(what, (least, least))"
    )
}

fn bare(limits: Limits) -> Made {
    Made {
        limits,
        inputs: Vec::new(),
        python: false,
        watched: false,
        gives: Gives::ALL,
    }
}

fn why(state: &State) -> &str {
    match state {
        State::None(Some(why)) => why,
        _ => "no saved sandbox exists yet",
    }
}

fn chain(error: &TierError) -> String {
    atoll_jail::chain(error)
}

/// What changes when another binary is the agent.
fn binary(program: &Path) -> Result<String, TierError> {
    use std::os::unix::fs::MetadataExt;
    let meta = fs_err::metadata(program).map_err(TierError::Start)?;
    Ok(format!("{} {} {}", meta.len(), meta.mtime(), meta.mtime_nsec()))
}

impl Backend for GvisorBackend {
    fn tier(&self) -> Tier {
        Tier::Gvisor
    }

    fn ready(&self) -> Later<'_, Result<Map<String, Value>, TierError>> {
        Box::pin(async move { Ok(self.make_ready().await) })
    }

    fn make(&self, made: Made) -> Later<'_, Result<Fresh, TierError>> {
        Box::pin(async move { self.make_one(made).await.map_err(|error| self.jail.blame(error)) })
    }

    fn may_become(&self, limits: &Limits) -> bool {
        self.fits_into(limits)
    }

    fn saves_for(&self) -> Option<&str> {
        Some(&self.saves_for)
    }

    fn restore(&self, made: Made, saved: Saved, files: Files) -> Later<'_, Result<Back, TierError>> {
        Box::pin(async move {
            let back = self.restore_live(made, &saved, files).await;
            back.map_err(|error| self.jail.blame(error))
        })
    }

    fn stop(&self) -> Later<'_, ()> {
        self.jail.stop()
    }
}
