//! The kernel that guests boot, and the drivers it needs: from the directory that the operator names, else the host's own.
//!
//! A directory holds a kernel as a distribution's package does: `boot/vmlinuz-<release>` with `lib/modules/<release>`.

use crate::backend::TierError;
use fs_err as fs;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Drivers, by name; those that are built in are left out.
const WANTED: [&str; 5] = ["virtio_mmio", "virtio_blk", "virtio_console", "virtio_rng", "squashfs"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(super) image: PathBuf,
    pub(super) modules: PathBuf,
    pub(crate) release: String,
}

/// The newest one that can be read.
pub(crate) fn find(named: Option<&Path>) -> Result<Kernel, TierError> {
    let root = named.unwrap_or(Path::new("/"));
    let entries = fs::read_dir(root.join("boot")).into_iter().flatten().flatten();
    let mut found: Vec<Kernel> = entries.filter_map(|entry| kernel(root, &entry.path())).collect();
    found.sort_by_key(|kernel| numbers(&kernel.release));
    found.pop().ok_or_else(|| TierError::NoWall {
        layer: "guest kernel".to_owned(),
        message: format!(
            "no guest kernel found: no kernel in {} with modules in {}",
            root.join("boot").display(),
            root.join("lib/modules").display()
        ),
        fix: "apt-get install linux-image-cloud-amd64; or `apt-get download` it, unpack it with `dpkg-deb --extract`, and set \
              ATOLL_MICROVM_KERNEL to that directory"
            .to_owned(),
    })
}

fn kernel(root: &Path, image: &Path) -> Option<Kernel> {
    let release = image.file_name()?.to_str()?.strip_prefix("vmlinuz-")?.to_owned();
    let places = ["lib/modules", "usr/lib/modules"].map(|place| root.join(place).join(&release));
    let modules = places.into_iter().find(|place| place.is_dir())?;
    fs::File::open(image).is_ok().then(|| Kernel {
        image: image.to_owned(),
        modules,
        release,
    })
}

/// So that 6.12 comes after 6.1.
fn numbers(release: &str) -> Vec<u64> {
    let parts = release.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

impl Kernel {
    /// The drivers as the kernel loads them, each after what it needs. Read from the drivers themselves: a package that was
    /// only unpacked has no list of that.
    pub(super) fn drivers(&self) -> Result<Vec<Vec<u8>>, TierError> {
        let built_in = fs::read_to_string(self.modules.join("modules.builtin")).unwrap_or_default();
        let mut found = Drivers {
            files: BTreeMap::new(),
            built_in: built_in.lines().map(name_of).collect(),
            ordered: Vec::new(),
            seen: BTreeSet::new(),
        };
        index(&self.modules, &mut found.files).map_err(TierError::Start)?;
        for wanted in WANTED {
            found.take(wanted, &self.release)?;
        }
        Ok(found.ordered)
    }
}

struct Drivers {
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
    ordered: Vec<Vec<u8>>,
    seen: BTreeSet<String>,
}

impl Drivers {
    fn take(&mut self, name: &str, release: &str) -> Result<(), TierError> {
        if self.built_in.contains(name) || !self.seen.insert(name.to_owned()) {
            return Ok(());
        }
        let file = self.files.get(name).ok_or_else(|| TierError::NoWall {
            layer: "guest kernel".to_owned(),
            message: format!("guest kernel {release} does not have the driver {name}"),
            fix: "use the kernel from the distribution's cloud image package (linux-image-cloud-amd64)".to_owned(),
        })?;
        let driver = unpacked(file)?;
        for needed in needs(&driver) {
            self.take(&needed, release)?;
        }
        self.ordered.push(driver);
        Ok(())
    }
}

/// Every driver below `dir` by its name.
fn index(dir: &Path, files: &mut BTreeMap<String, PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        if kind.is_dir() {
            index(&path, files)?;
        } else if kind.is_file() && path.to_string_lossy().contains(".ko") {
            files.insert(name_of(&path.to_string_lossy()), path);
        }
    }
    Ok(())
}

/// What a driver says of itself: `depends=virtio,virtio_ring` among words that end with a zero.
fn needs(driver: &[u8]) -> Vec<String> {
    let words = driver.split(|byte| *byte == 0);
    let mut told = words.filter_map(|word| word.strip_prefix(b"depends="));
    let names = told.next().map(String::from_utf8_lossy).unwrap_or_default();
    let names = names.split(',').filter(|name| !name.is_empty());
    names.map(name_of).collect()
}

fn unpacked(driver: &Path) -> Result<Vec<u8>, TierError> {
    let bytes = fs::read(driver).map_err(TierError::Start)?;
    match driver.extension().and_then(|end| end.to_str()) {
        Some("xz") => unpack_xz(driver),
        Some("zst") => {
            let mut body = Vec::new();
            let reader = ruzstd::decoding::StreamingDecoder::new(bytes.as_slice());
            let mut reader = reader.map_err(|error| TierError::Start(io::Error::other(error.to_string())))?;
            io::Read::read_to_end(&mut reader, &mut body).map_err(TierError::Start)?;
            Ok(body)
        }
        _ => Ok(bytes),
    }
}

fn unpack_xz(driver: &Path) -> Result<Vec<u8>, TierError> {
    let mut xz = Command::new("xz");
    let told = xz.arg("-dc").arg(driver).stdin(Stdio::null()).output();
    match told {
        Ok(told) if told.status.success() => Ok(told.stdout),
        _ => Err(TierError::NoWall {
            layer: "guest kernel".to_owned(),
            message: format!(
                "{} is xz-compressed, and `xz` failed to decompress it",
                driver.display()
            ),
            fix: "apt-get install xz-utils".to_owned(),
        }),
    }
}

/// `kernel/drivers/char/hw_random/virtio-rng.ko.xz` is `virtio_rng`.
fn name_of(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_come_after_what_they_need_and_built_in_ones_not_at_all() {
        let root = tempfile::tempdir().unwrap();
        let modules = root.path().join("kernel/drivers");
        fs::create_dir_all(&modules).unwrap();
        let write = |name: &str, needs: &str| {
            let body = format!("x\0depends={needs}\0name={name}\0");
            fs::write(modules.join(name), body).unwrap();
        };
        write("virtio_mmio.ko", "virtio_ring,virtio");
        write("virtio_ring.ko", "virtio");
        write("virtio.ko", "");
        write("virtio_blk.ko", "virtio_ring");
        write("virtio-rng.ko", "");
        write("squashfs.ko", "");
        fs::write(
            root.path().join("modules.builtin"),
            "kernel/drivers/char/virtio_console.ko\n",
        )
        .unwrap();
        let mut kernel = Kernel {
            image: PathBuf::new(),
            modules: root.path().to_owned(),
            release: "6.1".to_owned(),
        };
        let named = |driver: &Vec<u8>| {
            String::from_utf8_lossy(driver)
                .rsplit("name=")
                .next()
                .unwrap()
                .replace('\0', "")
        };
        let order: Vec<String> = kernel.drivers().unwrap().iter().map(named).collect();
        let want = [
            "virtio.ko",
            "virtio_ring.ko",
            "virtio_mmio.ko",
            "virtio_blk.ko",
            "virtio-rng.ko",
            "squashfs.ko",
        ];
        assert_eq!(order, want);
        fs::remove_file(modules.join("squashfs.ko")).unwrap();
        kernel.release = "odd".to_owned();
        let missing = kernel.drivers().unwrap_err().to_string();
        assert!(missing.contains("squashfs"), "{missing}");
    }

    #[test]
    fn the_newest_kernel_is_taken_by_its_numbers() {
        assert!(numbers("6.12.9-cloud-amd64") > numbers("6.1.0-55-cloud-amd64"));
    }

    #[test]
    fn a_missing_kernel_says_how_to_get_one() {
        let TierError::NoWall { message, fix, .. } = find(Some(Path::new("/nonexistent"))).unwrap_err() else {
            panic!("not a wall");
        };
        let places = "no kernel in /nonexistent/boot with modules in /nonexistent/lib/modules";
        assert!(message.ends_with(places), "{message}");
        assert!(fix.contains("linux-image-cloud-amd64"), "{fix}");
    }
}
