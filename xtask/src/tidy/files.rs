//! Which files the rules look at: what git tracks or would track, read as text.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use fs_err as fs;

use super::mask::mask;

/// One text file with its path relative to the root, `/` as separator.
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(super) path: String,
    pub(super) text: String,
    /// For Rust: the text with comments and literals blanked out, same lines. Else empty.
    pub(super) masked: String,
}

impl SourceFile {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let masked = if path.ends_with(".rs") {
            mask(text)
        } else {
            String::new()
        };
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            masked,
        }
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(super) fn is_python(&self) -> bool {
        self.path.ends_with(".py")
    }

    /// Lines of the text, counted from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Reads every listed file that is text. Files that are not UTF-8 are pictures and the like.
pub(super) fn load(root: &Path) -> Result<Vec<SourceFile>> {
    let mut sources = Vec::new();
    for path in list(root)? {
        let Ok(bytes) = fs::read(root.join(&path)) else {
            continue;
        };
        if let Ok(text) = String::from_utf8(bytes) {
            sources.push(SourceFile::new(&path, &text));
        }
    }
    Ok(sources)
}

/// Relative paths of all files, sorted. Without git (an unpacked archive) the tree is walked.
pub(crate) fn list(root: &Path) -> Result<Vec<String>> {
    let mut paths = match list_by_git(root) {
        Some(paths) => paths,
        None => {
            let mut paths = Vec::new();
            walk(root, root, &mut paths)?;
            paths
        }
    };
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// `None` unless `root` itself is the top of a git work tree.
fn list_by_git(root: &Path) -> Option<Vec<String>> {
    if !root.join(".git").exists() {
        return None;
    }
    let mut git = Command::new("git");
    git.current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(
        text.split('\0')
            .filter(|path| !path.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}

fn walk(root: &Path, dir: &Path, paths: &mut Vec<String>) -> Result<()> {
    const SKIPPED: [&str; 4] = [".git", "target", "__pycache__", "atoll-out"];
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
            walk(root, &entry.path(), paths)?;
        } else if kind.is_file() {
            let path = entry.path();
            let relative = path.strip_prefix(root).unwrap_or(&path);
            paths.push(relative.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_file_is_in_the_list() {
        let root = crate::project::find_root().unwrap();
        assert!(
            list(&root)
                .unwrap()
                .iter()
                .any(|path| path == "xtask/src/tidy/files.rs")
        );
    }

    #[test]
    fn walking_finds_it_too_and_skips_git() {
        let root = crate::project::find_root().unwrap().join("xtask");
        let mut paths = Vec::new();
        walk(&root, &root, &mut paths).unwrap();
        assert!(paths.iter().any(|path| path == "src/tidy/files.rs"));
        assert!(!paths.iter().any(|path| path.starts_with(".git/")));
    }
}
