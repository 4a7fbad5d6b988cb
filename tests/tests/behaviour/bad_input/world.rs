//! A directory of things to point at, and the checks that hold for every refusal.

use anyhow::{Context, Result};
use atoll_tests::census::Watch;
use atoll_tests::{Ran, atoll, run_command, run_fed};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory with a few things to point at, and a data directory that must never come into being.
pub(super) struct World {
    dir: tempfile::TempDir,
    watch: Watch,
}

impl World {
    pub(super) fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        fs::create_dir(dir.path().join("cwd"))?;
        let watch = Watch::start()?;
        let world = Self { dir, watch };
        let cwd = world.cwd();
        fs::write(cwd.join("ok.py"), "print(1)")?;
        fs::write(cwd.join("x.csv"), "a,b\n")?;
        fs::write(cwd.join("latin1.py"), b"# caf\xe9\nprint(1)")?;
        fs::write(cwd.join("empty.py"), "")?;
        fs::write(cwd.join("blank.py"), " \n\t\n")?;
        fs::create_dir(cwd.join("folder"))?;
        fs::create_dir(cwd.join("other"))?;
        fs::write(cwd.join("other/x.csv"), "c,d\n")?;
        Ok(world)
    }

    pub(super) fn cwd(&self) -> PathBuf {
        self.dir.path().join("cwd")
    }

    fn command(&self) -> Command {
        let mut command = atoll();
        command
            .current_dir(self.cwd())
            .env("ATOLL_HOME", self.dir.path().join("home"))
            .arg("run");
        command
    }

    /// Runs and checks what holds for every refusal; gives back the sentence.
    pub(super) fn refused(&self, args: &[&OsStr], stdin: Option<&[u8]>) -> Result<String> {
        let before = listing(self.dir.path())?;
        let mut command = self.command();
        command.args(args);
        let ran = match stdin {
            Some(bytes) => run_fed(&mut command, bytes)?,
            None => run_command(&mut command)?,
        };
        let Ran { code, stdout, stderr } = &ran;
        assert_eq!((code, stdout.as_str()), (&Some(2), ""), "{args:?}: {ran:?}");
        assert_eq!(listing(self.dir.path())?, before, "{args:?} left files");
        self.watch.nothing_left()?;
        assert_eq!(children()?, "", "{args:?} left processes");
        let sentence = stderr.lines().next().context("nothing on stderr")?;
        let sentence = sentence
            .strip_prefix("error: ")
            .with_context(|| format!("{args:?}: {ran:?}"))?;
        assert!(
            !sentence.is_empty() && !sentence.ends_with('.') && stderr.ends_with('\n'),
            "{args:?}: {ran:?}"
        );
        Ok(sentence.to_owned())
    }

    pub(super) fn refused_words(&self, args: &[&str]) -> Result<String> {
        self.refused(&args.iter().map(OsStr::new).collect::<Vec<_>>(), None)
    }
}

fn listing(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        names.push(path.to_string_lossy().into_owned());
        if path.is_dir() {
            names.extend(listing(&path)?);
        }
    }
    names.sort();
    Ok(names)
}

/// Children of this process, dead ones included: the watch makes it the parent of orphans, and a clean run leaves none.
fn children() -> Result<String> {
    let mut all = String::new();
    for task in fs::read_dir("/proc/self/task")? {
        all.push_str(&fs::read_to_string(task?.path().join("children"))?);
    }
    Ok(all)
}

/// Each row: arguments, and what the sentence must be.
pub(super) fn check(rows: &[(&[&str], &str)]) -> Result<()> {
    let world = World::new()?;
    for (args, sentence) in rows {
        assert_eq!(&world.refused_words(args)?, sentence, "{args:?}");
    }
    Ok(())
}
