//! Lists, stats, moves, removal, reading.

use crate::Test;
use crate::client::{Client, EVERYTHING, HOME};
use atoll_core::wire::agent::{Answer, Ask, EntryKind, ListBound, Refusal};

pub(crate) const TESTS: &[Test] = &[
    (
        "a_list_is_depth_first_and_keeps_the_asked_prefix",
        a_list_is_depth_first_and_keeps_the_asked_prefix,
    ),
    ("a_long_list_comes_in_pieces", a_long_list_comes_in_pieces),
    (
        "a_list_stops_at_its_bound_and_goes_on_where_it_stopped",
        a_list_stops_at_its_bound_and_goes_on_where_it_stopped,
    ),
    (
        "a_list_goes_on_behind_what_is_gone_meanwhile",
        a_list_goes_on_behind_what_is_gone_meanwhile,
    ),
    ("a_link_tells_of_its_target", a_link_tells_of_its_target),
    (
        "directories_are_made_with_their_parents",
        directories_are_made_with_their_parents,
    ),
    ("moves_make_parents_and_replace", moves_make_parents_and_replace),
    (
        "removal_takes_trees_and_never_follows",
        removal_takes_trees_and_never_follows,
    ),
    ("removal_of_a_very_deep_tree_ends", removal_of_a_very_deep_tree_ends),
    ("only_plain_files_are_read", only_plain_files_are_read),
    ("impossible_paths_are_refused", impossible_paths_are_refused),
    (
        "a_name_that_is_not_utf8_is_shown_and_removed_with_its_directory",
        a_name_that_is_not_utf8_is_shown,
    ),
];

fn a_list_is_depth_first_and_keeps_the_asked_prefix() {
    let mut client = Client::new();
    client.shell("mkdir -p b/c/d a; touch a/1 b/z b/c/y b/c/d/x; ln -s b link; ln -s / out");
    let at = |names: &[&str], prefix: &str| names.iter().map(|n| format!("{HOME}/{prefix}{n}")).collect::<Vec<_>>();
    assert_eq!(client.paths("", 0), at(&["a", "b", "link", "out"], ""));
    assert_eq!(
        client.paths("~", 2),
        at(&["a", "a/1", "b", "b/c", "b/z", "link", "out"], "")
    );
    assert_eq!(
        client.paths("b", 9),
        at(&["b/c", "b/c/d", "b/c/d/x", "b/c/y", "b/z"], "")
    );
    assert_eq!(client.paths("link/", 1), at(&["c", "z"], "link/"));
    let list = |path: &str, after: Option<&str>| Ask::List {
        path: path.to_owned(),
        depth: 1,
        after: after.map(str::to_owned),
        most: EVERYTHING,
    };
    assert_eq!(client.refusal(list("a/1", None)), Refusal::NotADirectory);
    assert_eq!(client.refusal(list("none", None)), Refusal::NotFound);
    assert_eq!(client.refusal(list("a", Some("2e2e"))), Refusal::Invalid);
}

fn a_long_list_comes_in_pieces() {
    let mut client = Client::new();
    let long = "n".repeat(200);
    client.shell(&format!(
        "mkdir d; i=0; while [ $i -lt 2000 ]; do : > d/{long}$i; i=$((i+1)); done"
    ));
    let names = client.paths("d", 1);
    assert_eq!(names.len(), 2000);
    assert!(names.is_sorted());
}

fn a_list_stops_at_its_bound_and_goes_on_where_it_stopped() {
    let mut client = Client::new();
    client.shell(
        r#"mkdir -p d/b/c/x d/e; touch d/a d/b/1 d/b/c/x/2 d/b/c/3 "d/b/$(printf 'm\377')" d/b/z d/f; ln -s b d/g"#,
    );
    for depth in [1, 2, 9] {
        let whole = client.list("d", depth);
        for (entries, bytes) in [
            (1, u32::MAX),
            (2, u32::MAX),
            (3, u32::MAX),
            (u32::MAX, 0),
            (u32::MAX, 500),
        ] {
            let (mut all, mut after) = (Vec::new(), None);
            loop {
                let (some, next) = client.page("d", depth, after, ListBound { entries, bytes });
                let length: usize = some.iter().map(|one| serde_json::to_vec(one).unwrap().len()).sum();
                assert!(some.len() == 1 || (some.len() <= entries as usize && length <= bytes as usize));
                all.extend(some);
                after = next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(all, whole, "{depth} {entries} {bytes}");
        }
    }
}

fn a_list_goes_on_behind_what_is_gone_meanwhile() {
    let mut client = Client::new();
    client.shell("mkdir -p d/b/c; touch d/a d/b/1 d/b/c/2 d/b/d d/e");
    let most = |entries| ListBound {
        entries,
        bytes: u32::MAX,
    };
    // The last one told is d/b/c/2.
    let (_, next) = client.page("d", 9, None, most(5));
    client.shell("rm -r d/b/c; touch d/aa d/b/cc");
    let (rest, none) = client.page("d", 9, next, most(9));
    let rest: Vec<_> = rest.into_iter().map(|entry| entry.path).collect();
    assert_eq!(rest, ["d/b/cc", "d/b/d", "d/e"].map(|path| format!("{HOME}/{path}")));
    assert_eq!(none, None);
}

fn a_link_tells_of_its_target() {
    let mut client = Client::new();
    client.shell("mkdir d; printf 12345 > d/file; chmod 640 d/file; ln -s d/file one; ln -s one two; ln -s gone dead; ln -s loop loop");
    let two = client.stat("two");
    assert_eq!((two.kind, two.size, two.mode), (EntryKind::File, 5, 0o640));
    assert_eq!(two.path, format!("{HOME}/two"));
    assert_eq!(two.link_target, Some(format!("{HOME}/d/file")));
    let dead = client.stat("dead");
    assert_eq!(
        (dead.kind, dead.link_target),
        (EntryKind::Link, Some(format!("{HOME}/gone")))
    );
    assert_eq!(client.stat("loop").kind, EntryKind::Link);
    let plain = client.stat("d/file");
    assert_eq!(
        (plain.link_target, plain.owner.as_str(), plain.group.as_str()),
        (None, "root", "root")
    );
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    assert!(now.as_nanos().abs_diff(plain.modified_ns.unsigned_abs().into()) < 3_600_000_000_000);
    assert_eq!(client.refusal(Ask::Stat { path: "x/y".into() }), Refusal::NotFound);
    assert_eq!(
        client.refusal(Ask::Stat {
            path: "d/file/y".into()
        }),
        Refusal::NotADirectory
    );
}

fn directories_are_made_with_their_parents() {
    let mut client = Client::new();
    let path = || "a/b/c".to_owned();
    let made = client.entry(Ask::MakeDir { path: path() });
    assert_eq!(
        (made.kind, made.mode, made.path),
        (EntryKind::Directory, 0o755, format!("{HOME}/a/b/c"))
    );
    assert_eq!(client.refusal(Ask::MakeDir { path: path() }), Refusal::Exists);
    client.put("file", b"x");
    for path in ["file", "file/x"] {
        let path = path.to_owned();
        assert_eq!(client.refusal(Ask::MakeDir { path }), Refusal::NotADirectory);
    }
    assert_eq!(
        client.refusal(Ask::MakeDir { path: "/proc/x".into() }),
        Refusal::NotFound
    );
}

fn moves_make_parents_and_replace() {
    let mut client = Client::new();
    client.put("one", b"1");
    client.put("two", b"2");
    let to = |from: &str, to: &str| Ask::Move {
        from: from.to_owned(),
        to: to.to_owned(),
    };
    assert_eq!(client.entry(to("one", "d/e/two")).path, format!("{HOME}/d/e/two"));
    client.entry(to("two", "d/e/two"));
    assert_eq!(client.get("d/e/two"), b"2");
    assert_eq!(client.paths("", 1), [format!("{HOME}/d")]);
    assert_eq!(client.refusal(to("one", "x")), Refusal::NotFound);
    assert_eq!(client.refusal(to("d", "d/e/f")), Refusal::Invalid);
    client.put("three", b"3");
    assert_eq!(client.refusal(to("three", "d")), Refusal::IsADirectory);
    assert_eq!(client.refusal(to("/", "x")), Refusal::Denied);
}

fn removal_takes_trees_and_never_follows() {
    let mut client = Client::new();
    client.shell(
        "mkdir -p t/a/b t/c keep; touch t/1 t/a/2 keep/kept; ln -s ../keep t/link; ln -s keep also; mkfifo t/pipe",
    );
    client.shell("i=0; while [ $i -lt 1500 ]; do : > t/c/$i; i=$((i+1)); done");
    let mut remove = |path: &str| client.done(Ask::Remove { path: path.to_owned() });
    for path in ["t", "t", "also", "none/at/all"] {
        assert_eq!(remove(path), Answer::Done, "{path}");
    }
    // The home is a mount of its own, like the places of a sandbox.
    assert!(matches!(
        remove(""),
        Answer::Refused {
            why: Refusal::Denied,
            ..
        }
    ));
    assert!(matches!(
        remove("/"),
        Answer::Refused {
            why: Refusal::Denied,
            ..
        }
    ));
    assert_eq!(
        client.paths("", 3),
        [format!("{HOME}/keep"), format!("{HOME}/keep/kept")]
    );
}

fn removal_of_a_very_deep_tree_ends() {
    let mut client = Client::new();
    // Deeper than a path can say, and than the agent keeps directories open.
    let ten = vec!["d".repeat(100); 10].join("/");
    client.shell(&format!(
        "mkdir t; cd t; i=0; while [ $i -lt 30 ]; do mkdir -p {ten}; cd -P {ten} || exit 1; i=$((i+1)); done; touch f"
    ));
    assert_eq!(client.done(Ask::Remove { path: "t".into() }), Answer::Done);
    assert_eq!(client.paths("", 1), [] as [String; 0]);
}

fn only_plain_files_are_read() {
    let mut client = Client::new();
    client.shell("mkdir d; mkfifo pipe; ln -s /dev/null null; ln -s /proc/self/mem memory; ln -s /proc/self/exe exe");
    client.put("file", b"bytes");
    assert_eq!(client.get("file"), b"bytes");
    for (path, why) in [
        ("d", Refusal::IsADirectory),
        ("pipe", Refusal::NotAFile),
        ("null", Refusal::NotAFile),
        ("none", Refusal::NotFound),
        ("memory", Refusal::Denied),
        ("exe", Refusal::Invalid),
        ("/proc/self/fd/0", Refusal::Invalid),
        ("/dev/stdin", Refusal::Invalid),
    ] {
        let path = path.to_owned();
        assert_eq!(client.refusal(Ask::Read { path: path.clone() }), why, "{path}");
    }
}

fn impossible_paths_are_refused() {
    let mut client = Client::new();
    let long = "x/".repeat(4000);
    for path in ["a\0b", &long, &"y".repeat(300)] {
        let path = path.to_owned();
        assert_eq!(client.refusal(Ask::Stat { path: path.clone() }), Refusal::Invalid);
        assert_eq!(client.refusal(Ask::MakeDir { path }), Refusal::Invalid);
    }
}

fn a_name_that_is_not_utf8_is_shown() {
    let mut client = Client::new();
    client.shell(r#"mkdir d; touch "d/$(printf 'a\377b')""#);
    assert_eq!(client.paths("d", 1), [format!("{HOME}/d/a\u{fffd}b")]);
    for path in ["d/a\u{fffd}b", "d/ab"] {
        let Answer::Refused { why, message } = client.done(Ask::Read { path: path.into() }) else {
            panic!("{path} was read");
        };
        assert_eq!(why, Refusal::NotFound);
        assert_eq!(
            message.contains("not valid UTF-8"),
            path.contains('\u{fffd}'),
            "{message}"
        );
    }
    assert_eq!(client.done(Ask::Remove { path: "d".into() }), Answer::Done);
}
