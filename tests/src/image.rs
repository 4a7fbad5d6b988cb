//! Images for tests, made of files of this machine: layers, layouts of OCI, what `docker save` writes.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of this machine, in the words of images.
pub const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") {
    "arm64"
} else {
    "amd64"
};
/// Parts of the standard library that no test of an image uses.
const SKIPPED: [&str; 6] = ["test", "idlelib", "ensurepip", "lib2to3", "dist-packages", "pydoc_data"];

/// One layer, unpacked.
pub struct Layer {
    tar: tar::Builder<Vec<u8>>,
    has: BTreeSet<PathBuf>,
}

impl std::fmt::Debug for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Layer").field("has", &self.has).finish_non_exhaustive()
    }
}

impl Default for Layer {
    fn default() -> Self {
        let tar = tar::Builder::new(Vec::new());
        let has = BTreeSet::new();
        Self { tar, has }
    }
}

impl Layer {
    pub fn file(&mut self, name: &str, content: &[u8], mode: u32) -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        Ok(self.tar.append_data(&mut header, name, content)?)
    }

    pub fn link(&mut self, name: &str, to: &str) -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        Ok(self.tar.append_link(&mut header, name, to)?)
    }

    /// An entry whose name no honest writer takes.
    pub fn raw_file(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        Ok(self.tar.append(&header, content)?)
    }

    /// A file of this machine under the path that it really has, and all libraries that it loads.
    pub fn program(&mut self, path: &str) -> Result<()> {
        let output = Command::new("ldd").arg(path).output()?;
        let libraries = String::from_utf8(output.stdout)?;
        let paths = libraries.split_whitespace().filter(|word| word.starts_with('/'));
        for file in paths.chain([path]) {
            self.copy(Path::new(file.trim_end_matches(':')))?;
        }
        Ok(())
    }

    /// A link that this machine has keeps its name.
    fn copy(&mut self, path: &Path) -> Result<()> {
        let real = fs::canonicalize(path)?;
        let parent = fs::canonicalize(path.parent().context("a parent")?)?;
        let named = parent.join(path.file_name().context("a name")?);
        if named != real && self.has.insert(named.clone()) {
            self.link(below(&named), &real.to_string_lossy())?;
        }
        if self.has.insert(real.clone()) {
            self.tar.append_path_with_name(&real, below(&real))?;
        }
        Ok(())
    }

    /// Links of a machine whose programs all lie below `/usr`, and a shell.
    pub fn base(&mut self) -> Result<()> {
        for (name, to) in [
            ("bin", "usr/bin"),
            ("lib", "usr/lib"),
            ("lib64", "usr/lib64"),
            ("sbin", "usr/sbin"),
        ] {
            self.link(name, to)?;
        }
        for program in ["/usr/bin/bash", "/usr/bin/cat", "/usr/bin/ls", "/usr/bin/id"] {
            self.program(program)?;
        }
        Ok(())
    }

    /// The machine's own Python, with its standard library.
    pub fn python(&mut self) -> Result<()> {
        self.program("/usr/bin/python3")?;
        let real = fs::canonicalize("/usr/bin/python3")?;
        let name = real.file_name().context("a name")?.to_string_lossy().into_owned();
        self.tree(&Path::new("/usr/lib").join(name))
    }

    fn tree(&mut self, path: &Path) -> Result<()> {
        let mut entries = fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) && !name.starts_with("config-") {
                self.tree(&path)?;
            } else if name.ends_with(".so") {
                self.program(&path.to_string_lossy())?;
            } else if kind.is_file() {
                self.tar.append_path_with_name(&path, below(&path))?;
            }
        }
        Ok(())
    }

    pub fn bytes(self) -> Result<Vec<u8>> {
        Ok(self.tar.into_inner()?)
    }
}

fn below(path: &Path) -> &str {
    path.to_str().unwrap_or_default().trim_start_matches('/')
}

/// An image before it is written in one form or another.
#[derive(Clone, Debug)]
pub struct Image {
    /// Unpacked.
    pub layers: Vec<Vec<u8>>,
    pub env: Vec<String>,
    pub architecture: String,
}

impl Image {
    pub fn new(layers: Vec<Vec<u8>>) -> Self {
        Self {
            layers,
            env: vec!["PATH=/usr/local/bin:/usr/bin:/bin".to_owned()],
            architecture: ARCHITECTURE.to_owned(),
        }
    }

    fn config(&self) -> String {
        let ids: Vec<String> = self.layers.iter().map(|layer| digest(layer)).collect();
        let config = json!({
            "os": "linux", "architecture": self.architecture,
            "config": {"Env": self.env, "Cmd": ["/bin/bash"]}, "rootfs": {"type": "layers", "diff_ids": ids},
        });
        config.to_string()
    }

    /// Writes the blobs of this image, its layers packed by gzip, and returns the descriptor of its manifest.
    pub fn blobs(&self, layout: &Path) -> Result<Value> {
        let config = keep(
            layout,
            self.config().as_bytes(),
            "application/vnd.oci.image.config.v1+json",
        )?;
        let mut layers = Vec::new();
        for layer in &self.layers {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(layer)?;
            layers.push(keep(
                layout,
                &packed.finish()?,
                "application/vnd.oci.image.layer.v1.tar+gzip",
            )?);
        }
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers});
        keep(layout, manifest.to_string().as_bytes(), kind)
    }

    /// Writes it as the only image of a layout.
    pub fn layout(&self, layout: &Path) -> Result<Value> {
        let manifest = self.blobs(layout)?;
        write_index(layout, std::slice::from_ref(&manifest))?;
        Ok(manifest)
    }

    /// What `docker save` writes.
    pub fn saved(&self, path: &Path) -> Result<()> {
        let mut tar = Layer::default();
        let config = self.config();
        let name = format!("{}.json", hex(config.as_bytes()));
        let mut names = Vec::new();
        for layer in &self.layers {
            let name = format!("{}/layer.tar", hex(layer));
            tar.file(&name, layer, 0o644)?;
            names.push(name);
        }
        tar.file(&name, config.as_bytes(), 0o644)?;
        let manifest = json!([{"Config": name, "RepoTags": ["test:latest"], "Layers": names}]);
        tar.file("manifest.json", manifest.to_string().as_bytes(), 0o644)?;
        Ok(fs::write(path, tar.bytes()?)?)
    }
}

/// Keeps a blob under its digest, and describes it.
pub fn keep(layout: &Path, bytes: &[u8], kind: &str) -> Result<Value> {
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    fs::write(blobs.join(hex(bytes)), bytes)?;
    Ok(json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()}))
}

pub fn write_index(layout: &Path, manifests: &[Value]) -> Result<()> {
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#)?;
    let index = json!({"schemaVersion": 2, "manifests": manifests});
    Ok(fs::write(layout.join("index.json"), index.to_string())?)
}

/// A tar of a whole layout.
pub fn archived(layout: &Path, path: &Path) -> Result<()> {
    let mut tar = tar::Builder::new(fs::File::create(path)?);
    tar.append_dir_all(".", layout)?;
    Ok(tar.finish()?)
}

pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(bytes))
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file that others may read and enter.
pub fn open_to_all(path: &Path) -> Result<()> {
    ensure!(path.exists(), "{}", path.display());
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}
