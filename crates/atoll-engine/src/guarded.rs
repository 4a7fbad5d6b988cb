//! Results on their way to the caller, cleaned for a viewer. A long one is cleaned on another thread, while the clocks of
//! its execution go on; what comes behind it waits, so that the order stays.

use atoll_core::execution::{LeftOutForm, RichResult};
use std::panic::AssertUnwindSafe;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Long results of all executions that are cleaned at the same time: each can take some hundred megabytes of memory.
static PLACES: Semaphore = Semaphore::const_new(2);

/// A result with what the interpreter said about its place.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) result: RichResult,
    pub(crate) display_id: Option<String>,
    pub(crate) update: bool,
}

#[derive(Debug)]
pub(crate) struct Guarded {
    /// The caller wants results as the code made them.
    raw: bool,
    aside: Option<JoinHandle<Arrived>>,
}

impl Guarded {
    pub(crate) fn new(raw: bool) -> Self {
        Self { raw, aside: None }
    }

    /// The result for the caller; `None` if it is cleaned aside, and comes from [`Self::next`].
    pub(crate) fn take(&mut self, arrived: Arrived) -> Option<Arrived> {
        if self.raw {
            return Some(arrived);
        }
        if !atoll_guard::is_long(&arrived.result.data) {
            return Some(cleaned(arrived));
        }
        self.aside = Some(tokio::spawn(clean_aside(arrived)));
        None
    }

    /// One is cleaned just now: nothing else may be taken before it.
    pub(crate) fn is_busy(&self) -> bool {
        self.aside.is_some()
    }

    pub(crate) async fn next(&mut self) -> Option<Arrived> {
        let done = self.aside.as_mut()?.await;
        self.aside = None;
        // The task ends early only with the runtime.
        done.ok()
    }
}

async fn clean_aside(arrived: Arrived) -> Arrived {
    let _place = PLACES.acquire().await;
    let (display_id, update) = (arrived.display_id.clone(), arrived.update);
    let done = tokio::task::spawn_blocking(move || cleaned(arrived)).await;
    done.unwrap_or_else(|_| Arrived {
        result: without_forms(),
        display_id,
        update,
    })
}

/// A reader that fails on hostile bytes must cost no more than these bytes.
fn cleaned(arrived: Arrived) -> Arrived {
    let Arrived {
        result,
        display_id,
        update,
    } = arrived;
    let done = std::panic::catch_unwind(AssertUnwindSafe(|| atoll_guard::clean(result)));
    Arrived {
        result: done.unwrap_or_else(|_| without_forms()),
        display_id,
        update,
    }
}

fn without_forms() -> RichResult {
    let whole = LeftOutForm {
        form: "*".to_owned(),
        why: "it could not be cleaned".to_owned(),
    };
    RichResult {
        left_out: vec![whole],
        ..RichResult::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_core::form::Form;

    fn arrived(html: String) -> Arrived {
        let data = [("text/html".to_owned(), Form::Text(html))].into_iter().collect();
        Arrived {
            result: RichResult {
                data,
                ..RichResult::default()
            },
            display_id: Some("d".to_owned()),
            update: true,
        }
    }

    #[tokio::test]
    async fn short_results_are_cleaned_at_once_and_long_ones_aside() {
        let mut guarded = Guarded::new(false);
        let short = guarded.take(arrived("<b onclick=x>b</b>".to_owned())).unwrap();
        assert_eq!(
            (&short.result.data["text/html"], guarded.is_busy()),
            (&Form::from("<b>b</b>"), false)
        );
        assert!(guarded.next().await.is_none());
        let long = format!("<b onclick=x>{}</b>", "b".repeat(100_000));
        assert!(guarded.take(arrived(long)).is_none() && guarded.is_busy());
        let long = guarded.next().await.unwrap();
        assert_eq!(
            (long.result.cleaned, long.display_id.as_deref(), long.update),
            (vec!["text/html".to_owned()], Some("d"), true)
        );
        assert!(!guarded.is_busy());
    }

    #[test]
    fn raw_results_are_as_the_code_made_them() {
        let html = "<script>1</script>".repeat(10_000);
        let raw = Guarded::new(true).take(arrived(html.clone())).unwrap();
        assert_eq!(raw.result.data["text/html"], html.as_str());
    }
}
