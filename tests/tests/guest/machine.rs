//! Boots the guest and reads its reports.

use super::image;
use anyhow::{Context, Result, bail, ensure};
use atoll_tests::binary;
use atoll_tests::guest::{Order, Report};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a kernel's package must hold, and what of it a jail uses where it is there.
struct Kernel {
    image: PathBuf,
    modules: Vec<PathBuf>,
}

impl Kernel {
    /// `ATOLL_GUEST_KERNEL`, else where `cargo xtask test` puts it.
    fn find() -> Result<Self> {
        let beside = binary().ancestors().nth(2).map(|target| target.join("guest-kernel"));
        let dir = std::env::var_os("ATOLL_GUEST_KERNEL").map(PathBuf::from).or(beside);
        let dir = dir.context("no place for a guest kernel")?;
        let image = dir.join("vmlinuz");
        ensure!(
            image.is_file(),
            "there is no guest kernel at {}: `cargo xtask test` gets one",
            image.display()
        );
        let entries = fs::read_dir(&dir)?.flatten().map(|entry| entry.path());
        let modules = entries.filter(|path| path.to_string_lossy().contains(".ko")).collect();
        Ok(Self { image, modules })
    }
}

/// Boots a guest that does the orders, and gives its reports in their order.
pub(super) fn run(orders: &[Order]) -> Result<Vec<Report>> {
    let kernel = Kernel::find()?;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let disk = image::make(dir.path(), &kernel.modules, orders)?;
    let (console, results) = (dir.path().join("console"), dir.path().join("results"));
    let ended = emulator(&kernel, &disk, &console, &results)
        .output()
        .context("start QEMU")?;
    let said = fs::read_to_string(&results).unwrap_or_default();
    let reports: Result<Vec<Report>, _> = said.lines().map(|line| serde_json::from_str(line.trim_end())).collect();
    match reports {
        Ok(reports) if reports.len() == orders.len() => Ok(reports),
        broken => {
            let console = fs::read(&console).unwrap_or_default();
            bail!(
                "the guest did not do its orders: {broken:?}\n{ended:?}\n{}",
                String::from_utf8_lossy(&console)
            )
        }
    }
}

fn emulator(kernel: &Kernel, disk: &Path, console: &Path, results: &Path) -> Command {
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args([
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-m",
        "1G",
    ]);
    if has_kvm() {
        qemu.args(["-M", "q35", "-accel", "kvm", "-cpu", "host", "-smp", "2"]);
    } else {
        // QEMU 7.2 emulates two things wrongly of which the kernel dies: the flags after `cmpxchg16b`, and code that
        // one processor changes while another runs it.
        qemu.args([
            "-M",
            "q35",
            "-accel",
            "tcg",
            "-cpu",
            "Nehalem-v1,+rdrand,+arat,-cx16",
            "-smp",
            "1",
        ]);
    }
    let file = |path: &Path| format!("file:{}", path.display());
    qemu.arg("-drive").arg(format!(
        "if=none,id=disk,format=raw,cache=unsafe,file={}",
        disk.display()
    ));
    qemu.args([
        "-device",
        "nvme,drive=disk,serial=guest",
        "-serial",
        &file(console),
        "-serial",
        &file(results),
    ]);
    qemu.arg("-kernel").arg(&kernel.image);
    qemu.args(["-append", APPEND]);
    qemu.stdin(Stdio::null());
    qemu
}

/// Every controller belongs to version 2; a panic ends the machine.
const APPEND: &str = "console=ttyS0 loglevel=4 panic=-1 reboot=t root=/dev/nvme0n1 rootfstype=ext4 rw init=/guest/init \
                      cgroup_no_v1=all random.trust_cpu=on no_timer_check cryptomgr.notests mitigations=off";

/// A `/dev/kvm` with the processor's own virtualization below. Other kinds may run a kernel, or may not.
fn has_kvm() -> bool {
    let hardware = ["kvm_intel", "kvm_amd"]
        .iter()
        .any(|name| Path::new("/sys/module").join(name).exists());
    hardware && fs::File::options().read(true).write(true).open("/dev/kvm").is_ok()
}
