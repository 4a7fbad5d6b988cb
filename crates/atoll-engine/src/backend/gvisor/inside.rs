//! What gVisor's kernel says of a context, read by the agent inside. Not the wall's word, but the only one from there.

use crate::backend::agent::Agent;
use crate::backend::context::read_piece;
use crate::backend::descriptors::watch;
use crate::backend::{Layers, TierError};
use atoll_core::wire::agent::{Answer, Ask};
use atoll_jail::plan::Layer;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Of one file in `/proc`.
const MOST_BYTES: usize = 64 << 10;
const CAPABILITIES: [&str; 4] = ["CapInh", "CapPrm", "CapEff", "CapBnd"];

/// Adds what is read back of the context with this number inside. A wall that is not up there is an error.
pub(super) async fn inspect(
    agent: &Agent,
    pid: u32,
    required: &BTreeSet<Layer>,
    layers: &mut Layers,
) -> Result<(), TierError> {
    let kernel = read(agent, "/proc/version").await?;
    let status = read(agent, &format!("/proc/{pid}/status")).await?;
    let inside = facts(kernel.trim(), &status);
    let host = layers.get("kernel").and_then(Value::as_str).unwrap_or_default();
    check(&inside, host, required)?;
    layers.insert("inside".to_owned(), Value::Object(inside));
    Ok(())
}

fn facts(kernel: &str, status: &str) -> Map<String, Value> {
    let none = CAPABILITIES
        .iter()
        .all(|set| field(status, set).is_some_and(|bits| bits.bytes().all(|bit| bit == b'0')));
    let capabilities = if none { Some("none") } else { field(status, "CapEff") };
    let uid = field(status, "Uid").and_then(|ids| ids.split_whitespace().next());
    [
        ("kernel", json!(kernel)),
        ("uid", json!(uid)),
        ("capabilities", json!(capabilities)),
        ("seccomp", json!(field(status, "Seccomp"))),
    ]
    .map(|(name, fact)| (name.to_owned(), fact))
    .into_iter()
    .collect()
}

/// Whose kernel it is comes first: if it were the host's, nothing else would count.
fn check(inside: &Map<String, Value>, host: &str, required: &BTreeSet<Layer>) -> Result<(), TierError> {
    let is_own = inside["kernel"]
        .as_str()
        .is_some_and(|kernel| !kernel.is_empty() && !host.is_empty() && !kernel.contains(host));
    let walls = [
        (Layer::Ids, inside["uid"] == "1000"),
        (Layer::Capabilities, inside["capabilities"] == "none"),
        (Layer::Seccomp, inside["seccomp"] == "2"),
    ];
    let missing = walls
        .into_iter()
        .find(|(layer, is_up)| !is_up && required.contains(layer));
    let missing = match is_own {
        true => missing.map(|(layer, _)| layer.as_str()),
        false => Some("gvisor"),
    };
    match missing {
        None => Ok(()),
        Some(layer) => Err(TierError::NoWall {
            layer: layer.to_owned(),
            message: format!(
                "required layer `{layer}` is not active inside the sandbox, which reports {}",
                json!(inside)
            ),
            fix: "install another release of runsc, or use tier `jail`".to_owned(),
        }),
    }
}

async fn read(agent: &Agent, path: &str) -> Result<String, TierError> {
    let path = path.to_owned();
    let (Answer::File { .. }, fds) = agent.ask_once(Ask::Read { path }).await? else {
        return Err(TierError::Agent);
    };
    let file = watch(fds.into_iter().next().ok_or(TierError::Agent)?)?;
    let mut text = Vec::new();
    while let Some(piece) = read_piece(Some(&file)).await {
        text.extend(piece);
        if text.len() > MOST_BYTES {
            return Err(TierError::Agent);
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tpython3\nUid:\t1000\t1000\t1000\t1000\nCapInh:\t0000\nCapPrm:\t0000\nCapEff:\t0000\n\
                          CapBnd:\t0000\nSeccomp:\t2\n";

    fn missing(kernel: &str, status: &str) -> Option<String> {
        let required = Layer::ALL.into_iter().collect();
        match check(&facts(kernel, status), "6.18.5", &required) {
            Ok(()) => None,
            Err(TierError::NoWall { layer, .. }) => Some(layer),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn each_wall_inside_is_missed_when_it_is_not_up() {
        let gvisor = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016";
        assert_eq!(missing(gvisor, STATUS), None);
        let broken = [
            ("Linux version 6.18.5 (host)", STATUS.to_owned(), "gvisor"),
            ("", STATUS.to_owned(), "gvisor"),
            (gvisor, STATUS.replace("1000", "0"), "ids"),
            (gvisor, STATUS.replace("CapBnd:\t0000", "CapBnd:\t00c0"), "capabilities"),
            (gvisor, STATUS.replace("Seccomp:\t2", "Seccomp:\t0"), "seccomp"),
        ];
        for (kernel, status, layer) in broken {
            assert_eq!(missing(kernel, &status).as_deref(), Some(layer));
        }
        let off = facts(gvisor, &STATUS.replace("Seccomp:\t2", "Seccomp:\t0"));
        assert!(
            check(&off, "6.18.5", &BTreeSet::new()).is_ok(),
            "a control that nobody requires"
        );
    }
}
