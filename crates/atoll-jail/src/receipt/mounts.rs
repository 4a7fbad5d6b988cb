//! The mounts that a process sees, from its `mountinfo`: where, of which kind, with which flags. Not where they come from:
//! that would tell paths of the host.

use crate::step::{Step, StepError};
use std::collections::BTreeMap;
use std::fs;

/// Options of a file system that limit what is seen in it; others would tell about the host.
const TOLD: &[&str] = &["subset=", "hidepid=", "size=", "nr_inodes="];

/// Mount point to kind and flags, for example `tmpfs rw,nosuid,nodev`.
pub(super) fn of(pid: i32) -> Result<BTreeMap<String, String>, StepError> {
    let text = fs::read_to_string(format!("/proc/{pid}/mountinfo")).step("read the context's mounts")?;
    Ok(text.lines().filter_map(read).collect())
}

fn read(line: &str) -> Option<(String, String)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(4);
    let (place, flags) = (mount.next()?, mount.next()?);
    let mut file_system = file_system.split(' ');
    let (kind, options) = (file_system.next()?, file_system.nth(1)?);
    let told = options
        .split(',')
        .filter(|option| TOLD.iter().any(|name| option.starts_with(name)));
    let flags: Vec<&str> = flags
        .split(',')
        .filter(|flag| *flag != "relatime")
        .chain(told)
        .collect();
    Some((place.to_owned(), format!("{kind} {}", flags.join(","))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_where_what_and_how_but_not_from_where() {
        let disk = "141 140 254:0 /srv/secret /usr ro,nosuid,nodev,relatime - ext4 /dev/vda rw,discard";
        assert_eq!(read(disk), Some(("/usr".into(), "ext4 ro,nosuid,nodev".into())));
        let proc = "156 140 0:51 / /proc rw,nosuid - proc proc rw,hidepid=invisible,subset=pid";
        assert_eq!(
            read(proc),
            Some(("/proc".into(), "proc rw,nosuid,hidepid=invisible,subset=pid".into()))
        );
        assert_eq!(read("141 140 254:0"), None);
    }
}
