//! Layers as they should be, and layers that want out. Beside the root lies a directory that none of them may change.

use super::*;
use fs_err as fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use tar::{EntryType, Header};

struct World {
    dir: tempfile::TempDir,
    bounds: Bounds,
    counts: Counts,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        fs::write(dir.path().join("outside/kept"), "untouched").unwrap();
        Self {
            dir,
            bounds: Bounds::default(),
            counts: Counts::default(),
        }
    }

    fn unpack(&mut self, layer: Layer) -> Result<(), UnpackError> {
        let root = Root::open(&self.path("")).unwrap();
        unpack(layer.bytes().as_slice(), &root, &self.bounds, &mut self.counts)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("root").join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| error.kind().to_string())
    }

    fn outside(&self) -> String {
        self.dir.path().join("outside").to_string_lossy().into_owned()
    }

    fn assert_outside_is_untouched(&self, what: &str) {
        let names: Vec<_> = fs::read_dir(self.outside())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["kept"], "{what}");
        let kept = fs::metadata(self.dir.path().join("outside/kept")).unwrap();
        assert_eq!((kept.len(), kept.nlink()), (9, 1), "{what}");
        assert_eq!(fs::read_dir(self.dir.path()).unwrap().count(), 2, "{what}");
    }
}

/// Written header by header, because the writer of the `tar` crate refuses what hostile layers hold.
#[derive(Clone, Default)]
struct Layer(Vec<u8>);

impl Layer {
    fn raw(mut self, kind: EntryType, name: &[u8], link: &[u8], mode: u32, content: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(1_000_000);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.extend(header.as_bytes());
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, name: &str, text: &str) -> Self {
        self.raw(EntryType::Regular, name.as_bytes(), b"", 0o644, text.as_bytes())
    }

    fn dir(self, name: &str) -> Self {
        self.raw(EntryType::Directory, name.as_bytes(), b"", 0o700, b"")
    }

    fn link(self, name: &str, to: &str) -> Self {
        self.raw(EntryType::Symlink, name.as_bytes(), to.as_bytes(), 0o777, b"")
    }

    fn hard(self, name: &str, to: &str) -> Self {
        self.raw(EntryType::Link, name.as_bytes(), to.as_bytes(), 0o644, b"")
    }

    fn bytes(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}

fn layer() -> Layer {
    Layer::default()
}

#[test]
fn a_layer_is_laid_with_its_links_and_without_its_powers() {
    let mut world = World::new();
    let long = "long/".repeat(30) + "name";
    let built = layer()
        .dir("./usr/")
        .file("./usr/text", "hello")
        .raw(EntryType::Regular, b"usr/su", b"", 0o6755, b"#!")
        .link("usr/absolute", "/etc/shadow")
        .hard("usr/second", "usr/text")
        .raw(
            EntryType::GNULongName,
            b"././@LongLink",
            b"",
            0,
            format!("{long}\0").as_bytes(),
        )
        .file("short", "by its long name")
        .raw(EntryType::Char, b"usr/device", b"", 0o666, b"")
        .raw(EntryType::Fifo, b"usr/pipe", b"", 0o666, b"")
        .hard("usr/device-too", "usr/device")
        .file("dev/null", "not ours to give")
        .file("run/secret", "nor this");
    world.unpack(built).unwrap();
    assert_eq!(world.text("usr/second"), "hello");
    assert_eq!(fs::metadata(world.path("usr/text")).unwrap().nlink(), 2);
    assert_eq!(fs::metadata(world.path("usr/text")).unwrap().mtime(), 1_000_000);
    assert_eq!(
        fs::metadata(world.path("usr/su")).unwrap().permissions().mode() & 0o7000,
        0
    );
    assert_eq!(
        fs::read_link(world.path("usr/absolute")).unwrap(),
        Path::new("/etc/shadow")
    );
    assert_eq!(world.text(&long), "by its long name");
    for left_out in ["usr/device", "usr/pipe", "usr/device-too", "dev", "run", "short"] {
        assert!(fs::symlink_metadata(world.path(left_out)).is_err(), "{left_out}");
    }
    assert_eq!(world.counts.left_out, 3);
}

#[test]
fn marks_take_away_what_lies_below_and_not_what_comes_with_them() {
    let mut world = World::new();
    let below = layer()
        .file("a/one", "1")
        .file("a/two", "2")
        .file("b/old/deep", "3")
        .file("b/merged/old", "4")
        .file("c", "5");
    world.unpack(below).unwrap();
    let above = layer()
        .file("a/.wh.one", "")
        .file("b/merged/new", "new")
        .file("b/fresh", "new")
        .file("b/.wh..wh..opq", "")
        .file("c", "new")
        .file(".wh.c", "")
        .file(".wh.nothing", "")
        .file("a/.wh..wh.plnk", "");
    world.unpack(above).unwrap();
    for (name, text) in [
        ("a/two", "2"),
        ("b/merged/new", "new"),
        ("b/fresh", "new"),
        ("c", "new"),
    ] {
        assert_eq!(world.text(name), text, "{name}");
    }
    for gone in ["a/one", "b/old", "b/merged/old", "a/.wh.one", "b/.wh..wh..opq", ".wh.c"] {
        assert!(fs::symlink_metadata(world.path(gone)).is_err(), "{gone}");
    }
}

#[test]
fn the_last_of_several_wins_and_nothing_is_written_through() {
    let mut world = World::new();
    let kept = format!("{}/kept", world.outside());
    let built = layer()
        .link("f", &kept)
        .file("f", "a file of its own")
        .file("f", "the last one")
        .link("d", &world.outside())
        .dir("d")
        .file("d/kept", "in a directory of its own")
        .file("d2/x", "")
        .file("d2", "no directory any more")
        .file("h", "first")
        .hard("h2", "h")
        .file("h", "second");
    world.unpack(built).unwrap();
    for (name, text) in [
        ("f", "the last one"),
        ("d/kept", "in a directory of its own"),
        ("h2", "first"),
        ("h", "second"),
    ] {
        assert_eq!(world.text(name), text, "{name}");
    }
    assert_eq!(world.text("d2"), "no directory any more");
    world.assert_outside_is_untouched("links that were replaced");
}

#[test]
fn a_layer_that_wants_out_is_refused_and_reaches_nothing() {
    let up = "../outside";
    type Build<'a> = &'a dyn Fn(Layer, &str) -> Layer;
    let hostile: [(&str, Build<'_>); 14] = [
        ("parent", &|layer, _| layer.file("../outside/new", "x")),
        ("parent in the middle", &|layer, _| {
            layer.file("a/../../outside/new", "x")
        }),
        ("absolute", &|layer, out| layer.file(&format!("{out}/new"), "x")),
        ("through an absolute link", &|layer, out| {
            layer.link("l", out).file("l/new", "x")
        }),
        ("through a relative link", &|layer, _| {
            layer.link("l", up).file("l/new", "x")
        }),
        ("a directory through a link", &|layer, _| {
            layer.link("l", up).dir("l/new/")
        }),
        ("a link through a link", &|layer, _| {
            layer.link("l", up).link("l/new", "x")
        }),
        ("a hard link to the outside", &|layer, _| {
            layer.hard("h", "../outside/kept")
        }),
        ("an absolute hard link", &|layer, out| {
            layer.hard("h", &format!("{out}/kept"))
        }),
        ("a hard link through a link", &|layer, _| {
            layer.link("l", up).hard("h", "l/kept")
        }),
        ("a mark of the parent", &|layer, _| layer.file(".wh...", "")),
        ("a mark in the parent", &|layer, _| {
            layer.file("../outside/.wh.kept", "")
        }),
        ("a mark through a link", &|layer, _| {
            layer.link("l", up).file("l/.wh.kept", "")
        }),
        ("an opaque mark through a link", &|layer, _| {
            layer.link("l", up).file("l/.wh..wh..opq", "")
        }),
    ];
    for (what, build) in hostile {
        let mut world = World::new();
        let layer = build(layer().file("control", "laid"), &world.outside());
        let refused = world.unpack(layer).unwrap_err();
        assert_eq!(
            world.text("control"),
            "laid",
            "{what}: what came before it was unpacked"
        );
        world.assert_outside_is_untouched(&format!("{what}: {refused}"));
    }
}

/// The same layers reach it by an unpacker that looks up paths as they come: the probes above can hit.
#[test]
fn an_unpacker_that_follows_is_led_out() {
    let world = World::new();
    let layer = layer().link("l", "../outside").file("l/new", "x");
    let mut archive = tar::Archive::new(std::io::Cursor::new(layer.bytes()));
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let to = world.path("").join(entry.path().unwrap());
        match entry.link_name().unwrap() {
            Some(target) => std::os::unix::fs::symlink(target, to).unwrap(),
            None => drop(std::io::copy(&mut entry, &mut fs::File::create(to).unwrap()).unwrap()),
        }
    }
    assert!(Path::new(&world.outside()).join("new").exists());
}

#[test]
fn what_cannot_be_read_is_refused() {
    let sparse = |layer: Layer| layer.raw(EntryType::GNUSparse, b"holes", b"", 0o644, b"");
    let pax = |text: &'static [u8]| layer().raw(EntryType::XHeader, b"pax", b"", 0, text).file("f", "x");
    let longest = vec![b'x'; 2 << 20];
    let cases = [
        ("holes", sparse(layer())),
        ("holes by attributes", pax(b"22 GNU.sparse.major=1\n")),
        ("two sizes", pax(b"12 size=999\n")),
        ("a path by attributes", pax(b"16 path=../new\n")),
        ("broken attributes", pax(b"99999 path=x\n")),
        (
            "a name without end",
            layer()
                .raw(EntryType::GNULongName, b"l", b"", 0, &longest)
                .file("f", ""),
        ),
        ("an unknown kind", layer().raw(EntryType::new(b'Z'), b"z", b"", 0, b"")),
        ("a link to nowhere", layer().hard("h", "missing")),
        ("a hard link to a directory", layer().dir("d").hard("h", "d")),
        ("below a file", layer().file("f", "").file("f/below", "")),
    ];
    for (what, layer) in cases {
        let mut world = World::new();
        assert!(world.unpack(layer).is_err(), "{what}");
        world.assert_outside_is_untouched(what);
    }
    let mut world = World::new();
    world.unpack(pax(b"14 path=other\n18 SCHILY.x=a\nb=\0\n")).unwrap();
    assert_eq!(world.text("other"), "x", "the control of the attributes");
}

/// A size that the archive does not have: the archive is cut off, whatever the header promises.
#[test]
fn a_file_that_is_larger_than_its_archive_is_refused() {
    let mut bytes = layer().file("big", "x").bytes();
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..3].copy_from_slice(b"big");
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_size(1 << 60);
    header.set_cksum();
    bytes[..512].copy_from_slice(header.as_bytes());
    let world = World::new();
    let root = Root::open(&world.path("")).unwrap();
    assert!(unpack(bytes.as_slice(), &root, &world.bounds, &mut Counts::default()).is_err());
}

#[test]
fn a_hundred_thousand_entries_are_laid_and_one_above_the_bound_is_refused() {
    let many = |count: usize| (0..count).fold(layer(), |layer, number| layer.file(&format!("d/{number}"), ""));
    let mut world = World::new();
    world.bounds.entries = 100_000;
    world.unpack(many(100_000)).unwrap();
    assert_eq!(fs::read_dir(world.path("d")).unwrap().count(), 100_000);
    let refused = world.unpack(many(1)).unwrap_err();
    assert!(refused.to_string().contains("more than 100000 entries"), "{refused}");
    let mut world = World::new();
    world.bounds.names_bytes = 1000;
    let refused = world.unpack(many(1000)).unwrap_err();
    assert!(refused.to_string().contains("1000 bytes"), "{refused}");
}
