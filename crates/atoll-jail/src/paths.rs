//! The Landlock rules of a sandbox: which paths its processes may read, run and change.
//!
//! Made inside the sandbox once its mounts stand. The mounts already leave nothing else to see; this is the second
//! wall, and the one that keeps user code out of the agent's and the zygote's memory and away from their signals.

use crate::frame::DEVICES;
use crate::places;
use crate::plan::Mode;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fd::OwnedFd;
use std::path::Path;

/// Below this version Landlock lacks rights that we promise (truncate, and network rules for later).
pub(crate) const MIN_ABI: u32 = 3;

const READABLE: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt/atoll",
    "/etc",
    "/data/input",
    "/dev",
];
/// What else a root of the template's own can have at its top and is not an image's to give: mounts of the sandbox, and what
/// Landlock hides.
const NOT_OF_AN_IMAGE: &[&str] = &["dev", "proc", "run", "sys", "tmp"];

#[derive(Debug, thiserror::Error)]
pub(crate) enum PathsError {
    #[error("cannot create the Landlock ruleset")]
    Rules(#[from] RulesetError),
    #[error("cannot create the Landlock ruleset: the kernel returned none")]
    NoRuleset,
}

/// The version that this kernel offers; zero is none.
pub fn kernel_abi() -> u32 {
    let abi: i32 = landlock_version();
    u32::try_from(abi).unwrap_or(0)
}

fn landlock_version() -> i32 {
    crate::sys::landlock_abi()
}

fn abi(version: u32) -> ABI {
    match version {
        0..=3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        _ => ABI::V6,
    }
}

/// Every access that the rules decide on, by the names of the kernel's interface, for receipts.
pub(crate) fn rights() -> Vec<String> {
    let version = kernel_abi();
    let files = AccessFs::from_all(abi(version))
        .iter()
        .map(|right| format!("{right:?}"));
    let scopes = [Scope::AbstractUnixSocket, Scope::Signal].map(|scope| format!("{scope:?}"));
    files.chain(scopes.into_iter().filter(|_| version >= 6)).collect()
}

/// Makes the ruleset for the current root directory, which may be an image's.
pub(crate) fn make_ruleset(mode: Mode, is_image: bool) -> Result<OwnedFd, PathsError> {
    let version = kernel_abi();
    let abi = abi(version);
    let all = AccessFs::from_all(abi);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)?;
    if version >= 6 {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal)?;
    }
    let read = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
    let change = all & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let mut created = ruleset.create()?;
    created = allow(created, &["/"], AccessFs::ReadDir.into())?;
    created = match is_image {
        true => allow_image(created, read)?,
        false => allow(created, READABLE, read)?,
    };
    for (_, place) in places::shown(Path::new("/")) {
        created = allow(created, &[&format!("/{place}")], change)?;
    }
    created = allow(
        created,
        &["/proc"],
        AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::WriteFile,
    )?;
    let device = (AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev) & all;
    // A shared mapping of a writable `/dev/zero` is memory that nobody counts where there is no cgroup.
    let devices: Vec<&str> = DEVICES
        .iter()
        .copied()
        .filter(|path| mode == Mode::Root || *path != "/dev/zero")
        .collect();
    created = allow(created, &devices, device)?;
    created = allow(created, &["/dev/pts"], device | AccessFs::ReadDir)?;
    Option::<OwnedFd>::from(created).ok_or(PathsError::NoRuleset)
}

/// Adds one right for each of the paths that exist.
fn allow(
    mut created: RulesetCreated,
    paths: &[&str],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, PathsError> {
    for path in paths {
        if let Ok(fd) = PathFd::new(path) {
            created = created.add_rule(PathBeneath::new(fd, access))?;
        }
    }
    Ok(created)
}

/// Everything at the top of an image, and `/dev`. A link is not followed: it could lead to `/` itself, and where it should
/// lead has a rule of its own.
fn allow_image(mut created: RulesetCreated, read: BitFlags<AccessFs>) -> Result<RulesetCreated, PathsError> {
    created = allow(created, &["/dev"], read)?;
    for entry in std::fs::read_dir("/").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = NOT_OF_AN_IMAGE.iter().any(|ours| name == *ours);
        let Some(path) = entry.path().to_str().map(str::to_owned).filter(|_| !ours) else {
            continue;
        };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => created = allow(created, &[&path], read)?,
            Ok(kind) if kind.is_file() => {
                created = allow(created, &[&path], AccessFs::ReadFile | AccessFs::Execute)?;
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(created)
}
