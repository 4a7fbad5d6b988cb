//! A program without what only debuggers read: it goes into the guest's memory.

use std::io;

/// Cuts the file behind the last part that is loaded. Names of sections and all that they describe stand behind it.
pub(super) fn stripped(mut program: Vec<u8>) -> io::Result<Vec<u8>> {
    let bad = || io::Error::other("the program is not a 64-bit ELF file");
    if program.get(..5) != Some(b"\x7fELF\x02") {
        return Err(bad());
    }
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(program.get(at..at + bytes)?);
        Some(u64::from_le_bytes(word))
    };
    let headers = || -> Option<u64> {
        let (first, size, count) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
        let mut end = first + size * count;
        for index in 0..count {
            let at = usize::try_from(first + index * size).ok()?;
            end = end.max(number(at + 8, 8)?.checked_add(number(at + 0x20, 8)?)?);
        }
        Some(end)
    };
    let end = headers().and_then(|end| usize::try_from(end).ok()).ok_or_else(bad)?;
    program.truncate(end);
    // No table of sections: its place, how many, which one has the names.
    program[0x28..0x30].fill(0);
    program[0x3c..0x40].fill(0);
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_stripped_program_is_shorter_and_still_runs() {
        let own = std::env::current_exe().unwrap();
        let whole = fs_err::read(&own).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        let short = stripped(whole.clone()).unwrap();
        assert!(short.len() < whole.len());
        fs_err::write(&path, short).unwrap();
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let ran = std::process::Command::new(&path).arg("--list").output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }

    #[test]
    fn what_is_no_program_is_refused() {
        assert!(stripped(b"#!/bin/sh\n".to_vec()).is_err());
        assert!(stripped(b"\x7fELF\x02".to_vec()).is_err());
    }
}
