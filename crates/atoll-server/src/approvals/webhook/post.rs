//! One letter: a signed POST over http or https, within a time. Of the answer only the status is read.

use super::sign::Secret;
use crate::config::WebhookUrl;
use crate::outgoing::{ClientError, Trust, client, root_cause};
use axum::body::Bytes;
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// For all of one try, from the look-up of the name to the status.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("no response within {} s", PATIENCE.as_secs())]
    Late,
    #[error("connection failed: {0}")]
    Connect(String),
    #[error("the connection closed before the response was complete: {0}")]
    Broken(String),
    #[error("the request could not be built: {0}")]
    Request(String),
    #[error("the webhook returned {0}")]
    Status(StatusCode),
}

impl From<reqwest::Error> for SendError {
    /// Only the cause: the URL may hold a secret.
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let cause = root_cause(&error);
        match error {
            _ if error.is_timeout() => Self::Late,
            _ if error.is_connect() => Self::Connect(cause),
            _ if error.is_builder() => Self::Request(cause),
            _ => Self::Broken(cause),
        }
    }
}

impl SendError {
    /// Whether it makes sense to try again.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Late | Self::Connect(_) | Self::Broken(_) => true,
            Self::Request(_) => false,
            Self::Status(status) => {
                let waits = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
                status.is_server_error() || waits.contains(status)
            }
        }
    }
}

/// Where letters go, and the secret that signs them.
#[derive(Debug)]
pub struct Post {
    url: WebhookUrl,
    secret: Secret,
    client: reqwest::Client,
}

impl Post {
    pub(super) fn new(url: WebhookUrl, secret: Secret) -> Result<Self, ClientError> {
        let trust = if url.is_https() { Trust::Host } else { Trust::Nobody };
        let client = client(trust)?;
        Ok(Self { url, secret, client })
    }

    /// Sends once. Any answer but a success is a failure.
    pub(super) async fn send(&self, id: &str, body: Bytes) -> Result<(), SendError> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let request = self
            .client
            .post(self.url.reveal())
            .timeout(PATIENCE)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", now)
            .header("webhook-signature", self.secret.sign(id, now, &body))
            .body(body);
        match request.send().await?.status() {
            status if status.is_success() => Ok(()),
            status => Err(SendError::Status(status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_receiver_refuses_is_not_sent_again() {
        let passes = |status| SendError::Status(StatusCode::from_u16(status).unwrap()).may_pass();
        for status in [408, 429, 500, 502, 503, 504] {
            assert!(passes(status), "{status}");
        }
        for status in [301, 302, 307, 308, 400, 401, 403, 404, 410, 413] {
            assert!(!passes(status), "{status}");
        }
    }
}
