//! Where the server is, who asks, and one request to it.

use crate::commands::home;
use crate::output::Failure;
use atoll_core::outcome::ExitStatus;
use atoll_server::api::ErrorCode;
use atoll_server::api::native::ErrorBody;
use atoll_server::outgoing::{Trust, client, root_cause};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use std::net::IpAddr;
use std::path::Path;

/// An answer that is read whole is no longer than this.
const MAX_ANSWER: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct Server {
    client: Client,
    address: Address,
    key: Option<String>,
}

impl Server {
    /// `authorities`: the file of `--cacert`. The key is `ATOLL_API_KEY`. The first key that a server on this machine has kept
    /// is shown to this machine only.
    pub(crate) fn new(url: &str, authorities: Option<&Path>) -> Result<Self, Failure> {
        let address = address(url)?;
        let given = std::env::var("ATOLL_API_KEY").ok().filter(|key| !key.is_empty());
        let kept = || {
            let path = home().ok()?.join("first-key");
            let key = std::fs::read_to_string(path).ok().filter(|_| address.is_here)?;
            Some(key.trim().to_owned())
        };
        let key = given.or_else(kept);
        let trust = match (address.is_https, authorities) {
            (false, _) => Trust::Nobody,
            (true, None) => Trust::Host,
            (true, Some(path)) => Trust::File(path),
        };
        let client = client(trust).map_err(|error| Failure::usage(atoll_jail::chain(&error)))?;
        Ok(Self { client, address, key })
    }

    /// A request with the key in it.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.address.origin));
        match &self.key {
            Some(key) => request.header("X-API-KEY", key),
            None => request,
        }
    }

    /// Its answer; that of a server which refuses is an error in its words.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let answer = request.send().await.map_err(|error| self.failed(error))?;
        match answer.status().is_success() {
            true => Ok(answer),
            false => Err(refusal(answer).await),
        }
    }

    /// A request without a body whose answer is an object.
    pub(crate) async fn ask(&self, method: Method, path: &str) -> Result<Vec<u8>, Failure> {
        whole(self.send(self.request(method, path)).await?).await
    }

    /// The same with an object as its body.
    pub(crate) async fn tell(&self, method: Method, path: &str, body: &serde_json::Value) -> Result<Vec<u8>, Failure> {
        let request = self
            .request(method, path)
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string());
        whole(self.send(request).await?).await
    }

    fn failed(&self, error: reqwest::Error) -> Failure {
        let (origin, cause) = (&self.address.origin, root_cause(&error));
        match error {
            _ if error.is_builder() => Failure::usage(format!("the request could not be built: {cause}")),
            _ if error.is_connect() => Failure {
                hint: Some("check the address, or start a server with `atoll serve`".to_owned()),
                ..Failure::usage(format!("cannot connect to the server at `{origin}`: {cause}"))
            },
            _ => Failure::ours_in_words(format!("connection to the server at `{origin}` failed: {cause}")),
        }
    }
}

#[derive(Debug, PartialEq)]
struct Address {
    /// `https://host:port`
    origin: String,
    is_https: bool,
    /// This machine.
    is_here: bool,
}

fn address(text: &str) -> Result<Address, Failure> {
    let bad = |why: &str| Failure::usage(format!("invalid server URL `{}`: {why}", text.escape_debug()));
    let unlike = || bad("expected a URL such as http://127.0.0.1:7070 or https://atoll.example.org");
    let url: Url = text.parse().map_err(|_| unlike())?;
    let host = url.host_str().filter(|_| ["http", "https"].contains(&url.scheme()));
    let host = host.ok_or_else(unlike)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("credentials are not allowed"));
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err(bad("a path or query is not allowed"));
    }
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    Ok(Address {
        origin: url.origin().ascii_serialization(),
        is_https: url.scheme() == "https",
        is_here: host == "localhost" || address.is_ok_and(|address| address.is_loopback()),
    })
}

async fn whole(mut answer: Response) -> Result<Vec<u8>, Failure> {
    let broken = |why: String| Failure::ours_in_words(format!("cannot read the server's response: {why}"));
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|error| broken(root_cause(&error)))? {
        body.extend_from_slice(&piece);
        if body.len() > MAX_ANSWER {
            return Err(broken("it is larger than 64 MiB".to_owned()));
        }
    }
    Ok(body)
}

/// What a server refused, in its words, with the exit code that a local run would have.
async fn refusal(answer: Response) -> Failure {
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
            "set ATOLL_API_KEY to a valid key. On the server's host, `atoll keys create --name NAME` creates one, and the file \
             `first-key` in the server's data directory contains the first one"
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
        ErrorCode::RateLimited
        | ErrorCode::QuotaExceeded
        | ErrorCode::AuditQuota
        | ErrorCode::ServerFull
        | ErrorCode::AtCapacity
        | ErrorCode::NoRoom
        | ErrorCode::DiskFull => ExitStatus::Limit,
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
        | ErrorCode::IdempotencyInProgress
        | ErrorCode::IdempotencyNoAnswer
        | ErrorCode::IdempotencyMismatch
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
        let known = |url: &str| address(url).unwrap();
        let is = |origin: &str, is_https, is_here| Address {
            origin: origin.to_owned(),
            is_https,
            is_here,
        };
        assert_eq!(known("http://127.0.0.1:7070"), is("http://127.0.0.1:7070", false, true));
        assert_eq!(known("http://[::1]:1/"), is("http://[::1]:1", false, true));
        assert_eq!(known("https://localhost:1"), is("https://localhost:1", true, true));
        assert_eq!(known("https://atoll.test"), is("https://atoll.test", true, false));
        for bad in [
            "",
            "x",
            "ftp://a",
            "http://a/b",
            "http://a?b",
            "http://u:p@a",
            "127.0.0.1:7070",
        ] {
            assert_eq!(address(bad).unwrap_err().status, ExitStatus::Usage, "{bad}");
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
        for limit in ["rate_limited", "quota_exceeded", "server_full", "at_capacity"] {
            assert_eq!(exit_status(limit), ExitStatus::Limit, "{limit}");
        }
        assert_eq!(exit_status("not_ready"), ExitStatus::NoWall);
        assert_eq!(exit_status("disk_full"), ExitStatus::Limit);
        for ours in ["internal", "of a newer server"] {
            assert_eq!(exit_status(ours), ExitStatus::OurFault, "{ours}");
        }
        let keyless = br#"{"error":{"code":"unauthenticated","message":"m","hint":"send it as X-API-KEY"}}"#;
        let failure = read_refusal(StatusCode::UNAUTHORIZED, keyless);
        assert!(failure.hint.is_some_and(|hint| hint.contains("ATOLL_API_KEY")));
        assert_eq!(read_refusal(StatusCode::OK, b"<html>").status, ExitStatus::OurFault);
    }
}
