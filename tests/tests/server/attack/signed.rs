//! Signed addresses: whatever part of one is changed, it opens nothing.

use atoll_tests::e2b::{Sandbox, create};
use atoll_tests::server::Server;
use base64::Engine as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// As E2B's clients make it.
fn sign(token: &str, path: &str, operation: &str, user: &str, expiration: Option<u64>) -> String {
    let expiration = expiration.map_or(String::new(), |at| format!(":{at}"));
    let raw = format!("{path}:{operation}:{user}:{token}{expiration}");
    let hash = Sha256::digest(raw.as_bytes());
    format!("v1_{}", base64::engine::general_purpose::STANDARD_NO_PAD.encode(hash))
}

fn address(path: &str, user: &str, signature: &str, expiration: Option<u64>) -> String {
    let signature = signature.replace('+', "%2B").replace('/', "%2F");
    let expiration = expiration.map_or(String::new(), |at| format!("&signature_expiration={at}"));
    format!("/files?path={path}&username={user}&signature={signature}{expiration}")
}

#[test]
fn a_changed_address_opens_nothing() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    let other = create(&server, &server.key, json!({})).unwrap();
    sandbox
        .run(
            &server,
            "open('/tmp/a','w').write('open'); open('/tmp/b','w').write('shut')",
        )
        .unwrap();
    let later = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs()
        + 600;
    let good = sign(&sandbox.token, "/tmp/a", "read", "user", Some(later));
    let get = |who: &Sandbox, address: &str| {
        let bare = Sandbox {
            token: String::new(),
            ..who.clone()
        };
        bare.send(&server, "GET", address, b"").unwrap()
    };
    let fine = get(&sandbox, &address("/tmp/a", "user", &good, Some(later)));
    assert!(fine.status == 200 && fine.body.contains("open"), "{fine:?}");
    let past = sign(&sandbox.token, "/tmp/a", "read", "user", Some(1));
    let written = sign(&sandbox.token, "/tmp/a", "write", "user", Some(later));
    let changed = [
        ("another path", address("/tmp/b", "user", &good, Some(later))),
        ("another user", address("/tmp/a", "root", &good, Some(later))),
        ("another time", address("/tmp/a", "user", &good, Some(later + 1))),
        ("no time", address("/tmp/a", "user", &good, None)),
        ("a time that is over", address("/tmp/a", "user", &past, Some(1))),
        ("another operation", address("/tmp/a", "user", &written, Some(later))),
        (
            "another version",
            address("/tmp/a", "user", &good.replace("v1_", "v0_"), Some(later)),
        ),
        ("no signature", address("/tmp/a", "user", "", Some(later))),
        ("half of one", address("/tmp/a", "user", &good[..20], Some(later))),
    ];
    for (what, address) in changed {
        let refused = get(&sandbox, &address);
        assert!(
            refused.status == 401 && !refused.body.contains("open"),
            "{what}: {refused:?}"
        );
        assert!(!refused.body.contains("shut"), "{what}: {refused:?}");
    }
    let elsewhere = get(&other, &address("/tmp/a", "user", &good, Some(later)));
    assert_eq!(elsewhere.status, 401, "another sandbox: {elsewhere:?}");
    let upload = Sandbox {
        token: String::new(),
        ..sandbox.clone()
    };
    let upload = upload
        .send(&server, "POST", &address("/tmp/a", "user", &good, Some(later)), b"x")
        .unwrap();
    assert_eq!(upload.status, 401, "reading is not writing: {upload:?}");
    server
        .send("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
        .unwrap();
    let after = get(&sandbox, &address("/tmp/a", "user", &good, Some(later)));
    assert!(
        after.status >= 400 && !after.body.contains("open"),
        "after its end: {after:?}"
    );
}
