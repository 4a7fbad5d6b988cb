//! Servers inside a sandbox, named by host, headers or path: bytes go through the agent's connection, both ways.

use super::E2b;
use super::inner::{Inner, Tied};
use super::route::{ACCESS, TRAFFIC, by_name, lost};
use super::target::Target;
use crate::api::{ApiError, AppState, ErrorCode, Meter};
use crate::auth::{Caller, SecretKey};
use crate::http::{Place, until};
use atoll_core::wire::agent::Refusal;
use atoll_engine::session::{LongUse, Refused, Session, State as Life};
use atoll_engine::{EngineError, TierError};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::sync::Arc;

/// Meant for the next hop only.
const HOPS: [HeaderName; 6] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    HeaderName::from_static("keep-alive"),
];

/// Requests that name a port of a sandbox go there; all others go on.
pub(crate) async fn dispatch(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let target = match Target::of(&request) {
        Ok(target) => target,
        Err(refused) => return super::error::render_api(&refused),
    };
    match target {
        Some(target) => {
            let forwarded = forward(&state, &target, request).await;
            forwarded.unwrap_or_else(|error| super::error::render_port(&error, &target.name, target.port))
        }
        None => next.run(request).await,
    }
}

async fn forward(state: &AppState, target: &Target, mut request: Request) -> Result<Response, ApiError> {
    let e2b = &state.e2b;
    let Entered { session, owner, using } = loop {
        let name = Some(target.name.as_str());
        let wakes = e2b.wake(request.headers(), request.extensions(), name).await?;
        match enter(e2b, &target.name, request.headers())? {
            Some(entered) => break entered,
            // It was paused again since.
            None if wakes => {}
            None => return Err(lost()),
        }
    };
    let by = e2b.visitor(&session, &owner, &request);
    let (stream, visit) = session
        .by(&by)
        .map_err(|_| lost())?
        .connect(target.port)
        .await
        .map_err(closed)?;
    let meter = Meter::of_visit(&e2b.sandboxes, owner.clone(), visit);
    let broken = |_| ApiError::new(ErrorCode::Ended, "the server in the sandbox closed the connection");
    // Simple servers look for `Host` and `Content-Length` as they are written everywhere.
    let mut speaks = hyper::client::conn::http1::Builder::new();
    speaks.title_case_headers(true);
    let inner = Inner::new(stream, state.settings.read_timeout.duration());
    let (mut sender, connection) = speaks.handshake(TokioIo::new(inner)).await.map_err(broken)?;
    let carried = Carried {
        _connection: Tied::spawn(async move { drop(connection.with_upgrades().await) }),
        _using: using,
        owner,
        session,
    };
    let upgrade = request
        .headers()
        .get(header::UPGRADE)
        .is_some()
        .then(|| hyper::upgrade::on(&mut request));
    clean(&mut request, upgrade.is_some());
    target.remove_prefix(&mut request);
    if let Some(host) = e2b.reach.of(carried.session.id()).host {
        mask(&mut request, &host, target.port);
    }
    let place = request.extensions().get::<Place>().cloned();
    let request = request.map(|body| meter.request(body));
    let mut answer = sender.send_request(request).await.map_err(broken)?;
    target.confine_answer(answer.headers_mut());
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let ours = upgrade.ok_or_else(unasked)?;
        let theirs = hyper::upgrade::on(&mut answer);
        tokio::spawn(join(ours, theirs, place, meter, carried));
        return Ok(answer.map(Body::new));
    }
    let answer = answer.map(|body| until(Body::new(body), carried.over()));
    Ok(meter.answer(answer))
}

/// A sandbox that is used by a request that may go there.
struct Entered {
    session: Arc<Session>,
    owner: Caller,
    using: LongUse,
}

/// `None` if the sandbox is paused.
fn enter(e2b: &E2b, name: &str, headers: &HeaderMap) -> Result<Option<Entered>, ApiError> {
    let session = by_name(e2b, name).ok_or_else(lost)?;
    match session.state() {
        Life::Running => {}
        Life::Paused => return Ok(None),
        Life::Ended => return Err(lost()),
    }
    if !e2b.may_reach(session.id(), headers) {
        let message = "the sandbox does not allow public traffic; send its traffic access token";
        return Err(ApiError::new(ErrorCode::Forbidden, message));
    }
    let owner = e2b.sandboxes.owner(session.id()).ok_or_else(lost)?;
    e2b.sandboxes.check_day(&owner)?;
    match session.begin_long_use() {
        Ok(using) => Ok(Some(Entered { session, owner, using })),
        Err(Refused::IsPaused) => Ok(None),
        Err(_) => Err(lost()),
    }
}

/// What an exchange with a server inside holds: the connection, and the sandbox as one that is used.
struct Carried {
    _connection: Tied,
    _using: LongUse,
    owner: Caller,
    session: Arc<Session>,
}

impl Carried {
    /// Nobody reaches a sandbox whose maker's key was revoked, nor one that is gone.
    async fn over(self) {
        tokio::select! {
            () = self.owner.revoked() => {}
            () = self.session.gone() => {}
        }
    }
}

/// A client that did not ask could not read what comes.
fn unasked() -> ApiError {
    let message = "unexpected protocol upgrade by the server in the sandbox";
    ApiError::new(ErrorCode::Ended, message)
}

/// What is only between the client and us stays here, most of all keys.
fn clean(request: &mut Request, upgrade: bool) {
    let headers = request.headers_mut();
    for name in named_by_connection(headers) {
        headers.remove(name);
    }
    for name in HOPS.iter().filter(|name| !(upgrade && **name == header::CONNECTION)) {
        headers.remove(name);
    }
    for secret in [ACCESS, TRAFFIC] {
        headers.remove(secret);
    }
    // Whatever else authorizes is for the server inside.
    let with_keys: Vec<HeaderName> = headers
        .iter()
        .filter(|(_, value)| SecretKey::is_in(value.as_bytes()))
        .map(|(name, _)| name.clone())
        .collect();
    for name in with_keys {
        headers.remove(name);
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

/// Headers that the client means for us only. An upgrade is for the server inside.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(header::CONNECTION).iter();
    let words = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','));
    words
        .filter_map(|word| HeaderName::try_from(word.trim()).ok())
        .filter(|name| *name != header::UPGRADE)
        .collect()
}

/// The host under which the server inside wants to be known.
fn mask(request: &mut Request, host: &str, port: u16) {
    if let Ok(host) = HeaderValue::from_str(&host.replace("${PORT}", &port.to_string())) {
        request.headers_mut().insert(header::HOST, host);
    }
}

/// A WebSocket: from now on bytes go through, for as long as the connection has its place.
async fn join(ours: OnUpgrade, theirs: OnUpgrade, place: Option<Place>, meter: Meter, carried: Carried) {
    if let (Ok(ours), Ok(theirs)) = (ours.await, theirs.await) {
        let displaced = async {
            match &place {
                Some(place) => place.displaced().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = meter.join(TokioIo::new(ours), TokioIo::new(theirs)) => {}
            () = displaced => {}
            () = carried.over() => {}
        }
    }
}

fn closed(error: EngineError) -> ApiError {
    match error {
        EngineError::Audit(_) => error.into(),
        EngineError::Tier(TierError::Refused {
            why: Refusal::NotListening,
            ..
        }) => ApiError::new(ErrorCode::Ended, "The sandbox is running but port is not open"),
        _ => lost(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn what_a_client_means_for_us_only_stays_here() {
        let mut request = Request::new(Body::empty());
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("x-end", "1"),
            ("te", "trailers"),
        ] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        clean(&mut request, false);
        let left: Vec<&str> = request.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["x-end"]);
    }

    #[test]
    fn keys_stay_here_and_other_authorization_goes_on() {
        let passed = |name: &'static str, value: &str| {
            let mut request = Request::new(Body::empty());
            request.headers_mut().insert(name, value.parse().unwrap());
            clean(&mut request, false);
            request.headers().contains_key(name)
        };
        let key = SecretKey::generate();
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        for value in [
            format!("Bearer {}", key.reveal()),
            format!("Token {}", key.reveal()),
            format!("Custom id=\"1\", key=\"{}\"", key.reveal()),
            basic(&format!("user:{}", key.reveal())),
            basic(&format!("{}:", key.reveal())),
            key.reveal().to_owned(),
        ] {
            for name in ["authorization", "x-api-key", "cookie", "x-own"] {
                assert!(!passed(name, &value), "{name}: {value}");
            }
        }
        for value in [
            "Bearer of-the-server-inside",
            &basic("user:e2b_secret"),
            "Token e2b_0123",
        ] {
            assert!(passed("authorization", value) && passed("x-api-key", value), "{value}");
        }
    }
}
