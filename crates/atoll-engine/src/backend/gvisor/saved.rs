//! A saved ready sandbox on the disk: two files of the keeper's, and what must be known to go on with it.
//!
//! It lies beside the template's tree and goes with it. Its directory is named after everything that it depends on, and
//! its bytes are checked before the first use.

use super::stored;
use crate::backend::{Saved, digest};
use atoll_core::SandboxId;
use atoll_jail::gvisor::{IMAGE, SCRATCH};
use fs_err as fs;
use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};

const FACTS: &str = "ready.json";
/// Locked, shared, by everybody who may restore from the directory, as long as they live.
const USED: &str = "used";
/// The image while it is unpacked.
const PLAIN: &str = "plain.img";
/// The end of names of files that are not whole yet.
const PART: &str = "part";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    waiting: Saved,
    /// Of both files, one after the other.
    sha256: String,
}

/// The directory of one saved sandbox, which may be there or not.
#[derive(Debug)]
pub(super) struct Shelf {
    dir: PathBuf,
    /// What this one writes under until all is there: others may save at the same time, in this process, too.
    own: String,
    /// Nobody removes the directory while this is held.
    _used: Option<fs::File>,
}

impl Shelf {
    /// `depends_on`: all that a saved sandbox must be made anew for.
    /// Beside a template of others nothing can be saved: sandboxes start without.
    pub(super) fn beside(tree: &Path, depends_on: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for one in depends_on {
            hash.update((one.len() as u64).to_be_bytes());
            hash.update(one);
        }
        let key = format!("{:x}", hash.finalize())[..16].to_owned();
        let dir = tree.parent().unwrap_or(tree).join("gvisor").join(key);
        let own = SandboxId::from_random(crate::random_bytes()).as_str().to_owned();
        let used = used(&dir).ok();
        Self { dir, own, _used: used }
    }

    /// Those of other binaries, releases and warm-ups that nobody uses any more.
    fn remove_others(&self) {
        let all = self.dir.parent().and_then(|all| fs::read_dir(all).ok());
        for other in all.into_iter().flatten().flatten().map(|other| other.path()) {
            if other != self.dir
                && let Ok(_alone) = locked(&other, FlockOperation::NonBlockingLockExclusive)
            {
                fs::remove_dir_all(&other).ok();
            }
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What was saved before, if it is whole. A save that is just being put there is waited for.
    pub(super) fn look(&self) -> Option<Saved> {
        let _calm = self.lock(FlockOperation::LockShared).ok()?;
        self.read()
    }

    fn read(&self) -> Option<Saved> {
        let text = fs::read(self.dir.join(FACTS)).ok()?;
        let facts: Facts = serde_json::from_slice(&text).ok()?;
        (self.digest().ok()? == facts.sha256).then_some(facts.waiting)
    }

    /// How much memory was written; none while there is no image. It takes as much again while it is read.
    pub(super) fn image_bytes(&self) -> u64 {
        fs::metadata(self.dir.join(IMAGE)).map_or(0, |image| image.len())
    }

    /// Two files to write to, under other names until all is there.
    pub(super) fn open(&self) -> io::Result<[OwnedFd; 2]> {
        let file = |name: &str| fs::File::create(self.unfinished(name)).map(|file| file.into_file().into());
        Ok([file(IMAGE)?, file(SCRATCH)?])
    }

    /// From now on it is there. Of several that save at the same time the first one counts, because somebody may use it
    /// already; what is not whole is replaced.
    pub(super) fn close(&self, waiting: Saved) -> io::Result<Saved> {
        let _alone = self.lock(FlockOperation::LockExclusive)?;
        let kept = match self.read() {
            Some(before) => before,
            None => self.replace(waiting)?,
        };
        self.remove_unfinished();
        self.remove_others();
        Ok(kept)
    }

    fn replace(&self, waiting: Saved) -> io::Result<Saved> {
        fs::remove_file(self.dir.join(FACTS)).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let plain = self.unfinished(PLAIN);
        // Faster to restore. Where it cannot be had, the image as it was written is as good.
        match stored::unpack(&self.unfinished(IMAGE), &plain) {
            Ok(()) => fs::rename(plain, self.dir.join(IMAGE))?,
            Err(_) => fs::rename(self.unfinished(IMAGE), self.dir.join(IMAGE))?,
        }
        fs::rename(self.unfinished(SCRATCH), self.dir.join(SCRATCH))?;
        let sha256 = self.digest()?;
        let facts = serde_json::to_vec(&Facts {
            waiting: waiting.clone(),
            sha256,
        })?;
        fs::write(self.unfinished(FACTS), facts)?;
        fs::rename(self.unfinished(FACTS), self.dir.join(FACTS))?;
        Ok(waiting)
    }

    /// Held until it is dropped.
    fn lock(&self, how: FlockOperation) -> io::Result<fs::File> {
        let dir = fs::File::open(&self.dir)?;
        rustix::fs::flock(dir.file(), how)?;
        Ok(dir)
    }

    fn unfinished(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.{}.{PART}", self.own))
    }

    /// Of everybody: who is still at it comes too late, and who has died left them.
    fn remove_unfinished(&self) {
        let all = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        for part in all.filter(|entry| entry.path().extension().is_some_and(|end| end == PART)) {
            fs::remove_file(part.path()).ok();
        }
    }

    fn digest(&self) -> io::Result<String> {
        let [image, scratch] = [IMAGE, SCRATCH].map(|name| fs::File::open(self.dir.join(name)));
        digest(&mut [image?.into_file(), scratch?.into_file()])
    }
}

/// Creates the directory and marks it as used. Another engine may remove it in between; then it is created again.
fn used(dir: &Path) -> io::Result<fs::File> {
    loop {
        fs::create_dir_all(dir)?;
        let used = match locked(dir, FlockOperation::LockShared) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            used => used?,
        };
        let inode = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
        let named = rustix::fs::stat(dir.join(USED)).map(inode);
        if named == rustix::fs::fstat(used.file()).map(inode) {
            return Ok(used);
        }
    }
}

/// The mark of use of one directory, locked until it is dropped.
fn locked(dir: &Path, how: FlockOperation) -> io::Result<fs::File> {
    let used = fs::File::create(dir.join(USED))?;
    rustix::fs::flock(used.file(), how)?;
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn saved(request: u32) -> Saved {
        let text = format!(r#"{{"talk":{{"request":{request},"stream":7}},"contexts":[]}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_was_saved_is_found_until_a_byte_of_it_changes() {
        let home = std::env::temp_dir().join(format!("atoll-saved-{}", std::process::id()));
        let shelf = Shelf::beside(&home.join("tree"), &["a", "b"]);
        assert_eq!(shelf.look(), None);
        let [image, _scratch] = shelf.open().unwrap();
        std::fs::File::from(image).write_all(b"memory").unwrap();
        let waiting = saved(3);
        shelf.close(waiting.clone()).unwrap();
        assert_eq!(shelf.look(), Some(waiting.clone()));
        let other = Shelf::beside(&home.join("tree"), &["ab", ""]);
        assert_eq!(other.look(), None);
        let other_dir = other.dir().to_owned();
        shelf.remove_others();
        assert!(other_dir.is_dir(), "somebody uses it");
        drop(other);
        shelf.remove_others();
        assert!(!other_dir.exists() && shelf.look() == Some(waiting));
        fs::write(shelf.dir().join(IMAGE), b"memorz").unwrap();
        assert_eq!(shelf.look(), None);
        fs::remove_dir_all(&home).unwrap();
    }

    fn put(shelf: &Shelf, bytes: &[u8], waiting: Saved) -> Saved {
        let [image, _scratch] = shelf.open().unwrap();
        std::fs::File::from(image).write_all(bytes).unwrap();
        shelf.close(waiting).unwrap()
    }

    #[test]
    fn of_two_that_save_at_once_the_first_counts_and_nothing_is_mixed() {
        let home = std::env::temp_dir().join(format!("atoll-twins-{}", std::process::id()));
        let shelves = [0, 1].map(|_| Shelf::beside(&home.join("tree"), &["a"]));
        let [first, second] = shelves.each_ref().map(|shelf| shelf.open().unwrap());
        for ([image, _], bytes) in [(second, b"second"), (first, b"first.")] {
            std::fs::File::from(image).write_all(bytes).unwrap();
        }
        let (a, b) = (saved(1), saved(2));
        assert_eq!(shelves[0].close(a.clone()).unwrap(), a);
        assert_eq!(
            shelves[1].close(b.clone()).unwrap(),
            a,
            "somebody may use the first already"
        );
        assert_eq!(shelves[1].look(), Some(a));
        assert_eq!(fs::read(shelves[0].dir().join(IMAGE)).unwrap(), b"first.");
        assert_eq!(fs::read_dir(shelves[0].dir()).unwrap().count(), 4, "no part is left");
        fs::write(shelves[0].dir().join(IMAGE), b"damaged").unwrap();
        assert_eq!(put(&shelves[1], b"again", b.clone()), b, "what is damaged is replaced");
        assert_eq!(shelves[0].look(), Some(b));
        fs::remove_dir_all(&home).unwrap();
    }
}
