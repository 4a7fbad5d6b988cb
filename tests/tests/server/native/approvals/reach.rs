//! How far an answer reaches, and who may give it.

use super::*;

#[test]
fn only_another_key_with_the_scope_and_of_the_tenant_may_answer() {
    let world = World::new(&[]);
    let running = world.run(None, ASKS);
    let id = world.pending_id();
    let yes = json!({"scope": "once"});
    // Who asks is an operator, and may not all the same.
    let own = world.answer_as(&world.server.key, &id, "approve", &yes);
    assert_eq!(
        (own.status, own.code().unwrap().as_str()),
        (403, "forbidden"),
        "{}",
        own.text()
    );
    let lesser = world
        .server
        .new_key(&json!({"name": "n", "scopes": ["run", "read"]}))
        .unwrap();
    let refused = world.answer_as(&lesser, &id, "approve", &yes);
    assert_eq!(
        (refused.status, refused.code().unwrap().as_str()),
        (403, "scope_missing")
    );
    let key = |scopes: Value| {
        world
            .server
            .new_key(&json!({"name": "n", "tenant": "other", "scopes": scopes}))
            .unwrap()
    };
    let (foreign, operator) = (key(json!(["run", "read", "approve"])), key(json!(["read", "admin"])));
    for key in [&foreign, &operator] {
        for (verb, body) in [("approve", &yes), ("deny", &json!({})), ("revoke", &json!(null))] {
            assert_eq!(world.answer_as(key, &id, verb, body).status, 404, "{verb}");
        }
        let list = world.server.send_as(key, "GET", "/v1/approvals", None).unwrap();
        assert_eq!(list.json().unwrap()["approvals"], json!([]));
    }
    let nosy = world
        .server
        .send_as(&foreign, "GET", "/v1/approvals?tenant=default", None)
        .unwrap();
    assert_eq!(nosy.status, 403);
    assert_eq!(world.status(&id), "pending");
    // An operator names the tenant.
    let path = format!("/v1/approvals/{id}/approve?tenant=default");
    let answer = world
        .server
        .send_as(&operator, "POST", &path, Some(&yes.to_string()))
        .unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(ran(&running.join().unwrap().unwrap()));
    for bad in [json!({}), json!({"scope": "ever"}), json!({"scope": "once", "x": 1})] {
        assert_eq!(world.answer(&id, "approve", &bad).status, 400);
    }
}

#[test]
fn a_session_remembers_rules_and_a_digest_remembers_code() {
    let world = World::new(&[]);
    let [one, other] = [(); 2].map(|()| world.server.sandbox(&json!({})).unwrap());
    let run = |sandbox: &str, code: &str| {
        let path = format!("/v1/sandboxes/{sandbox}/run");
        let answer = world.server.json("POST", &path, &json!({"code": code})).unwrap();
        answer.json().unwrap()
    };
    let (session, answer) = world.run_approved(Some(&one), ASKS, "session");
    assert!(ran(&answer));
    // Other code, the same rule.
    assert!(ran(&run(
        &one,
        "import subprocess\nsubprocess.run(['true'])\nprint('ran')"
    )));
    // Another rule, and another sandbox.
    let (digest, answer) = world.run_approved(Some(&one), ASKS_OTHERWISE, "digest");
    assert!(ran(&answer));
    let (_, answer) = world.run_approved(Some(&other), ASKS, "once");
    assert!(ran(&answer));
    // The same code in any sandbox of the tenant, and again.
    assert!(ran(&run(&other, ASKS_OTHERWISE)) && ran(&run(&one, ASKS_OTHERWISE)));
    let listed = world.get("/v1/approvals?status=approved");
    let scopes: Vec<&str> = listed["approvals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["answer"]["scope"].as_str().unwrap())
        .collect();
    assert_eq!(scopes, ["once", "digest", "session"]);
    // Not after it was taken back.
    for (id, sandbox, code) in [(digest, &other, ASKS_OTHERWISE), (session, &one, ASKS)] {
        let revoked = world
            .server
            .send_as(&world.approver, "POST", &format!("/v1/approvals/{id}/revoke"), None)
            .unwrap();
        assert_eq!(
            (revoked.status, &revoked.json().unwrap()["status"]),
            (200, &json!("revoked"))
        );
        let (_, answer) = world.run_approved(Some(sandbox), code, "once");
        assert!(ran(&answer));
        let again = world
            .server
            .send_as(&world.approver, "POST", &format!("/v1/approvals/{id}/revoke"), None)
            .unwrap();
        assert_eq!(again.status, 409);
    }
}

#[test]
fn what_was_approved_for_a_digest_outlives_the_server_and_covers_its_rules_only() {
    let world = World::new(&[]);
    let (_, answer) = world.run_approved(None, ASKS, "digest");
    assert!(ran(&answer));
    let World { mut server, home, .. } = world;
    server.signal(Signal::TERM).unwrap();
    server.wait().unwrap();
    let key = server.key.clone();
    drop(server);
    let server = start(home.path(), &[]);
    let call = |policy: Value| {
        let body = json!({"code": ASKS, "policy": policy}).to_string();
        server
            .send_as(&key, "POST", "/v1/run", Some(&body))
            .unwrap()
            .json()
            .unwrap()
    };
    assert!(ran(&call(Value::Null)));
    // A call that asks about more than what was approved, or denies, is not covered.
    assert_eq!(
        call(json!({"inherit": "guarded", "code": {"rules": {"process": "deny"}}}))["outcome"],
        "denied"
    );
}

/// Who has the token of a sandbox asks in the name of its maker: it cannot answer what it has asked itself.
#[test]
fn who_was_given_a_sandboxs_token_cannot_answer_what_is_asked_there() -> Result<()> {
    let world = World::new(&[]);
    let (both, _) = key_of(&world.server, "default", &["--scope", "run,read,approve"])?;
    let sandbox = create(&world.server, &world.server.key, json!({}))?;
    let path = format!("/sandboxes/{}/connect", sandbox.id);
    let answer = world.server.send_as(&both, "POST", &path, Some(r#"{"timeout":60}"#))?;
    ensure!(answer.status < 300, "{}", answer.text());
    let running = world.run(Some(&sandbox.id), ASKS);
    let id = world.pending_id();
    let answer = world.answer_as(&both, &id, "approve", &json!({"scope": "once"}));
    ensure!(answer.status == 403, "{}", answer.text());
    world.approve(&id, "once");
    ensure!(ran(&running.join().ok().context("no answer")??));
    Ok(())
}

#[test]
fn a_digest_holds_for_the_same_variables_only() -> Result<()> {
    let world = World::new(&[]);
    let code = "import os\nos.system(os.environ['CMD'])\nprint('ran')";
    let with = |command: &str| json!({"code": code, "env": {"CMD": command}}).to_string();
    let ask = |body: String| {
        let request = request(&world.server, &world.server.key, "/v1/run", &body);
        let api = world.server.api;
        std::thread::spawn(move || {
            let mut connection = connect(api)?;
            connection.write_all(request.as_bytes())?;
            Answer::read(&mut connection)?.json()
        })
    };
    let first = ask(with("true"));
    let question = world.pending();
    let id = question["id"].as_str().context("no id")?.to_owned();
    let shown = world.get(&format!("/v1/approvals/{id}"));
    ensure!(shown["env"] == json!({"CMD": "true"}), "{shown}");
    world.approve(&id, "digest");
    ensure!(ran(&first.join().ok().context("no answer")??));
    ensure!(ran(&ask(with("true")).join().ok().context("no answer")??));
    let other = ask(with("echo other"));
    let id = world.pending_id();
    ensure!(world.answer(&id, "deny", &json!({})).status == 200);
    ensure!(!ran(&other.join().ok().context("no answer")??));
    Ok(())
}

#[test]
fn keys_of_another_tenant_do_not_see_that_a_question_is_there() -> Result<()> {
    let world = World::new(&[]);
    let (theirs, _) = key_of(&world.server, "theirs", &["--scope", "run,read,approve"])?;
    let running = world.run(None, ASKS);
    let (id, unknown) = (world.pending_id(), "apr_aaaaaaaaaaaaaaaaaaaaaaaaaa");
    let routes = atoll_server::api::routes();
    let walked: Vec<_> = routes
        .iter()
        .filter(|route| route.path.starts_with("/v1/approvals/{id}"))
        .collect();
    ensure!(walked.len() >= 4, "{}", walked.len());
    for route in walked {
        let body = route.path.ends_with("approve").then_some(r#"{"scope":"once"}"#);
        let body = body.or(route.path.ends_with("deny").then_some("{}"));
        let ask = |id: &str| {
            let path = route.path.replace("{id}", id).replace("/files", "/files?path=x");
            let answer = world.server.send_as(&theirs, route.method.as_str(), &path, body)?;
            anyhow::Ok((answer.status, answer.text().replace(id, "ID")))
        };
        let nothing = ask(unknown)?;
        ensure!(nothing.0 == 404 && ask(&id)? == nothing, "{} {nothing:?}", route.path);
    }
    world.approve(&id, "once");
    ensure!(ran(&running.join().ok().context("no answer")??));
    Ok(())
}
