//! Opening a tier for a template: what an engine is started with becomes a backend, or a wall that this host lacks.

use super::gvisor::{self, GvisorBackend};
use super::jail::{JailBackend, JailPlan, run_dir};
use super::microvm::MicrovmBackend;
use super::oci::{self, ContainerBackend, PythonStart};
use super::{Backend, TierError};
use crate::engine::{EngineConfig, Warmth};
use crate::template::{BIN, Progress, Template};
use atoll_core::{Language, Tier};
use atoll_jail::plan::{Rotation, TemplatePlan, ZygotePlan};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A tier that makes sandboxes.
pub(crate) struct Opened {
    pub(crate) backend: Arc<dyn Backend>,
    /// Whose jailer makes the sandboxes, if one does.
    pub(crate) jail: Option<Arc<JailBackend>>,
    /// Of what is inside its sandboxes.
    pub(crate) digest: String,
}

pub(crate) async fn open(
    config: EngineConfig,
    template: Option<&Template>,
    rotation: Rotation,
    progress: Arc<dyn Progress + Send>,
) -> Result<Opened, TierError> {
    match (config.tier, template) {
        (Tier::Auto | Tier::Jail, Some(template)) => open_jail(config, template, rotation).await,
        (Tier::Container, Some(template)) => open_container(config, template).await,
        (Tier::Gvisor, Some(template)) => open_gvisor(config, template).await,
        (Tier::Microvm, Some(template)) => open_microvm(config, template, progress).await,
        (Tier::Wasm, _) => open_wasm(config).await,
        (tier, _) => Err(TierError::NoWall {
            layer: tier.to_string(),
            message: format!("tier `{tier}` is not supported by this version of Atoll"),
            fix: "use tier `jail`".to_owned(),
        }),
    }
}

async fn open_jail(config: EngineConfig, template: &Template, rotation: Rotation) -> Result<Opened, TierError> {
    let zygote = zygote(template, config.warmth, rotation);
    // An image can be without Python.
    let zygote = template.programs.of(Language::Python).is_ok().then_some(zygote);
    let jail = Arc::new(JailBackend::start(plan(config, template, zygote)).await?);
    Ok(Opened {
        backend: Arc::<JailBackend>::clone(&jail),
        jail: Some(jail),
        digest: template.digest.clone(),
    })
}

async fn open_container(config: EngineConfig, template: &Template) -> Result<Opened, TierError> {
    let runtime = oci::find(config.settings.runtime)?;
    let python = PythonStart::of(template, config.warmth == Warmth::Warm);
    let home = config.home.clone();
    let container = ContainerBackend::start(plan(config, template, None), runtime, &home, python).await?;
    let jail = Arc::clone(container.jail());
    Ok(Opened {
        backend: Arc::new(container),
        jail: Some(jail),
        digest: template.digest.clone(),
    })
}

async fn open_gvisor(config: EngineConfig, template: &Template) -> Result<Opened, TierError> {
    let runsc = gvisor::find(config.settings.gvisor_min_release)?;
    // Whether one run or many: what is saved is warm.
    let python = [config.warmth == Warmth::Warm, true].map(|warm| PythonStart::of(template, warm));
    let home = config.home.clone();
    let plan = plan(config, template, None);
    let gvisor = GvisorBackend::start(plan, runsc, &home, python.into(), &template.digest).await?;
    let jail = Arc::clone(gvisor.jail());
    Ok(Opened {
        backend: Arc::new(gvisor),
        jail: Some(jail),
        digest: template.digest.clone(),
    })
}

async fn open_microvm(
    config: EngineConfig,
    template: &Template,
    progress: Arc<dyn Progress + Send>,
) -> Result<Opened, TierError> {
    // What is saved is warm: it is made once, and every sandbox has it.
    let python = PythonStart::of(template, true);
    let (home, kernel) = (config.home.clone(), config.settings.microvm_kernel.clone());
    let plan = plan(config, template, None);
    let microvm = MicrovmBackend::start(plan, &home, template, python, kernel, progress).await?;
    let jail = Arc::clone(microvm.jail());
    Ok(Opened {
        backend: Arc::new(microvm),
        jail: Some(jail),
        digest: template.digest.clone(),
    })
}

/// It brings its Python along: no template.
#[cfg(feature = "wasm")]
async fn open_wasm(config: EngineConfig) -> Result<Opened, TierError> {
    let wasm = super::wasm::WasmBackend::start(&config.home, &config.program).await?;
    Ok(Opened {
        digest: wasm.digest(),
        backend: Arc::new(wasm),
        jail: None,
    })
}

#[cfg(not(feature = "wasm"))]
async fn open_wasm(_: EngineConfig) -> Result<Opened, TierError> {
    Err(TierError::NoWall {
        layer: "wasm".to_owned(),
        message: super::host::WITHOUT_WASM.to_owned(),
        fix: "build Atoll with the cargo feature `wasm`".to_owned(),
    })
}

fn plan(config: EngineConfig, template: &Template, zygote: Option<ZygotePlan>) -> JailPlan {
    JailPlan {
        run_dir: run_dir(&config.home),
        spool: config.home.join("spool"),
        template: TemplatePlan {
            tree: template.tree.clone(),
            root: template.root.clone(),
            kernel: template.kernel.clone(),
            links: template.links.clone(),
            env: with_ours(template.env.clone()),
            zygote,
            runtime: None,
            vm: None,
            walls: config.walls,
        },
        program: config.program,
        instance: atoll_jail::new_instance_name(crate::random_bytes()),
    }
}

fn zygote(template: &Template, warmth: Warmth, rotation: Rotation) -> ZygotePlan {
    let start = "from atoll_kernel import zygote; zygote.main()";
    let argv = [template.interpreter.as_str(), "-I", "-X", "utf8", "-c", start];
    let warm = warmth == Warmth::Warm;
    let config = json!({
        "native": "/opt/atoll/kernel/libatoll_zygote.so",
        "warm": warm,
        "preload": if warm { template.preload.clone() } else { Vec::new() },
        "preload_if_it_works": if warm { template.preload_if_it_works.clone() } else { Vec::new() },
        "warm_up": if warm { template.warmup.clone().unwrap_or_default() } else { String::new() },
        "immortal": warm,
    });
    ZygotePlan {
        argv: argv.map(str::to_owned).to_vec(),
        config: config.as_object().cloned().unwrap_or_default(),
        rotation,
    }
}

/// Where polars puts what does not fit into memory, if the template names no other place.
const SPILL_DIR: (&str, &str) = ("POLARS_OOC_SPILL_DIR", "/tmp");

/// Our commands come before the template's and the machine's.
fn with_ours(mut env: BTreeMap<String, String>) -> BTreeMap<String, String> {
    if let Some(path) = env.get_mut("PATH") {
        *path = format!("{BIN}:{path}");
    }
    let (name, place) = SPILL_DIR;
    env.entry(name.to_owned()).or_insert_with(|| place.to_owned());
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_may_name_another_place_for_what_polars_spills() {
        let own = BTreeMap::from([("POLARS_OOC_SPILL_DIR".to_owned(), "/var/tmp".to_owned())]);
        assert_eq!(with_ours(own)["POLARS_OOC_SPILL_DIR"], "/var/tmp");
        let env = with_ours(BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]));
        assert_eq!(env["POLARS_OOC_SPILL_DIR"], "/tmp");
        assert_eq!(env["PATH"], format!("{BIN}:/bin"));
    }
}
