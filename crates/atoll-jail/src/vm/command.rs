//! QEMU's command line. A pure function of what the machine is for.
//!
//! A machine that is saved and those that are restored from it have the same devices, word for word: what is saved fits
//! nothing else. No network, no shared directory, no disk but the read-only image. Everything is an open descriptor.

use super::guest::{AGENT_PORT, CONTROL_PORT};
use crate::plan::{Accelerator, VmStart, VmWay};

/// Numbers of QEMU's descriptors.
pub(super) const AGENT: i32 = 3;
const CONTROL: i32 = 4;
const MONITOR: i32 = 5;
const RAM: i32 = 6;
const BASE: i32 = 7;
const TEMPLATE: i32 = 8;
const KERNEL: i32 = 9;
const INITRD: i32 = 10;
/// In the place of the kernel: a restored machine has its own in memory.
pub const STATE: i32 = 9;

/// What the machine is, which must be the same when it is saved and when it is restored.
pub fn machine(accelerator: Accelerator, ram_bytes: u64) -> Vec<String> {
    let (accel, cpu) = match accelerator {
        Accelerator::Kvm => ("kvm", "host"),
        // A vendor and a level that numeric libraries know; timers that stop nothing.
        Accelerator::Tcg => ("tcg,tb-size=32", "Nehalem-v1,+rdrand,+arat"),
    };
    let port = |number: u32, chardev: &str, name: &str| {
        format!("virtserialport,bus=serial.0,nr={number},chardev={chardev},name={name}")
    };
    let file = |node: &str, set: u32| {
        format!(
            "driver=raw,node-name={node},read-only=on,file.driver=file,file.filename=/dev/fdset/{set},file.read-only=on,file.auto-read-only=off,file.locking=off"
        )
    };
    let socket = |id: &str, fd: i32| format!("socket,id={id},fd={fd}");
    words(&[
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-smp",
        "1",
        "-m",
        &format!("{}M", ram_bytes >> 20),
        "-accel",
        accel,
        "-cpu",
        cpu,
        "-M",
        "microvm,memory-backend=ram,pit=on,pic=on,rtc=on,isa-serial=on,usb=off,suppress-vmdesc=on",
        // The state of a live machine is written without what says which machine it is of: that is our own record.
        "-global",
        "migration.send-configuration=off",
        "-device",
        "virtio-serial-device,id=serial,max_ports=3",
        "-chardev",
        &socket("agent", AGENT),
        "-device",
        &port(1, "agent", AGENT_PORT),
        "-chardev",
        &socket("control", CONTROL),
        "-device",
        &port(2, "control", CONTROL_PORT),
        "-add-fd",
        &format!("fd={BASE},set=1"),
        "-blockdev",
        &file("base", 1),
        "-device",
        "virtio-blk-device,drive=base",
        "-add-fd",
        &format!("fd={TEMPLATE},set=2"),
        "-blockdev",
        &file("template", 2),
        "-device",
        "virtio-blk-device,drive=template",
        "-object",
        "rng-builtin,id=random",
        "-device",
        "virtio-rng-device,rng=random",
        "-chardev",
        "stdio,id=console,signal=off",
        "-serial",
        "chardev:console",
        "-chardev",
        &socket("monitor", MONITOR),
        "-mon",
        "chardev=monitor,mode=control",
        "-sandbox",
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
    ])
}

/// The whole line, without the program's own name.
pub(super) fn arguments(accelerator: Accelerator, start: &VmStart) -> Vec<String> {
    let share = match start.way {
        VmWay::Boot { .. } => "on",
        VmWay::Restore => "off",
    };
    let bytes = start.ram_bytes;
    let memory = format!("memory-backend-file,id=ram,size={bytes},mem-path=/proc/self/fd/{RAM},share={share}");
    let own = match start.way {
        VmWay::Boot { tsc_khz } => boot(accelerator, tsc_khz),
        VmWay::Restore => words(&["-incoming", "defer"]),
    };
    [words(&["-object", &memory]), machine(accelerator, bytes), own].concat()
}

fn boot(accelerator: Accelerator, tsc_khz: u64) -> Vec<String> {
    let kernel = "console=ttyS0 quiet loglevel=3 panic=-1 reboot=t random.trust_cpu=on no_timer_check \
                  8250.nr_uarts=1 cryptomgr.notests cgroup_no_v1=all";
    // Without a clock of the hypervisor the kernel's own measuring fails often, and then it waits for ever. What keeps the
    // guesses of a real processor in check only slows a processor that makes none. QEMU 7.2 leaves wrong flags behind
    // `cmpxchg16b`, of which newer kernels (6.12) die while they boot.
    let clock = match accelerator {
        Accelerator::Kvm => String::new(),
        Accelerator::Tcg => format!(" tsc=reliable tsc_early_khz={tsc_khz} mitigations=off clearcpuid=cx16"),
    };
    words(&[
        "-kernel",
        &format!("/proc/self/fd/{KERNEL}"),
        "-initrd",
        &format!("/proc/self/fd/{INITRD}"),
        "-append",
        &format!("{kernel}{clock}"),
    ])
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(way: VmWay) -> String {
        line_by(Accelerator::Tcg, way)
    }

    fn line_by(accelerator: Accelerator, way: VmWay) -> String {
        let start = VmStart {
            ram_bytes: 256 << 20,
            way,
        };
        arguments(accelerator, &start).join(" ")
    }

    #[test]
    fn only_a_machine_in_software_is_told_its_clock_and_what_it_must_not_use() {
        let boot = VmWay::Boot { tsc_khz: 1 };
        let (hard, soft) = (line_by(Accelerator::Kvm, boot), line_by(Accelerator::Tcg, boot));
        assert!(hard.contains("-accel kvm -cpu host") && soft.contains("-accel tcg"));
        for word in ["tsc_early_khz", "clearcpuid=cx16", "mitigations=off"] {
            assert!(soft.contains(word) && !hard.contains(word), "{word}");
        }
    }

    #[test]
    fn a_restored_machine_has_the_devices_of_the_saved_one_and_memory_of_its_own() {
        let (boot, restore) = (line(VmWay::Boot { tsc_khz: 2_000_000 }), line(VmWay::Restore));
        let devices = machine(Accelerator::Tcg, 256 << 20).join(" ");
        assert!(boot.contains(&devices) && restore.contains(&devices));
        assert!(boot.contains("share=on") && boot.contains("tsc_early_khz=2000000"));
        assert!(restore.contains("share=off") && restore.contains("-incoming defer"));
        assert!(!restore.contains("-kernel") && !restore.contains("-initrd"));
    }

    #[test]
    fn no_machine_has_a_network_a_shared_directory_or_a_way_to_start_programs() {
        for line in [line(VmWay::Boot { tsc_khz: 1 }), line(VmWay::Restore)] {
            for word in ["netdev", "-nic", "virtfs", "fsdev", "usb=on", "user-net", "vsock"] {
                assert!(!line.contains(word), "{word}: {line}");
            }
            assert!(line.contains("-nodefaults") && line.contains("spawn=deny"));
        }
    }
}
