//! Tells a program outside what is asked and what became of it, beside the work: whoever asks never waits for it.
//!
//! Each letter is signed, and sent again for a while if it does not arrive. It is no way to answer: that needs a key with the
//! scope, as everywhere. Letters wait in memory; those of a server that ends are lost, and the list of approvals has all.

mod post;
mod retry;
mod sign;

pub use post::Post;

use crate::api::native::ApprovalView;
use crate::config::ApprovalSettings;
use crate::outgoing::ClientError;
use crate::store::{ApprovalRecord, Store};
use atoll_core::ApprovalId;
use atoll_core::service::ApprovalStatus;
use serde_json::json;
use sign::Secret;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// Letters that wait; more are given up.
const QUEUE: usize = 256;
/// Letters that are on their way at the same time.
const AT_ONCE: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("cannot use the setting approval.webhook_url")]
    Target(#[from] ClientError),
    #[error("cannot read the webhook secret (setting approval.webhook_secret_file)")]
    Secret(#[source] std::io::Error),
    #[error(
        "the webhook secret must be \"whsec_\" and at least 24 bytes in base64 (setting approval.webhook_secret_file). \
         Make one: echo \"whsec_$(openssl rand -base64 32)\""
    )]
    Form,
}

/// Where letters go and how they are signed. `None`: nowhere.
pub fn open(settings: &ApprovalSettings) -> Result<Option<Post>, WebhookError> {
    let (Some(url), Some(file)) = (&settings.webhook_url, &settings.webhook_secret_file) else {
        return Ok(None);
    };
    let text = fs_err::read_to_string(file).map_err(WebhookError::Secret)?;
    let secret = Secret::new(text.trim()).ok_or(WebhookError::Form)?;
    Ok(Some(Post::new(url.clone(), secret)?))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Asked,
    Answered,
    Expired,
    Cancelled,
}

impl Event {
    fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Answered => "answered",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What is to be told. The approval itself is read when the letter is written: it may have changed meanwhile.
#[derive(Debug)]
struct Letter {
    event: Event,
    tenant: String,
    id: ApprovalId,
}

impl Letter {
    /// The same for each try, and of no other letter.
    fn message_id(&self) -> String {
        format!("{}_{}", self.id, self.event.as_str())
    }

    /// `None`: there is nothing to tell any more.
    async fn write(&self, store: &Store) -> Option<String> {
        let found = store.find_approval(&self.tenant, &self.id).await;
        let record = found.unwrap_or_else(|error| {
            tracing::error!(error = %crate::chain(&error), "approvals could not be read");
            None
        });
        self.text(record?)
    }

    fn text(&self, mut record: ApprovalRecord) -> Option<String> {
        match (self.event, record.status) {
            // Somebody was faster.
            (Event::Asked, status) if status != ApprovalStatus::Pending => return None,
            // Written down a moment later, and nobody else can decide any more.
            (Event::Cancelled, _) => record.status = ApprovalStatus::Cancelled,
            _ => {}
        }
        let place = |verb: &str| format!("/v1/approvals/{}/{verb}?tenant={}", self.id, self.tenant);
        let answer = (self.event == Event::Asked).then(|| json!({"approve": place("approve"), "deny": place("deny")}));
        let told = json!({"event": self.event.as_str(), "approval": ApprovalView::from(record), "answer_at": answer});
        Some(told.to_string())
    }
}

/// The way in for letters.
#[derive(Debug)]
pub(super) struct Letters(mpsc::Sender<Letter>);

impl Letters {
    /// Begins the task that sends them.
    pub(super) fn start(post: Post, store: Store) -> Self {
        let (letters, queue) = Self::new();
        tokio::spawn(send_all(queue, Arc::new(post), store));
        letters
    }

    fn new() -> (Self, mpsc::Receiver<Letter>) {
        let (letters, queue) = mpsc::channel(QUEUE);
        (Self(letters), queue)
    }

    /// Waits for nothing.
    pub(super) fn add(&self, event: Event, tenant: &str, id: &ApprovalId) {
        let letter = Letter {
            event,
            tenant: tenant.to_owned(),
            id: id.clone(),
        };
        if self.0.try_send(letter).is_err() {
            tracing::warn!(approval = %id, event = event.as_str(), "webhook queue is full; event dropped");
        }
    }
}

async fn send_all(mut queue: mpsc::Receiver<Letter>, post: Arc<Post>, store: Store) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(letter) = queue.recv().await {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let (post, store) = (Arc::clone(&post), store.clone());
        tokio::spawn(async move {
            deliver(&letter, &post, &store).await;
            drop(place);
        });
    }
}

async fn deliver(letter: &Letter, post: &Post, store: &Store) {
    let send = || async {
        match letter.write(store).await {
            Some(text) => post.send(&letter.message_id(), text.into()).await,
            None => Ok(()),
        }
    };
    if let Err(error) = retry::again(send).await {
        let (id, event) = (&letter.id, letter.event.as_str());
        tracing::warn!(approval = %id, event, error = %crate::chain(&error), "webhook delivery failed; event dropped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_find_no_room_are_given_up() {
        let (letters, mut queue) = Letters::new();
        for n in 0..QUEUE + 3 {
            let id = ApprovalId::from_random([u8::try_from(n % 256).unwrap(); 16]);
            letters.add(Event::Asked, "default", &id);
        }
        let mut kept = 0;
        while queue.try_recv().is_ok() {
            kept += 1;
        }
        assert_eq!(kept, QUEUE);
        letters.add(Event::Expired, "default", &ApprovalId::from_random([0; 16]));
        assert_eq!(queue.try_recv().unwrap().event, Event::Expired);
    }
}
