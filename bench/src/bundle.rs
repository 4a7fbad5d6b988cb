//! `crun` and `runsc` by hand, as somebody would without Atoll: one bundle, one cold container for each run.

use crate::baseline::whole;
use anyhow::{Context, Result};
use atoll_engine::template::Template;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Each with the words that it needs on a host like this: no cgroups of its own, no network.
pub(crate) const RUNTIMES: [(&str, &[&str]); 2] = [
    ("crun", &["--cgroup-manager=disabled"]),
    ("runsc", &["--platform=ptrace", "--network=none", "--ignore-cgroups"]),
];

/// Milliseconds of whole `RUNTIME run` processes that run `python -c CODE`.
pub(crate) fn cold(
    template: &Template,
    (runtime, words): (&str, &[&str]),
    code: &str,
    count: usize,
) -> Result<Vec<f64>> {
    let dir = tempfile::tempdir()?;
    lay_root(&dir.path().join("rootfs"))?;
    let config = serde_json::to_vec(&config(template, code))?;
    std::fs::write(dir.path().join("config.json"), config)?;
    let state = dir.path().join("state");
    (0..count)
        .map(|_| {
            let mut command = without_cgroups();
            command.arg(runtime).arg("--root").arg(&state).args(words);
            command.args(["run", "--bundle"]);
            whole(command.arg(dir.path()).arg(unique_name()))
        })
        .collect::<Result<_>>()
        .with_context(|| format!("`{runtime}` alone"))
}

/// Containers run at the same time, and `runsc` names a socket of the host after each.
fn unique_name() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!(
        "atoll-bench-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// In a mount namespace of its own without the machine's control groups: `crun` refuses hosts with both versions of them.
fn without_cgroups() -> Command {
    let hidden = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", hidden, "sh"]);
    command
}

/// A place for each mount, and the links of a usual root.
fn lay_root(root: &Path) -> Result<()> {
    for dir in ["usr", "opt/atoll", "proc", "dev", "tmp", "home/user"] {
        std::fs::create_dir_all(root.join(dir))?;
    }
    for link in ["bin", "lib", "lib64", "sbin"] {
        std::os::unix::fs::symlink(format!("usr/{link}"), root.join(link))?;
    }
    Ok(())
}

fn config(template: &Template, code: &str) -> Value {
    let env: Vec<String> = template
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let bind =
        |from: &Path, to: &str| json!({"destination": to, "type": "bind", "source": from, "options": ["rbind", "ro"]});
    let fresh = |kind: &str, to: &str| json!({"destination": to, "type": kind, "source": kind});
    let namespaces = ["pid", "mount", "network", "ipc", "uts"].map(|kind| json!({"type": kind}));
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "cwd": "/home/user",
            "args": [template.interpreter, "-c", code],
            "env": env,
            "noNewPrivileges": true,
        },
        "root": {"path": "rootfs", "readonly": true},
        "mounts": [
            fresh("proc", "/proc"), fresh("tmpfs", "/dev"), fresh("tmpfs", "/tmp"), fresh("tmpfs", "/home/user"),
            bind(Path::new("/usr"), "/usr"),
            bind(&template.tree, "/opt/atoll"),
        ],
        "linux": {"namespaces": namespaces},
    })
}
