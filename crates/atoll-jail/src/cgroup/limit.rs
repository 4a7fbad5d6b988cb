//! The ceilings of a sandbox as control files: written for both versions, read back for the receipt.

use super::{Controller, Disk, Hierarchy, Version};
use crate::step::{Step, StepError};
use atoll_core::Limits;
use rustix::io::Errno;
use serde_json::{Map, Value};
use std::fs;
use std::path::Path;

const CPU_PERIOD_US: u64 = 100_000;

/// Version 1 has a file per limit of the disk, version 2 a word in one file. Name in the receipt, file, word.
const IO_NAMES: [(&str, &str, &str); 4] = [
    ("io_read_bytes", "blkio.throttle.read_bps_device", "rbps"),
    ("io_write_bytes", "blkio.throttle.write_bps_device", "wbps"),
    ("io_read_operations", "blkio.throttle.read_iops_device", "riops"),
    ("io_write_operations", "blkio.throttle.write_iops_device", "wiops"),
];

pub(super) fn set_limit(
    dir: &Path,
    controller: Controller,
    version: Version,
    limits: &Limits,
    disk: Option<&Disk>,
) -> Result<(), StepError> {
    let memory = limits.memory.get();
    let quota = limits.cpus.get() * CPU_PERIOD_US / 1000;
    match (controller, version) {
        (Controller::Memory, Version::V1) => {
            set_memory_v1(dir, memory)?;
            write_optional(dir, "memory.swappiness", "0")?;
            // TCP buffers are not counted in limit_in_bytes.
            write_optional(dir, "memory.kmem.tcp.limit_in_bytes", &(memory / 8).to_string())
        }
        (Controller::Memory, Version::V2) => {
            // `memory.oom.group` stays off: the agent shares the group and must live to tell what happened.
            write_optional(dir, "memory.swap.max", "0")?;
            write(dir, "memory.max", &memory.to_string())
        }
        (Controller::Cpu, Version::V1) => {
            write(dir, "cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
            write(dir, "cpu.cfs_quota_us", &quota.to_string())
        }
        (Controller::Cpu, Version::V2) => write(dir, "cpu.max", &format!("{quota} {CPU_PERIOD_US}")),
        // One more for the agent, which is a process of the group but not the user's.
        (Controller::Pids, _) => write(dir, "pids.max", &(limits.processes.get() + 1).to_string()),
        (Controller::Io, version) => match disk {
            Some(disk) => set_io(dir, version, limits, disk),
            None => Ok(()),
        },
        (Controller::Cpuacct | Controller::Freezer, _) => Ok(()),
    }
}

/// Memory and memory+swap must move in an order in which the first never exceeds the second.
fn set_memory_v1(dir: &Path, memory: u64) -> Result<(), StepError> {
    let value = memory.to_string();
    if write(dir, "memory.limit_in_bytes", &value).is_ok() {
        return write_optional(dir, "memory.memsw.limit_in_bytes", &value);
    }
    write_optional(dir, "memory.memsw.limit_in_bytes", &value)?;
    write(dir, "memory.limit_in_bytes", &value)
}

fn set_io(dir: &Path, version: Version, limits: &Limits, disk: &Disk) -> Result<(), StepError> {
    let (bytes, operations) = (limits.io_bandwidth.get(), limits.io_operations.get());
    let values = [bytes, bytes, operations, operations];
    let set = match version {
        Version::V1 => IO_NAMES
            .iter()
            .zip(values)
            .try_for_each(|((_, file, _), value)| write_optional(dir, file, &format!("{} {value}", disk.number))),
        Version::V2 => {
            let words: Vec<String> = IO_NAMES
                .iter()
                .zip(values)
                .map(|((.., word), value)| format!("{word}={value}"))
                .collect();
            write_optional(dir, "io.max", &format!("{} {}", disk.number, words.join(" ")))
        }
    };
    match set {
        // A device that the kernel cannot throttle: the receipt says so.
        Err(error) if matches!(error.errno, Errno::NODEV | Errno::NXIO | Errno::OPNOTSUPP) => Ok(()),
        other => other,
    }
}

/// What the kernel says the limits of one group are.
pub(super) fn read_back(hierarchy: &Hierarchy, dir: &Path, disk: Option<&Disk>, facts: &mut Map<String, Value>) {
    let v1 = hierarchy.version == Version::V1;
    let mut note = |name: &str, file: &str| {
        if let Ok(text) = fs::read_to_string(dir.join(file)) {
            facts.insert(name.to_owned(), text.trim().into());
        }
    };
    for controller in &hierarchy.controllers {
        match controller {
            Controller::Memory => note("memory_bytes", if v1 { "memory.limit_in_bytes" } else { "memory.max" }),
            Controller::Cpu => note("cpu_quota_us", if v1 { "cpu.cfs_quota_us" } else { "cpu.max" }),
            Controller::Pids => note("processes", "pids.max"),
            Controller::Io | Controller::Cpuacct | Controller::Freezer => {}
        }
    }
    if hierarchy.controllers.contains(&Controller::Io) {
        facts.extend(read_io(hierarchy.version, dir, disk));
    }
}

fn read_io(version: Version, dir: &Path, disk: Option<&Disk>) -> Map<String, Value> {
    let Some(disk) = disk else {
        return Map::from_iter([(
            "io".to_owned(),
            "not limited: the template is not on a block device".into(),
        )]);
    };
    let text = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
    let line = |text: String| {
        text.lines()
            .find_map(|line| line.strip_prefix(&disk.number)?.strip_prefix(' ').map(str::to_owned))
    };
    let all = line(text("io.max")).unwrap_or_default();
    let word = |name: &str| {
        all.split(' ')
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    };
    let mut facts = Map::from_iter([("io".to_owned(), Value::from(format!("disk {}", disk.number)))]);
    for (name, file, key) in IO_NAMES {
        let value = if version == Version::V1 {
            line(text(file))
        } else {
            word(key)
        };
        facts.insert(
            name.to_owned(),
            value.unwrap_or_else(|| "not limited".to_owned()).into(),
        );
    }
    facts
}

pub(super) fn write(dir: &Path, name: &str, value: &str) -> Result<(), StepError> {
    fs::write(dir.join(name), value).step(&format!("set {name} to {value} in {}", dir.display()))
}

/// For files that a kernel may be built without: absent is fine, refused is not.
fn write_optional(dir: &Path, name: &str, value: &str) -> Result<(), StepError> {
    if dir.join(name).exists() {
        write(dir, name, value)
    } else {
        Ok(())
    }
}
