//! Web pages: those of this server may call it, others only if the operator lists them. A page in a browser can send
//! simple requests to any address without asking, so what it names as its origin is checked before anything else.

use crate::api::{ApiError, AppState, ErrorCode};
use crate::config::Settings;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::time::Duration;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

pub(crate) async fn check_origin(State(state): State<AppState>, request: Request, next: Next) -> Response {
    if is_allowed(request.headers(), &state.settings) {
        return next.run(request).await;
    }
    ApiError::new(
        ErrorCode::OriginNotAllowed,
        "requests from this web origin are not allowed",
    )
    .hint("the operator can add origins with the setting cors_origins")
    .into_response()
}

fn is_allowed(headers: &HeaderMap, settings: &Settings) -> bool {
    headers.get_all(ORIGIN).iter().all(|origin| {
        let Ok(origin) = origin.to_str() else { return false };
        let listed = settings
            .cors_origins
            .iter()
            .any(|known| known.as_str().eq_ignore_ascii_case(origin));
        listed || is_same(origin, headers)
    })
}

/// A page that this server itself has sent. The scheme may differ: a proxy in front may speak TLS.
fn is_same(origin: &str, headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let named = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    matches!((host, named), (Some(host), Some(named)) if host.eq_ignore_ascii_case(named))
}

/// Tells browsers which other origins may read the answers; without a list nothing is told.
pub(crate) fn cors(router: Router<AppState>, settings: &Settings) -> Router<AppState> {
    let listed = settings.cors_origins.iter();
    let origins: Vec<HeaderValue> = listed.filter_map(|origin| origin.as_str().parse().ok()).collect();
    if origins.is_empty() {
        return router;
    }
    let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let told = [
        "x-request-id",
        "retry-after",
        "x-next-token",
        "ratelimit-limit",
        "ratelimit-remaining",
    ];
    let layer = CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods(methods)
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(told.map(HeaderName::from_static))
        .max_age(Duration::from_secs(600));
    router.layer(layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(origin: Option<&str>, listed: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("localhost:7070"));
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        let settings = Settings {
            cors_origins: listed
                .split(',')
                .filter(|word| !word.is_empty())
                .map(|w| w.parse().unwrap())
                .collect(),
            ..Settings::default()
        };
        is_allowed(&headers, &settings)
    }

    #[test]
    fn own_pages_listed_pages_and_programs_may_call() {
        assert!(allowed(None, "") && allowed(Some("http://localhost:7070"), ""));
        assert!(allowed(Some("https://app.test"), "https://app.test"));
        for other in ["null", "http://localhost:3000", "https://evil.test", "localhost:7070"] {
            assert!(!allowed(Some(other), "https://app.test"), "{other}");
        }
    }
}
