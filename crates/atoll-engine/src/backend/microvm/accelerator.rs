//! Who runs guests on this host: the processor, if the graded probe says that it can, else QEMU in software.

use atoll_jail::kvm::{PATIENCE, Verdict, judge};
use atoll_jail::plan::Accelerator;
use fs_err as fs;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

/// A verdict holds until the machine is started again. A failed probe leaves a line in the kernel's log, so it is not
/// repeated for nothing.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    boot: String,
    verdict: Verdict,
}

/// The verdict of this boot, from the data directory or by a probe now.
pub(crate) fn verdict(home: &Path, program: &Path) -> Verdict {
    let file = home.join("microvm/kvm.json");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let kept = fs::read(&file)
        .ok()
        .and_then(|text| serde_json::from_slice::<Kept>(&text).ok());
    if let Some(kept) = kept.filter(|kept| kept.boot == boot && !boot.is_empty()) {
        return kept.verdict;
    }
    let verdict = probe(program);
    let kept = Kept { boot, verdict };
    // One that cannot be kept is found again.
    if let (Some(dir), Ok(text)) = (file.parent(), serde_json::to_vec(&kept)) {
        fs::create_dir_all(dir).and_then(|()| fs::write(&file, text)).ok();
    }
    kept.verdict
}

pub(crate) fn of(verdict: &Verdict) -> Accelerator {
    match verdict.usable {
        true => Accelerator::Kvm,
        false => Accelerator::Tcg,
    }
}

fn probe(program: &Path) -> Verdict {
    let started = Command::new(program)
        .arg("__kvm-probe")
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = started else {
        return judge("", true);
    };
    let (tell, told) = mpsc::channel();
    let mut stdout = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut said = String::new();
        if let Some(stdout) = &mut stdout {
            stdout.take(4096).read_to_string(&mut said).ok();
        }
        tell.send(()).ok();
        said
    });
    let in_time = told.recv_timeout(PATIENCE).is_ok();
    child.kill().ok();
    child.wait().ok();
    judge(&reader.join().unwrap_or_default(), in_time)
}
