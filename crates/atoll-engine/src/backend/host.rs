//! What this host has for each tier, as far as a look can tell: nothing is started but to ask for a version.

use super::{TierSettings, gvisor, microvm, oci};
use atoll_core::Tier;
use std::collections::BTreeMap;

/// The tiers that cannot be built here as the operator wants them, with the reason. Whether the jail can is found out by
/// building one.
pub fn missing_tiers(settings: &TierSettings) -> BTreeMap<Tier, String> {
    let microvm = microvm::find_qemu()
        .and_then(|_| microvm::find_kernel(settings.microvm_kernel.as_deref()))
        .err()
        .map(|error| (Tier::Microvm, error.to_string()));
    let container = oci::find(settings.runtime).err();
    let container = container.map(|error| (Tier::Container, error.to_string()));
    let gvisor = gvisor::find(settings.gvisor_min_release).err();
    let gvisor = gvisor.map(|error| (Tier::Gvisor, error.to_string()));
    let wasm = (!cfg!(feature = "wasm")).then(|| (Tier::Wasm, WITHOUT_WASM.to_owned()));
    wasm.into_iter().chain(container).chain(gvisor).chain(microvm).collect()
}

/// What the tiers that others' programs build are built by here, by the programs' own words.
pub fn tier_programs(settings: &TierSettings) -> BTreeMap<Tier, String> {
    let container = oci::find(settings.runtime).ok();
    let container = container.map(|found| (Tier::Container, found.words()));
    let gvisor = gvisor::find(settings.gvisor_min_release).ok();
    let gvisor = gvisor.map(|found| (Tier::Gvisor, found.words()));
    container.into_iter().chain(gvisor).collect()
}

pub(super) const WITHOUT_WASM: &str = "this Atoll was built without it";
