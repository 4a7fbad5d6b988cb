//! Which disk a file lies on: the kernel limits reading and writing per whole disk, not per partition.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A whole block device, as the kernel's control files name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    pub number: String,
}

impl Disk {
    /// The disk below the file system of `path`; `None` where there is none: overlay, tmpfs, network, btrfs.
    pub fn of(path: &Path) -> Option<Self> {
        let device = fs::metadata(path).ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        Self::find(Path::new("/sys/dev/block"), &format!("{major}:{minor}"))
    }

    fn find(devices: &Path, number: &str) -> Option<Self> {
        let device = devices.join(number).canonicalize().ok()?;
        if !device.join("partition").exists() {
            return Some(Self {
                number: number.to_owned(),
            });
        }
        let whole = fs::read_to_string(device.parent()?.join("dev")).ok()?;
        Some(Self {
            number: whole.trim().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_its_disk_and_no_device_is_none() {
        let dir = std::env::temp_dir().join(format!("atoll-disk-{}", std::process::id()));
        let disk = dir.join("devices/sda");
        fs::create_dir_all(disk.join("sda2")).unwrap();
        fs::create_dir_all(dir.join("block")).unwrap();
        fs::write(disk.join("dev"), "8:0\n").unwrap();
        fs::write(disk.join("sda2/dev"), "8:2\n").unwrap();
        fs::write(disk.join("sda2/partition"), "2\n").unwrap();
        std::os::unix::fs::symlink("../devices/sda", dir.join("block/8:0")).unwrap();
        std::os::unix::fs::symlink("../devices/sda/sda2", dir.join("block/8:2")).unwrap();
        let whole = Some(Disk { number: "8:0".into() });
        assert_eq!(Disk::find(&dir.join("block"), "8:0"), whole);
        assert_eq!(Disk::find(&dir.join("block"), "8:2"), whole);
        assert_eq!(Disk::find(&dir.join("block"), "0:31"), None);
        assert_eq!(Disk::of(Path::new("/proc/self")), None);
        fs::remove_dir_all(&dir).unwrap();
    }
}
