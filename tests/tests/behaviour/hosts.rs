//! Hosts that cannot build a wall, and callers with odd settings: `doctor` and `run` agree, and name what is missing.

use anyhow::{Context, Result};
use atoll_tests::{Ran, atoll, binary, home, run_command};
use serde_json::Value;
use std::process::Command;

/// Answers an error to one system call, both given by number, then becomes the rest of its words.
const WITHOUT_CALL: &str = r"
import ctypes, os, struct, sys
number, errno = int(sys.argv[1]), int(sys.argv[2])
ops = [(0x20, 0, 0, 4), (0x15, 0, 3, 0xC000003E), (0x20, 0, 0, 0), (0x15, 0, 1, number),
       (0x06, 0, 0, 0x00050000 + errno), (0x06, 0, 0, 0x7FFF0000)]
code = b''.join(struct.pack('HBBI', *op) for op in ops)
buffer = ctypes.create_string_buffer(code)
program = struct.pack('HxxxxxxP', len(ops), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[3], sys.argv[3:])
";

/// The same words of `atoll` on a host that lacks something.
fn on(host: &[&str], words: &[&str]) -> Result<Ran> {
    let mut command = Command::new(host[0]);
    command.args(&host[1..]).arg(binary()).args(words);
    run_command(command.env("ATOLL_HOME", home()))
}

/// Neither of the two starts anything, and both say which layer it is.
fn lacks(host: &[&str], layers: &[&str]) -> Result<()> {
    let doctor = on(host, &["doctor", "--json"])?;
    let report: Value = serde_json::from_str(&doctor.stdout).with_context(|| format!("{doctor:?}"))?;
    let jail = &report["tiers"][0];
    let missing = jail["layers"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|one| one["available"] == false && one["required"] == true);
    let missing = missing.with_context(|| format!("nothing is missing: {jail}"))?;
    let layer = missing["name"].as_str().unwrap_or_default();
    assert!(layers.contains(&layer), "{layer}, not one of {layers:?}: {missing}");
    assert_eq!((doctor.code, &jail["available"]), (Some(5), &false.into()), "{jail}");
    assert!(missing["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{missing}");
    let run = on(host, &["run", "--template", "python-min", "-c", "print(1)"])?;
    assert_eq!((run.code, run.stdout.as_str()), (Some(5), ""), "{run:?}");
    let named = |layer: &&str| {
        run.stderr
            .contains(&format!("isolation layer `{layer}` is not available"))
    };
    assert!(layers.iter().any(named), "{run:?}");
    assert!(run.stderr.contains("\nhint: "), "{run:?}");
    Ok(())
}

#[test]
fn a_host_without_writable_cgroups_is_told_by_doctor_and_run() -> Result<()> {
    let script = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
    lacks(
        &["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh"],
        &["cgroups"],
    )
}

#[test]
fn a_root_without_capabilities_is_told_by_doctor_and_run() -> Result<()> {
    // Whichever comes first: a group may be there already.
    lacks(
        &["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
        &["cgroups", "ids", "mounts"],
    )
}

#[cfg(target_arch = "x86_64")]
#[test]
fn calls_that_a_container_forbids_are_told_as_the_wall_that_needs_them() -> Result<()> {
    let calls = [
        ("pivot_root", 155, "mounts"),
        ("mount_setattr", 442, "mounts"),
        ("unshare", 272, "namespaces"),
        ("setns", 308, "namespaces"),
        ("setresuid", 117, "ids"),
        ("seccomp", 317, "seccomp"),
        ("landlock_restrict_self", 446, "landlock"),
    ];
    for (name, number, layer) in calls {
        let number = number.to_string();
        let host = ["python3", "-c", WITHOUT_CALL, &number, "1"];
        lacks(&host, &[layer]).with_context(|| name)?;
    }
    // Containers say "not there" of this one, so that a C library takes an older call.
    lacks(&["python3", "-c", WITHOUT_CALL, "435", "38"], &["namespaces"]).context("clone3")
}

/// A host on which one program is not there.
fn without(program: &str, words: &[&str]) -> Result<Ran> {
    let script = format!("mount --bind /dev/null $(readlink -f $(command -v {program})) && exec \"$@\"");
    on(
        &["unshare", "-m", "--propagation", "private", "sh", "-c", &script, "sh"],
        words,
    )
}

#[test]
fn a_host_that_cannot_make_large_scratch_is_told_and_named() -> Result<()> {
    let run = without(
        "mkfs.ext4",
        &["run", "--template", "python-min", "--profile", "data", "-c", "print(1)"],
    )?;
    assert_eq!((run.code, run.stdout.as_str()), (Some(5), ""), "{run:?}");
    assert!(
        run.stderr.contains("isolation layer `scratch` is not available"),
        "{run:?}"
    );
    assert!(run.stderr.contains("hint: install mkfs.ext4"), "{run:?}");
    let small = without("mkfs.ext4", &["run", "--template", "python-min", "-c", "print(1)"])?;
    assert_eq!((small.code, small.stdout.as_str()), (Some(0), "1\n"), "{small:?}");
    let doctor = without("mkfs.ext4", &["doctor"])?;
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    assert!(doctor.stdout.contains("fix: apt-get install e2fsprogs"), "{doctor:?}");
    Ok(())
}

#[test]
fn a_host_without_a_python_is_told_by_doctor_and_run() -> Result<()> {
    let empty = tempfile::tempdir()?;
    let bare = |words: &[&str]| {
        let mut command = atoll();
        command
            .env("ATOLL_HOME", empty.path())
            .env("ATOLL_PYTHON", "/nonexistent/python");
        run_command(command.args(words))
    };
    let doctor = bare(&["doctor"])?;
    assert_eq!(doctor.code, Some(5), "{doctor:?}");
    assert!(
        doctor
            .stdout
            .contains("MISSING  cannot find a Python interpreter for template `python-data`"),
        "{doctor:?}"
    );
    let run = bare(&["run", "-c", "print(1)"])?;
    assert_eq!((run.code, run.stdout.as_str()), (Some(5), ""), "{run:?}");
    assert!(run.stderr.contains("\nhint: "), "{run:?}");
    Ok(())
}

/// Runs after `setting` of a shell.
fn after(setting: &str) -> Result<Ran> {
    let code = "import resource\nprint(open('/etc/hostname').read(), resource.getrlimit(resource.RLIMIT_AS)[0])";
    let script = format!("{setting}; exec \"$@\"");
    on(
        &["bash", "-c", &script, "bash"],
        &["run", "--template", "python-min", "-c", code],
    )
}

#[test]
fn the_callers_umask_and_limits_stay_with_the_caller() -> Result<()> {
    for setting in [
        "umask 077",
        "umask 777",
        "ulimit -Sn 60",
        "ulimit -Sv 4000000",
        "ulimit -St 1",
        "ulimit -Ss 1024",
    ] {
        let ran = after(setting)?;
        let fine = (Some(0), "sandbox\n -1\n");
        assert_eq!((ran.code, ran.stdout.as_str()), fine, "{setting}: {ran:?}");
    }
    Ok(())
}

/// A limit that cannot be raised again is not passed on as if it were the sandbox's: it is shed, or named.
#[test]
fn limits_that_cannot_be_shed_are_named() -> Result<()> {
    for (flag, value) in [
        ("-n", "60"),
        ("-v", "400000"),
        ("-d", "200000"),
        ("-t", "9"),
        ("-f", "100"),
    ] {
        let ran = after(&format!("ulimit {flag} {value}"))?;
        let named = ran.code == Some(5) && ran.stderr.contains("`rlimits`");
        let named = named && ran.stderr.contains(&format!("(`ulimit {flag}`)"));
        let shed = (ran.code, ran.stdout.as_str()) == (Some(0), "sandbox\n -1\n");
        assert!(named || shed, "{flag}: {ran:?}");
    }
    Ok(())
}

#[test]
fn what_the_kernel_makes_up_is_no_input() -> Result<()> {
    for path in ["/proc/kmsg", "/proc/self/environ", "/sys/kernel/uevent_seqnum"] {
        let ran = run_command(atoll().args(["run", "--template", "python-min", "--in", path, "-c", "1"]))?;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert_eq!(ran.stderr, format!("error: input is not a regular file: `{path}`\n"));
    }
    Ok(())
}
