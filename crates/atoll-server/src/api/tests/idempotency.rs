//! `Idempotency-Key` with routes that count how often they are called.

use super::*;
use crate::api::idempotency::LateRefusal;
use axum::Extension;
use axum::http::HeaderValue;
use futures_util::{StreamExt, stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// The largest answer that is kept.
const LARGEST: usize = 10 << 20;
/// Requests with a key that one tenant may have under way.
const MOST_UNDER_WAY: usize = 64;

/// A route that answers with what `answer` makes of the number of the call.
fn counting<R: IntoResponse + 'static>(dialect: Dialect, answer: fn(usize) -> R) -> (Route, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let handler = move |_body: String| async move { answer(counted.fetch_add(1, Ordering::SeqCst) + 1) };
    let route = Route::new(Method::POST, "/count", Access::Key(Scope::Run), dialect, handler);
    (route.with_idempotency(), calls)
}

fn request(api_key: &str, sent: &[&str], path: &str, body: impl Into<Body>) -> Request {
    let mut request = Request::builder().method(Method::POST).uri(path);
    request = request.header(header::HOST, "localhost").header("x-api-key", api_key);
    for key in sent {
        request = request.header("idempotency-key", HeaderValue::from_bytes(key.as_bytes()).unwrap());
    }
    request.body(body.into()).unwrap()
}

impl World {
    async fn ask(&self, route: &Route, request: Request) -> Response {
        let router = router_of(vec![route.clone()], self.state.clone());
        router.oneshot(request).await.unwrap()
    }
}

fn is_replayed(response: &Response) -> bool {
    response.headers().contains_key("idempotent-replayed")
}

#[tokio::test]
async fn a_repeat_gets_the_same_answer_and_is_not_done_again() {
    let world = World::new().await;
    let (route, calls) = counting(Dialect::Native, |count| {
        let kind = [(header::CONTENT_TYPE, "text/x-count")];
        (StatusCode::CREATED, kind, format!("call {count}"))
    });
    let (one, other) = (world.key(&[Scope::Run]).await, world.key(&[Scope::Run]).await);
    for is_repeat in [false, true, true] {
        let answer = world.ask(&route, request(&one, &["k"], "/count", "a")).await;
        assert_eq!(
            (answer.status(), is_replayed(&answer)),
            (StatusCode::CREATED, is_repeat)
        );
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/x-count");
        assert_eq!(text(answer).await, "call 1");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    for (api_key, sent) in [(&one, "l"), (&other, "k")] {
        let answer = world.ask(&route, request(api_key, &[sent], "/count", "a")).await;
        assert!(!is_replayed(&answer), "{sent}");
    }
    for _ in 0..2 {
        world.ask(&route, request(&one, &[], "/count", "a")).await;
    }
    assert_eq!(calls.load(Ordering::SeqCst), 5);
}

#[tokio::test]
async fn another_request_with_the_same_key_is_a_mismatch() {
    let world = World::new().await;
    let (route, calls) = counting(Dialect::Native, |count| count.to_string());
    let key = world.key(&[Scope::Run]).await;
    world.ask(&route, request(&key, &["k"], "/count?a=1", "a")).await;
    for (path, body) in [("/count?a=1", "b"), ("/count?a=2", "a"), ("/count?a=1", "")] {
        let refused = world.ask(&route, request(&key, &["k"], path, body)).await;
        assert_eq!(refused.status(), StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(code(refused).await, "idempotency_mismatch", "{path} {body}");
    }
    let mut elsewhere = request(&key, &["k"], "/count?a=1", "a");
    elsewhere
        .headers_mut()
        .insert("e2b-sandbox-id", HeaderValue::from_static("sbxa"));
    assert_eq!(code(world.ask(&route, elsewhere).await).await, "idempotency_mismatch");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_idempotency_key_is_visible_ascii_and_comes_once() {
    let world = World::new().await;
    let (route, calls) = counting(Dialect::Native, |count| count.to_string());
    let key = world.key(&[Scope::Run]).await;
    let (longest, too_long) = ("x".repeat(255), "x".repeat(256));
    let wrong = ["", "a b", "a\tb", "ä", &too_long].map(|sent| vec![sent]);
    for sent in wrong.into_iter().chain([vec!["a", "a"]]) {
        let refused = world.ask(&route, request(&key, &sent, "/count", "")).await;
        assert_eq!(code(refused).await, "invalid_request", "{sent:?}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    for sent in ["~", "!", "\"8e03978e-40d5\"", &longest] {
        let answer = world.ask(&route, request(&key, &[sent], "/count", "")).await;
        assert_eq!(answer.status(), StatusCode::OK, "{sent}");
    }
}

#[tokio::test]
async fn create_and_run_know_idempotency_keys() {
    let world = World::new().await;
    let key = world.key(&[Scope::Run]).await;
    for path in [
        "/v1/run",
        "/v1/sandboxes",
        "/v1/sandboxes/x/run",
        "/sandboxes",
        "/v2/sandboxes",
    ] {
        let request = request(&key, &["a", "b"], path, "{}");
        let refused = router(world.state.clone()).oneshot(request).await.unwrap();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{path}");
        let body = text(refused).await;
        assert!(body.contains("Idempotency-Key"), "{path}: {body}");
    }
}

/// A route whose work begins, and waits until it may go on.
fn waiting(begun: &Arc<Notify>, may_end: &Arc<Notify>) -> Route {
    let (begun, may_end) = (Arc::clone(begun), Arc::clone(may_end));
    let handler = move || async move {
        begun.notify_one();
        may_end.notified().await;
        "done"
    };
    Route::new(Method::POST, "/wait", Access::Key(Scope::Run), Dialect::Native, handler).with_idempotency()
}

#[tokio::test]
async fn a_repeat_while_the_first_is_under_way_is_told_to_wait() {
    let world = World::new().await;
    let key = world.key(&[Scope::Run]).await;
    let (begun, may_end) = (Arc::default(), Arc::default());
    let route = waiting(&begun, &may_end);
    let first = router_of(vec![route.clone()], world.state.clone());
    let first = tokio::spawn(first.oneshot(request(&key, &["k"], "/wait", "")));
    begun.notified().await;
    let refused = world.ask(&route, request(&key, &["k"], "/wait", "")).await;
    assert_eq!(refused.status(), StatusCode::CONFLICT);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    assert_eq!(code(refused).await, "idempotency_in_progress");
    let other = world.ask(&route, request(&key, &["k"], "/wait", "other")).await;
    assert_eq!(code(other).await, "idempotency_mismatch");
    may_end.notify_one();
    assert_eq!(text(first.await.unwrap().unwrap()).await, "done");
    let repeat = world.ask(&route, request(&key, &["k"], "/wait", "")).await;
    assert_eq!(text(repeat).await, "done");
}

#[tokio::test]
async fn a_client_that_goes_away_finds_its_answer_when_it_comes_back() {
    let world = World::new().await;
    let key = world.key(&[Scope::Run]).await;
    let (begun, may_end) = (Arc::default(), Arc::default());
    let route = waiting(&begun, &may_end);
    let first = router_of(vec![route.clone()], world.state.clone());
    let first = tokio::spawn(first.oneshot(request(&key, &["k"], "/wait", "")));
    begun.notified().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    may_end.notify_one();
    let mut repeat = world.ask(&route, request(&key, &["k"], "/wait", "")).await;
    while repeat.status() == StatusCode::CONFLICT {
        assert_eq!(code(repeat).await, "idempotency_in_progress");
        repeat = world.ask(&route, request(&key, &["k"], "/wait", "")).await;
    }
    assert!(is_replayed(&repeat));
    assert_eq!(text(repeat).await, "done");
}

/// An answer in pieces, whose length nobody knows before.
fn streamed(pieces: Vec<Result<Vec<u8>, std::io::Error>>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    (kind, Body::from_stream(stream::iter(pieces))).into_response()
}

#[tokio::test]
async fn a_repeat_of_a_stream_gets_the_whole_stream() {
    let world = World::new().await;
    let (route, calls) = counting(Dialect::Native, |count| {
        streamed(vec![Ok(b"a".to_vec()), Ok(count.to_string().into_bytes())])
    });
    let key = world.key(&[Scope::Run]).await;
    for is_repeat in [false, true] {
        let answer = world.ask(&route, request(&key, &["k"], "/count", "")).await;
        assert_eq!(is_replayed(&answer), is_repeat);
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/event-stream");
        assert_eq!(text(answer).await, "a1");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_answer_that_cannot_be_kept_is_not_made_twice() {
    let world = World::new().await;
    let key = world.key(&[Scope::Run]).await;
    let large: fn(usize) -> Response = |_| "x".repeat(LARGEST + 1).into_response();
    let long: fn(usize) -> Response = |_| streamed(vec![Ok(vec![b'x'; LARGEST]), Ok(vec![b'x'])]);
    let broken: fn(usize) -> Response = |_| streamed(vec![Ok(b"a".to_vec()), Err(std::io::Error::other("gone"))]);
    for (name, answer, is_whole) in [("large", large, true), ("long", long, true), ("broken", broken, false)] {
        let (route, calls) = counting(Dialect::Native, answer);
        let first = world.ask(&route, request(&key, &[name], "/count", "")).await;
        let body = first.into_body().collect().await;
        let length = body.map(|body| body.to_bytes().len()).ok();
        assert_eq!(length, is_whole.then_some(LARGEST + 1), "{name}");
        let refused = world.ask(&route, request(&key, &[name], "/count", "")).await;
        assert_eq!(refused.status(), StatusCode::CONFLICT, "{name}");
        assert!(!refused.headers().contains_key(header::RETRY_AFTER), "{name}");
        assert_eq!(code(refused).await, "idempotency_no_answer", "{name}");
        assert_eq!(calls.load(Ordering::SeqCst), 1, "{name}");
    }
    let (route, _) = counting(Dialect::Native, |_| "x".repeat(LARGEST));
    for _ in 0..2 {
        let kept = world.ask(&route, request(&key, &["fits"], "/count", "")).await;
        assert_eq!(text(kept).await.len(), LARGEST);
    }
}

#[tokio::test]
async fn a_refusal_frees_the_key_and_a_fault_of_ours_does_not() {
    let world = World::new().await;
    let key = world.key(&[Scope::Run]).await;
    let (route, calls) = counting(Dialect::Native, |count| match count {
        1 => Err(ApiError::server_full(3)),
        _ => Ok("made"),
    });
    let refused = world.ask(&route, request(&key, &["full"], "/count", "")).await;
    assert_eq!(code(refused).await, "server_full");
    for _ in 0..2 {
        let made = world.ask(&route, request(&key, &["full"], "/count", "")).await;
        assert_eq!(text(made).await, "made");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    let panics: fn(usize) -> Response = |_| panic!("the secret of a tenant");
    let (route, calls) = counting(Dialect::E2bApi, panics);
    for _ in 0..2 {
        let fault = world.ask(&route, request(&key, &["fault"], "/count", "")).await;
        assert_eq!(fault.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = text(fault).await;
        assert!(body.starts_with(r#"{"code":500,"#), "{body}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

/// A stream that ends with this error after its head is sent.
fn refused_late(error: ApiError) -> Response {
    let refusal = LateRefusal::default();
    let noted = refusal.clone();
    let error_event = async move {
        noted.note(&error);
        Ok::<_, std::io::Error>("event: error")
    };
    let pieces = stream::iter([Ok("event: held\n\n")]).chain(stream::once(error_event));
    (Extension(refusal), Body::from_stream(pieces)).into_response()
}

#[tokio::test]
async fn a_stream_that_ends_with_a_refusal_frees_the_key() {
    let world = World::new().await;
    let key = world.key(&[Scope::Run]).await;
    let (route, calls) = counting(Dialect::Native, |count| match count {
        1 => refused_late(ApiError::server_full(3)),
        2 => refused_late(ApiError::internal()),
        _ => streamed(vec![Ok(b"done".to_vec())]),
    });
    let refused = "event: held\n\nevent: error";
    for (is_repeat, calls_so_far) in [(false, 1), (false, 2), (true, 2)] {
        let answer = world.ask(&route, request(&key, &["k"], "/count", "")).await;
        assert_eq!((answer.status(), is_replayed(&answer)), (StatusCode::OK, is_repeat));
        assert_eq!(text(answer).await, refused);
        assert_eq!(calls.load(Ordering::SeqCst), calls_so_far);
    }
}

/// The code may have run: as a stream and as one object, the error is the answer of every repeat.
#[tokio::test]
async fn an_error_after_the_work_had_begun_does_not_free_the_key() {
    let world = World::new().await;
    let key = world.key(&[Scope::Run]).await;
    let late = || ApiError::server_full(3).after_begin();
    let whole = counting(Dialect::Native, |_| ApiError::server_full(3).after_begin());
    let streamed = counting(Dialect::Native, |_| {
        refused_late(ApiError::server_full(3).after_begin())
    });
    for ((route, calls), status) in [(whole, late().code().status()), (streamed, StatusCode::OK)] {
        for is_repeat in [false, true] {
            let sent = format!("k{}", status.as_u16());
            let answer = world.ask(&route, request(&key, &[&sent], "/count", "")).await;
            assert_eq!((answer.status(), is_replayed(&answer)), (status, is_repeat));
            text(answer).await;
        }
        assert_eq!(calls.load(Ordering::SeqCst), 1, "{status}");
    }
}

/// The key is free before the stream breaks off.
#[tokio::test]
async fn a_stream_that_breaks_off_with_a_refusal_frees_the_key() {
    let world = World::new().await;
    let key = world.key(&[Scope::Run]).await;
    let (route, calls) = counting(Dialect::Native, |_| {
        let refusal = LateRefusal::default();
        refusal.note(&ApiError::server_full(3));
        (Extension(refusal), streamed(vec![Err(std::io::Error::other("gone"))])).into_response()
    });
    for calls_so_far in [1, 2] {
        let answer = world.ask(&route, request(&key, &["k"], "/count", "")).await;
        assert!(answer.into_body().collect().await.is_err());
        assert_eq!(calls.load(Ordering::SeqCst), calls_so_far);
    }
}

#[tokio::test]
async fn a_tenant_with_too_many_keyed_requests_under_way_is_refused_and_still_gets_stored_answers() {
    let world = World::new().await;
    let key = world.key(&[Scope::Run]).await;
    let (counted, calls) = counting(Dialect::Native, |count| count.to_string());
    let count = async |name: &str| world.ask(&counted, request(&key, &[name], "/count", "")).await;
    assert_eq!(text(count("before").await).await, "1");
    let (begun, may_end) = (Arc::default(), Arc::default());
    let route = waiting(&begun, &may_end);
    for number in 0..MOST_UNDER_WAY {
        let router = router_of(vec![route.clone()], world.state.clone());
        tokio::spawn(router.oneshot(request(&key, &[&number.to_string()], "/wait", "")));
        begun.notified().await;
    }
    let refused = count("new").await;
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    assert_eq!(code(refused).await, "quota_exceeded");
    let repeat = count("before").await;
    assert!(is_replayed(&repeat));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let without_key = world.ask(&counted, request(&key, &[], "/count", "")).await;
    assert_eq!(text(without_key).await, "2");
}
