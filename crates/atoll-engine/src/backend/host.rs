//! What this host has for each tier, as far as a look can tell: nothing is started but to ask for a version.

use super::{TierError, TierSettings, gvisor, microvm, oci};
use crate::routing::ORDER;
use atoll_core::Tier;
use atoll_jail::jailer::runtime_ids;
use atoll_jail::plan::RuntimeKind;
use std::collections::BTreeMap;

/// The tiers that cannot be built here as the operator wants them, with the reason; of those that count, because asking
/// programs for their version takes its time. Whether the jail can be built is found out by building one.
pub fn missing_tiers(settings: &TierSettings, counts: impl Fn(Tier) -> bool) -> BTreeMap<Tier, String> {
    let looked_at = ORDER.into_iter().filter(|tier| counts(*tier));
    looked_at
        .filter_map(|tier| Some((tier, why_missing(settings, tier)?)))
        .collect()
}

fn why_missing(settings: &TierSettings, tier: Tier) -> Option<String> {
    look(settings, tier).err().map(|error| match error {
        TierError::NoWall { message, .. } => message,
        other => other.to_string(),
    })
}

/// Whether this host has the programs that the tier is built by, and this user the IDs that they need.
pub fn look(settings: &TierSettings, tier: Tier) -> Result<(), TierError> {
    match tier {
        Tier::Wasm if cfg!(feature = "wasm") => Ok(()),
        Tier::Wasm => Err(TierError::NoWall {
            layer: "wasm".to_owned(),
            message: WITHOUT_WASM.to_owned(),
            fix: "build Atoll with the cargo feature `wasm`".to_owned(),
        }),
        Tier::Jail | Tier::Auto => Ok(()),
        Tier::Container => {
            let runtime = oci::find(settings.runtime)?;
            runtime_ids(runtime.kind).map_err(TierError::from)
        }
        Tier::Gvisor => {
            // Before the program is looked for: installing it would not help an ordinary user.
            runtime_ids(RuntimeKind::Runsc)?;
            gvisor::find(settings.gvisor_min_release).map(drop)
        }
        Tier::Microvm => {
            let kernel = settings.microvm_kernel.as_deref();
            microvm::find_qemu()
                .and_then(|_| microvm::find_kernel(kernel))
                .map(drop)
        }
    }
}

/// What the tiers that others' programs build are built by here, by the programs' own words.
pub fn tier_programs(settings: &TierSettings) -> BTreeMap<Tier, String> {
    let container = oci::find(settings.runtime).ok();
    let container = container.map(|found| (Tier::Container, found.words()));
    let gvisor = gvisor::find(settings.gvisor_min_release).ok();
    let gvisor = gvisor.map(|found| (Tier::Gvisor, found.words()));
    container.into_iter().chain(gvisor).collect()
}

pub(super) const WITHOUT_WASM: &str = "this build of Atoll does not include the wasm tier";
