//! Every change of a log is found, and told where.

use super::*;

fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = segment::list(dir)
        .unwrap()
        .iter()
        .map(|number| segment::path(dir, *number))
        .collect();
    files.push(dir.join("head"));
    files
}

#[test]
fn every_flipped_byte_is_found() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let key = PublicKey::beside(dir.path()).unwrap();
    for path in files(dir.path()) {
        let whole = std::fs::read(&path).unwrap();
        for index in 0..whole.len() {
            // Case, sign, digit and control character: each bit somewhere.
            let bit = 1 << (index % 8);
            let mut bytes = whole.clone();
            bytes[index] ^= bit;
            std::fs::write(&path, &bytes).unwrap();
            let report = verify(dir.path(), &key, None).unwrap();
            assert!(!report.is_clean(), "{path:?} byte {index} bit {bit}");
        }
        std::fs::write(&path, &whole).unwrap();
    }
    assert_eq!(check(dir.path()).problems, []);
}

/// All lines of all segments, changed by `change`, must be noticed.
fn each_line(change: impl Fn(&mut Vec<Vec<u8>>, usize) -> bool) {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let mut tried = 0;
    for number in segment::list(dir.path()).unwrap() {
        let path = segment::path(dir.path(), number);
        let whole = std::fs::read(&path).unwrap();
        let lines: Vec<Vec<u8>> = whole
            .split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        for index in 0..lines.len() {
            let mut changed = lines.clone();
            if !change(&mut changed, index) {
                continue;
            }
            tried += 1;
            std::fs::write(&path, changed.concat()).unwrap();
            let report = check(dir.path());
            assert!(!report.is_clean(), "segment {number} line {}", index + 1);
            let near = report.problems.iter().any(|problem| problem.segment >= number);
            assert!(near, "{report:?}");
        }
        std::fs::write(&path, &whole).unwrap();
    }
    assert!(tried >= 4);
    assert_eq!(check(dir.path()).problems, []);
}

#[test]
fn a_removed_line_is_found() {
    each_line(|lines, index| {
        lines.remove(index);
        true
    });
}

#[test]
fn a_doubled_line_is_found() {
    each_line(|lines, index| {
        lines.insert(index, lines[index].clone());
        true
    });
}

#[test]
fn swapped_lines_are_found() {
    each_line(|lines, index| {
        let there = index + 1 < lines.len();
        if there {
            lines.swap(index, index + 1);
        }
        there
    });
}

#[test]
fn a_private_part_that_was_taken_out_is_found() {
    each_line(|lines, index| {
        let line = decode(lines[index].strip_suffix(b"\n").unwrap()).unwrap();
        let (record, hash) = line::record_bytes(&line.record).unwrap();
        lines[index] = line::encode(&record, hash, line.signature, None).unwrap();
        line.private.is_some()
    });
}

#[test]
fn a_problem_says_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let path = segment::path(dir.path(), 2);
    let text = std::fs::read_to_string(&path).unwrap();
    let seq = decode(text.lines().nth(2).unwrap().as_bytes()).unwrap().record.seq;
    let mut lines: Vec<&str> = text.lines().collect();
    let changed = lines[2].replace("team", "maet");
    lines[2] = &changed;
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let report = check(dir.path());
    let first = &report.problems[0];
    assert_eq!((first.segment, first.line, first.seq), (2, 3, Some(seq)));
    assert!(first.what.contains("modified line"), "{first:?}");
}

#[test]
fn a_record_whose_hash_was_made_anew_breaks_the_chain() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let path = segment::path(dir.path(), 1);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut line = decode(lines[1].as_bytes()).unwrap();
    let Body::Opened(opened) = &mut line.record.body else {
        panic!("{line:?}")
    };
    opened.actor.tenant = "other".to_owned();
    let (record, hash) = line::record_bytes(&line.record).unwrap();
    lines[1] = String::from_utf8(line::encode(&record, hash, None, line.private.as_ref()).unwrap()).unwrap();
    std::fs::write(
        &path,
        lines[0].clone() + "\n" + &lines[1] + &lines[2..].join("\n") + "\n",
    )
    .unwrap();
    let report = check(dir.path());
    assert_eq!(
        (
            report.problems[0].line,
            report.problems[0].what.contains("previous record")
        ),
        (3, true)
    );
}

#[test]
fn segments_that_are_gone_are_missed() {
    for number in [1, 2, 3] {
        let dir = tempfile::tempdir().unwrap();
        sample(dir.path());
        std::fs::remove_file(segment::path(dir.path(), number)).unwrap();
        assert!(!check(dir.path()).is_clean(), "{number}");
    }
}

#[test]
fn another_key_and_another_head_are_not_believed() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    sample(dir.path());
    sample(other.path());
    let stranger = PublicKey::beside(other.path()).unwrap();
    assert!(!verify(dir.path(), &stranger, None).unwrap().is_clean());
    std::fs::copy(other.path().join("head"), dir.path().join("head")).unwrap();
    assert!(!check(dir.path()).is_clean());
    std::fs::remove_file(dir.path().join("head")).unwrap();
    assert!(!check(dir.path()).is_clean());
}

#[test]
fn an_older_copy_of_everything_is_found_only_by_a_head_that_was_kept_elsewhere() {
    let (dir, old) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    sample(dir.path());
    copy(dir.path(), old.path());
    sample(dir.path());
    let head = check(dir.path()).head;
    assert!(check(old.path()).is_clean());
    let key = PublicKey::beside(old.path()).unwrap();
    let report = verify(old.path(), &key, head).unwrap();
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].what.contains("expected"));
}

#[test]
fn a_live_writer_notices_that_its_records_were_changed_or_cut() {
    for cut in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap();
        write(&log, 2);
        let path = segment::path(dir.path(), 1);
        let mut text = std::fs::read(&path).unwrap();
        let last = text[..text.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
        match cut {
            true => text.truncate(last + 1),
            // Somebody else's line that does not belong there.
            false => text.extend(text[last + 1..].to_vec()),
        }
        std::fs::write(&path, &text).unwrap();
        assert!(log.begin(Opening::new(Action::Execute, &actor())).is_err(), "{cut}");
    }
}
