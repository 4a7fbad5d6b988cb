//! Watches: exactly what happens, in order, before the answer to whoever did it.

use crate::Test;
use crate::client::Client;
use atoll_core::wire::agent::ChangeKind::{self, Created, Permissions, Removed, Renamed, Written};
use atoll_core::wire::agent::{Answer, Ask, Refusal};
use std::collections::HashMap;

pub(crate) const TESTS: &[Test] = &[
    (
        "a_small_upload_is_exactly_three_changes",
        a_small_upload_is_exactly_three_changes,
    ),
    (
        "a_large_upload_shows_no_hidden_file",
        a_large_upload_shows_no_hidden_file,
    ),
    (
        "requests_tell_their_changes_before_their_answer",
        requests_tell_their_changes_before_their_answer,
    ),
    (
        "a_plain_watch_stays_in_its_directory",
        a_plain_watch_stays_in_its_directory,
    ),
    (
        "a_recursive_watch_picks_up_new_directories",
        a_recursive_watch_picks_up_new_directories,
    ),
    (
        "a_recursive_watch_follows_a_moved_directory",
        a_recursive_watch_follows_a_moved_directory,
    ),
    ("two_watches_share_a_directory", two_watches_share_a_directory),
    ("lost_changes_are_told", lost_changes_are_told),
    ("only_own_directories_are_watched", only_own_directories_are_watched),
];

fn seen(list: &[(&str, ChangeKind)]) -> Vec<(String, ChangeKind)> {
    list.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect()
}

fn a_small_upload_is_exactly_three_changes() {
    let mut client = Client::new();
    client.shell("mkdir d");
    let watch = client.watch("d", false);
    client.put("d/file", &[7; 1 << 20]);
    let changes = client.changes(watch);
    let kinds: Vec<_> = changes
        .iter()
        .map(|change| (change.name.as_str(), change.kind))
        .collect();
    assert_eq!(kinds, [("file", Created), ("file", Permissions), ("file", Written)]);
    assert!(
        changes
            .iter()
            .all(|change| change.entry.as_ref().is_some_and(|entry| entry.size == 1 << 20))
    );
    let (request, pipe) = client.begin("d/other", &[("key", "value")]);
    std::io::Write::write_all(&mut &pipe, b"bytes").unwrap();
    drop(pipe);
    client.ask(Ask::Commit { write: request });
    assert!(matches!(client.answer(request).0, Answer::Entry { .. }));
    assert_eq!(
        client.seen(watch),
        seen(&[("other", Created), ("other", Permissions), ("other", Written)])
    );
    client.put("d/file", b"again");
    assert_eq!(client.seen(watch), seen(&[("file", Written)]));
}

fn a_large_upload_shows_no_hidden_file() {
    let mut client = Client::new();
    client.shell("mkdir d");
    let watch = client.watch("", true);
    client.put("d/file", &[1; 2 << 20]);
    assert_eq!(client.seen(watch), seen(&[("d/file", Created), ("d/file", Written)]));
    client.put("d/file", &[2; 2 << 20]);
    assert_eq!(client.seen(watch), seen(&[("d/file", Written)]));
}

fn requests_tell_their_changes_before_their_answer() {
    let mut client = Client::new();
    let watch = client.watch("", false);
    client.entry(Ask::MakeDir { path: "d".into() });
    assert_eq!(client.seen(watch), seen(&[("d", Created)]));
    client.put("d/file", b"x");
    client.entry(Ask::Move {
        from: "d".into(),
        to: "e".into(),
    });
    assert_eq!(client.seen(watch), seen(&[("d", Renamed), ("e", Created)]));
    assert_eq!(client.done(Ask::Remove { path: "e".into() }), Answer::Done);
    assert_eq!(client.seen(watch), seen(&[("e", Removed)]));
    client.ask(Ask::Unwatch { watch });
    client.put("after", b"x");
    assert_eq!(client.seen(watch), []);
}

fn a_plain_watch_stays_in_its_directory() {
    let mut client = Client::new();
    client.shell("mkdir -p d/deep");
    let watch = client.watch("d", false);
    client.put("d/deep/file", b"x");
    client.shell("chmod 700 d/deep; chmod 755 d");
    client.done(Ask::MakeDir { path: "d/last".into() });
    assert_eq!(client.seen(watch), seen(&[("deep", Permissions), ("last", Created)]));
}

fn a_recursive_watch_picks_up_new_directories() {
    let mut client = Client::new();
    client.shell("mkdir -p d/old");
    let watch = client.watch("d", true);
    client.put("d/old/file", b"x");
    let file = |name| [(name, Created), (name, Permissions), (name, Written)];
    assert_eq!(client.seen(watch), seen(&file("old/file")));
    client.put("d/new/er/file", b"x");
    let mut wanted = vec![("new", Created), ("new/er", Created)];
    wanted.extend(file("new/er/file"));
    assert_eq!(client.seen(watch), seen(&wanted));
    // Faster than any watch can follow; still everything comes, and once.
    client.shell(&format!("python3 -c '{FAST}' {FAST_COUNT}"));
    client.done(Ask::MakeDir { path: "d/end".into() });
    let changes = client.seen(watch);
    let times = |kind| {
        let mut times: HashMap<&str, usize> = HashMap::new();
        let these = changes.iter().filter(|(_, is)| *is == kind);
        these.for_each(|(name, _)| *times.entry(name).or_default() += 1);
        times
    };
    let (created, written) = (times(Created), times(Written));
    for number in 0..FAST_COUNT {
        for name in [format!("{number}"), format!("{number}/sub"), format!("{number}/sub/f")] {
            assert_eq!(created.get(name.as_str()), Some(&1), "{name}");
        }
        assert!(written.contains_key(format!("{number}/sub/f").as_str()), "{number}");
    }
}

const FAST_COUNT: usize = 2000;
/// With pauses of all lengths that a watch may need for one of its steps.
const FAST: &str = "
import os, sys, time
def pause(i):
    end = time.perf_counter() + (i % 100) * 1e-6
    while time.perf_counter() < end: pass
for i in range(int(sys.argv[1])):
    os.mkdir(f\"d/{i}\")
    pause(i)
    os.mkdir(f\"d/{i}/sub\")
    pause(i * 7)
    with open(f\"d/{i}/sub/f\", \"w\") as f: f.write(\"x\")
";

fn a_recursive_watch_follows_a_moved_directory() {
    let mut client = Client::new();
    client.shell("mkdir -p d/a/deep d/b outside/in");
    let watch = client.watch("d", true);
    client.shell("mv d/a d/b/c; echo x > d/b/c/deep/f");
    client.done(Ask::MakeDir { path: "d/1".into() });
    let wanted = [
        ("a", Renamed),
        ("b/c", Created),
        ("b/c/deep/f", Created),
        ("b/c/deep/f", Written),
        ("1", Created),
    ];
    assert_eq!(client.seen(watch), seen(&wanted));
    client.shell("mv d/b out; echo x > out/c/deep/unseen; mv outside d/in");
    client.done(Ask::MakeDir { path: "d/2".into() });
    assert_eq!(
        client.seen(watch),
        seen(&[("b", Renamed), ("in", Created), ("2", Created)])
    );
    client.done(Ask::MakeDir {
        path: "d/in/in/3".into(),
    });
    assert_eq!(client.seen(watch), seen(&[("in/in/3", Created)]));
}

fn two_watches_share_a_directory() {
    let mut client = Client::new();
    client.shell("mkdir -p d/sub");
    let (outer, inner) = (client.watch("d", true), client.watch("d/sub", false));
    client.done(Ask::MakeDir { path: "d/sub/1".into() });
    assert_eq!(client.seen(outer), seen(&[("sub/1", Created)]));
    assert_eq!(client.seen(inner), seen(&[("1", Created)]));
    client.ask(Ask::Unwatch { watch: outer });
    client.done(Ask::MakeDir { path: "d/sub/2".into() });
    assert_eq!(
        (client.seen(outer), client.seen(inner)),
        (Vec::new(), seen(&[("2", Created)]))
    );
}

/// More than the kernel's queue holds, while the agent waits for us to read.
fn lost_changes_are_told() {
    let mut client = Client::new();
    let queue: usize = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    client.shell("mkdir d; touch d/a d/b");
    let watch = client.watch("d", false);
    let script = format!("i=0; while [ $i -lt {queue} ]; do : > d/a; : > d/b; i=$((i+1)); done");
    client.shell_unheard(&script);
    let mut overflowed = false;
    while !overflowed {
        overflowed = client.answer(watch).0 == Answer::Overflowed;
    }
    // It goes on afterwards.
    client.put("d/last", b"x");
    while !matches!(client.answer(watch).0, Answer::Changed { change } if change.name == "last") {}
}

fn only_own_directories_are_watched() {
    let mut client = Client::new();
    client.put("file", b"x");
    client.shell("ln -s /usr outside");
    for (path, why) in [
        ("/usr", Refusal::Denied),
        ("/proc", Refusal::Denied),
        ("outside", Refusal::Denied),
        ("file", Refusal::NotADirectory),
        ("none", Refusal::NotFound),
    ] {
        let (path, recursive) = (path.to_owned(), true);
        assert_eq!(
            client.refusal(Ask::Watch {
                path: path.clone(),
                recursive
            }),
            why,
            "{path}"
        );
    }
    for number in 0..64 {
        client.watch("", number % 2 == 0);
    }
    let (path, recursive) = (String::new(), false);
    assert_eq!(client.refusal(Ask::Watch { path, recursive }), Refusal::NoRoom);
}
