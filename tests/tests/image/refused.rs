//! Images that are damaged, lie or want out: a sentence, exit code 2, and nothing left.

use crate::{World, from, shell};
use anyhow::Result;
use atoll_tests::image::{Image, Layer};
use std::fs;
use std::path::Path;

fn refused(world: &World, source: &str, words: &str) -> Result<()> {
    let ran = world.atoll(&["template", "build", "bad", "--from", source])?;
    assert_eq!(ran.code, Some(2), "{words}: {ran:?}");
    assert!(ran.stderr.contains(words), "{words}: {ran:?}");
    if world.home().join("templates").exists() {
        assert_eq!(world.left()?, Vec::<String>::new(), "{words}");
    }
    Ok(())
}

fn largest_blob(layout: &Path) -> Result<std::path::PathBuf> {
    let blobs = fs::read_dir(layout.join("blobs/sha256"))?.collect::<Result<Vec<_>, _>>()?;
    let largest = blobs
        .iter()
        .max_by_key(|blob| blob.metadata().map_or(0, |meta| meta.len()));
    Ok(largest.map(fs::DirEntry::path).unwrap_or_default())
}

#[test]
fn a_damaged_image_is_refused_and_leaves_nothing() -> Result<()> {
    let world = World::new()?;
    let image = shell()?;
    let layout = world.path("layout");
    image.layout(&layout)?;
    let blob = largest_blob(&layout)?;
    let whole = fs::read(&blob)?;
    // The middle of the layer is another byte; its end is missing; all of it is missing.
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    fs::write(&blob, &changed)?;
    refused(&world, &from("oci", &layout), "layer 1 of 1")?;
    fs::write(&blob, &whole[..whole.len() / 2])?;
    refused(&world, &from("oci", &layout), "layer 1 of 1")?;
    // Unpacks well, and is another layer than the manifest names.
    fs::write(&blob, packed(&Layer::default().bytes()?)?)?;
    refused(&world, &from("oci", &layout), "digest mismatch")?;
    fs::remove_file(&blob)?;
    refused(&world, &from("oci", &layout), "cannot read")?;
    fs::write(&blob, &whole)?;
    world.build("good", &from("oci", &layout))?;
    Ok(())
}

fn packed(layer: &[u8]) -> Result<Vec<u8>> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, layer)?;
    Ok(packed.finish()?)
}

#[test]
fn a_saved_layer_that_is_another_one_is_refused() -> Result<()> {
    let world = World::new()?;
    shell()?.saved(&world.path("good.tar"))?;
    let text = fs::read(world.path("good.tar"))?;
    let mark = b"of the image";
    let at = text
        .windows(mark.len())
        .position(|part| part == mark)
        .unwrap_or_default();
    let mut changed = text;
    changed[at] = b'O';
    fs::write(world.path("bad.tar"), changed)?;
    refused(
        &world,
        &from("docker-archive", &world.path("bad.tar")),
        "digest mismatch",
    )?;
    Ok(())
}

#[test]
fn a_hostile_image_is_refused_and_reaches_nothing() -> Result<()> {
    let world = World::new()?;
    let outside = world.path("outside");
    fs::create_dir(&outside)?;
    type Build<'a> = &'a dyn Fn(&mut Layer) -> Result<()>;
    let cases: [(&str, Build<'_>); 3] = [
        ("`..` is not allowed in paths", &|layer| {
            layer.raw_file("../../../outside/new", b"x")
        }),
        ("absolute paths are not allowed", &|layer| {
            layer.raw_file("/tmp/atoll-image-test", b"x")
        }),
        ("below a symbolic link", &|layer| {
            layer.link("l", &outside.to_string_lossy())?;
            layer.raw_file("l/new", b"x")
        }),
    ];
    for (words, hostile) in cases {
        let mut layer = Layer::default();
        layer.base()?;
        hostile(&mut layer)?;
        Image::new(vec![layer.bytes()?]).saved(&world.path("bad.tar"))?;
        refused(&world, &from("docker-archive", &world.path("bad.tar")), words)?;
        assert_eq!(fs::read_dir(&outside)?.count(), 0, "{words}");
    }
    assert!(!Path::new("/tmp/atoll-image-test").exists());
    Ok(())
}

#[test]
fn what_is_no_image_says_what_would_be() -> Result<()> {
    let world = World::new()?;
    fs::create_dir(world.path("empty"))?;
    fs::write(world.path("text"), "no archive")?;
    let path = |name: &str| world.path(name);
    refused(&world, "python:3.12", "docker-archive:PATH")?;
    refused(
        &world,
        &from("oci", &path("missing")),
        "does not exist or is not accessible",
    )?;
    refused(&world, &from("oci", &path("empty")), "`index.json` not found")?;
    refused(
        &world,
        &from("docker-archive", &path("empty")),
        "`manifest.json` not found",
    )?;
    refused(&world, &from("docker-archive", &path("text")), "cannot read")?;
    fs::write(path("empty/index.json"), "{}")?;
    refused(&world, &from("oci", &path("empty")), "cannot parse `index.json`")?;
    for name in ["python-data", "base", "Bad/Name"] {
        let ran = world.atoll(&["template", "build", name, "--from", &from("oci", &path("empty"))])?;
        assert_eq!(ran.code, Some(2), "{name}: {ran:?}");
    }
    let unnamed = world.atoll(&["template", "build", "--from", &from("oci", &path("empty"))])?;
    assert!(
        unnamed.code == Some(2) && unnamed.stderr.contains("template name is missing"),
        "{unnamed:?}"
    );
    Ok(())
}
