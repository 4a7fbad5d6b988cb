//! The key that signs: made at first start, readable by its owner only, the public half beside it.

use super::digest::{Digest, from_hex, to_hex};
use super::error::AuditError;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

const PRIVATE: &str = "key";
const PUBLIC: &str = "key.pub";

/// Signatures of other things under the same key cannot be taken for ours.
const PURPOSE: &[u8] = b"atoll audit 1\0";
const REPORT_PURPOSE: &[u8] = b"atoll audit report 1\0";

#[derive(Debug)]
pub(super) struct Key {
    secret: SigningKey,
    /// It is older than this start.
    pub(super) was_there: bool,
}

impl Key {
    /// Opens the key of a log, or makes it. The caller holds the log's lock.
    pub(super) fn open(dir: &Path) -> Result<Self, AuditError> {
        let path = dir.join(PRIVATE);
        let fail = |source| AuditError::Key {
            path: path.clone(),
            source,
        };
        let (secret, was_there) = match std::fs::File::open(&path) {
            Ok(file) => (read(file).map_err(fail)?, true),
            Err(error) if error.kind() == ErrorKind::NotFound => (make(&path).map_err(fail)?, false),
            Err(error) => return Err(fail(error)),
        };
        let key = Self { secret, was_there };
        key.export(&dir.join(PUBLIC)).map_err(fail)?;
        Ok(key)
    }

    /// The key of a log that is read: none is made.
    pub(super) fn existing(dir: &Path) -> Result<Self, AuditError> {
        let path = dir.join(PRIVATE);
        let secret = std::fs::File::open(&path).and_then(read);
        let secret = secret.map_err(|source| AuditError::Key { path, source })?;
        Ok(Self {
            secret,
            was_there: true,
        })
    }

    pub(super) fn public(&self) -> Digest {
        Digest(self.secret.verifying_key().to_bytes())
    }

    pub(super) fn sign(&self, hash: Digest) -> [u8; 64] {
        self.secret.sign(&message(PURPOSE, hash)).to_bytes()
    }

    pub(super) fn sign_report(&self, hash: Digest) -> [u8; 64] {
        self.secret.sign(&message(REPORT_PURPOSE, hash)).to_bytes()
    }

    /// Written once. One that differs is left: `verify` is then told which key to trust.
    fn export(&self, path: &Path) -> std::io::Result<()> {
        let options = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(path);
        match options {
            Ok(mut file) => file.write_all(format!("{}\n", self.public()).as_bytes()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn read(file: std::fs::File) -> std::io::Result<SigningKey> {
    if file.metadata()?.mode() & 0o077 != 0 {
        return Err(std::io::Error::other(
            "other users can access the file; set its mode to 600",
        ));
    }
    let mut text = String::new();
    file.take(256).read_to_string(&mut text)?;
    let bytes = from_hex(text.trim_end()).ok_or_else(|| std::io::Error::other("not a valid key"))?;
    Ok(SigningKey::from_bytes(&bytes))
}

/// Made under another name first: a crash leaves no half of a key.
fn make(path: &Path) -> std::io::Result<SigningKey> {
    let mut secret = [0; 32];
    let (one, two) = secret.split_at_mut(16);
    one.copy_from_slice(&crate::random_bytes());
    two.copy_from_slice(&crate::random_bytes());
    let part = path.with_extension("part");
    let mut file = super::files::fresh(&part)?;
    file.write_all(format!("{}\n", to_hex(&secret)).as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&part, path)?;
    Ok(SigningKey::from_bytes(&secret))
}

fn message(purpose: &[u8], hash: Digest) -> Vec<u8> {
    [purpose, &hash.0].concat()
}

/// The public half, as it is given to those who check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// The one that lies beside a log.
    pub fn beside(dir: &Path) -> Result<Self, AuditError> {
        Self::read(&dir.join(PUBLIC))
    }

    pub fn read(path: &Path) -> Result<Self, AuditError> {
        let fail = |source| AuditError::Key {
            path: path.to_owned(),
            source,
        };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(fail)?;
        file.take(256).read_to_string(&mut text).map_err(fail)?;
        let key =
            from_hex(text.strip_suffix('\n').unwrap_or(&text)).and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
        key.map(Self)
            .ok_or_else(|| fail(std::io::Error::other("not a valid public key")))
    }

    pub(super) fn of(key: &Key) -> Self {
        Self(key.secret.verifying_key())
    }

    pub(super) fn bytes(&self) -> Digest {
        Digest(self.0.to_bytes())
    }

    pub(super) fn has_signed(&self, hash: Digest, signature: Option<[u8; 64]>) -> bool {
        self.has_signed_message(&message(PURPOSE, hash), signature)
    }

    pub(super) fn has_signed_report(&self, hash: Digest, signature: Option<[u8; 64]>) -> bool {
        self.has_signed_message(&message(REPORT_PURPOSE, hash), signature)
    }

    fn has_signed_message(&self, message: &[u8], signature: Option<[u8; 64]>) -> bool {
        let signature = signature.map(|bytes| Signature::from_bytes(&bytes));
        signature.is_some_and(|signature| self.0.verify_strict(message, &signature).is_ok())
    }
}

impl std::fmt::Display for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.bytes().fmt(f)
    }
}
