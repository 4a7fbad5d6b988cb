//! The archive that a kernel unpacks as its first file system (`newc`). A pure function of what is put in.

/// Every file of the archive belongs to root.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

impl Archive {
    /// A directory; its parents come before it.
    pub(super) fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY, &[]);
    }

    pub(super) fn file(&mut self, path: &str, body: &[u8]) {
        self.entry(path, FILE, body);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, body: &[u8]) {
        self.inode += 1;
        let links = if mode == DIRECTORY { 2 } else { 1 };
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let name = u32::try_from(path.len() + 1).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(b"070701");
        for field in [self.inode, mode, 0, 0, links, 0, length, 0, 0, 0, 0, name, 0] {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(body);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_the_one_that_the_format_describes() {
        let mut archive = Archive::default();
        archive.directory("dev");
        archive.file("init", b"hello");
        let bytes = archive.finish();
        let head = |ino: &str, mode: &str, links: &str, size: &str, name: &str| {
            let zero = "00000000";
            format!("070701{ino}{mode}{zero}{zero}{links}{zero}{size}{zero}{zero}{zero}{zero}{name}{zero}")
        };
        let dev = head("00000001", "000041ed", "00000002", "00000000", "00000004");
        let init = head("00000002", "000081ed", "00000001", "00000005", "00000005");
        let trailer = head("00000003", "00000000", "00000001", "00000000", "0000000b");
        let want = format!("{dev}dev\0\0\0{init}init\0\0hello\0\0\0{trailer}TRAILER!!!\0\0\0\0");
        assert_eq!(String::from_utf8(bytes).unwrap(), want);
    }
}
