//! Layouts as recorded on real machines, and limits written to trees of plain files.

mod aside;

use super::*;
use atoll_core::Limits;
use std::sync::atomic::{AtomicU32, Ordering};

const V1_SEPARATE: &str = "\
29 25 0:26 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
30 29 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
31 29 0:28 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
33 29 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
35 29 0:32 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
36 29 0:33 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio
37 29 0:34 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
38 29 0:35 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
39 29 0:36 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
const V1_OWN: &str = "8:pids:/\n7:blkio:/\n6:freezer:/\n4:memory:/process_api/7ed\n2:cpuacct:/\n1:cpu:/\n0::/\n";

const V1_CO_MOUNTED: &str = "\
25 19 0:22 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
26 25 0:23 / /sys/fs/cgroup/systemd rw,nosuid shared:10 - cgroup cgroup rw,xattr,release_agent=/x,name=systemd
30 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:13 - cgroup cgroup rw,cpu,cpuacct
31 25 0:28 / /sys/fs/cgroup/memory rw,nosuid shared:14 - cgroup cgroup rw,memory
32 25 0:29 / /sys/fs/cgroup/pids rw,nosuid shared:15 - cgroup cgroup rw,pids
33 25 0:30 / /sys/fs/cgroup/blkio rw,nosuid shared:16 - cgroup cgroup rw,blkio
";
const CO_MOUNTED_OWN: &str = "\
10:cpu,cpuacct:/user.slice\n8:memory:/user.slice/user-0.slice\n5:pids:/user.slice\n3:blkio:/user.slice\n1:name=systemd:/u\n";

const V1_IN_DOCKER: &str = "\
600 599 0:27 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro,nosuid master:13 - cgroup cgroup rw,cpu,cpuacct
601 599 0:28 /docker/abc /sys/fs/cgroup/memory ro,nosuid master:14 - cgroup cgroup rw,memory
602 599 0:29 /docker/abc /sys/fs/cgroup/pids ro,nosuid master:15 - cgroup cgroup rw,pids
";

const V2_SYSTEMD: &str = "\
28 22 0:25 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
";
const V2_OWN: &str = "0::/user.slice/user-1000.slice/session-2.scope\n";

/// Version 2 with memory and pids, the rest on version 1.
const HYBRID: &str = "\
25 19 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
26 25 0:23 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw,nsdelegate
30 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:13 - cgroup cgroup rw,cpu,cpuacct
33 25 0:30 / /sys/fs/cgroup/blkio rw shared:16 - cgroup cgroup rw,blkio
";

fn none(_: &Path) -> String {
    String::new()
}

fn parents(layout: &Layout) -> Vec<&str> {
    layout.hierarchies.iter().filter_map(|h| h.parent.to_str()).collect()
}

#[test]
fn version_1_with_one_mount_per_controller() {
    let layout = Layout::read(V1_SEPARATE, V1_OWN, &|_| "hugetlb".to_owned());
    assert_eq!((layout.kind(), layout.missing()), ("v1", vec![]));
    let places = ["cpu", "cpuacct", "memory/process_api/7ed", "freezer", "blkio", "pids"];
    let places: Vec<String> = places.iter().map(|place| format!("/sys/fs/cgroup/{place}")).collect();
    let found: Vec<&str> = parents(&layout).into_iter().map(|p| p.trim_end_matches('/')).collect();
    assert_eq!(found, places);
}

#[test]
fn version_1_with_controllers_mounted_together() {
    let layout = Layout::read(V1_CO_MOUNTED, CO_MOUNTED_OWN, &none);
    assert_eq!((layout.kind(), layout.missing()), ("v1", vec![]));
    assert_eq!(
        layout.hierarchies[0].controllers,
        [Controller::Cpu, Controller::Cpuacct]
    );
    assert_eq!(parents(&layout)[0], "/sys/fs/cgroup/cpu,cpuacct/user.slice");
    assert_eq!(parents(&layout)[1], "/sys/fs/cgroup/memory/user.slice/user-0.slice");
    assert_eq!(layout.hierarchies.len(), 4);
}

#[test]
fn version_1_in_a_container_that_sees_a_part_only() {
    let inside = |own: &str| {
        let groups = format!("10:cpu,cpuacct:{own}\n8:memory:{own}\n5:pids:{own}\n");
        let layout = Layout::read(V1_IN_DOCKER, &groups, &none);
        parents(&layout)
            .last()
            .map(|p| p.trim_end_matches('/').to_owned())
            .unwrap()
    };
    assert_eq!(inside("/docker/abc"), "/sys/fs/cgroup/pids");
    assert_eq!(inside("/docker/abc/run"), "/sys/fs/cgroup/pids/run");
    // A neighbour whose name begins the same is not below.
    assert_eq!(inside("/docker/abcd/run"), "/sys/fs/cgroup/pids");
    assert_eq!(inside("/docker/abc/../other"), "/sys/fs/cgroup/pids");
}

#[test]
fn hybrid_has_each_controller_once() {
    let have = |dir: &Path| {
        if dir.ends_with("unified") {
            "memory pids\n".to_owned()
        } else {
            String::new()
        }
    };
    let layout = Layout::read(HYBRID, "10:cpu,cpuacct:/\n3:blkio:/\n0::/init.scope\n", &have);
    assert_eq!((layout.kind(), layout.missing()), ("hybrid", vec![]));
    for controller in [
        Controller::Memory,
        Controller::Cpu,
        Controller::Pids,
        Controller::Io,
        Controller::Cpuacct,
    ] {
        let holders = layout
            .hierarchies
            .iter()
            .filter(|h| h.controllers.contains(&controller))
            .count();
        assert_eq!(holders, 1, "{controller:?}");
    }
}

#[test]
fn version_2_goes_to_the_top_of_the_view() {
    let layout = Layout::read(V2_SYSTEMD, V2_OWN, &|_| {
        "cpuset cpu io memory hugetlb pids rdma misc\n".to_owned()
    });
    assert_eq!((layout.kind(), layout.missing()), ("v2", vec![]));
    assert_eq!(parents(&layout), ["/sys/fs/cgroup"]);
    assert!(layout.hierarchies[0].controllers.contains(&Controller::Io));
}

#[test]
fn a_hierarchy_that_is_mounted_twice_counts_once() {
    let twice = format!("{V2_SYSTEMD}90 28 0:25 / /srv/chroot/with\\040blank/cgroup rw - cgroup2 cgroup2 rw\n");
    let layout = Layout::read(&twice, V2_OWN, &|_| "cpu io memory pids".to_owned());
    assert_eq!(parents(&layout), ["/sys/fs/cgroup"]);
    let blank = Layout::read(twice.lines().last().unwrap(), V2_OWN, &|_| "pids".to_owned());
    assert_eq!(parents(&blank), ["/srv/chroot/with blank/cgroup"]);
    let v1 = format!("{V1_CO_MOUNTED}{}", V1_CO_MOUNTED.replace("/sys/fs", "/srv/chroot"));
    assert_eq!(Layout::read(&v1, CO_MOUNTED_OWN, &none).hierarchies.len(), 4);
}

#[test]
fn missing_controllers_are_named() {
    let layout = Layout::read(V2_SYSTEMD, V2_OWN, &|_| "cpuset io\n".to_owned());
    assert_eq!(
        layout.missing(),
        [Controller::Memory, Controller::Cpu, Controller::Pids]
    );
    let nothing = Layout::read("22 27 0:21 / /proc rw - proc proc rw\n", "", &none);
    assert_eq!((nothing.kind(), nothing.missing().len()), ("none", 3));
    // Mounted, but this process is in no group of it.
    assert_eq!(Layout::read(V1_CO_MOUNTED, "", &none).kind(), "none");
    assert_eq!(
        Layout::read("broken\n1 2 3 - cgroup\n1 2 3 4 5 - cgroup cgroup", "x\n:\n", &none).kind(),
        "none"
    );
}

/// A tree of plain files, removed at the end.
struct Fake {
    dir: PathBuf,
    layout: Layout,
}

impl Fake {
    fn new(version: Version, parts: &[&[Controller]]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("atoll-cgroup-{}-{number}", std::process::id()));
        let hierarchy = |(number, controllers): (usize, &&[Controller])| {
            let parent = dir.join(number.to_string());
            fs::create_dir_all(&parent).unwrap();
            Hierarchy {
                version,
                parent,
                controllers: controllers.to_vec(),
            }
        };
        let layout = Layout {
            hierarchies: parts.iter().enumerate().map(hierarchy).collect(),
        };
        Self { dir, layout }
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.dir.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.dir).ok();
    }
}

/// A sandbox's group with the optional files of a kernel that has everything.
fn group(fake: &Fake, version: Version, disk: Option<Disk>) -> SandboxGroups {
    let hierarchy = fake.layout.hierarchies[0].clone();
    let dir = fake.dir.join("0/sandbox");
    fs::create_dir_all(&dir).unwrap();
    let optional: &[&str] = match version {
        Version::V1 => &[
            "memory.memsw.limit_in_bytes",
            "memory.swappiness",
            "memory.kmem.tcp.limit_in_bytes",
            "blkio.throttle.read_bps_device",
            "blkio.throttle.write_bps_device",
            "blkio.throttle.read_iops_device",
            "blkio.throttle.write_iops_device",
        ],
        Version::V2 => &["memory.swap.max", "memory.oom.group", "io.max"],
    };
    optional.iter().for_each(|name| fs::write(dir.join(name), "").unwrap());
    SandboxGroups {
        members: vec![(hierarchy, dir)],
        disk,
    }
}

const ALL: &[Controller] = &[
    Controller::Memory,
    Controller::Cpu,
    Controller::Cpuacct,
    Controller::Pids,
    Controller::Io,
    Controller::Freezer,
];

fn vda() -> Option<Disk> {
    Some(Disk { number: "254:0".into() })
}

#[test]
fn limits_of_version_1_reach_their_files_and_are_read_back() {
    let fake = Fake::new(Version::V1, &[ALL]);
    let groups = group(&fake, Version::V1, vda());
    groups.set_limits(&Limits::SMALL).unwrap();
    for (file, want) in [
        ("memory.limit_in_bytes", "536870912"),
        ("memory.memsw.limit_in_bytes", "536870912"),
        ("memory.swappiness", "0"),
        ("memory.kmem.tcp.limit_in_bytes", "67108864"),
        ("cpu.cfs_period_us", "100000"),
        ("cpu.cfs_quota_us", "100000"),
        ("pids.max", "65"),
        ("blkio.throttle.read_bps_device", "254:0 104857600"),
        ("blkio.throttle.write_bps_device", "254:0 104857600"),
        ("blkio.throttle.read_iops_device", "254:0 5000"),
        ("blkio.throttle.write_iops_device", "254:0 5000"),
    ] {
        assert_eq!(fake.read(&format!("0/sandbox/{file}")), want, "{file}");
    }
    groups.set_limits(&Limits::DATA).unwrap();
    let facts = groups.read_back();
    assert_eq!(
        (facts["memory_bytes"].as_str(), facts["io_read_bytes"].as_str()),
        (Some("4294967296"), Some("419430400"))
    );
    assert_eq!(
        (facts["io_write_operations"].as_str(), facts["processes"].as_str()),
        (Some("20000"), Some("129"))
    );
}

#[test]
fn limits_of_version_2_reach_their_files_and_are_read_back() {
    let fake = Fake::new(Version::V2, &[ALL]);
    let groups = group(&fake, Version::V2, vda());
    groups.set_limits(&Limits::DATA).unwrap();
    for (file, want) in [
        ("memory.max", "4294967296"),
        ("memory.swap.max", "0"),
        // The agent shares the group and must outlive a context that ran out of memory.
        ("memory.oom.group", ""),
        ("cpu.max", "200000 100000"),
        ("pids.max", "129"),
        ("io.max", "254:0 rbps=419430400 wbps=419430400 riops=20000 wiops=20000"),
    ] {
        assert_eq!(fake.read(&format!("0/sandbox/{file}")), want, "{file}");
    }
    let facts = groups.read_back();
    assert_eq!(
        (facts["io"].as_str(), facts["io_read_operations"].as_str()),
        (Some("disk 254:0"), Some("20000"))
    );
    assert_eq!(facts["cpu_quota_us"], "200000 100000");
}

#[test]
fn without_a_disk_or_a_controller_the_receipt_says_so() {
    let fake = Fake::new(Version::V2, &[ALL]);
    let groups = group(&fake, Version::V2, None);
    groups.set_limits(&Limits::SMALL).unwrap();
    assert_eq!(fake.read("0/sandbox/io.max"), "");
    assert_eq!(
        groups.read_back()["io"],
        "not limited: the template is not on a block device"
    );
    let fake = Fake::new(Version::V1, &[&[Controller::Memory, Controller::Cpu, Controller::Pids]]);
    let groups = group(&fake, Version::V1, vda());
    groups.set_limits(&Limits::SMALL).unwrap();
    assert_eq!(groups.read_back()["io"], "not limited: no cgroup controller available");
}

#[test]
fn a_kernel_without_the_optional_files_is_fine() {
    for version in [Version::V1, Version::V2] {
        let fake = Fake::new(version, &[ALL]);
        let dir = fake.dir.join("0/bare");
        fs::create_dir_all(&dir).unwrap();
        let groups = SandboxGroups {
            members: vec![(fake.layout.hierarchies[0].clone(), dir)],
            disk: vda(),
        };
        groups.set_limits(&Limits::SMALL).unwrap();
        assert_eq!(groups.read_back()["io_read_bytes"], "not limited", "{version:?}");
    }
}

#[test]
fn version_2_asks_only_for_controllers_that_are_not_on() {
    let fake = Fake::new(Version::V2, &[ALL]);
    fs::write(fake.dir.join("0/cgroup.subtree_control"), "cpu io memory pids\n").unwrap();
    let groups = InstanceGroups::create(fake.layout.clone(), "one", &[]).unwrap();
    // Untouched: where this group holds processes, the kernel would refuse the write.
    assert_eq!(fake.read("0/cgroup.subtree_control"), "cpu io memory pids\n");
    assert_eq!(fake.read("0/atoll/one/cgroup.subtree_control"), "+io");
    assert_eq!(groups.layout().kind(), "v2");
}

#[test]
fn a_sandbox_that_cannot_be_made_leaves_no_group() {
    let fake = Fake::new(Version::V1, &[&[Controller::Freezer], &[Controller::Cpuacct]]);
    let groups = InstanceGroups::create(fake.layout.clone(), "one", &[]).unwrap();
    fs::write(fake.dir.join("1/atoll/one/taken"), "").unwrap();
    let refused = groups.create_sandbox("taken", &Limits::SMALL, None).unwrap_err();
    assert!(refused.what.contains("create the cgroup"), "{refused}");
    assert!(!fake.dir.join("0/atoll/one/taken").exists());
}

#[test]
fn an_instance_that_cannot_be_made_leaves_no_group() {
    let fake = Fake::new(Version::V1, &[&[Controller::Freezer], &[Controller::Cpuacct]]);
    fs::write(fake.dir.join("1/atoll"), "a file where a directory should be").unwrap();
    InstanceGroups::create(fake.layout.clone(), "one", &[]).unwrap_err();
    assert!(!fake.dir.join("0/atoll").exists());
}

#[test]
fn one_instance_may_begin_while_another_ends() {
    let fake = Fake::new(Version::V1, &[&[Controller::Freezer], &[Controller::Cpuacct]]);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let layout = &fake.layout;
            scope.spawn(move || {
                for round in 0..500 {
                    InstanceGroups::create(layout.clone(), &format!("{thread}-{round}"), &[])
                        .unwrap()
                        .remove();
                }
            });
        }
    });
    assert!(!fake.dir.join("0/atoll").exists());
}

#[test]
fn the_groups_of_the_dead_are_swept_and_those_of_the_living_stay() {
    let fake = Fake::new(Version::V1, &[&[Controller::Freezer]]);
    for path in [
        "0/atoll/dead/sb_1",
        "0/atoll/dead/sb_2",
        "0/atoll/alive/sb_3",
        "0/foreign/dead",
    ] {
        fs::create_dir_all(fake.dir.join(path)).unwrap();
    }
    assert_eq!(sweep(&fake.layout, &|name| name == "alive"), 1);
    assert!(!fake.dir.join("0/atoll/dead").exists());
    assert!(fake.dir.join("0/atoll/alive/sb_3").exists() && fake.dir.join("0/foreign/dead").exists());
    assert_eq!(sweep(&fake.layout, &|_| false), 1);
    assert!(!fake.dir.join("0/atoll").exists());
}
