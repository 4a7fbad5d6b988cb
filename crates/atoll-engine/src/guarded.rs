//! Results on their way to the caller, without secrets and cleaned for a viewer. A long one is cleaned on another thread, while the clocks of
//! its execution go on; what comes behind it waits, so that the order stays.

use atoll_core::execution::{LeftOutForm, RichResult};
use atoll_core::form::Form;
use atoll_guard::redact::{Redactor, present};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Long results of all executions that are cleaned at the same time: each can take some hundred megabytes of memory.
static PLACES: Semaphore = Semaphore::const_new(2);

/// Above this many bytes the search for secrets is work for another thread.
const LONG: u64 = 1 << 20;

/// A result with what the interpreter said about its place.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) result: RichResult,
    pub(crate) display_id: Option<String>,
    pub(crate) update: bool,
}

/// What is done to each result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Care {
    /// The caller wants results as the code made them.
    pub(crate) raw: bool,
    pub(crate) hides: Option<Arc<Redactor>>,
}

impl Care {
    fn is_none(&self) -> bool {
        self.raw && self.hides.is_none()
    }

    /// Whether it takes longer than a caller should wait on a thread that others share.
    fn takes_long(&self, result: &RichResult) -> bool {
        let mut forms = result.data.iter().map(|(_, form)| form).chain(&result.chart);
        let long = self.hides.is_some() && forms.any(|form: &Form| form.json_length() > LONG);
        long || (!self.raw && atoll_guard::is_long(&result.data))
    }
}

#[derive(Debug)]
pub(crate) struct Guarded {
    care: Care,
    aside: Option<JoinHandle<Arrived>>,
}

impl Guarded {
    pub(crate) fn new(care: Care) -> Self {
        Self { care, aside: None }
    }

    /// The result for the caller; `None` if it is cleaned aside, and comes from [`Self::next`].
    pub(crate) fn take(&mut self, arrived: Arrived) -> Option<Arrived> {
        if self.care.is_none() {
            return Some(arrived);
        }
        if !self.care.takes_long(&arrived.result) {
            return Some(cleaned(arrived, &self.care));
        }
        self.aside = Some(tokio::spawn(clean_aside(arrived, self.care.clone())));
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

async fn clean_aside(arrived: Arrived, care: Care) -> Arrived {
    let _place = PLACES.acquire().await;
    let (display_id, update) = (arrived.display_id.clone(), arrived.update);
    let done = tokio::task::spawn_blocking(move || cleaned(arrived, &care)).await;
    done.unwrap_or_else(|_| Arrived {
        result: without_forms(),
        display_id,
        update,
    })
}

/// A reader that fails on hostile bytes must cost no more than these bytes.
fn cleaned(arrived: Arrived, care: &Care) -> Arrived {
    let Arrived {
        result,
        display_id,
        update,
    } = arrived;
    let work = || present(result, care.raw, care.hides.as_deref());
    let done = std::panic::catch_unwind(AssertUnwindSafe(work));
    Arrived {
        result: done.unwrap_or_else(|_| without_forms()),
        display_id,
        update,
    }
}

fn without_forms() -> RichResult {
    let whole = LeftOutForm {
        form: "*".to_owned(),
        why: "the sanitizer failed on this result".to_owned(),
    };
    RichResult {
        left_out: vec![whole],
        ..RichResult::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut guarded = Guarded::new(Care::default());
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
        let raw = Care { raw: true, hides: None };
        let raw = Guarded::new(raw).take(arrived(html.clone())).unwrap();
        assert_eq!(raw.result.data["text/html"], html.as_str());
    }

    #[tokio::test]
    async fn raw_results_have_no_secrets_either_and_long_ones_are_searched_aside() {
        let secrets = [("KEY".to_owned(), "hunter22hunter22".to_owned())];
        let secrets = atoll_guard::redact::Secrets::new(secrets.into()).unwrap();
        let care = Care {
            raw: true,
            hides: secrets.redactor().cloned(),
        };
        let mut guarded = Guarded::new(care);
        let short = guarded.take(arrived("<script>hunter22hunter22".to_owned())).unwrap();
        assert_eq!(short.result.data["text/html"], "<script>[redacted: KEY]");
        let long = format!("{}hunter22hunter22", "b".repeat(2_000_000));
        assert!(guarded.take(arrived(long)).is_none());
        let long = guarded.next().await.unwrap();
        assert!(
            long.result.data["text/html"]
                .as_str()
                .unwrap()
                .ends_with("b[redacted: KEY]")
        );
    }
}
