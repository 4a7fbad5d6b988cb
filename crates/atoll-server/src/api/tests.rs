//! The router as a whole, without a socket: every route of the table, every refusal, in its shape.

mod budget;
mod description;
mod idempotency;
mod keys;
mod pages;

use super::native::ErrorBody;
use super::table::Access;
use super::*;
use crate::auth::{DEFAULT_TENANT, Scopes, SecretKey};
use crate::config::{Quotas, Settings};
use crate::descriptors::SharedDescriptors;
use crate::policies::Policies;
use crate::ready::Ready;
use crate::server::{node_config, share};
use crate::store::{NewKey, Store};
use atoll_core::service::Scope;
use atoll_engine::{Audit, Node};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use http_body_util::BodyExt;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use tower::ServiceExt;

/// A server's state with a store of its own.
struct World {
    state: AppState,
    _dir: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    async fn with(settings: Settings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_owned();
        Self::at(&home, dir, settings).await
    }

    /// With another data directory than the one of the store.
    async fn at(home: &Path, dir: tempfile::TempDir, mut settings: Settings) -> Self {
        // Nobody must build one here.
        settings.template = "no-such-template".to_owned();
        let store = Store::open(&Store::path(dir.path())).unwrap();
        let node = Node::new(node_config(
            &settings,
            home,
            Path::new("atoll"),
            Audit::Off {
                because: "nothing is run",
            },
        ));
        let address = SocketAddr::from(([127, 0, 0, 1], 7070));
        let policies = Policies::load(&settings.policy).unwrap();
        let state = share(
            settings,
            policies,
            None,
            store,
            address,
            node,
            SharedDescriptors::UNLIMITED,
        )
        .await
        .unwrap();
        Self { state, _dir: dir }
    }

    async fn key(&self, scopes: &[Scope]) -> String {
        let secret = SecretKey::generate();
        let new = NewKey {
            name: "test".to_owned(),
            tenant: DEFAULT_TENANT.to_owned(),
            scopes: Scopes::of(scopes),
            quotas: Quotas::default(),
            digest: secret.digest(),
        };
        self.state.store.create_key(new).await.unwrap();
        self.state.keys.refresh(&self.state.store).await.unwrap();
        secret.reveal().to_owned()
    }

    async fn send(&self, request: axum::http::request::Builder, body: impl Into<Body>) -> Response {
        let request = request
            .header(header::HOST, "localhost:7070")
            .body(body.into())
            .unwrap();
        router(self.state.clone()).oneshot(request).await.unwrap()
    }

    async fn get(&self, path: &str) -> Response {
        self.send(Request::builder().uri(path), Body::empty()).await
    }
}

async fn text(response: Response) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The code of a refusal in the native shape.
async fn code(response: Response) -> String {
    let status = response.status();
    let body = text(response).await;
    let body: ErrorBody = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{status}: {error}: {body}"));
    assert!(!body.error.message.is_empty());
    let known = ErrorCode::ALL
        .iter()
        .find(|code| code.as_str() == body.error.code)
        .unwrap();
    assert_eq!(known.status(), status);
    body.error.code
}

/// A path of the table with something in place of its parameters.
fn filled(path: &str) -> String {
    let part = |part: &str| {
        if part.starts_with('{') {
            "x".to_owned()
        } else {
            part.to_owned()
        }
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_route_refuses_by_its_class_before_it_looks_at_anything_else() {
    let world = World::new().await;
    assert!(routes().iter().any(|route| matches!(route.access, Access::Key(_))));
    for route in routes() {
        let request = || Request::builder().method(route.method.clone()).uri(filled(route.path));
        let name = format!("{} {}", route.method, route.path);
        let Access::Key(scope) = route.access else {
            let status = world.send(request(), Body::empty()).await.status();
            assert_ne!(status, StatusCode::NOT_FOUND, "{name}");
            continue;
        };
        let bare = world.send(request(), "{not json").await;
        assert_eq!(bare.status(), StatusCode::UNAUTHORIZED, "{name}");
        let wrong = world
            .send(request().header("x-api-key", format!("e2b_{}", "0".repeat(40))), "")
            .await;
        assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED, "{name}");
        // An operator may answer what policies ask.
        let implies = |other: &Scope| scope == Scope::Approve && *other == Scope::Admin;
        let others = Scope::ALL.iter().filter(|other| **other != scope && !implies(other));
        let others: Vec<Scope> = others.copied().collect();
        let lesser = world
            .send(request().header("x-api-key", world.key(&others).await), "")
            .await;
        assert_eq!(lesser.status(), StatusCode::FORBIDDEN, "{name}");
        let right = world
            .send(request().header("x-api-key", world.key(&[scope]).await), "")
            .await;
        let refused = [
            StatusCode::UNAUTHORIZED,
            StatusCode::FORBIDDEN,
            StatusCode::METHOD_NOT_ALLOWED,
        ];
        assert!(!refused.contains(&right.status()), "{name}: {}", right.status());
    }
}

#[tokio::test]
async fn open_routes_are_these_and_no_others() {
    let open: BTreeSet<&str> = routes()
        .iter()
        .filter(|route| matches!(route.access, Access::Open))
        .map(|route| route.path)
        .collect();
    assert_eq!(open, BTreeSet::from(["/docs", "/healthz", "/openapi.json", "/readyz"]));
}

#[test]
fn no_method_and_path_is_twice_in_the_table() {
    let all: Vec<String> = routes()
        .iter()
        .map(|route| format!("{} {}", route.method, route.path))
        .collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
}

#[test]
fn the_description_has_every_native_route() {
    let document = serde_json::to_value(document()).unwrap();
    let described: BTreeSet<String> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| methods.as_object().unwrap().keys().map(move |m| format!("{m} {path}")))
        .collect();
    let about_itself = ["/openapi.json", "/docs"];
    let wanted: BTreeSet<String> = routes()
        .iter()
        .filter(|route| route.dialect == Dialect::Native && !about_itself.contains(&route.path))
        .map(|route| format!("{} {}", route.method.as_str().to_lowercase(), route.path))
        .collect();
    assert_eq!(described, wanted);
}

/// `ATOLL_UPDATE=1 cargo test -p atoll-server checked_in` writes the copy anew.
#[test]
fn the_checked_in_description_is_the_real_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let made = format!("{}\n", serde_json::to_string_pretty(&document()).unwrap());
    if std::env::var_os("ATOLL_UPDATE").is_some() {
        fs_err::write(path, &made).unwrap();
    }
    let kept = fs_err::read_to_string(path).unwrap_or_default();
    assert!(
        kept == made,
        "docs/openapi.json is not what the code says; ATOLL_UPDATE=1 writes it anew"
    );
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused_in_the_same_shape() {
    let world = World::new().await;
    for path in [
        "/",
        "/v1",
        "/v1/keys/",
        "/v1/../healthz",
        "/healthz/",
        "/%00",
        "//healthz",
    ] {
        assert_eq!(code(world.get(path).await).await, "not_found", "{path}");
    }
    for (path, start) in [
        ("/sandboxes/x/nothing", r#"{"code":404,"message":"#),
        ("/v2/nothing", r#"{"code":404,"message":"#),
        ("/process.Process/Nothing", r#"{"code":"not_found","message":"#),
        ("/contexts/x/nothing", "no such path"),
        ("/volumes", r#"{"code":501,"message":"volumes are not supported"#),
        (
            "/v3/templates",
            r#"{"code":501,"message":"templates cannot be built over HTTP"#,
        ),
        (
            "/secrets/x",
            r#"{"code":501,"message":"stored secrets are not supported"#,
        ),
    ] {
        let body = text(world.get(path).await).await;
        assert!(body.starts_with(start), "{path}: {body}");
    }
    let wrong = world
        .send(Request::builder().method(Method::PUT).uri("/v1/keys"), "")
        .await;
    let allowed = wrong.headers()[header::ALLOW].to_str().unwrap().to_owned();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
    assert_eq!(code(wrong).await, "method_not_allowed");
}

#[tokio::test]
async fn every_answer_has_an_id_and_careful_headers() {
    let world = World::new().await;
    let own = world
        .send(Request::builder().uri("/healthz").header("x-request-id", "mine-1"), "")
        .await;
    assert_eq!(own.headers()["x-request-id"], "mine-1");
    let refused = world.get("/nowhere").await;
    assert!(refused.headers()["x-request-id"].to_str().unwrap().starts_with("req_"));
    assert_eq!(refused.headers()["x-content-type-options"], "nosniff");
    assert_eq!(refused.headers()["cache-control"], "no-store");
}

#[tokio::test]
async fn readiness_is_what_the_engine_says() {
    let world = World::new().await;
    assert_eq!(code(world.get("/readyz").await).await, "not_ready");
    world.state.ready.set(Ready::Ready);
    assert_eq!(text(world.get("/readyz").await).await, r#"{"status":"ready"}"#);
    world.state.ready.set(Ready::Draining);
    assert_eq!(code(world.get("/readyz").await).await, "not_ready");
    assert_eq!(world.get("/healthz").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_repeated_sandbox_header_is_refused() {
    let world = World::new().await;
    for (method, path) in [
        (Method::GET, "/health"),
        (Method::GET, "/files?path=a"),
        (Method::GET, "/files?path=a&signature=v1_x"),
        (Method::POST, "/process.Process/List"),
        (Method::POST, "/execute"),
    ] {
        let request = Request::builder().method(method).uri(path);
        let twice = request
            .header("e2b-sandbox-id", "sbxa")
            .header("E2b-Sandbox-Id", "sbxb");
        let refused = world.send(twice, "").await;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{path}");
        let body = text(refused).await;
        assert!(
            body.contains("the E2b-Sandbox-Id header is repeated; send it once"),
            "{path}: {body}"
        );
    }
}

#[tokio::test]
async fn a_nearly_full_disk_is_not_ready_and_says_why() {
    // The file system of processes has no bytes at all.
    let full = "/proc";
    let of_data = World::at(Path::new(full), tempfile::tempdir().unwrap(), Settings::default()).await;
    let mut settings = Settings::default();
    settings.audit.dir = Some(full.to_owned());
    let of_log = World::with(settings).await;
    for (world, disk) in [(of_data, "data directory"), (of_log, "audit log")] {
        world.state.ready.set(Ready::Ready);
        let refused = world.get("/readyz").await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = text(refused).await;
        assert!(
            body.contains("not_ready") && body.contains(&format!("the disk of the {disk} is nearly full: 0 MiB left")),
            "{body}"
        );
        assert_eq!(world.get("/healthz").await.status(), StatusCode::OK);
    }
}

async fn misbehaving(dialect: Dialect) -> Response {
    async fn panics() -> &'static str {
        panic!("the secret of {}", "a tenant")
    }
    let world = World::new().await;
    let route = Route::new(Method::GET, "/panics", Access::Open, dialect, panics);
    let request = Request::builder()
        .uri("/panics")
        .header(header::HOST, "localhost")
        .body(Body::empty())
        .unwrap();
    router_of(vec![route], world.state.clone())
        .oneshot(request)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_panic_is_our_fault_and_shows_nothing() {
    let answer = misbehaving(Dialect::Native).await;
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let body = text(answer).await;
    assert!(body.contains("\"internal\"") && !body.contains("secret"), "{body}");
    let body = text(misbehaving(Dialect::E2bApi).await).await;
    assert!(
        body.starts_with(r#"{"code":500,"#) && !body.contains("secret"),
        "{body}"
    );
}

#[tokio::test]
async fn each_dialect_refuses_in_its_own_words() {
    async fn full() -> ApiError {
        ApiError::server_full(3)
    }
    let world = World::new().await;
    for (dialect, wanted) in [
        (Dialect::Native, r#"{"error":{"code":"server_full""#),
        (Dialect::E2bApi, r#"{"code":429,"message":"#),
        (Dialect::E2bRpc, r#"{"code":"resource_exhausted","message":"#),
        (Dialect::E2bInterpreter, "the server has reached its limit of 3 live"),
    ] {
        let route = Route::new(Method::GET, "/full", Access::Key(Scope::Run), dialect, full);
        let app = router_of(vec![route], world.state.clone());
        let request = Request::builder().uri("/full").header(header::HOST, "localhost");
        let request = request
            .header("x-api-key", world.key(&[Scope::Run]).await)
            .body(Body::empty())
            .unwrap();
        let answer = app.oneshot(request).await.unwrap();
        assert_eq!(
            answer.headers().contains_key("should-retry"),
            dialect != Dialect::Native,
            "{dialect:?}"
        );
        assert!(answer.headers().contains_key("retry-after"));
        let body = text(answer).await;
        assert!(body.starts_with(wanted), "{dialect:?}: {body}");
    }
}

#[tokio::test]
async fn the_page_is_whole_in_itself() {
    let world = World::new().await;
    let page = world.get("/docs").await;
    let policy = page.headers()[header::CONTENT_SECURITY_POLICY]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(policy.contains("default-src 'none'"));
    let page = text(page).await;
    for outside in ["http://", "https://", "src=", "@import", "//cdn"] {
        assert!(!page.contains(outside), "{outside}");
    }
}
