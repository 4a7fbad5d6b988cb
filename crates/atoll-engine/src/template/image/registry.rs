//! Pulls one image from a registry by `oci-client`, into a layout of OCI. Digests are checked when the layout is read.
//!
//! The only part of the templates that waits for a network by itself: it has a runtime of its own, on a thread of its own, so
//! that it can be called from anywhere. Registries on this machine's loopback are asked without TLS, all others with it.

use super::super::meter::Meter;
use super::super::patience::Stop;
use super::bounds::Bounds;
use super::documents::{Digest, Document, fitting};
use super::found::Layer;
use super::pull::PullError;
use base64::Engine as _;
use fs_err as fs;
use futures_util::StreamExt;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE,
};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use sha2::Digest as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ACCEPTED: [&str; 4] = [
    OCI_IMAGE_INDEX_MEDIA_TYPE,
    IMAGE_MANIFEST_LIST_MEDIA_TYPE,
    OCI_IMAGE_MEDIA_TYPE,
    IMAGE_MANIFEST_MEDIA_TYPE,
];
/// Indexes that lead to indexes, in a row.
const DEEPEST: usize = 4;
const CONNECT: Duration = Duration::from_secs(30);
/// With nothing received.
const SILENCE: Duration = Duration::from_secs(60);

/// Fetches index, manifest and configuration of the image for this machine.
pub(super) fn documents(reference: &str, layout: &Path, bounds: &Bounds) -> Result<(), PullError> {
    on_a_thread(|| async {
        let remote = Remote::new(reference, layout)?;
        remote.documents(bounds).await
    })
}

/// Fetches the layers.
pub(super) fn layers(
    reference: &str,
    layout: &Path,
    layers: &[Layer],
    stop: &Stop,
    meter: &Meter<'_>,
) -> Result<(), PullError> {
    on_a_thread(|| async {
        let remote = Remote::new(reference, layout)?;
        // This asks for the right to read, which layers need too.
        remote.manifest(&remote.reference).await?;
        let total: u64 = layers.iter().map(|layer| layer.size_bytes).sum();
        let mut done = 0;
        for (layer, digest) in layers.iter().filter_map(|layer| Some((layer, layer.stored.as_ref()?))) {
            let mut passed = |bytes| {
                done += bytes;
                meter.at(kib(done), kib(total));
                stop.is_stopped()
            };
            remote.blob(digest, layer.size_bytes, &mut passed).await?;
        }
        Ok(())
    })
}

fn kib(bytes: u64) -> usize {
    usize::try_from(bytes >> 10).unwrap_or(usize::MAX)
}

fn on_a_thread<F: Future<Output = Result<(), PullError>>>(work: impl FnOnce() -> F + Send) -> Result<(), PullError> {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|source| PullError::Keep { source })?.block_on(work())
    };
    let done = std::thread::scope(|scope| scope.spawn(run).join());
    done.unwrap_or_else(|_| {
        Err(PullError::Registry {
            what: "the image".to_owned(),
            reason: "the registry client panicked".to_owned(),
        })
    })
}

struct Remote {
    client: Client,
    reference: Reference,
    auth: RegistryAuth,
    layout: PathBuf,
}

impl Remote {
    fn new(reference: &str, layout: &Path) -> Result<Self, PullError> {
        let parsed: Reference = reference
            .parse()
            .map_err(|error: oci_client::ParseError| PullError::Reference {
                reference: reference.to_owned(),
                reason: error.to_string(),
            })?;
        // The same for all who use TLS in this process; a second call changes nothing.
        rustls::crypto::ring::default_provider().install_default().ok();
        let registry = parsed.resolve_registry();
        let config = ClientConfig {
            protocol: match is_loopback(registry) {
                true => ClientProtocol::HttpsExcept(vec![registry.to_owned()]),
                false => ClientProtocol::Https,
            },
            connect_timeout: Some(CONNECT),
            read_timeout: Some(SILENCE),
            ..ClientConfig::default()
        };
        Ok(Self {
            client: Client::new(config),
            auth: login(registry).unwrap_or(RegistryAuth::Anonymous),
            reference: parsed,
            layout: layout.to_owned(),
        })
    }

    async fn documents(&self, bounds: &Bounds) -> Result<(), PullError> {
        let mut reference = self.reference.clone();
        let mut top = None;
        for _ in 0..DEEPEST {
            let bytes = self.manifest(&reference).await?;
            let digest = self.keep(&bytes)?;
            top.get_or_insert((digest, bytes.len()));
            let document = serde_json::from_slice(&bytes).map_err(|error| refused("the manifest", &error))?;
            match document {
                Document::Manifest { config, .. } => {
                    let digest = Digest::read(&config.digest)
                        .ok_or_else(|| refused("the image configuration", &"invalid digest"))?;
                    self.blob(&digest, config.size.min(bounds.document_bytes), &mut |_| false)
                        .await?;
                    break;
                }
                Document::Index { manifests } => {
                    let next = fitting(&manifests).first().map(|one| one.digest.clone());
                    let next = next.ok_or_else(|| refused("the image", &"no image for this platform"))?;
                    reference = self.reference.clone_with_digest(next);
                }
            }
        }
        let (digest, size) = top.ok_or_else(|| refused("the manifest", &"not found"))?;
        let index = serde_json::json!({
            "schemaVersion": 2,
            "manifests": [{"mediaType": OCI_IMAGE_INDEX_MEDIA_TYPE, "digest": digest.to_string(), "size": size}],
        });
        fs::write(self.layout.join("index.json"), index.to_string()).map_err(|source| PullError::Keep { source })
    }

    async fn manifest(&self, reference: &Reference) -> Result<Vec<u8>, PullError> {
        let pulled = self.client.pull_manifest_raw(reference, &self.auth, &ACCEPTED).await;
        let (bytes, _) = pulled.map_err(|error| refused(&reference.whole(), &error))?;
        Ok(bytes.to_vec())
    }

    fn keep(&self, bytes: &[u8]) -> Result<Digest, PullError> {
        let digest = Digest::of(&sha2::Sha256::digest(bytes));
        let keep = || {
            fs::create_dir_all(self.layout.join("blobs/sha256"))?;
            fs::write(self.place(&digest), bytes)
        };
        keep().map_err(|source| PullError::Keep { source })?;
        Ok(digest)
    }

    fn place(&self, digest: &Digest) -> PathBuf {
        self.layout.join("blobs/sha256").join(digest.digits())
    }

    /// Fetches one file, of at most this size. `passed` says whether to stop.
    async fn blob(&self, digest: &Digest, size: u64, passed: &mut dyn FnMut(u64) -> bool) -> Result<(), PullError> {
        let name = digest.to_string();
        let stream = self.client.pull_blob_stream(&self.reference, name.as_str()).await;
        let mut stream = stream.map_err(|error| refused(&name, &error))?.stream;
        let keep = |source| PullError::Keep { source };
        let mut file = fs::File::create(self.place(digest)).map_err(keep)?;
        let mut left = size;
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| refused(&name, &error))?;
            let bytes = chunk.len() as u64;
            left = left
                .checked_sub(bytes)
                .ok_or_else(|| PullError::TooLarge { what: name.clone() })?;
            file.write_all(&chunk).map_err(keep)?;
            if passed(bytes) {
                return Err(PullError::Stopped);
            }
        }
        Ok(())
    }
}

fn refused(what: &str, reason: &dyn std::fmt::Display) -> PullError {
    PullError::Registry {
        what: what.escape_debug().to_string(),
        reason: reason.to_string().escape_debug().to_string(),
    }
}

/// `localhost:5000` and the like.
fn is_loopback(registry: &str) -> bool {
    let host = match registry.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => registry.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// What `docker login` or `podman login` has written for this registry. Programs that keep passwords are not asked.
fn login(registry: &str) -> Option<RegistryAuth> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let directory = variable("DOCKER_CONFIG").or_else(|| Some(variable("HOME")?.join(".docker")))?;
    read_login(&fs::read_to_string(directory.join("config.json")).ok()?, registry)
}

fn read_login(text: &str, registry: &str) -> Option<RegistryAuth> {
    let settings: serde_json::Value = serde_json::from_str(text).ok()?;
    let known = settings.get("auths")?;
    let names = match registry {
        "index.docker.io" => vec!["https://index.docker.io/v1/", "index.docker.io", "docker.io"],
        other => vec![other],
    };
    let entry = names.into_iter().find_map(|name| known.get(name))?;
    let words = base64::engine::general_purpose::STANDARD
        .decode(entry.get("auth")?.as_str()?)
        .ok()?;
    let (user, password) = std::str::from_utf8(&words).ok()?.split_once(':')?;
    Some(RegistryAuth::Basic(user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_asked_without_tls() {
        for (registry, loopback) in [
            ("localhost:5000", true),
            ("127.0.0.1:5000", true),
            ("[::1]:5000", true),
            ("localhost.example.org", false),
            ("10.0.0.1:5000", false),
            ("127.0.0.1.example.org", false),
        ] {
            assert_eq!(is_loopback(registry), loopback, "{registry}");
        }
    }

    #[test]
    fn a_login_is_that_of_the_registry() {
        let text = r#"{"auths": {"a.example": {"auth": "dTpw"}, "https://index.docker.io/v1/": {"auth": "ZDpx"}, "b.example": {}}}"#;
        let basic = |user: &str, password: &str| Some(RegistryAuth::Basic(user.to_owned(), password.to_owned()));
        assert_eq!(read_login(text, "a.example"), basic("u", "p"));
        assert_eq!(read_login(text, "index.docker.io"), basic("d", "q"));
        for registry in ["b.example", "c.example"] {
            assert_eq!(read_login(text, registry), None);
        }
    }
}
