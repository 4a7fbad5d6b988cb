//! What `atoll doctor` says of the tier `wasm`: whether this binary has it, and whether its Python is made.

use super::{LayerReport, TierReport};
use std::path::Path;

#[cfg(feature = "wasm")]
pub(super) fn report(home: &Path) -> TierReport {
    let runtime = LayerReport {
        name: "runtime".to_owned(),
        available: true,
        required: true,
        detail: format!("wasmtime {}, built in", atoll_wasm::WASMTIME),
        fix: None,
    };
    let component = component(home);
    // A component that is absent or was modified is built when it is needed.
    TierReport {
        tier: "wasm",
        available: true,
        layers: vec![runtime, component],
        weaker: vec!["memory and CPU time are limited by the runtime, not by cgroups".to_owned()],
        fix: None,
    }
}

#[cfg(feature = "wasm")]
fn component(home: &Path) -> LayerReport {
    let (available, detail) = match atoll_wasm::component::open(home) {
        Ok(checked) => (
            true,
            format!("Python component built and verified: sha256:{}", checked.digest),
        ),
        Err(error) => (false, error.to_string()),
    };
    let build = "run `atoll run --tier wasm -c 1`; the first run builds it in about a minute";
    LayerReport {
        name: "component".to_owned(),
        available,
        required: false,
        detail,
        fix: (!available).then(|| build.to_owned()),
    }
}

#[cfg(not(feature = "wasm"))]
pub(super) fn report(_: &Path) -> TierReport {
    TierReport {
        tier: "wasm",
        available: false,
        layers: Vec::new(),
        weaker: Vec::new(),
        fix: Some("this binary was built without the wasm tier; rebuild it with the cargo feature `wasm`".to_owned()),
    }
}
