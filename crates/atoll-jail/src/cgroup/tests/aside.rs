//! Delegated groups as trees of plain files: who steps aside, and which group is refused.

use super::*;

#[test]
fn the_own_group_of_version_2_is_found_wherever_it_lies() {
    let have = |dir: &Path| {
        if dir.ends_with("session-2.scope") {
            "memory pids\n".to_owned()
        } else {
            "cpuset cpu io memory pids\n".to_owned()
        }
    };
    let layout = Layout::read_own(V2_SYSTEMD, V2_OWN, &have);
    assert_eq!(
        parents(&layout),
        ["/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope"]
    );
    assert_eq!(layout.missing(), [Controller::Cpu]);
    assert!(layout.hierarchies[0].controllers.contains(&Controller::Cpuacct));
    // A container sees its own group as the top.
    assert_eq!(
        parents(&Layout::read_own(V2_SYSTEMD, "0::/\n", &have)),
        ["/sys/fs/cgroup"]
    );
    // Version 1 belongs to root: its places do not count, and a hybrid's bare version 2 has nothing to give.
    for (mounts, own) in [(V1_CO_MOUNTED, CO_MOUNTED_OWN), (V1_SEPARATE, V1_OWN)] {
        assert_eq!(Layout::read_own(mounts, own, &none).kind(), "none");
    }
}

/// A group with what the kernel puts in each that is not the top: these processes in it, nothing turned on.
fn delegated_group(controllers: &[Controller], processes: &str) -> Fake {
    let fake = Fake::new(Version::V2, &[controllers]);
    for (name, text) in [
        ("cgroup.type", "domain\n"),
        ("cgroup.procs", processes),
        ("cgroup.subtree_control", ""),
    ] {
        fs::write(fake.dir.join("0").join(name), text).unwrap();
    }
    fake
}

#[test]
fn our_processes_step_aside_and_back() {
    let fake = delegated_group(&[Controller::Pids], "11\n12\n");
    fs::create_dir(fake.dir.join("0").join(LEAF)).unwrap();
    let groups = InstanceGroups::create(fake.layout.clone(), "one", &[11, 12]).unwrap();
    assert_eq!(
        fake.read("0/atoll-own/cgroup.procs"),
        "12",
        "the last one that was moved"
    );
    assert_eq!(fake.read("0/cgroup.subtree_control"), "+pids");
    groups.remove();
    assert_eq!(fake.read("0/cgroup.subtree_control"), "-pids");
    assert_eq!(fake.read("0/cgroup.procs"), "12", "the last one that came back");
}

#[test]
fn nobody_steps_aside_where_it_is_not_needed_or_would_not_help() {
    let others = delegated_group(&[Controller::Pids], "11\n12\n13\n");
    let empty = delegated_group(&[Controller::Pids], "");
    let given = delegated_group(&[Controller::Pids], "11\n");
    fs::write(given.dir.join("0/cgroup.subtree_control"), "pids\n").unwrap();
    let top = delegated_group(&[Controller::Pids], "11\n");
    fs::remove_file(top.dir.join("0/cgroup.type")).unwrap();
    for (why, fake) in [("others", others), ("empty", empty), ("given", given), ("top", top)] {
        InstanceGroups::create(fake.layout.clone(), "one", &[11, 12]).unwrap();
        assert!(!fake.dir.join("0").join(LEAF).exists(), "{why}");
    }
}

#[test]
fn a_group_that_cannot_be_used_says_why() {
    let both = &[Controller::Memory, Controller::Pids];
    let why = |fake: &Fake| delegated::check(&fake.layout, &[11]).unwrap_err();
    assert_eq!(delegated::check(&delegated_group(both, "11\n").layout, &[11]), Ok(()));
    assert!(why(&delegated_group(both, "11\n12\n")).ends_with("contains processes other than Atoll's"));
    // A process of another pid namespace is shown as 0.
    assert!(why(&delegated_group(both, "0\n")).ends_with("contains processes other than Atoll's"));
    assert!(why(&delegated_group(&both[1..], "11\n")).ends_with("lacks these controllers: memory"));
    let foreign = delegated_group(both, "11\n");
    fs::remove_file(foreign.dir.join("0/cgroup.subtree_control")).unwrap();
    assert!(why(&foreign).ends_with("is not delegated to this user"));
    let nowhere = Fake::new(Version::V2, &[]);
    assert!(why(&nowhere).starts_with("this process is not in a cgroup v2 hierarchy"));
}
