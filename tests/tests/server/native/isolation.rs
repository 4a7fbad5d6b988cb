//! One walk over every route that names a sandbox: who does not own it learns nothing, not even that it is there.

use atoll_server::api::routes;
use atoll_server::api::table::{Access, Dialect, Route};
use atoll_tests::server::{Answer, Server};
use serde_json::json;

fn filled(route: &Route, id: &str) -> String {
    let path = route.path.replace("{id}", id);
    let path = path.replace("{execution}", "exec_aaaaaaaaaaaaaaaaaaaaaaaaaa");
    path.replace("{context}", "ctx_aaaaaaaaaaaaaaaaaaaaaaaaaa")
}

/// A body that the route would take.
fn body(route: &Route) -> Option<String> {
    let last = route.path.rsplit('/').next().unwrap_or_default();
    let body = match (route.method.as_str(), last) {
        ("POST", "run") => json!({"code": "1"}),
        ("POST", "extend") => json!({"ms": 60_000}),
        ("POST", "contexts" | "snapshots") => json!({}),
        ("POST", "fork") => json!({"count": 1}),
        ("POST", "rollback") => json!({"snapshot": "snpaaaaaaaaaaaaaaaaaaaaaaaaaa"}),
        ("POST", "move") => json!({"from": "a", "to": "b"}),
        ("POST", "directory") => json!({"path": "a"}),
        ("POST", "timeout") => json!({"timeout": 10}),
        ("POST", "approve") => json!({"scope": "once"}),
        ("POST", "deny") => json!({"reason": "no"}),
        _ => return None,
    };
    Some(body.to_string())
}

/// What an answer tells, without its id and the id that the caller sent itself.
fn told(answer: &Answer, id: &str) -> (u16, String) {
    (answer.status, answer.text().replace(id, "ID"))
}

#[test]
fn foreign_and_unknown_sandboxes_look_the_same_on_every_route() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({"metadata": {"secret": "x"}})).unwrap();
    let ended = server.sandbox(&json!({})).unwrap();
    server.send("DELETE", &format!("/v1/sandboxes/{ended}"), None).unwrap();
    let foreign = server
        .new_key(&json!({"name": "n", "tenant": "other", "scopes": ["run", "read", "admin"]}))
        .unwrap();
    let unknown = "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let named = |route: &Route| matches!(route.access, Access::Key(_)) && route.path.contains("/sandboxes/{id}");
    let walked: Vec<Route> = routes().into_iter().filter(named).collect();
    let native = walked.iter().filter(|route| route.dialect == Dialect::Native).count();
    assert!(native >= 20 && walked.len() > native, "{native} of {}", walked.len());
    for route in &walked {
        let name = format!("{} {}", route.method, route.path);
        let query = if route.path.contains("/files") {
            "?path=/tmp"
        } else {
            ""
        };
        let ask = |id: &str| {
            let path = filled(route, id) + query;
            server
                .send_as(&foreign, route.method.as_str(), &path, body(route).as_deref())
                .unwrap()
        };
        let nothing = told(&ask(unknown), unknown);
        assert_eq!(nothing.0, 404, "{name}: {}", nothing.1);
        for theirs in [&id, &ended] {
            assert_eq!(told(&ask(theirs), theirs), nothing, "{name}");
        }
    }
    let listed = server.send_as(&foreign, "GET", "/v1/sandboxes", None).unwrap();
    assert_eq!(listed.json().unwrap()["sandboxes"], json!([]));
    let own = server
        .send("GET", &format!("/v1/sandboxes/{id}"), None)
        .unwrap()
        .json()
        .unwrap();
    assert_eq!((&own["state"], &own["executions"]), (&json!("running"), &json!(0)));
}

#[test]
fn every_route_with_a_body_refuses_one_that_is_too_large() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--max-body-bytes", "4KiB"]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    let takes_json =
        |route: &Route| body(route).is_some() || matches!(route.path, "/v1/run" | "/v1/sandboxes" | "/v1/keys");
    let native = |route: &Route| route.dialect == Dialect::Native && route.method == "POST" && takes_json(route);
    let walked: Vec<Route> = routes().into_iter().filter(native).collect();
    assert!(walked.len() >= 8, "{}", walked.len());
    for route in walked {
        let path = filled(&route, &id);
        let refused = server.send("POST", &path, Some(&" ".repeat(5_000))).unwrap();
        assert_eq!(
            (refused.status, refused.code().unwrap().as_str()),
            (413, "body_too_large"),
            "{path}"
        );
        let broken = server.send("POST", &path, Some("{")).unwrap();
        assert_eq!(
            (broken.status, broken.code().unwrap().as_str()),
            (400, "malformed_json"),
            "{path}"
        );
    }
}

/// An operator: a key with the scope `admin` that names the tenant.
#[test]
fn an_operator_sees_and_ends_sandboxes_of_a_tenant_it_names() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let key = |name: &str, scopes: &[&str]| {
        server
            .new_key(&json!({"name": "n", "tenant": name, "scopes": scopes}))
            .unwrap()
    };
    let (tenant, nosy) = (key("theirs", &["run", "read"]), key("nosy", &["run", "read"]));
    let made = server.send_as(&tenant, "POST", "/v1/sandboxes", Some("{}")).unwrap();
    let id = made.json().unwrap()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/sandboxes/{id}?tenant=theirs");
    for (method, path) in [
        ("GET", "/v1/sandboxes?tenant=theirs"),
        ("GET", &path),
        ("DELETE", &path),
    ] {
        let refused = server.send_as(&nosy, method, path, None).unwrap();
        assert_eq!(refused.status, 403, "{method} {path}: {}", refused.text());
        let nobody = server.send(method, &path.replace("theirs", "nobody"), None).unwrap();
        assert!(
            !nobody.text().contains(&id) || nobody.status == 404,
            "{}",
            nobody.text()
        );
    }
    assert_eq!(
        server.send("GET", "/v1/sandboxes?tenant=%00", None).unwrap().status,
        400
    );
    let command = |words: &[&str]| {
        let mut atoll = server.atoll();
        let url = format!("http://{}", server.api);
        atoll
            .env("ATOLL_API_KEY", &server.key)
            .args(["sandbox", "--server", &url])
            .args(words);
        atoll_tests::run_command(&mut atoll).unwrap()
    };
    assert!(!command(&["ls"]).stdout.contains(&id));
    assert!(command(&["ls", "--tenant", "theirs"]).stdout.contains(&id));
    assert!(command(&["show", &id, "--tenant", "theirs"]).stdout.contains("running"));
    let killed = command(&["kill", &id, "--tenant", "theirs"]);
    assert_eq!(
        killed.stdout,
        format!("{id} has ended: killed_by_operator\n"),
        "{killed:?}"
    );
    let told = server
        .send_as(&tenant, "GET", &format!("/v1/sandboxes/{id}"), None)
        .unwrap();
    assert_eq!(told.json().unwrap()["reason"], "killed_by_operator");
}
