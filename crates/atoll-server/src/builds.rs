//! What requests need and is not built yet: built beside the requests, which are told to retry. A request never waits for a
//! build, which takes minutes.

use crate::api::{ApiError, ErrorCode};
use atoll_core::Tier;
use atoll_engine::template::Progress;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Seconds after which a client that waits for a build may ask again.
const COME_BACK: u64 = 10;
/// How long requests receive the error of a failed build. A client that retries must not keep the server building.
const FAILURE_KEPT: Duration = Duration::from_secs(300);

/// What a request waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BuildTarget {
    Template(String),
    /// Python for tier `wasm`.
    Component,
}

impl BuildTarget {
    pub(crate) fn of(template: &str, tier: Tier) -> Self {
        match tier {
            Tier::Wasm => Self::Component,
            _ => Self::Template(template.to_owned()),
        }
    }

    fn not_ready(&self) -> ApiError {
        let (message, command) = match self {
            Self::Template(name) => (
                format!("the template `{name}` is being built, which takes a few minutes"),
                "atoll template build",
            ),
            Self::Component => (
                "Python for tier `wasm` is being built, which takes about a minute".to_owned(),
                "atoll run --tier wasm -c 1",
            ),
        };
        ApiError::new(ErrorCode::NotReady, message)
            .hint(format!(
                "retry later; the operator can build in advance with `{command}`"
            ))
            .retry(COME_BACK)
    }
}

/// Reports the progress of a build as events of the server's log, one for each phase.
#[derive(Debug)]
pub(crate) struct LoggedBuild {
    what: String,
    phase: Mutex<String>,
}

impl LoggedBuild {
    /// What the node reports to when a request waits for the first sandbox of a template and tier.
    pub(crate) fn for_request(template: &str, tier: Tier) -> Arc<dyn Progress + Send> {
        Arc::new(Self::of(&BuildTarget::of(template, tier)))
    }

    pub(crate) fn of(target: &BuildTarget) -> Self {
        let what = match target {
            BuildTarget::Template(name) => format!("template {name}"),
            BuildTarget::Component => "Python for tier wasm".to_owned(),
        };
        Self {
            what,
            phase: Mutex::default(),
        }
    }
}

impl Progress for LoggedBuild {
    fn step(&self, text: &str, done: u64, total: u64) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if *phase != text {
            tracing::info!(done, total, "building {}: {text}", self.what);
            text.clone_into(&mut phase);
        }
    }
}

/// A build that a request has begun.
#[derive(Debug, PartialEq, Eq)]
enum Build {
    Runs,
    /// Requests receive the error for a while; the first one after that begins anew.
    Failed(ApiError, Instant),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Builds(Arc<Mutex<HashMap<BuildTarget, Build>>>);

impl Builds {
    /// Returns the error for a request that needs `target`, and starts its build unless it is running or has just failed.
    pub(crate) fn begin(
        &self,
        target: BuildTarget,
        build: impl Future<Output = Result<(), ApiError>> + Send + 'static,
    ) -> ApiError {
        let mut builds = self.lock();
        match builds.get(&target) {
            Some(Build::Failed(error, at)) if at.elapsed() < FAILURE_KEPT => {
                let left = FAILURE_KEPT.saturating_sub(at.elapsed());
                return error.clone().retry(left.as_secs());
            }
            Some(Build::Runs) => {}
            Some(Build::Failed(..)) | None => {
                let (all, target) = (self.clone(), target.clone());
                tokio::spawn(async move { all.ended(target, build.await) });
            }
        }
        let error = target.not_ready();
        builds.insert(target, Build::Runs);
        error
    }

    fn ended(&self, target: BuildTarget, built: Result<(), ApiError>) {
        let mut builds = self.lock();
        match built {
            Ok(()) => drop(builds.remove(&target)),
            Err(error) => drop(builds.insert(target, Build::Failed(error, Instant::now()))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<BuildTarget, Build>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test(start_paused = true)]
    async fn a_build_runs_once_and_begins_anew_a_while_after_its_failure() {
        let builds = Builds::default();
        let target = || BuildTarget::Template("t".to_owned());
        let (end, ended) = oneshot::channel();
        let first = builds.begin(target(), async move { ended.await.unwrap() });
        assert_eq!(
            (first.code(), first.retry_after()),
            (ErrorCode::NotReady, Some(COME_BACK))
        );
        let never = async || -> Result<(), ApiError> { panic!("a second build of the same template") };
        assert_eq!(builds.begin(target(), never()).code(), ErrorCode::NotReady);
        let no_wall = ApiError::new(ErrorCode::NoWall, "no index");
        end.send(Err(no_wall.clone())).unwrap();
        while builds.lock().get(&target()) == Some(&Build::Runs) {
            tokio::task::yield_now().await;
        }
        for _ in 0..2 {
            let kept = builds.begin(target(), never());
            assert_eq!((kept.code(), kept.message()), (no_wall.code(), no_wall.message()));
            assert_eq!(kept.retry_after(), Some(FAILURE_KEPT.as_secs()));
        }
        tokio::time::advance(FAILURE_KEPT).await;
        assert_eq!(builds.begin(target(), async { Ok(()) }).code(), ErrorCode::NotReady);
        while builds.lock().contains_key(&target()) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn the_component_has_its_own_message() {
        let error = Builds::default().begin(BuildTarget::Component, async { Ok(()) });
        assert!(error.message().contains("Python for tier `wasm`"), "{error:?}");
        assert!(
            error.hint_text().is_some_and(|hint| hint.contains("--tier wasm")),
            "{error:?}"
        );
    }
}
