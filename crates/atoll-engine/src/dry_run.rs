//! What a dry run would have written: each output file against the input of the same name. All content is hostile, so every
//! comparison has a bound.

use crate::input::Input;
use atoll_core::dry_run::{Attempts, Change, ChangeKind, DryRun};
use atoll_core::execution::OutputFile;
use atoll_guard::redact::Redactor;
use similar::TextDiff;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer files are told as changed, without their lines.
const MAX_COMPARED: u64 = 1 << 20;
/// A longer difference is cut.
const MAX_DIFF: usize = 64 << 10;
/// Bytes of all differences together; later files are told without.
const MAX_DIFFS: usize = 256 << 10;
/// A pair of files that is hard to compare gets a coarser difference.
const MAX_TIME: Duration = Duration::from_millis(500);
/// For all files together.
const MAX_TIMES: Duration = Duration::from_secs(2);

/// The whole of it, without secrets.
pub(crate) async fn told(
    attempts: Attempts,
    files: &[OutputFile],
    inputs: &[Input],
    hides: Option<Arc<Redactor>>,
) -> DryRun {
    let (files, inputs) = (files.to_vec(), inputs.to_vec());
    let compare = move || {
        let mut dry_run = DryRun {
            changes: changes(&files, &inputs),
            attempts,
            approval_id: None,
        };
        hides.iter().for_each(|hides| hide(hides, &mut dry_run));
        dry_run
    };
    tokio::task::spawn_blocking(compare).await.unwrap_or_default()
}

fn hide(hides: &Redactor, dry_run: &mut DryRun) {
    for change in &mut dry_run.changes {
        if let Some(diff) = &mut change.diff {
            hides.hide(diff);
        }
    }
    for host in &mut dry_run.attempts.hosts {
        hides.hide(&mut host.host);
    }
    for program in &mut dry_run.attempts.processes {
        hides.hide(&mut program.path);
        hides.lines(&mut program.args);
    }
}

/// One change per output file that was saved. Blocks.
fn changes(files: &[OutputFile], inputs: &[Input]) -> Vec<Change> {
    let (began, mut told) = (Instant::now(), 0);
    let mut all = Vec::new();
    for file in files {
        let room = told < MAX_DIFFS && began.elapsed() < MAX_TIMES;
        let change = change(file, inputs, room);
        told += change.diff.as_ref().map_or(0, String::len);
        all.push(change);
    }
    all
}

fn change(file: &OutputFile, inputs: &[Input], room: bool) -> Change {
    let name = file.path.strip_prefix("/data/output/").unwrap_or(&file.path);
    let input = inputs.iter().find(|input| input.name == name);
    let (kind, diff) = match (input, &file.saved) {
        (None, None) => (ChangeKind::New, None),
        (None, Some(_)) if !room => (ChangeKind::New, None),
        (None, Some(saved)) => (
            ChangeKind::New,
            text(Path::new(saved)).map(|new| between("", &new, ("/dev/null", name))),
        ),
        (Some(_), None) => (ChangeKind::Changed, None),
        (Some(input), Some(saved)) if are_equal(&input.path, Path::new(saved)) => (ChangeKind::Same, None),
        (Some(_), Some(_)) if !room => (ChangeKind::Changed, None),
        (Some(input), Some(saved)) => (ChangeKind::Changed, diff(&input.path, Path::new(saved), name)),
    };
    Change {
        path: file.path.clone(),
        kind,
        size: file.size,
        sha256: file.sha256.clone(),
        diff,
    }
}

/// What cannot be read is not equal.
fn are_equal(one: &Path, other: &Path) -> bool {
    let (Ok(one), Ok(other)) = (File::open(one), File::open(other)) else {
        return false;
    };
    let length = |file: &File| file.metadata().map(|facts| facts.len()).ok();
    let read = |file| BufReader::new(file).bytes().map_while(Result::ok);
    length(&one) == length(&other) && read(one).eq(read(other))
}

fn diff(input: &Path, output: &Path, name: &str) -> Option<String> {
    let (old, new) = (text(input)?, text(output)?);
    Some(between(&old, &new, (&format!("input/{name}"), name)))
}

fn between(old: &str, new: &str, (from, name): (&str, &str)) -> String {
    let diff = TextDiff::configure().timeout(MAX_TIME).diff_lines(old, new);
    let to = format!("output/{name}");
    let mut told = diff.unified_diff().context_radius(3).header(from, &to).to_string();
    if told.len() > MAX_DIFF {
        told.truncate(told.floor_char_boundary(MAX_DIFF));
        told.push_str("\n(cut)\n");
    }
    told
}

/// Text that is short enough.
fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let read = File::open(path).ok()?.take(MAX_COMPARED + 1).read_to_end(&mut bytes);
    let short = read.is_ok() && bytes.len() as u64 <= MAX_COMPARED && !bytes.contains(&0);
    short.then(|| String::from_utf8(bytes).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(input: &[u8], output: &[u8]) -> Change {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("in"), dir.path().join("out"));
        std::fs::write(&from, input).unwrap();
        std::fs::write(&to, output).unwrap();
        let file = OutputFile {
            path: "/data/output/sales.csv".to_owned(),
            size: output.len() as u64,
            sha256: String::new(),
            media_type: String::new(),
            saved: Some(to.to_string_lossy().into_owned()),
            content: None,
            unredacted: Vec::new(),
        };
        let inputs = [Input {
            name: "sales.csv".to_owned(),
            path: from,
        }];
        changes(&[file], &inputs).remove(0)
    }

    #[test]
    fn a_changed_text_is_told_line_by_line() {
        let change = told(b"a,1\nb,2\nc,3\n", b"a,1\nb,20\nc,3\n");
        assert_eq!(change.kind, ChangeKind::Changed);
        let diff = change.diff.unwrap();
        assert!(
            diff.starts_with("--- input/sales.csv\n+++ output/sales.csv\n"),
            "{diff}"
        );
        assert!(diff.contains("-b,2\n") && diff.contains("+b,20\n"), "{diff}");
    }

    #[test]
    fn equal_files_are_the_same_whatever_they_hold() {
        let long = vec![7; 3 << 20];
        for bytes in [&b""[..], b"text\n", b"\0\xff", &long] {
            assert_eq!(
                (told(bytes, bytes).kind, told(bytes, bytes).diff),
                (ChangeKind::Same, None)
            );
        }
    }

    #[test]
    fn what_is_no_text_or_too_long_is_changed_without_lines() {
        let long = vec![b'x'; usize::try_from(MAX_COMPARED).unwrap() + 1];
        for (input, output) in [(&b"a"[..], &b"\0"[..]), (b"\xff\xfe", b"a"), (b"a", &long)] {
            let change = told(input, output);
            assert_eq!((change.kind, change.diff), (ChangeKind::Changed, None));
        }
    }

    #[test]
    fn a_very_long_difference_is_cut() {
        let lines = |from: u32| (from..from + 60_000).map(|n| format!("é{n}\n")).collect::<String>();
        let diff = told(lines(0).as_bytes(), lines(100_000).as_bytes()).diff.unwrap();
        assert!(diff.len() <= MAX_DIFF + 10 && diff.ends_with("(cut)\n"));
    }

    #[test]
    fn a_new_text_is_told_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let file = OutputFile {
            path: "/data/output/new.txt".to_owned(),
            size: 8,
            sha256: String::new(),
            media_type: String::new(),
            saved: Some(path.to_string_lossy().into_owned()),
            content: None,
            unredacted: Vec::new(),
        };
        let change = changes(&[file], &[]).remove(0);
        assert_eq!(change.kind, ChangeKind::New);
        assert_eq!(
            change.diff.as_deref(),
            Some("--- /dev/null\n+++ output/new.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n")
        );
    }

    #[test]
    fn a_file_without_an_input_is_new() {
        let file = OutputFile {
            path: "new.txt".to_owned(),
            size: 1,
            sha256: String::new(),
            media_type: String::new(),
            saved: None,
            content: None,
            unredacted: Vec::new(),
        };
        assert_eq!(changes(&[file], &[])[0].kind, ChangeKind::New);
    }
}
