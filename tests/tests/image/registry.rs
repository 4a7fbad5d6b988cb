//! Pulling from a registry that the test itself is, on loopback.

use crate::{World, shell};
use anyhow::Result;
use atoll_tests::image::{keep, write_index};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

/// Serves the blobs of a layout under the name `test/shell`. Ends with the test's process.
fn serve(layout: PathBuf, top: Value) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            answer(connection, &layout, &top).ok();
        }
    });
    Ok(address)
}

fn answer(mut connection: TcpStream, layout: &Path, top: &Value) -> Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let blob = |digest: &str| {
        let name = digest.strip_prefix("sha256:").unwrap_or("none");
        fs::read(layout.join("blobs/sha256").join(name)).ok()
    };
    let kind = top["mediaType"].as_str().unwrap_or_default();
    let manifest = "application/vnd.oci.image.manifest.v1+json";
    let (kind, body) = match path
        .strip_prefix("/v2/")
        .map(|rest| rest.rsplit_once('/').unwrap_or((rest, "")))
    {
        Some(("test/shell/manifests", "1.0")) => (kind, blob(top["digest"].as_str().unwrap_or_default())),
        Some(("test/shell/manifests", digest)) => (manifest, blob(digest)),
        Some(("test/shell/blobs", digest)) => ("application/octet-stream", blob(digest)),
        Some(_) => ("text/plain", Some(Vec::new())),
        None => ("text/plain", None),
    };
    let (status, body) = body.map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
    write!(
        connection,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )?;
    Ok(connection.write_all(&body)?)
}

#[test]
fn an_image_is_pulled_from_a_registry_and_checked() -> Result<()> {
    let world = World::new()?;
    let layout = world.path("layout");
    let image = shell()?;
    let mut manifest = image.blobs(&layout)?;
    manifest["platform"] = json!({"os": "linux", "architecture": image.architecture});
    let kind = "application/vnd.oci.image.index.v1+json";
    let index = json!({"schemaVersion": 2, "mediaType": kind, "manifests": [manifest]});
    let top = keep(&layout, index.to_string().as_bytes(), kind)?;
    write_index(&layout, std::slice::from_ref(&top))?;
    let address = serve(layout.clone(), top)?;
    let source = format!("docker://{address}/test/shell:1.0");
    world.build("pulled", &source)?;
    let ran = world.atoll(&[
        "run",
        "--template",
        "pulled",
        "--lang",
        "bash",
        "-c",
        "cat /only-here.txt",
    ])?;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "of the image\n"), "{ran:?}");
    let shown = world.atoll(&["template", "show", "pulled", "--json"])?;
    let shown: Value = serde_json::from_str(&shown.stdout)?;
    assert_eq!(shown["image"]["source"], json!(source));
    // What the registry gives is not what the manifest names.
    let blobs = fs::read_dir(layout.join("blobs/sha256"))?.collect::<Result<Vec<_>, _>>()?;
    let largest = blobs
        .iter()
        .max_by_key(|blob| blob.metadata().map_or(0, |meta| meta.len()));
    if let Some(layer) = largest {
        let mut bytes = fs::read(layer.path())?;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(layer.path(), bytes)?;
    }
    let bad = world.atoll(&["template", "build", "bad", "--from", &source])?;
    assert_eq!(bad.code, Some(2), "{bad:?}");
    let missing = world.atoll(&[
        "template",
        "build",
        "bad",
        "--from",
        &format!("registry:{address}/test/none:1"),
    ])?;
    assert_eq!(missing.code, Some(2), "{missing:?}");
    assert!(missing.stderr.contains("from the registry"), "{missing:?}");
    assert_eq!(world.left()?.len(), 1, "of the good one only");
    Ok(())
}
