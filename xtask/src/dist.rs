//! `cargo xtask dist`: the tarball and the Python wheel, with checksums and an SBOM; and the test that installs both into
//! an empty Debian root and runs the README's example there. Both carry the ready-made files of the tier `wasm`, so that
//! an installed binary needs no package index for it, and the AppArmor profile that `atoll doctor` names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use fs_err as fs;

use crate::apparmor::Parser;
use crate::archive::{codename, mirror};
use crate::project::Project;
use crate::python::MATURIN;
use crate::steps::{check, said};
use crate::suite;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Files of the tarball beside the binary, as paths in the source tree.
const DOCUMENTS: &[&str] = &[
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "packaging/atoll.service",
    "examples/atoll.toml",
    "examples/first.py",
    "examples/sales.csv",
];
/// Packages of the empty root: what the README names as requirements.
const ROOT_PACKAGES: &str = "ca-certificates,e2fsprogs,python3,python3-pip,python3-venv";

/// The line of `packaging/pyproject.toml` that names the crate.
const RELATIVE_MANIFEST: &str = "manifest-path = \"../crates/atoll/Cargo.toml\"";
/// Where both packages have the ready-made files: below the binary in the tarball, below the prefix in the wheel.
const READY_MADE: &str = "share/atoll/wasm";
/// Where both packages have the AppArmor profile, and where the source tree has it.
const APPARMOR: &str = "share/atoll/apparmor";
const APPARMOR_SOURCE: &str = "packaging/apparmor/atoll";
/// Runs without any package index.
const WASM_RUN: &str = "ATOLL_HOME=/wasm-home PIP_NO_INDEX=1 UV_OFFLINE=1";

/// The finished packages.
#[derive(Debug)]
pub(crate) struct Packages {
    tarball: PathBuf,
    wheel: PathBuf,
}

pub(crate) fn run(project: &Project) -> Result<()> {
    let _lock = project.claim_target_dir()?;
    build(project).map(drop)
}

/// Builds both packages in `dist/` below the target directory, which is emptied first.
pub(crate) fn build(project: &Project) -> Result<Packages> {
    suite::build_atoll(project)?;
    let dir = project.target.join("dist");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    let staged = stage(project, &dir)?;
    let wheel = build_wheel(project, &staged, &dir)?;
    let sbom = extract_sbom(project, &wheel, &dir)?;
    let tarball = build_tarball(project, &staged, &sbom, &dir)?;
    fs::remove_dir_all(&staged)?;
    write_checksums(&dir, &[&tarball, &wheel, &sbom])?;
    for path in [&tarball, &wheel, &sbom] {
        let megabytes = fs::metadata(path)?.len() / 1_000_000;
        println!("    {} ({megabytes} MB)", path.display());
    }
    Ok(Packages { tarball, wheel })
}

/// A copy of `packaging/` with the license, the README and, as the data of the wheel, the ready-made files and the
/// AppArmor profile. Nothing generated is written to the source tree.
fn stage(project: &Project, dir: &Path) -> Result<PathBuf> {
    let staged = dir.join("staged");
    let data = staged.join("data/data");
    check(
        project
            .command(project.atoll_binary())
            .arg("__wasm-pack")
            .arg(data.join(READY_MADE)),
    )?;
    fs::create_dir_all(data.join(APPARMOR))?;
    fs::copy(project.root.join(APPARMOR_SOURCE), data.join(APPARMOR).join("atoll"))?;
    let packaging = project.root.join("packaging");
    let manifest = packaging.join("../crates/atoll/Cargo.toml");
    let settings = fs::read_to_string(packaging.join("pyproject.toml"))?;
    let absolute = format!(
        "manifest-path = {:?}\ndata = \"data\"",
        fs::canonicalize(manifest)?.display().to_string()
    );
    let settings = settings.replace(RELATIVE_MANIFEST, &absolute);
    ensure!(
        settings.contains(&absolute),
        "`packaging/pyproject.toml` has no `{RELATIVE_MANIFEST}`"
    );
    fs::write(staged.join("pyproject.toml"), settings)?;
    for document in ["LICENSE", "README.md"] {
        fs::copy(project.root.join(document), staged.join(document))?;
    }
    Ok(staged)
}

/// maturin builds with the same target directory and profile: cargo finds everything compiled.
fn build_wheel(project: &Project, staged: &Path, dir: &Path) -> Result<PathBuf> {
    let python = MATURIN.ensure_environment(project)?;
    let mut maturin = project.build_command(python);
    maturin.current_dir(staged);
    maturin
        .args(["-m", "maturin", "build", "--release", "--locked", "--out"])
        .arg(dir);
    check(&mut maturin)?;
    find(dir, ".whl")
}

/// maturin writes a CycloneDX document of every crate into the wheel.
fn extract_sbom(project: &Project, wheel: &Path, dir: &Path) -> Result<PathBuf> {
    const SCRIPT: &str = "import sys, zipfile\n\
        wheel = zipfile.ZipFile(sys.argv[1])\n\
        names = [name for name in wheel.namelist() if '/sboms/' in name and name.endswith('.json')]\n\
        sys.stdout.write(wheel.read(names[0]).decode())";
    let mut python = project.command("python3");
    let text = said(python.args(["-c", SCRIPT]).arg(wheel)).context("the wheel holds no SBOM")?;
    let path = dir.join(format!("atoll-{VERSION}.cdx.json"));
    fs::write(&path, text)?;
    Ok(path)
}

fn build_tarball(project: &Project, staged: &Path, sbom: &Path, dir: &Path) -> Result<PathBuf> {
    let name = format!("atoll-{VERSION}-{}-linux", std::env::consts::ARCH);
    let tree = dir.join(&name);
    fs::create_dir_all(&tree)?;
    fs::copy(project.atoll_binary(), tree.join("atoll"))?;
    for document in DOCUMENTS {
        let to = tree.join(document);
        fs::create_dir_all(to.parent().context("a file of the tarball without a directory")?)?;
        fs::copy(project.root.join(document), to)?;
    }
    fs::copy(sbom, tree.join("sbom.cdx.json"))?;
    for below in [READY_MADE, APPARMOR] {
        fs::create_dir_all(tree.join(below))?;
        for file in fs::read_dir(staged.join("data/data").join(below))? {
            let file = file?;
            fs::copy(file.path(), tree.join(below).join(file.file_name()))?;
        }
    }
    let tarball = dir.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.current_dir(dir).args([
        "--create",
        "--gzip",
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--file",
    ]);
    check(tar.arg(&tarball).arg(&name))?;
    fs::remove_dir_all(&tree)?;
    Ok(tarball)
}

fn write_checksums(dir: &Path, files: &[&PathBuf]) -> Result<()> {
    let names: Vec<_> = files.iter().filter_map(|path| path.file_name()).collect();
    let sums = said(Command::new("sha256sum").current_dir(dir).args(names))?;
    Ok(fs::write(dir.join("SHA256SUMS"), sums)?)
}

fn find(dir: &Path, ending: &str) -> Result<PathBuf> {
    let mut entries = fs::read_dir(dir)?.flatten().map(|entry| entry.path());
    let found = entries.find(|path| path.to_string_lossy().ends_with(ending));
    found.with_context(|| format!("no file `*{ending}` in {}", dir.display()))
}

/// Installs both packages into an empty Debian root and runs the README's example from each.
pub(crate) fn test(project: &Project) -> Result<()> {
    let packages = build(project)?;
    check(
        Command::new("sha256sum")
            .current_dir(project.target.join("dist"))
            .args(["--check", "--quiet", "SHA256SUMS"]),
    )?;
    let root = EmptyRoot::create(project)?;
    root.add(&packages.wheel, "packages")?;
    root.add(&packages.tarball, "packages")?;
    let started = Instant::now();
    root.sh("python3 -m venv /opt/wheel && /opt/wheel/bin/pip install --quiet --no-index /packages/*.whl")?;
    root.sh("test -s /opt/wheel/lib/python3*/site-packages/atoll-*.dist-info/licenses/LICENSE")?;
    root.run_example("/opt/wheel/bin/atoll")?;
    root.run_wasm("/opt/wheel/bin/atoll")?;
    println!("    wheel to first chart: {:.0} s", started.elapsed().as_secs_f64());
    root.sh("mkdir /opt/tarball && tar --extract --gzip --strip-components=1 --directory /opt/tarball --file /packages/*.tar.gz")?;
    root.run_example("/opt/tarball/atoll")?;
    root.run_wasm("/opt/tarball/atoll")?;
    test_apparmor_profiles(project, &root)?;
    root.remove()
}

/// The profile of each package is parsed, not loaded.
fn test_apparmor_profiles(project: &Project, root: &EmptyRoot) -> Result<()> {
    let parser = Parser::ensure(project)?;
    for prefix in ["opt/wheel", "opt/tarball"] {
        let profile = root.dir.join(prefix).join(APPARMOR).join("atoll");
        parser.check(&profile)?;
        parser.check_refuses(&profile)?;
    }
    Ok(())
}

/// A Debian root with nothing but what the README asks for.
struct EmptyRoot {
    dir: PathBuf,
}

impl EmptyRoot {
    fn create(project: &Project) -> Result<Self> {
        let root = Self {
            dir: project.target.join("dist-root"),
        };
        root.remove()?;
        let release = fs::read_to_string("/etc/os-release")?;
        let codename =
            codename(&release).context("the empty root is made by debootstrap, which needs a Debian host")?;
        let mut debootstrap = Command::new("debootstrap");
        debootstrap
            .args(["--variant=minbase", "--include", ROOT_PACKAGES, codename])
            .arg(&root.dir);
        said(debootstrap.arg(mirror(codename)?)).context("debootstrap")?;
        for name in ["etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt"] {
            fs::copy(Path::new("/").join(name), root.dir.join(name))?;
        }
        for example in ["examples/first.py", "examples/sales.csv"] {
            root.add(&project.root.join(example), "examples")?;
        }
        Ok(root)
    }

    fn add(&self, file: &Path, below: &str) -> Result<()> {
        let to = self.dir.join(below);
        fs::create_dir_all(&to)?;
        fs::copy(file, to.join(file.file_name().context("a file without a name")?))?;
        Ok(())
    }

    /// Runs a shell script in the root, in a mount namespace of its own that ends with it. The root is changed by
    /// `pivot_root`: the kernel refuses user namespaces to a process in a chroot.
    fn sh(&self, script: &str) -> Result<String> {
        const ENTER: &str = "set -e; mount --rbind \"$1\" \"$1\"; cd \"$1\"; \
            for name in proc sys dev; do mount --rbind /$name $name; done; mount -t tmpfs tmpfs run; \
            pivot_root . mnt; cd /; umount -l /mnt; exec /bin/sh -ec \"$2\"";
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "--propagation", "private", "sh", "-c", ENTER, "sh"]);
        shell.env("HOME", "/root").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        said(shell.arg(&self.dir).arg(script))
    }

    fn run_example(&self, atoll: &str) -> Result<()> {
        let text = self.sh(&format!(
            "rm -rf /cwd; mkdir /cwd; cd /cwd; {atoll} run /examples/first.py --in /examples/sales.csv"
        ))?;
        ensure!(text.contains("Revenue by region"), "the example printed: {text}");
        let chart = fs::read(self.dir.join("cwd/atoll-out/chart-1.png"))?;
        ensure!(chart.starts_with(b"\x89PNG"), "the chart is not a PNG image");
        Ok(())
    }

    /// The tier `wasm` from the ready-made files.
    fn run_wasm(&self, atoll: &str) -> Result<()> {
        let text = self.sh(&format!(
            "rm -rf /wasm-home; {WASM_RUN} {atoll} run --tier wasm -c 'print(6 * 7)'"
        ))?;
        ensure!(text == "42\n", "the tier wasm printed: {text}");
        Ok(())
    }

    fn remove(&self) -> Result<()> {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        Ok(())
    }
}
