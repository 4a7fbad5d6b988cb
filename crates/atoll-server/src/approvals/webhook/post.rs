//! One letter: a POST on a connection of its own, over http or https, within a time. Redirects are not followed, and of the
//! answer only the status is read.

use super::sign::Secret;
use crate::config::WebhookUrl;
use axum::body::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// For all of one try, from the look-up of the name to the status.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum BadTarget {
    #[error("the host is not a valid TLS server name")]
    Name,
    #[error("https requires trusted CA certificates, and none were found on this host{0}")]
    NoRoots(String),
    #[error("TLS setup failed")]
    Tls(#[from] rustls::Error),
}

#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("no response within {} s", PATIENCE.as_secs())]
    Late,
    #[error("connection failed")]
    Connect(#[source] std::io::Error),
    #[error("the connection closed before the response was complete")]
    Broken(#[source] hyper::Error),
    #[error("the request could not be built")]
    Request(#[source] axum::http::Error),
    #[error("the webhook returned {0}")]
    Status(StatusCode),
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
    tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
}

impl Post {
    pub(super) fn new(url: WebhookUrl, secret: Secret) -> Result<Self, BadTarget> {
        let tls = match url.is_https() {
            false => None,
            true => {
                let name = ServerName::try_from(url.host().to_owned()).map_err(|_| BadTarget::Name)?;
                Some((trust()?, name))
            }
        };
        Ok(Self { url, secret, tls })
    }

    /// Sends once. Any answer but a success is a failure.
    pub(super) async fn send(&self, id: &str, body: Bytes) -> Result<(), SendError> {
        let sent = tokio::time::timeout(PATIENCE, self.connect_and_send(id, body)).await;
        match sent.map_err(|_| SendError::Late)?? {
            status if status.is_success() => Ok(()),
            status => Err(SendError::Status(status)),
        }
    }

    async fn connect_and_send(&self, id: &str, body: Bytes) -> Result<StatusCode, SendError> {
        let address = (self.url.host(), self.url.port());
        let stream = TcpStream::connect(address).await.map_err(SendError::Connect)?;
        match &self.tls {
            None => self.talk(stream, id, body).await,
            Some((config, name)) => {
                let connector = TlsConnector::from(Arc::clone(config));
                let stream = connector.connect(name.clone(), stream).await;
                self.talk(stream.map_err(SendError::Connect)?, id, body).await
            }
        }
    }

    async fn talk<S>(&self, stream: S, id: &str, body: Bytes) -> Result<StatusCode, SendError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let request = self.request(id, body).map_err(SendError::Request)?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(SendError::Broken)?;
        // Ends with this call, however that ends.
        let mut talking = JoinSet::new();
        talking.spawn(connection);
        let answer = sender.send_request(request).await.map_err(SendError::Broken)?;
        Ok(answer.status())
    }

    fn request(&self, id: &str, body: Bytes) -> Result<Request<Full<Bytes>>, axum::http::Error> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        Request::post(self.url.path())
            .header(HOST, self.url.authority())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("atoll/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", id)
            .header("webhook-timestamp", now)
            .header("webhook-signature", self.secret.sign(id, now, &body))
            .body(Full::new(body))
    }
}

/// Whom the machine trusts, or `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
fn trust() -> Result<Arc<rustls::ClientConfig>, BadTarget> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = rustls::RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.iter().map(|error| format!("; {error}"));
        return Err(BadTarget::NoRoots(why.collect()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
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
