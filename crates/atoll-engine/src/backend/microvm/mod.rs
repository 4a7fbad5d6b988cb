//! The `microvm` tier: each sandbox in a guest with a kernel of its own, on QEMU.
//!
//! The jailer runs QEMU without powers, in the sandbox's namespaces; the guest makes the sandbox with all the walls of the
//! jail. A guest is booted once per template and size, warmed, and saved; every sandbox is brought back from that, with
//! memory that is its own where it writes. Where the processor cannot be trusted with a guest, QEMU runs it in software:
//! that works, is slow, and is no wall.

mod accelerator;
mod control;
mod cpio;
mod first_use;
mod image;
mod initramfs;
mod kept;
mod kernel;
mod live;
mod machine;
mod memory;
mod monitor;
mod qemu;
mod strip;
mod wall;

use super::jail::{JailBackend, JailPlan};
use super::oci::PythonStart;
use super::{Back, Backend, Files, Fresh, Later, Made, Saved as LiveSaved, TierError};
use crate::lock::lock;
use crate::template::{Progress, Template};
use atoll_core::Tier;
use atoll_jail::plan::{Accelerator, TemplatePlan, VmPlan};
use first_use::FirstUse;
use image::Images;
use kernel::Kernel;
use machine::Saved;
use qemu::Qemu;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::OnceCell;

/// What this host has for guests, for people and for whoever chooses a tier.
#[derive(Clone, Debug)]
pub struct MicrovmHost {
    pub qemu: String,
    pub kernel: String,
    /// Why guests run in software, which is no wall; absent where the processor runs them.
    pub emulated: Option<String>,
}

/// Looks, and probes the processor once per boot.
pub fn microvm_host(home: &Path, program: &Path, named_kernel: Option<&Path>) -> Result<MicrovmHost, TierError> {
    let (qemu, kernel) = (qemu::find()?, kernel::find(named_kernel)?);
    let verdict = accelerator::verdict(home, program);
    Ok(MicrovmHost {
        qemu: qemu.version,
        kernel: kernel.release,
        emulated: (!verdict.usable).then_some(verdict.reason),
    })
}

pub(super) use kernel::find as find_kernel;
pub(super) use qemu::find as find_qemu;

/// Memory of the smallest guest's sandbox; larger ones have twice as much, and again.
const SMALLEST: u64 = 512 << 20;
/// What a guest needs besides its sandbox: the kernel, the agent, and pages of the images.
const GUEST_BYTES: u64 = 192 << 20;

/// What every machine of a template is made of.
#[derive(Debug)]
struct Parts {
    program: PathBuf,
    kernel: Kernel,
    qemu: Qemu,
    accelerator: Accelerator,
    images: Images,
    /// As the guest sees it.
    template: TemplatePlan,
    python: PythonStart,
    /// Empty where the processor runs guests.
    why_no_wall: String,
}

#[derive(Debug)]
pub(crate) struct MicrovmBackend {
    jail: Arc<JailBackend>,
    python: Arc<PythonStart>,
    parts: Arc<Parts>,
    saved: Mutex<HashMap<u64, Arc<OnceCell<Saved>>>>,
    home: PathBuf,
    /// What live sandboxes that are saved belong to.
    saves_for: String,
    first_use: FirstUse,
}

impl MicrovmBackend {
    /// The plan is the jail's, without a zygote. `progress` receives the phases of the first use.
    pub(crate) async fn start(
        mut plan: JailPlan,
        home: &Path,
        template: &Template,
        python: PythonStart,
        named_kernel: Option<PathBuf>,
        progress: Arc<dyn Progress + Send>,
    ) -> Result<Self, TierError> {
        let first_use = FirstUse::new(progress);
        let qemu = qemu::find()?;
        let kernel = kernel::find(named_kernel.as_deref())?;
        let verdict = accelerator::verdict(home, &plan.program);
        let accelerator = accelerator::of(&verdict);
        let (at, program, of, told) = (
            home.to_owned(),
            plan.program.clone(),
            template.clone(),
            first_use.clone(),
        );
        let images = tokio::task::spawn_blocking(move || image::ensure(&at, &of, &program, &told)).await;
        let images = images.map_err(|error| TierError::Start(std::io::Error::other(error)))??;
        let parts = Parts {
            program: plan.program.clone(),
            template: plan.template.clone(),
            kernel,
            accelerator,
            images,
            qemu,
            python: python.clone(),
            why_no_wall: verdict.reason,
        };
        plan.template.vm = Some(VmPlan {
            program: parts.qemu.program.clone(),
            accelerator,
        });
        let saves_for = kept::fits(&parts);
        Ok(Self {
            saves_for,
            jail: Arc::new(JailBackend::start(plan).await?),
            python: Arc::new(python),
            parts: Arc::new(parts),
            saved: Mutex::default(),
            home: home.to_owned(),
            first_use,
        })
    }

    /// Whose jailer runs the machines.
    pub(crate) fn jail(&self) -> &Arc<JailBackend> {
        &self.jail
    }

    async fn make_one(&self, made: Made) -> Result<Fresh, TierError> {
        if made.watched {
            return Err(TierError::no_dry_run(Tier::Microvm));
        }
        let size = size_for(made.limits.memory.get());
        let cell = self.cell(size);
        let saved = cell.get_or_try_init(|| self.saved(size)).await?;
        self.restored(size, saved, made).await
    }

    /// The place of the saved guest of this size.
    fn cell(&self, size: u64) -> Arc<OnceCell<Saved>> {
        Arc::clone(lock(&self.saved).entry(size).or_default())
    }
}

/// How much memory the sandbox of a guest can have that is made for this much.
fn size_for(memory: u64) -> u64 {
    memory.next_power_of_two().max(SMALLEST)
}

impl Backend for MicrovmBackend {
    fn tier(&self) -> Tier {
        Tier::Microvm
    }

    fn ready(&self) -> Later<'_, Result<Map<String, Value>, TierError>> {
        let facts = [("vm".to_owned(), self.parts.facts())];
        Box::pin(async move { Ok(facts.into_iter().collect()) })
    }

    fn make(&self, made: Made) -> Later<'_, Result<Fresh, TierError>> {
        Box::pin(self.make_one(made))
    }

    fn saves_for(&self) -> Option<&str> {
        Some(&self.saves_for)
    }

    fn restore(&self, made: Made, saved: LiveSaved, files: Files) -> Later<'_, Result<Back, TierError>> {
        Box::pin(async move {
            let back = self.restore_live(made, &saved, files).await;
            back.map_err(|error| self.jail.blame(error))
        })
    }

    fn stop(&self) -> Later<'_, ()> {
        self.jail.stop()
    }
}

impl Parts {
    /// For the receipt.
    fn facts(&self) -> Value {
        let mut facts = json!({
            "accelerator": self.accelerator.as_str(),
            "wall": self.accelerator.is_wall(),
            "qemu": self.qemu.version,
        });
        if !self.accelerator.is_wall() {
            facts["why_no_wall"] = json!(format!("software emulation: {}", self.why_no_wall));
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_come_in_few_sizes_and_each_holds_what_is_asked_for() {
        assert_eq!(size_for(64 << 20), SMALLEST);
        assert_eq!(size_for(SMALLEST), SMALLEST);
        assert_eq!(size_for(SMALLEST + 1), 1 << 30);
        assert_eq!(size_for(4 << 30), 4 << 30);
    }
}
