//! Servers inside a sandbox, at `<port>-<id>.<domain>`: bytes go through the agent's connection, both ways.

use super::E2b;
use super::route::{ENVD_PORT, INTERPRETER_PORT, lost, of_host, running, stranger};
use crate::api::{ApiError, AppState, ErrorCode};
use crate::auth::{Presented, SecretKey, presented};
use atoll_core::wire::agent::Refusal;
use atoll_engine::{EngineError, JailError};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use hyper_util::rt::TokioIo;

/// Meant for the next hop only.
const HOPS: [HeaderName; 6] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    HeaderName::from_static("keep-alive"),
];

/// Requests whose host names a port of a sandbox go there; all others go on.
pub(crate) async fn by_host(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let named = of_host(request.headers()).filter(|(port, _)| ![ENVD_PORT, INTERPRETER_PORT].contains(port));
    // Who asks whether it runs does not wake it.
    if named.is_some() || request.uri().path() != "/health" {
        state
            .e2b
            .wake(request.headers(), request.extensions(), named.is_some())
            .await;
    }
    match named {
        Some((port, name)) => {
            let forwarded = forward(&state.e2b, port, &name, request).await;
            forwarded.unwrap_or_else(|error| super::error::render_port(&error, &name, port))
        }
        None => next.run(request).await,
    }
}

async fn forward(e2b: &E2b, port: u16, name: &str, mut request: Request) -> Result<Response, ApiError> {
    let session = running(e2b, name).ok_or_else(lost)?;
    if !e2b.may_reach(session.id(), request.headers()) {
        let message = "the sandbox is not open to everybody; show its traffic access token";
        return Err(ApiError::new(ErrorCode::Forbidden, message));
    }
    let _using = session.begin_use().map_err(|_| lost())?;
    let by = stranger(&session, request.extensions());
    let stream = session.by(&by).connect(port).await.map_err(|error| closed(&error))?;
    let broken = |_| ApiError::new(ErrorCode::Ended, "the server in the sandbox broke off");
    // Simple servers look for `Host` and `Content-Length` as they are written everywhere.
    let mut speaks = hyper::client::conn::http1::Builder::new();
    speaks.title_case_headers(true);
    let (mut sender, connection) = speaks.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(connection.with_upgrades());
    let upgrade = request
        .headers()
        .get(header::UPGRADE)
        .is_some()
        .then(|| hyper::upgrade::on(&mut request));
    clean(&mut request, upgrade.is_some());
    if let Some(host) = e2b.reach.of(session.id()).host {
        mask(&mut request, &host, port);
    }
    let mut answer = sender.send_request(request).await.map_err(broken)?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let ours = upgrade.ok_or_else(unasked)?;
        let theirs = hyper::upgrade::on(&mut answer);
        tokio::spawn(join(ours, theirs));
    }
    Ok(answer.map(Body::new))
}

/// A client that did not ask could not read what comes.
fn unasked() -> ApiError {
    let message = "the server in the sandbox has changed the protocol, and nobody had asked for it";
    ApiError::new(ErrorCode::Ended, message)
}

/// What is only between the client and us stays here, most of all keys.
fn clean(request: &mut Request, upgrade: bool) {
    let headers = request.headers_mut();
    for name in HOPS.iter().filter(|name| !(upgrade && **name == header::CONNECTION)) {
        headers.remove(name);
    }
    for secret in ["x-api-key", "x-access-token", "e2b-traffic-access-token"] {
        headers.remove(secret);
    }
    // Other authorization is for the server inside.
    if matches!(presented(headers), Presented::Key(key) if SecretKey::looks_like_one(&String::from_utf8_lossy(key))) {
        headers.remove(header::AUTHORIZATION);
    }
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    if let Ok(uri) = path.parse() {
        *request.uri_mut() = uri;
    }
}

/// The host under which the server inside wants to be known.
fn mask(request: &mut Request, host: &str, port: u16) {
    if let Ok(host) = HeaderValue::from_str(&host.replace("${PORT}", &port.to_string())) {
        request.headers_mut().insert(header::HOST, host);
    }
}

/// A WebSocket: from now on bytes go through.
async fn join(ours: hyper::upgrade::OnUpgrade, theirs: hyper::upgrade::OnUpgrade) {
    if let (Ok(ours), Ok(theirs)) = (ours.await, theirs.await) {
        let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
        // Whoever closes first ends it for both.
        tokio::io::copy_bidirectional(&mut ours, &mut theirs).await.ok();
    }
}

fn closed(error: &EngineError) -> ApiError {
    match error {
        EngineError::Jail(JailError::Refused {
            why: Refusal::NotListening,
            ..
        }) => ApiError::new(ErrorCode::Ended, "The sandbox is running but port is not open"),
        _ => lost(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_here_and_other_authorization_goes_on() {
        let passed = |value: &str| {
            let mut request = Request::new(Body::empty());
            let value = value.parse().unwrap();
            request.headers_mut().insert(header::AUTHORIZATION, value);
            clean(&mut request, false);
            request.headers().contains_key(header::AUTHORIZATION)
        };
        assert!(!passed(&format!("Bearer {}", SecretKey::generate().reveal())));
        assert!(passed("Bearer of-the-server-inside") && passed("Basic dXNlcjo="));
    }
}
