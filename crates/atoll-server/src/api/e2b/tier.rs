//! The tier that a client of E2B asks for. E2B's API has no field for it, so it is in the metadata of the sandbox.

use super::connect::invalid;
use crate::api::{ApiError, ErrorCode};
use atoll_core::Tier;
use std::collections::BTreeMap;

const KEY: &str = "atoll.tier";

/// `None` if the metadata names no tier. A sandbox of a snapshot has the snapshot's.
pub(super) fn of(metadata: &BTreeMap<String, String>, snapshot: Option<Tier>) -> Result<Option<Tier>, ApiError> {
    let Some(name) = metadata.get(KEY) else {
        return Ok(None);
    };
    let tier = name
        .parse::<Tier>()
        .map_err(|unknown| invalid(format!("metadata `{KEY}`: {unknown}")))?;
    match snapshot {
        _ if tier == Tier::Wasm => Err(invalid(format!(
            "metadata `{KEY}`: the tier `wasm` has no commands and no terminals, and is available in the native API only"
        ))),
        Some(saved) if tier != Tier::Auto && tier != saved => Err(invalid(format!(
            "metadata `{KEY}` requests the tier `{tier}`, but the snapshot was made in the tier `{saved}`; leave it out"
        ))),
        Some(_) | None => Ok(Some(tier)),
    }
}

/// Says how these clients get a tier that can do what was refused.
pub(super) fn explain(error: ApiError) -> ApiError {
    if error.code() == ErrorCode::NotInTier {
        error.hint(format!(
            "create the sandbox with the metadata `{KEY}` = `gvisor` or `microvm`"
        ))
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(name: &str, snapshot: Option<Tier>) -> Result<Option<Tier>, ApiError> {
        of(&BTreeMap::from([(KEY.to_owned(), name.to_owned())]), snapshot)
    }

    #[test]
    fn a_tier_is_read_from_the_metadata() {
        assert_eq!(of(&BTreeMap::new(), None).unwrap(), None);
        assert_eq!(tier("gvisor", None).unwrap(), Some(Tier::Gvisor));
        assert_eq!(tier("auto", None).unwrap(), Some(Tier::Auto));
        for name in ["moat", "", "GVISOR"] {
            let refused = tier(name, None).unwrap_err();
            assert!(refused.message().contains("atoll.tier") && refused.message().contains("gvisor"));
        }
        assert!(tier("wasm", None).unwrap_err().message().contains("native API"));
    }

    #[test]
    fn a_snapshot_keeps_its_tier() {
        for name in ["gvisor", "auto"] {
            assert!(tier(name, Some(Tier::Gvisor)).is_ok(), "{name}");
        }
        let refused = tier("jail", Some(Tier::Gvisor)).unwrap_err();
        assert!(refused.message().contains("`jail`") && refused.message().contains("`gvisor`"));
    }

    #[test]
    fn only_a_refusal_for_the_tier_is_explained() {
        let refused = |code| explain(ApiError::new(code, "x"));
        let told = refused(ErrorCode::NotInTier);
        assert!(
            told.hint_text()
                .is_some_and(|hint| hint.contains("`atoll.tier` = `gvisor`"))
        );
        assert_eq!(refused(ErrorCode::Conflict).hint_text(), None);
    }
}
