//! Where the server is, who asks, and one request to it. Plain HTTP only: a proxy beside it does the rest.

use crate::commands::home;
use crate::output::Failure;
use atoll_core::outcome::ExitStatus;
use atoll_server::api::ErrorCode;
use atoll_server::api::native::ErrorBody;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::net::IpAddr;
use tokio::net::TcpStream;

/// An answer that is read whole is no longer than this.
const MAX_ANSWER: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct Server {
    authority: String,
    key: Option<String>,
}

impl Server {
    /// The key is `ATOLL_API_KEY`. The first key that a server on this machine has kept is shown to this machine only.
    pub(crate) fn new(url: &str) -> Result<Self, Failure> {
        let (authority, is_here) = authority(url)?;
        let given = std::env::var("ATOLL_API_KEY").ok().filter(|key| !key.is_empty());
        let kept = || {
            let path = home().ok()?.join("first-key");
            let key = std::fs::read_to_string(path).ok().filter(|_| is_here)?;
            Some(key.trim().to_owned())
        };
        Ok(Self {
            authority,
            key: given.or_else(kept),
        })
    }

    /// One request on a connection of its own. `kind` is the type of the body, `accept` that of the answer.
    pub(crate) async fn send<B>(
        &self,
        method: Method,
        path: &str,
        body: B,
        (kind, accept): (&str, &str),
    ) -> Result<Response<Incoming>, Failure>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, kind)
            .header(ACCEPT, accept);
        if let Some(key) = &self.key {
            request = request.header("X-API-KEY", key);
        }
        let request = request.body(body).map_err(|error| Failure::bad(&error))?;
        let stream = TcpStream::connect(&self.authority).await;
        let stream = stream.map_err(|error| self.unreachable(&error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.broke_off(&error))?;
        tokio::spawn(connection);
        sender
            .send_request(request)
            .await
            .map_err(|error| self.broke_off(&error))
    }

    /// A request without a body whose answer is an object.
    pub(crate) async fn ask(&self, method: Method, path: &str) -> Result<Vec<u8>, Failure> {
        let nothing = http_body_util::Empty::<Bytes>::new();
        let json = ("application/json", "application/json");
        let answer = self.send(method, path, nothing, json).await?;
        match answer.status().is_success() {
            true => whole(answer).await,
            false => Err(refusal(answer).await),
        }
    }

    /// The same with an object as its body.
    pub(crate) async fn tell(&self, method: Method, path: &str, body: &serde_json::Value) -> Result<Vec<u8>, Failure> {
        let body = http_body_util::Full::new(Bytes::from(body.to_string()));
        let json = ("application/json", "application/json");
        let answer = self.send(method, path, body, json).await?;
        match answer.status().is_success() {
            true => whole(answer).await,
            false => Err(refusal(answer).await),
        }
    }

    fn broke_off(&self, error: &(dyn Error + 'static)) -> Failure {
        let cause = atoll_jail::chain(error);
        Failure::ours_in_words(format!(
            "connection to the server at `{}` failed: {cause}",
            self.authority
        ))
    }

    fn unreachable(&self, error: &(dyn Error + 'static)) -> Failure {
        Failure {
            hint: Some("check the address, or start a server with `atoll serve`".to_owned()),
            ..Failure::usage(format!(
                "cannot connect to the server at `{}`: {}",
                self.authority,
                atoll_jail::chain(error)
            ))
        }
    }
}

/// `http://host:port`, and whether that is this machine.
fn authority(url: &str) -> Result<(String, bool), Failure> {
    let bad = |why: &str| Failure::usage(format!("invalid server URL `{}`: {why}", url.escape_debug()));
    let uri: Uri = url
        .parse()
        .map_err(|_| bad("expected a URL such as http://127.0.0.1:7070"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err(bad("https is not supported yet; use a tunnel or a proxy on this host")),
        _ => return Err(bad("expected a URL such as http://127.0.0.1:7070")),
    }
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
    let authority = authority.ok_or_else(|| bad("the host is missing, or the URL contains credentials"))?;
    if uri.path() != "/" || uri.query().is_some() {
        return Err(bad("a path or query is not allowed"));
    }
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_here = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    let port = authority.port_u16().unwrap_or(80);
    Ok((format!("{host}:{port}"), is_here))
}

async fn whole(answer: Response<Incoming>) -> Result<Vec<u8>, Failure> {
    let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
    let body = body.map_err(|error| Failure::ours_in_words(format!("cannot read the server's response: {error}")))?;
    Ok(body.to_bytes().to_vec())
}

/// What a server refused, in its words, with the exit code that a local run would have.
pub(crate) async fn refusal(answer: Response<Incoming>) -> Failure {
    let status = answer.status();
    match whole(answer).await {
        Ok(body) => read_refusal(status, &body),
        Err(failure) => failure,
    }
}

fn read_refusal(status: StatusCode, body: &[u8]) -> Failure {
    let Ok(body) = serde_json::from_slice::<ErrorBody>(body) else {
        return Failure::ours_in_words(format!(
            "the server returned {status} without an Atoll error body; is this an Atoll server?"
        ));
    };
    refused(body)
}

/// The server's words are for those who write requests; where the command line has other ones, it says these.
pub(crate) fn refused(body: ErrorBody) -> Failure {
    let error = body.error;
    let hint = match error.code.as_str() {
        "unauthenticated" => Some(
            "set ATOLL_API_KEY to a valid key; create one on the server's host with `atoll keys create --name NAME`"
                .to_owned(),
        ),
        "scope_missing" => Some("set ATOLL_API_KEY to a key with this scope".to_owned()),
        _ => error.hint,
    };
    Failure {
        status: exit_status(&error.code),
        message: error.message,
        hint,
    }
}

/// A code that is not in the list is of a newer server, and its fault or ours.
fn exit_status(code: &str) -> ExitStatus {
    let Some(known) = ErrorCode::ALL.iter().find(|known| known.as_str() == code) else {
        return ExitStatus::OurFault;
    };
    match known {
        ErrorCode::NoWall | ErrorCode::NotReady => ExitStatus::NoWall,
        ErrorCode::RateLimited | ErrorCode::QuotaExceeded | ErrorCode::AtCapacity | ErrorCode::NoRoom => {
            ExitStatus::Limit
        }
        ErrorCode::Internal | ErrorCode::AuditUnavailable | ErrorCode::BodyTimeout | ErrorCode::Ended => {
            ExitStatus::OurFault
        }
        ErrorCode::PolicyDenied | ErrorCode::ApprovalDenied | ErrorCode::ApprovalExpired => ExitStatus::Denied,
        ErrorCode::InvalidRequest
        | ErrorCode::MalformedJson
        | ErrorCode::Unauthenticated
        | ErrorCode::ScopeMissing
        | ErrorCode::OriginNotAllowed
        | ErrorCode::HostNotAllowed
        | ErrorCode::NotFound
        | ErrorCode::MethodNotAllowed
        | ErrorCode::Forbidden
        | ErrorCode::Exists
        | ErrorCode::Conflict
        | ErrorCode::BodyTooLarge
        | ErrorCode::UnsupportedMediaType
        | ErrorCode::NotInTier
        | ErrorCode::NotSupported => ExitStatus::Usage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port_and_nothing_else() {
        assert_eq!(
            authority("http://127.0.0.1:7070").unwrap(),
            ("127.0.0.1:7070".into(), true)
        );
        assert_eq!(authority("http://[::1]:1/").unwrap(), ("[::1]:1".into(), true));
        assert_eq!(authority("http://atoll.test").unwrap(), ("atoll.test:80".into(), false));
        for bad in [
            "",
            "x",
            "https://a",
            "ftp://a",
            "http://a/b",
            "http://a?b",
            "http://u:p@a",
            "127.0.0.1:7070",
        ] {
            assert_eq!(authority(bad).unwrap_err().status, ExitStatus::Usage, "{bad}");
        }
    }

    #[test]
    fn a_refusal_keeps_its_words_and_gets_an_exit_code() {
        let body = br#"{"error":{"code":"no_wall","message":"m","hint":"h"}}"#;
        let failure = read_refusal(StatusCode::NOT_IMPLEMENTED, body);
        assert_eq!(
            (failure.status, failure.hint.as_deref()),
            (ExitStatus::NoWall, Some("h"))
        );
        assert_eq!(exit_status("invalid_request"), ExitStatus::Usage);
        for limit in ["rate_limited", "quota_exceeded", "at_capacity"] {
            assert_eq!(exit_status(limit), ExitStatus::Limit, "{limit}");
        }
        assert_eq!(exit_status("not_ready"), ExitStatus::NoWall);
        for ours in ["internal", "of a newer server"] {
            assert_eq!(exit_status(ours), ExitStatus::OurFault, "{ours}");
        }
        let keyless = br#"{"error":{"code":"unauthenticated","message":"m","hint":"send it as X-API-KEY"}}"#;
        let failure = read_refusal(StatusCode::UNAUTHORIZED, keyless);
        assert!(failure.hint.is_some_and(|hint| hint.contains("ATOLL_API_KEY")));
        assert_eq!(read_refusal(StatusCode::OK, b"<html>").status, ExitStatus::OurFault);
    }
}
