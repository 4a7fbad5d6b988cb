//! Hosts, origins and callers without a key.

use super::*;

#[tokio::test]
async fn foreign_hosts_and_pages_are_refused_before_the_key_is_looked_at() {
    let world = World::new().await;
    let send = async |host: &str, origin: Option<&str>| {
        let mut request = Request::builder().uri("/healthz").header(header::HOST, host);
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        router(world.state.clone())
            .oneshot(request.body(Body::empty()).unwrap())
            .await
            .unwrap()
    };
    assert_eq!(send("127.0.0.1:7070", None).await.status(), StatusCode::OK);
    assert_eq!(code(send("evil.test", None).await).await, "host_not_allowed");
    assert_eq!(
        code(send("localhost", Some("http://evil.test")).await).await,
        "origin_not_allowed"
    );
    assert_eq!(
        send("localhost", Some("http://localhost")).await.status(),
        StatusCode::OK
    );
    let bare = router(world.state.clone()).oneshot(Request::builder().uri("/healthz").body(Body::empty()).unwrap());
    assert_eq!(code(bare.await.unwrap()).await, "invalid_request");
}

#[tokio::test]
async fn listed_origins_get_the_headers_that_browsers_want_and_others_none() {
    let world = World::with(Settings {
        cors_origins: vec!["https://app.test".parse().unwrap()],
        ..Settings::default()
    })
    .await;
    let preflight = Request::builder()
        .method(Method::OPTIONS)
        .uri("/v1/keys")
        .header(header::ORIGIN, "https://app.test")
        .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST")
        .header(header::ACCESS_CONTROL_REQUEST_HEADERS, "x-api-key");
    let answer = world.send(preflight, "").await;
    assert_eq!(
        answer.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN],
        "https://app.test"
    );
    assert!(!answer.headers().contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS));
    let off = World::new().await.get("/healthz").await;
    assert!(!off.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
}

#[tokio::test]
async fn without_auth_any_key_or_none_is_fine_and_keys_are_not_made() {
    let world = World::with(Settings {
        insecure_no_auth: true,
        ..Settings::default()
    })
    .await;
    assert_eq!(world.get("/v1/sandboxes").await.status(), StatusCode::OK);
    let any = Request::builder().uri("/v1/sandboxes").header("x-api-key", "e2b_any");
    assert_eq!(world.send(any, "").await.status(), StatusCode::OK);
    assert_eq!(code(world.get("/v1/keys").await).await, "scope_missing");
}
