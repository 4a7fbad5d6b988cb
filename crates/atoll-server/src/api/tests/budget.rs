//! A server that holds as much as it may: large bodies wait, then are refused in their dialect; small ones pass.

use super::*;

#[tokio::test]
async fn a_full_server_refuses_large_bodies_and_takes_small_ones() {
    let world = World::new().await;
    let key = world.key(&[Scope::Run]).await;
    // The time that somebody waits for room passes at once.
    tokio::time::pause();
    let others = world.state.budget.hold(DEFAULT_TENANT);
    let mut bytes = 0;
    while others.reach(bytes + (1 << 20)).await.is_ok() {
        bytes += 1 << 20;
    }
    assert!(bytes >= 256 << 20, "{bytes}");
    let large = format!("{{\"metadata\": {{\"a\": \"{}\"}}}}", "x".repeat(2 << 20));
    let send = |path: &str, body: &str| {
        let request = Request::builder().method(Method::POST).uri(path.to_owned());
        let request = request
            .header("x-api-key", &key)
            .header(header::CONTENT_TYPE, "application/json");
        world.send(request, body.to_owned())
    };
    let refused = send("/v1/sandboxes", &large).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "5");
    assert_eq!(code(refused).await, "at_capacity");
    let refused = send("/sandboxes", &large).await;
    assert_eq!(refused.headers()[header::RETRY_AFTER], "5");
    assert!(text(refused).await.starts_with("{\"code\":503,"));
    for path in ["/v1/sandboxes", "/sandboxes"] {
        assert_eq!(send(path, "{}").await.status(), StatusCode::NOT_FOUND, "{path}");
    }
    drop(others);
    for path in ["/v1/sandboxes", "/sandboxes"] {
        assert_eq!(send(path, &large).await.status(), StatusCode::BAD_REQUEST, "{path}");
    }
}
