//! The documents of an image: indexes, manifests, configurations, in the words of OCI and of Docker. Pure.

use super::super::recipe::hex;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// A sha256, in hex. Nothing else is known, so it is safe in a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Digest(String);

impl Digest {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(hex(bytes))
    }

    /// Reads `sha256:` and 64 hex digits.
    pub(super) fn read(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:")?;
        let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        (digits.len() == 64 && digits.chars().all(is_hex)).then(|| Self(digits.to_owned()))
    }

    pub(super) fn digits(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    pub(super) platform: Option<Platform>,
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Platform {
    pub(super) os: String,
    pub(super) architecture: String,
}

/// An index of images or one image: which it is shows in what it holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Document {
    Index {
        manifests: Vec<Descriptor>,
    },
    Manifest {
        config: Descriptor,
        layers: Vec<Descriptor>,
    },
}

/// One image of `manifest.json` in what `docker save` writes.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Saved {
    pub(super) config: String,
    pub(super) repo_tags: Option<Vec<String>>,
    pub(super) layers: Vec<String>,
}

/// What an image says about itself.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Config {
    #[serde(default)]
    pub(super) os: String,
    #[serde(default)]
    pub(super) architecture: String,
    pub(super) config: Option<Runtime>,
    pub(super) rootfs: RootFs,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Runtime {
    #[serde(rename = "Env")]
    pub(super) env: Option<Vec<String>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct RootFs {
    pub(super) diff_ids: Vec<String>,
}

impl Config {
    pub(super) fn env(&self) -> &[String] {
        self.config
            .as_ref()
            .and_then(|config| config.env.as_deref())
            .unwrap_or_default()
    }
}

/// Of this machine, in the words of images.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The kinds of layers that are tar archives, packed or not. Others are encrypted, or no layers at all.
pub(super) fn is_layer(media_type: &str) -> bool {
    let kinds = [
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.nondistributable.v1.tar",
        "application/vnd.docker.image.rootfs.diff.tar",
    ];
    let rest = kinds.iter().find_map(|kind| media_type.strip_prefix(kind));
    rest.is_some_and(|rest| matches!(rest, "" | "+gzip" | "+zstd" | ".gzip" | ".zstd"))
}

/// Which of an index are images that this machine can run. What says nothing may be one.
pub(super) fn fitting(manifests: &[Descriptor]) -> Vec<&Descriptor> {
    let fits = |one: &&Descriptor| match &one.platform {
        Some(platform) => platform.os == "linux" && platform.architecture == architecture(),
        None => true,
    };
    manifests.iter().filter(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_hex_and_nothing_else() {
        let good = format!("sha256:{}", "0a".repeat(32));
        assert_eq!(Digest::read(&good).unwrap().to_string(), good);
        let long = format!("sha256:{}/", "0a".repeat(32));
        for bad in ["sha256:..", "sha512:00", "", &long, &good.to_uppercase(), &good[..70]] {
            assert!(Digest::read(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn layers_are_known_by_kind() {
        for (kind, known) in [
            ("application/vnd.oci.image.layer.v1.tar", true),
            ("application/vnd.oci.image.layer.v1.tar+zstd", true),
            ("application/vnd.docker.image.rootfs.diff.tar.gzip", true),
            ("application/vnd.oci.image.layer.v1.tar+gzip+encrypted", false),
            ("application/vnd.in-toto+json", false),
            ("", false),
        ] {
            assert_eq!(is_layer(kind), known, "{kind}");
        }
    }

    #[test]
    fn an_index_gives_what_this_machine_can_run() {
        let text = format!(
            r#"{{"schemaVersion": 2, "manifests": [
                {{"digest": "a", "size": 1, "platform": {{"os": "windows", "architecture": "{0}"}}}},
                {{"digest": "b", "size": 1, "platform": {{"os": "linux", "architecture": "s390x"}}}},
                {{"digest": "c", "size": 1, "platform": {{"os": "linux", "architecture": "{0}", "variant": "v8"}}}},
                {{"digest": "d", "size": 1, "platform": {{"os": "unknown", "architecture": "unknown"}}}}]}}"#,
            architecture()
        );
        let Document::Index { manifests } = serde_json::from_str(&text).unwrap() else {
            panic!("an index");
        };
        let found: Vec<&str> = fitting(&manifests).iter().map(|one| one.digest.as_str()).collect();
        assert_eq!(found, ["c"]);
    }
}
