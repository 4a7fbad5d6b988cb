//! Making a sandbox as E2B's clients ask for it. What we cannot honour is refused, not ignored.

use super::E2b;
use super::connect::invalid;
use super::control::{DEFAULT_TIMEOUT, OLD_TIMEOUT, read};
use super::reach::Reach;
use super::tier;
use crate::api::object::Object;
use crate::api::{ApiError, AppState};
use crate::auth::Caller;
use crate::sandboxes::Wish;
use atoll_core::Limits;
use atoll_core::quantity::{CpuTimeMillis, MIB, OutputBytes, WallMillis};
use atoll_engine::Secrets;
use atoll_engine::session::Rule;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// As long as a name of a host may be.
const LONGEST_HOST: usize = 255;
/// Of each of stdout and stderr of one execution, and of its results. Its clients cannot ask for more than the profile has.
const TEXT_OUTPUT: OutputBytes = OutputBytes::known(16 * MIB);
const RICH_OUTPUT: OutputBytes = OutputBytes::known(50 * MIB);

/// What clients send. Fields that are not here are of no meaning here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CreateCall {
    #[serde(rename = "templateID")]
    template_id: String,
    timeout: Option<u64>,
    metadata: Option<BTreeMap<String, String>>,
    env_vars: Option<BTreeMap<String, String>>,
    auto_pause: Option<bool>,
    auto_pause_memory: Option<bool>,
    auto_resume: Option<Object<AutoResume>>,
    volume_mounts: Says,
    mcp: Option<IgnoredAny>,
    iam: Option<Object<Iam>>,
    #[serde(rename = "allow_internet_access")]
    allow_internet_access: Option<bool>,
    network: Option<Object<Network>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Iam {
    tokens: Says,
}

/// What may leave a sandbox, and how it is reached.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Network {
    allow_out: Says,
    egress_proxy: Says,
    rules: Says,
    https_ports: Says,
    #[serde(rename = "allow_internet_access")]
    allow_internet_access: Option<bool>,
    allow_public_traffic: Option<bool>,
    mask_request_host: Option<String>,
}

impl Network {
    /// Nothing leaves a sandbox; asking for some of it, with rules, would be a promise we do not keep.
    pub(super) fn opens(&self) -> bool {
        self.allow_out.0 || self.egress_proxy.0 || self.rules.0 || self.allow_internet_access == Some(true)
    }
}

/// Whether a field says anything: neither null nor empty. What it says is not kept.
#[derive(Debug, Default)]
struct Says(bool);

impl<'de> Deserialize<'de> for Says {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let empty = |pair: [&str; 2]| {
            let inner = json
                .get()
                .strip_prefix(pair[0])
                .and_then(|rest| rest.strip_suffix(pair[1]));
            inner.is_some_and(|inner| inner.trim().is_empty())
        };
        Ok(Self(json.get() != "null" && !empty(["[", "]"]) && !empty(["{", "}"])))
    }
}

/// Older clients say `policy`.
#[derive(Debug, Deserialize)]
struct AutoResume {
    enabled: Option<bool>,
    policy: Option<String>,
}

impl AutoResume {
    fn is_on(&self) -> bool {
        self.enabled
            .unwrap_or_else(|| self.policy.as_deref().is_some_and(|policy| policy != "off"))
    }
}

pub(super) async fn create_v2(
    State(state): State<AppState>,
    caller: Caller,
    body: Bytes,
) -> Result<Response, ApiError> {
    create(&state.e2b, &caller, read(&body)?, DEFAULT_TIMEOUT).await
}

/// Clients of this version ask for the internet in every call, whoever uses them; that is no wish, and `info` says what is.
pub(super) async fn create_v1(
    State(state): State<AppState>,
    caller: Caller,
    body: Bytes,
) -> Result<Response, ApiError> {
    let mut call: CreateCall = read(&body)?;
    call.allow_internet_access = None;
    create(&state.e2b, &caller, call, OLD_TIMEOUT).await
}

async fn create(e2b: &E2b, caller: &Caller, call: CreateCall, timeout: u64) -> Result<Response, ApiError> {
    refuse_what_is_not_there(&call)?;
    let reach = reach(&call)?;
    let timeout = call.timeout.unwrap_or(timeout);
    let snapshot = e2b.sandboxes.find_snapshot(caller, &call.template_id);
    let metadata = call.metadata.unwrap_or_default();
    let wish = Wish {
        tier: tier::of(&metadata, snapshot.as_ref().map(|snapshot| snapshot.tier))?,
        code: None,
        template: template(&call.template_id),
        limits: limits(e2b.limits),
        env: call.env_vars.unwrap_or_default(),
        secrets: Secrets::default(),
        metadata,
        rule: Rule::For(e2b.bounded(timeout)?),
        longest: None,
        pause_at_end: call.auto_pause.unwrap_or(false),
        inputs: Vec::new(),
        max_executions: None,
        once: false,
        dry_run: false,
        policy: None,
        marks: reach.marks(),
        snapshot,
    };
    let made = e2b.sandboxes.create(caller, wish).await?;
    e2b.reach
        .set(made.session.id(), reach, |id| e2b.sandboxes.by_id(id).is_some());
    let mut response = (StatusCode::CREATED, Json(e2b.sandbox(&made.session))).into_response();
    if let Some(rate) = made.rate {
        rate.write(response.headers_mut());
    }
    Ok(response)
}

fn refuse_what_is_not_there(call: &CreateCall) -> Result<(), ApiError> {
    let refused = |what: &str| Err(invalid(format!("{what} not supported by this server")));
    if call.volume_mounts.0 {
        return refused("volumes are");
    }
    if call.mcp.is_some() {
        return refused("Failed to start MCP gateway: MCP is");
    }
    if call.iam.as_ref().is_some_and(|iam| iam.0.tokens.0) {
        return refused("identity tokens are");
    }
    if call.auto_pause_memory == Some(false) && call.auto_pause == Some(true) {
        return refused("pausing without memory is");
    }
    if call.network.as_ref().is_some_and(|network| network.0.opens()) {
        return refused("network access to selected hosts is");
    }
    if call.network.as_ref().is_some_and(|network| network.0.https_ports.0) {
        return refused("HTTPS to a server in the sandbox is");
    }
    if call.allow_internet_access == Some(true) {
        return refused("internet access (`allow_internet_access`) is");
    }
    Ok(())
}

/// How it may be reached from outside.
fn reach(call: &CreateCall) -> Result<Reach, ApiError> {
    let network = call.network.as_ref().map(|network| &network.0);
    let host = network.and_then(|network| network.mask_request_host.as_deref());
    Ok(Reach {
        public: network.and_then(|network| network.allow_public_traffic).unwrap_or(true),
        host: host.map(checked_host).transpose()?,
        wakes: call.auto_resume.as_ref().is_some_and(|resume| resume.0.is_on()),
    })
}

fn checked_host(text: &str) -> Result<String, ApiError> {
    match (1..=LONGEST_HOST).contains(&text.len()) && HeaderValue::from_str(text).is_ok() {
        true => Ok(text.to_owned()),
        false => Err(invalid("`maskRequestHost` is not a valid host name")),
    }
}

/// Both of E2B's standard names mean ours.
pub(super) fn template(name: &str) -> Option<String> {
    match name {
        "" | "base" | "code-interpreter-v1" => None,
        other => Some(other.to_owned()),
    }
}

/// Here a client limits its own executions: it goes away, and the code is interrupted. The sandbox's life is the bound.
fn limits(profile: Limits) -> Limits {
    Limits {
        wall: WallMillis::MAX,
        cpu_time: CpuTimeMillis::MAX,
        text_output: profile.text_output.max(TEXT_OUTPUT),
        rich_output: profile.rich_output.max(RICH_OUTPUT),
        ..profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn call(body: &Value) -> CreateCall {
        read(body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn what_cannot_be_had_is_refused_and_empty_wishes_are_none() {
        for body in [
            json!({"network": {"allowOut": ["1.1.1.1"]}}),
            json!({"network": {"egressProxy": {"address": "p:1"}}}),
            json!({"network": {"rules": {"a.b": []}}}),
            json!({"network": {"httpsPorts": [8443]}}),
            json!({"autoPause": true, "autoPauseMemory": false}),
            json!({"iam": {"tokens": {"a": {}}}}),
            json!({"volumeMounts": [{}]}),
            json!({"mcp": {}}),
        ] {
            assert!(refuse_what_is_not_there(&call(&body)).is_err(), "{body}");
        }
        let nothing = json!({"network": {"allowOut": [], "denyOut": ["0.0.0.0/0"], "rules": {}, "egressProxy": null},
            "autoPause": true, "autoPauseMemory": true, "iam": {"tokens": {}}, "mcp": null});
        assert!(refuse_what_is_not_there(&call(&nothing)).is_ok());
    }

    #[test]
    fn every_profile_has_the_output_that_these_clients_are_promised() {
        for profile in [Limits::SMALL, Limits::DATA] {
            let limits = limits(profile);
            let output = (limits.text_output.get(), limits.rich_output.get());
            assert_eq!(output, (16 * MIB, 50 * MIB));
            assert_eq!((limits.memory, limits.scratch), (profile.memory, profile.scratch));
        }
        let more = OutputBytes::known(100 * MIB);
        let roomy = Limits {
            text_output: more,
            ..Limits::SMALL
        };
        assert_eq!(limits(roomy).text_output, more);
    }

    #[test]
    fn how_it_is_reached_is_read_from_both_generations_of_clients() {
        let wakes = |resume: Value| reach(&call(&json!({"autoResume": resume}))).unwrap().wakes;
        assert!(wakes(json!({"enabled": true})) && wakes(json!({"policy": "any"})));
        assert!(!wakes(json!({"enabled": false})) && !wakes(json!({"policy": "off"})) && !wakes(Value::Null));
        let network = json!({"network": {"allowPublicTraffic": false, "maskRequestHost": "a.b:${PORT}"}});
        let found = reach(&call(&network)).unwrap();
        assert_eq!((found.public, found.host.as_deref()), (false, Some("a.b:${PORT}")));
        assert!(reach(&call(&json!({}))).unwrap().public);
        for bad in ["a\nb", "", &"a".repeat(256)] {
            assert!(reach(&call(&json!({"network": {"maskRequestHost": bad}}))).is_err());
        }
        assert!(read::<CreateCall>(br#"{"network": {"allowPublicTraffic": "no"}}"#).is_err());
    }
}
