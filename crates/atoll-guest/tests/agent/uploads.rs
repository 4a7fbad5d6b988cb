//! Uploads: small, large, given up, on a full disk.

use crate::Test;
use crate::client::{Client, HOME};
use atoll_core::wire::agent::{Answer, Ask, Entry, Refusal};
use std::io::Write;

pub(crate) const TESTS: &[Test] = &[
    (
        "an_upload_is_there_when_it_is_committed",
        an_upload_is_there_when_it_is_committed,
    ),
    (
        "a_large_upload_is_hidden_until_its_commit",
        a_large_upload_is_hidden_until_its_commit,
    ),
    ("an_aborted_upload_leaves_nothing", an_aborted_upload_leaves_nothing),
    (
        "a_full_disk_leaves_the_old_file_and_no_new_one",
        a_full_disk_leaves_the_old_file_and_no_new_one,
    ),
    ("an_overwritten_file_keeps_its_mode", an_overwritten_file_keeps_its_mode),
    ("many_uploads_go_side_by_side", many_uploads_go_side_by_side),
    (
        "an_upload_follows_links_as_a_program_would",
        an_upload_follows_links_as_a_program_would,
    ),
    ("what_cannot_be_written_is_refused", what_cannot_be_written_is_refused),
    ("metadata_stays_with_the_file", metadata_stays_with_the_file),
];

const LARGE: usize = (3 << 20) + 7;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| u8::try_from(index % 251).unwrap()).collect()
}

fn entry(answer: Answer) -> Entry {
    match answer {
        Answer::Entry { entry } => entry,
        other => panic!("no entry: {other:?}"),
    }
}

fn why(answer: Answer) -> Refusal {
    match answer {
        Answer::Refused { why, .. } => why,
        other => panic!("not refused: {other:?}"),
    }
}

fn an_upload_is_there_when_it_is_committed() {
    let mut client = Client::new();
    for (path, bytes) in [
        ("a/b/small", pattern(1000)),
        ("large", pattern(LARGE)),
        ("none", Vec::new()),
    ] {
        let made = entry(client.upload(path, &bytes));
        assert_eq!(
            (made.path, made.size, made.mode),
            (format!("{HOME}/{path}"), bytes.len() as u64, 0o644)
        );
        assert_eq!(client.get(path), bytes);
    }
    assert_eq!(client.stat("a").mode, 0o755);
    let shorter = pattern(10);
    client.put("a/b/small", &shorter);
    client.put("large", b"");
    assert_eq!((client.get("a/b/small"), client.get("large")), (shorter, Vec::new()));
}

fn a_large_upload_is_hidden_until_its_commit() {
    let mut client = Client::new();
    client.put("file", b"old");
    let (request, mut pipe) = client.begin("file", &[]);
    pipe.write_all(&pattern(LARGE)).unwrap();
    // All but the last pipe full has been taken by the agent by now.
    assert_eq!(client.get("file"), b"old");
    drop(pipe);
    client.ask(Ask::Commit { write: request });
    entry(client.answer(request).0);
    assert_eq!(client.get("file"), pattern(LARGE));
    assert_eq!(client.paths("", 1), [format!("{HOME}/file")]);
}

fn an_aborted_upload_leaves_nothing() {
    let mut client = Client::new();
    for length in [5, LARGE] {
        let (request, mut pipe) = client.begin("dir/file", &[]);
        pipe.write_all(&pattern(length)).unwrap();
        client.ask(Ask::Abort { write: request });
        assert_eq!(why(client.answer(request).0), Refusal::Failed);
        client.ask(Ask::Commit { write: request });
        assert!(
            client
                .paths("", 9)
                .iter()
                .all(|path| !path.contains("file") && !path.contains("upload"))
        );
    }
}

fn a_full_disk_leaves_the_old_file_and_no_new_one() {
    let mut client = Client::with_room("4m");
    client.put("old", b"old");
    assert_eq!(why(client.upload("new", &pattern(5 << 20))), Refusal::NoRoom);
    assert_eq!(why(client.upload("old", &pattern(5 << 20))), Refusal::NoRoom);
    client.put("filler", &pattern(3 << 20));
    client.put("more", &pattern(1 << 19));
    for path in ["new", "old"] {
        assert_eq!(why(client.upload(path, &pattern(1 << 20))), Refusal::NoRoom, "{path}");
    }
    assert_eq!(client.get("old"), b"old");
    let names = ["filler", "more", "old"].map(|name| format!("{HOME}/{name}"));
    assert_eq!(client.paths("", 1), names);
}

fn an_overwritten_file_keeps_its_mode() {
    let mut client = Client::new();
    client.put("file", b"x");
    client.shell("chmod 750 file; umask 077; touch private");
    for length in [3, LARGE] {
        assert_eq!(entry(client.upload("file", &pattern(length))).mode, 0o750);
        assert_eq!(entry(client.upload("private", &pattern(length))).mode, 0o600);
    }
}

fn many_uploads_go_side_by_side() {
    let mut client = Client::new();
    let mut open = Vec::new();
    for number in 0..20 {
        open.push(client.begin(&format!("file{number}"), &[]));
    }
    // Each pipe gets a piece in turn, more than one pipe holds.
    for round in 0..16 {
        for (_, pipe) in &mut open {
            pipe.write_all(&[round; 100_000]).unwrap();
        }
    }
    for (number, (request, pipe)) in open.into_iter().enumerate() {
        drop(pipe);
        client.ask(Ask::Commit { write: request });
        entry(client.answer(request).0);
        let bytes = client.get(&format!("file{number}"));
        assert!(
            bytes.len() == 1_600_000
                && bytes
                    .chunks(100_000)
                    .zip(0..)
                    .all(|(part, n)| part.iter().all(|b| *b == n))
        );
    }
}

fn an_upload_follows_links_as_a_program_would() {
    let mut client = Client::new();
    client.shell("mkdir d; echo x > d/file; ln -s d/file link; ln -s d/new ahead; ln -s self self");
    for length in [3, LARGE] {
        client.put("link", &pattern(length));
        client.put("ahead", &pattern(length));
        assert_eq!(
            (client.get("d/file"), client.get("d/new")),
            (pattern(length), pattern(length))
        );
        assert_eq!(client.stat("link").link_target, Some(format!("{HOME}/d/file")));
    }
    assert_eq!(why(client.upload("self", b"x")), Refusal::Invalid);
}

fn what_cannot_be_written_is_refused() {
    let mut client = Client::new();
    client.shell("mkdir d; mkfifo pipe; touch f");
    for length in [3, LARGE] {
        for (path, wanted) in [
            ("d", Refusal::IsADirectory),
            ("", Refusal::IsADirectory),
            ("f/x", Refusal::NotADirectory),
            ("pipe", Refusal::NotAFile),
            ("/dev/null", Refusal::NotAFile),
            ("/proc/self/comm", Refusal::Denied),
            ("a\0", Refusal::Invalid),
        ] {
            assert_eq!(why(client.upload(path, &pattern(length))), wanted, "{path} {length}");
        }
    }
}

fn metadata_stays_with_the_file() {
    let mut client = Client::new();
    for length in [3, LARGE] {
        let (request, mut pipe) = client.begin("file", &[("author", "ü"), ("n", "1")]);
        pipe.write_all(&pattern(length)).unwrap();
        drop(pipe);
        client.ask(Ask::Commit { write: request });
        let made = entry(client.answer(request).0);
        assert_eq!(made.metadata.len(), 2);
        let moved = client.entry(Ask::Move {
            from: "file".into(),
            to: "moved".into(),
        });
        assert_eq!(
            (moved.metadata["author"].as_str(), moved.metadata["n"].as_str()),
            ("ü", "1")
        );
        client.put("moved", b"new bytes");
        assert!(client.stat("moved").metadata.is_empty());
    }
    let (request, _pipe) = client.begin("file", &[("", "x")]);
    assert_eq!(why(client.answer(request).0), Refusal::Invalid);
}
