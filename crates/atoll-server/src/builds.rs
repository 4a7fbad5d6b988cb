//! Templates that are only asked for: built beside the requests, which are told to come back. A request never waits for a
//! build, which takes minutes.

use crate::api::{ApiError, ErrorCode};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Seconds after which a client that waits for a build may ask again.
const COME_BACK: u64 = 10;

/// A build that a request has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Build {
    Runs,
    /// The next request hears of it, and the one after that begins anew.
    Failed,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Builds(Arc<Mutex<HashMap<String, Build>>>);

impl Builds {
    /// Says that the template is not there yet, and begins its build if nobody has. `build` tells whether it went well.
    pub(crate) fn begin(&self, template: &str, build: impl Future<Output = bool> + Send + 'static) -> ApiError {
        let mut builds = self.lock();
        match builds.get(template) {
            Some(Build::Runs) => {}
            Some(Build::Failed) => {
                builds.remove(template);
                return ApiError::new(ErrorCode::Internal, "the template could not be prepared");
            }
            None => {
                builds.insert(template.to_owned(), Build::Runs);
                let (all, name) = (self.clone(), template.to_owned());
                tokio::spawn(async move { all.ended(name, build.await) });
            }
        }
        ApiError::new(
            ErrorCode::NotReady,
            format!("the template `{template}` is being built, which takes a few minutes"),
        )
        .hint("retry later; the operator can build templates in advance with `atoll template build`")
        .retry(COME_BACK)
    }

    fn ended(&self, template: String, well: bool) {
        let mut builds = self.lock();
        match well {
            true => drop(builds.remove(&template)),
            false => drop(builds.insert(template, Build::Failed)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Build>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn a_build_runs_once_and_its_failure_is_told_once() {
        let builds = Builds::default();
        let (end, ended) = oneshot::channel::<bool>();
        let first = builds.begin("t", async move { ended.await.unwrap() });
        assert_eq!(
            (first.code(), first.retry_after()),
            (ErrorCode::NotReady, Some(COME_BACK))
        );
        let never = async || -> bool { panic!("a second build of the same template") };
        assert_eq!(builds.begin("t", never()).code(), ErrorCode::NotReady);
        end.send(false).unwrap();
        while builds.lock().get("t") == Some(&Build::Runs) {
            tokio::task::yield_now().await;
        }
        assert_eq!(builds.begin("t", never()).code(), ErrorCode::Internal);
        assert_eq!(builds.begin("t", async { true }).code(), ErrorCode::NotReady);
        while builds.lock().contains_key("t") {
            tokio::task::yield_now().await;
        }
    }
}
