//! `/v1/keys` with good and bad bodies.

use super::*;

#[tokio::test]
async fn keys_are_made_listed_and_revoked() {
    let world = World::new().await;
    let admin = world.key(&[Scope::Admin]).await;
    let request = |method, path: &str| {
        Request::builder()
            .method(method)
            .uri(path.to_owned())
            .header("x-api-key", &admin)
    };
    let json = |builder: axum::http::request::Builder| builder.header("content-type", "application/json");
    let made = world
        .send(
            json(request(Method::POST, "/v1/keys")),
            r#"{"name":"n","scopes":["admin"]}"#,
        )
        .await;
    assert_eq!(made.status(), StatusCode::CREATED);
    let made: super::native::CreatedKey = serde_json::from_str(&text(made).await).unwrap();
    assert!(SecretKey::is_in(made.key.as_bytes()));
    let bearer = Request::builder()
        .uri("/v1/keys")
        .header("authorization", format!("Bearer {}", made.key));
    let listed = text(world.send(bearer, "").await).await;
    assert!(
        listed.contains(&made.record.id) && !listed.contains(&made.key),
        "{listed}"
    );
    let path = format!("/v1/keys/{}", made.record.id);
    assert_eq!(
        world.send(request(Method::DELETE, &path), "").await.status(),
        StatusCode::OK
    );
    let again = Request::builder().uri("/v1/keys").header("x-api-key", &made.key);
    assert_eq!(code(world.send(again, "").await).await, "unauthenticated");
    for unknown in [
        "/v1/keys/nonsense",
        "/v1/keys/key_aaaaaaaaaaaaaaaaaaaaaaaaaa",
        "/v1/keys/%ff",
        "/v1/keys/%2e%2e%2f",
    ] {
        assert_eq!(
            code(world.send(request(Method::DELETE, unknown), "").await).await,
            "not_found",
            "{unknown}"
        );
    }
}

#[tokio::test]
async fn bad_bodies_get_a_clear_refusal() {
    let world = World::with(Settings {
        max_body_bytes: 2_048.try_into().unwrap(),
        ..Settings::default()
    })
    .await;
    let admin = world.key(&[Scope::Admin]).await;
    let send = async |kind: Option<&str>, body: Vec<u8>| {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri("/v1/keys")
            .header("x-api-key", &admin);
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        code(world.send(request, body).await).await
    };
    let json = Some("application/json");
    for (body, wanted) in [
        ("", "malformed_json"),
        ("{", "malformed_json"),
        (r#"{"name":"n"} {}"#, "malformed_json"),
        ("null", "invalid_request"),
        ("[]", "invalid_request"),
        ("{}", "invalid_request"),
        (r#"{"name":1}"#, "invalid_request"),
        (r#"{"name":"n","nmae":"m"}"#, "invalid_request"),
        (r#"{"name":"n","name":"m"}"#, "invalid_request"),
        (r#"{"name":"n","scopes":["root"]}"#, "invalid_request"),
        (r#"{"name":"n","scopes":[]}"#, "invalid_request"),
        (r#"{"name":"n","tenant":"A B"}"#, "invalid_request"),
        (r#"{"name":"a\nb"}"#, "invalid_request"),
        (r#"{"name":"n","quotas":{"live_sandboxes":0}}"#, "invalid_request"),
        (r#"{"name":"n","quotas":{"live_sandboxes":-1}}"#, "invalid_request"),
        (r#"{"name":"n","quotas":{"live_sandboxes":1e99}}"#, "invalid_request"),
    ] {
        assert_eq!(send(json, body.into()).await, wanted, "{body}");
    }
    assert_eq!(send(json, b"{\"name\":\"\xff\"}".to_vec()).await, "malformed_json");
    assert_eq!(send(json, br#"["n"]"#.to_vec()).await, "invalid_request");
    assert_eq!(send(json, "[".repeat(2_000).into()).await, "invalid_request");
    let deep = format!(r#"{{"name":"n","quotas":{}"#, "{\"x\":".repeat(300));
    assert_eq!(send(json, deep.into()).await, "invalid_request");
    assert_eq!(send(json, vec![b' '; 2_049]).await, "body_too_large");
    assert_eq!(send(None, b"{}".to_vec()).await, "unsupported_media_type");
    assert_eq!(send(Some("text/plain"), b"{}".to_vec()).await, "unsupported_media_type");
    assert_eq!(
        world.state.store.list_keys().await.unwrap().len(),
        1,
        "nothing was made"
    );
}
