//! The guest's disk: the binary, one template, the libraries that they need, the orders. Nothing else of this machine.

use anyhow::{Context, Result, ensure};
use atoll_tests::guest::{ORDERS, Order};
use atoll_tests::{binary, home, run_command, template};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Room beside the files for what the guest writes.
const SIZE: &str = "2G";
const PLACES: &[&str] = &[
    "dev",
    "proc",
    "sys",
    "tmp",
    "run",
    "usr/bin",
    "guest/modules",
    "home/atoll",
];

/// Makes the disk image in `dir`.
pub(super) fn make(dir: &Path, modules: &[PathBuf], orders: &[Order]) -> Result<PathBuf> {
    let root = dir.join("root");
    for place in PLACES {
        fs::create_dir_all(root.join(place))?;
    }
    lay_links(&root)?;
    copy(Path::new(env!("CARGO_BIN_EXE_guest-init")), &root.join("guest/init"))?;
    copy(&binary(), &root.join("usr/bin/atoll"))?;
    // For scratch files on disk.
    let mkfs = Path::new("/usr/sbin/mkfs.ext4")
        .canonicalize()
        .context("find mkfs.ext4")?;
    copy(&mkfs, &root.join("usr/sbin/mkfs.ext4"))?;
    lay_template(&root)?;
    for module in modules {
        copy(
            module,
            &root.join("guest/modules").join(module.file_name().context("a module")?),
        )?;
    }
    lay_libraries(&root)?;
    fs::write(inside(&root, Path::new(ORDERS)), serde_json::to_vec(orders)?)?;
    format(&root, dir.join("disk.ext4"))
}

/// The links of the top directory, as this machine has them.
fn lay_links(root: &Path) -> Result<()> {
    for name in ["bin", "sbin", "lib", "lib64"] {
        if let Ok(to) = fs::read_link(Path::new("/").join(name)) {
            fs::create_dir_all(root.join(&to))?;
            symlink(to, root.join(name))?;
        }
    }
    Ok(())
}

/// The small template and the kernel of this build. An interpreter of the system is no part of the tree.
fn lay_template(root: &Path) -> Result<()> {
    let made = template("python-min")?;
    let built = made.tree.parent().context("a template's directory")?;
    for below in [built, &made.kernel] {
        copy(below, &root.join("home/atoll").join(below.strip_prefix(home())?))?;
    }
    if made.tree.join("python").is_dir() {
        return Ok(());
    }
    for (dir, beginning) in [("/usr/bin", "python3"), ("/usr/lib", "python3")] {
        for entry in fs::read_dir(dir)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(beginning) {
                copy(&entry.path(), &inside(root, &entry.path()))?;
            }
        }
    }
    Ok(())
}

/// Every shared library that a program or library of the image asks for.
fn lay_libraries(root: &Path) -> Result<()> {
    let mut programs = Vec::new();
    find_programs(root, &mut programs)?;
    let output = Command::new("ldd")
        .args(&programs)
        .stderr(Stdio::null())
        .output()
        .context("start ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found: BTreeSet<&Path> = text
        .lines()
        .filter_map(|line| {
            line.split_whitespace()
                .find(|word| word.starts_with('/') && !word.ends_with(':'))
        })
        .map(Path::new)
        .filter(|path| !path.starts_with(root))
        .collect();
    ensure!(!found.is_empty(), "ldd names no library: {output:?}");
    for library in found {
        let to = inside(root, library);
        if !to.exists() {
            copy(&library.canonicalize()?, &to)?;
        }
    }
    Ok(())
}

fn find_programs(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)?.flatten() {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            find_programs(&entry.path(), found)?;
        } else if kind.is_file() && is_program(&entry.path()) {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn is_program(path: &Path) -> bool {
    let mut magic = [0; 4];
    fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut magic))
        .is_ok()
        && &magic == b"\x7fELF"
}

fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Hard links where the file system is the same, else copies; never through links that it holds.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("a parent")?)?;
    for flags in [["-aT", "--link"], ["-aTf", "--reflink=auto"]] {
        let tried = Command::new("cp")
            .args(flags)
            .arg(from)
            .arg(to)
            .stderr(Stdio::null())
            .status()?;
        if tried.success() {
            return Ok(());
        }
    }
    anyhow::bail!("cannot copy {} to {}", from.display(), to.display())
}

fn format(root: &Path, image: PathBuf) -> Result<PathBuf> {
    let mut mke2fs = Command::new("mke2fs");
    mke2fs
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(["-q", "-t", "ext4", "-d"]);
    let ran = run_command(mke2fs.arg(root).arg(&image).arg(SIZE))?;
    ensure!(ran.code == Some(0), "mke2fs: {ran:?}");
    Ok(image)
}
