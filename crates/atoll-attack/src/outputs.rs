//! Outputs that try to lead whoever saves them astray: links and names. O and F of the catalogue.

use crate::bench::{self, Bench};
use crate::case::cases;
use crate::error::AttackError;
use atoll_engine::SavedFiles;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Runs code in a new sandbox and saves what it left in a directory.
async fn collect(bench: &Bench, code: &str, out: &Path) -> Result<SavedFiles, AttackError> {
    let engine = bench.engine(&[]).await?;
    let mut own = bench::sandbox(&engine).await?;
    bench::say(&mut own, code).await?;
    let saved = own.collect(Some(out)).await?;
    bench::end(&engine, [own]).await?;
    Ok(saved)
}

/// Every file below a directory with its bytes.
pub fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(contents(&entry.path())),
            _ => found.push((entry.path(), std::fs::read(entry.path()).unwrap_or_default())),
        }
    }
    found
}

pub fn holds(files: &[(PathBuf, Vec<u8>)], needle: &str) -> bool {
    let within = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
    files.iter().any(|(_, bytes)| within(bytes))
}

/// Names that try something.
const NAMES: [&[u8]; 12] = [
    b"a\nb",
    b"-rf",
    b".hidden",
    b"con",
    b"\xff\xfe",
    b"\xe2\x80\xaegnp.exe",
    b"..\\..\\x",
    b"%2e%2e%2fx",
    b"...",
    b" ",
    b"a\r\nSet-Cookie: x",
    b"plain",
];

/// Makes them, one very long, and one very deep.
fn make() -> String {
    let names: Vec<String> = NAMES
        .iter()
        .map(|name| name.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    format!(
        "import os\nos.chdir('/data/output')\nfor n in {names:?} + [('x'*250).encode().hex()]: os.close(os.open(bytes.fromhex(n),os.O_CREAT|os.O_WRONLY))\n\
         os.makedirs('deep/'+'d/'*50)\nopen('deep/'+'d/'*50+'f','w').write('x')\n1"
    )
}

/// What is wrong with saved paths: outside of `base`, not there, or with characters that hide what they are.
fn lies(base: &Path, saved: &[PathBuf]) -> Vec<PathBuf> {
    let honest = |path: &PathBuf| {
        let text = path.to_string_lossy();
        path.starts_with(base)
            && path.is_file()
            && !text.chars().any(|c| c.is_control() || c == '\u{202e}')
            && !path.components().any(|part| part == Component::ParentDir)
    };
    saved.iter().filter(|path| !honest(path)).cloned().collect()
}

/// What a careless host would do with the same names, and with one that only a lying sandbox sends.
fn save_as_they_are(base: &Path) -> std::io::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(base)?;
    let paths = NAMES.iter().copied().chain([&b"../x"[..]]);
    let paths = paths.map(|name| base.join(OsString::from_vec(name.to_vec())));
    paths.map(|path| std::fs::write(&path, "").map(|()| path)).collect()
}

cases! {
    F06 {
        id: "F06",
        claim: "A symbolic link among the outputs does not return its target",
        expected: "links to the host, to the template and to /proc are skipped; the regular file is collected",
        oracle: "the collected files contain neither the canary nor /etc/passwd",
        twin: "a regular file in the same directory is collected",
        control: "a reader that follows links gets the canary through the same link (the files belong to the attack)",
    } |bench, lab, shown| {
        let (dir, canary) = (lab.dir().join("f06"), lab.dir().join("config.toml"));
        let code = format!(
            "import os\nos.chdir('/data/output')\nos.symlink('/etc/passwd','a')\nos.symlink('/proc/self/environ','b')\n\
             os.symlink({canary:?},'c')\nos.symlink('/etc','d')\nos.symlink('/proc/1/root','e')\nos.symlink('/','f')\n\
             open('plain','w').write('plain')\nos.symlink('plain','g')\n1",
        );
        let saved = collect(bench, &code, &dir.join("out")).await?;
        let (files, names) = (contents(&dir.join("out")), saved.files.iter().map(|file| file.path.as_str()));
        let names: Vec<&str> = names.collect();
        shown.holds(names == ["/data/output/plain"], format!("collected files: {names:?}, expected only /data/output/plain"));
        let foreign = holds(&files, &lab.secret) || holds(&files, "root:x:0");
        shown.holds(!foreign, "the collected files contain neither the canary nor /etc/passwd");
        shown.works(holds(&files, "plain"), "the regular file was collected");
        let linked = std::os::unix::fs::symlink(&canary, dir.join("link"));
        let followed = linked.and_then(|()| std::fs::read_to_string(dir.join("link")));
        shown.control(followed.is_ok_and(|text| text == lab.secret), "a reader that follows the link gets the canary");
    }
    F10 {
        id: "F10",
        claim: "No output name escapes the caller's directory or disguises its type",
        expected: "each file is saved inside the directory, under a name without control characters or text direction marks",
        oracle: "the parent directory contains nothing new; every saved path is inside the directory and has no deceptive characters",
        twin: "a file with an ordinary name is saved under that name",
        control: "code that saves the same names and one forged name unchecked fails the same check (in the attack's own directories)",
    } |bench, lab, shown| {
        let dir = lab.dir().join("f10");
        let out = dir.join("out");
        let saved = collect(bench, &make(), &out).await?;
        let found = lies(&out, &saved.saved);
        shown.holds(found.is_empty(), format!("saved paths outside the directory or with deceptive characters: {found:?}, expected none"));
        let beside = std::fs::read_dir(&dir).map_err(AttackError::io("list the directory"))?;
        let beside: Vec<OsString> = beside.flatten().map(|entry| entry.file_name()).collect();
        shown.holds(beside == ["out"], format!("entries of the parent directory: {beside:?}, expected only `out`"));
        shown.works(out.join("plain").is_file() && saved.saved.len() > 8, format!("{} files were saved, expected more than 8, and one named `plain`", saved.saved.len()));
        let naive = dir.join("naive");
        let careless = save_as_they_are(&naive).map_err(AttackError::io("save files without checks"))?;
        let found = lies(&naive, &careless);
        shown.control(found.len() >= 4 && dir.join("x").exists(), format!("saving without checks produced {} bad names, expected at least 4, and a file outside the directory", found.len()));
    }
}
