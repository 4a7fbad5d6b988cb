//! Building: every form of an image, what is listed, shown and removed, and what a second build does.

use crate::{World, from, shell};
use anyhow::{Context, Result};
use atoll_tests::image::{Image, Layer, keep, write_index};
use serde_json::{Value, json};

#[test]
fn a_template_of_an_image_is_listed_shown_built_once_and_removed() -> Result<()> {
    let world = World::new()?;
    let manifest = shell()?.layout(&world.path("layout"))?;
    let source = from("oci", &world.path("layout"));
    let built = world.atoll(&["template", "build", "--name", "shell", "--from", &source, "--json"])?;
    assert_eq!(built.code, Some(0), "{built:?}");
    let built: Value = serde_json::from_str(&built.stdout)?;
    assert_eq!(
        (&built["image"]["source"], &built["image"]["digest"]),
        (&json!("oci:layout"), &manifest["digest"])
    );
    assert_eq!(
        (&built["python"], &built["image"]["languages"]),
        (&Value::Null, &json!(["bash"]))
    );
    let list = world.atoll(&["template", "list"])?;
    assert!(
        list.stdout
            .contains("shell            built      Built from the image oci:layout."),
        "{list:?}"
    );
    let first = std::fs::metadata(world.home().join("templates").join(&world.left()?[0]))?.modified()?;
    let again = world.build("shell", &source)?;
    assert!(
        again.stdout.contains(built["digest"].as_str().context("a digest")?),
        "{again:?}"
    );
    let second = std::fs::metadata(world.home().join("templates").join(&world.left()?[0]))?.modified()?;
    assert_eq!(first, second, "the same image is not unpacked again");
    let named = world.atoll(&["template", "build", "shell"])?;
    assert_eq!(named.code, Some(0), "by its name alone it is there: {named:?}");
    let removed = world.atoll(&["template", "rm", "shell"])?;
    assert_eq!((removed.code, world.left()?.len()), (Some(0), 0), "{removed:?}");
    Ok(())
}

#[test]
fn a_newer_image_takes_the_place_of_the_older_one() -> Result<()> {
    let world = World::new()?;
    let image = shell()?;
    image.layout(&world.path("one"))?;
    let mut above = Layer::default();
    above.file("only-here.txt", b"of the second\n", 0o644)?;
    above.file("usr/bin/.wh.cat", b"", 0o644)?;
    let mut second = image.clone();
    second.layers.push(above.bytes()?);
    second.layout(&world.path("two"))?;
    world.build("shell", &from("oci", &world.path("one")))?;
    world.build("shell", &from("oci", &world.path("two")))?;
    assert_eq!(world.left()?.len(), 1, "nobody used the older one");
    let bash = "read -r line < /only-here.txt; echo $line; type cat; type ls";
    let ran = world.atoll(&["run", "--template", "shell", "--lang", "bash", "-c", bash])?;
    assert!(
        ran.stdout.starts_with("of the second\n") && ran.stdout.contains("ls is"),
        "{ran:?}"
    );
    assert!(
        !ran.stdout.contains("cat is"),
        "taken away by the second layer: {ran:?}"
    );
    Ok(())
}

#[test]
fn of_an_index_the_image_of_this_machine_is_taken() -> Result<()> {
    let world = World::new()?;
    let layout = world.path("layout");
    let ours = shell()?;
    let other = Image {
        architecture: "s390x".to_owned(),
        ..Image::new(Vec::new())
    };
    let mut manifests = Vec::new();
    for image in [&other, &ours] {
        let mut manifest = image.blobs(&layout)?;
        manifest["platform"] = json!({"os": "linux", "architecture": image.architecture});
        manifests.push(manifest);
    }
    let kind = "application/vnd.oci.image.index.v1+json";
    let index = json!({"schemaVersion": 2, "mediaType": kind, "manifests": manifests});
    write_index(&layout, &[keep(&layout, index.to_string().as_bytes(), kind)?])?;
    world.build("shell", &from("oci", &layout))?;
    other.layout(&world.path("other"))?;
    let refused = world.atoll(&[
        "template",
        "build",
        "other",
        "--from",
        &from("oci", &world.path("other")),
    ])?;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("the image is for linux/s390x"), "{refused:?}");
    Ok(())
}

/// The frame is laid over whatever the image has: its links lead nowhere.
#[test]
fn our_own_files_win_over_links_of_the_image() -> Result<()> {
    let world = World::new()?;
    let outside = world.path("outside");
    std::fs::create_dir(&outside)?;
    let mut layer = Layer::default();
    layer.base()?;
    for name in ["etc", "opt", "home", "data", "mnt"] {
        layer.link(name, &outside.to_string_lossy())?;
    }
    layer.link("everything", "/")?;
    Image::new(vec![layer.bytes()?]).saved(&world.path("saved.tar"))?;
    world.build("links", &from("docker-archive", &world.path("saved.tar")))?;
    assert_eq!(
        std::fs::read_dir(&outside)?.count(),
        0,
        "nothing was written behind a link"
    );
    let bash = "id -un; [[ -d /etc && ! -L /etc ]] && cat /etc/hostname; cat /everything/run/landlock/canary; :";
    let ran = world.atoll(&["run", "--template", "links", "--lang", "bash", "-c", bash])?;
    assert_eq!(ran.stdout, "user\nsandbox\n", "{ran:?}");
    assert!(
        ran.stderr.contains("Permission denied"),
        "a link to `/` opens nothing: {ran:?}"
    );
    Ok(())
}
