//! One line of the log: the record, its hash, a signature where there is one, and the private part.
//!
//! A line is taken only in the one spelling that [`encode`] gives, so that every changed byte is seen.

use super::digest::{Digest, from_hex, to_hex};
use super::record::{Record, Secrets, VERSION};
use serde::{Deserialize, Serialize};

/// Without the newline.
pub const MAX_LINE: usize = 2 << 20;

pub(super) const SALT_BYTES: usize = 16;

#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub record: Record,
    pub hash: Digest,
    pub signature: Option<[u8; 64]>,
    pub private: Option<Private>,
}

/// The part that can be erased. The record commits to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Private {
    pub salt: String,
    pub data: Secrets,
}

impl Private {
    pub(super) fn new(data: Secrets, salt: [u8; SALT_BYTES]) -> Self {
        Self {
            salt: to_hex(&salt),
            data,
        }
    }

    pub(super) fn commitment(&self) -> Digest {
        let mut bytes = b"atoll audit private\0".to_vec();
        // Text, numbers and lists of such: always writable.
        serde_json::to_writer(&mut bytes, self).ok();
        Digest::of(&bytes)
    }
}

/// Why bytes are no line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    #[error("the line exceeds {MAX_LINE} bytes")]
    TooLong,
    #[error("not a valid record")]
    NotARecord,
    #[error("unsupported record version {0}; this build supports version {VERSION}")]
    Version(u8),
    #[error("the line is not in canonical form")]
    Spelling,
    #[error("the hash does not match the content")]
    Hash,
    #[error("the field `private` does not match its digest in the record")]
    Private,
}

#[derive(Deserialize)]
struct Written {
    record: Record,
    hash: Digest,
    signature: Option<String>,
    private: Option<Private>,
}

/// The record as the chain covers it.
pub(super) fn record_bytes(record: &Record) -> Result<(Vec<u8>, Digest), serde_json::Error> {
    let bytes = serde_json::to_vec(record)?;
    let hash = Digest::of(&bytes);
    Ok((bytes, hash))
}

/// The line with its newline.
pub(super) fn encode(
    record: &[u8],
    hash: Digest,
    signature: Option<[u8; 64]>,
    private: Option<&Private>,
) -> Result<Vec<u8>, serde_json::Error> {
    let signature = signature.map(|signature| to_hex(&signature));
    let mut line = Vec::with_capacity(record.len() + 256);
    line.extend_from_slice(b"{\"record\":");
    line.extend_from_slice(record);
    line.extend_from_slice(b",\"hash\":");
    serde_json::to_writer(&mut line, &hash)?;
    line.extend_from_slice(b",\"signature\":");
    serde_json::to_writer(&mut line, &signature)?;
    line.extend_from_slice(b",\"private\":");
    serde_json::to_writer(&mut line, &private)?;
    line.extend_from_slice(b"}\n");
    Ok(line)
}

/// Reads one line, given without its newline. Bytes of a stranger: bounded, and never trusted.
pub fn decode(bytes: &[u8]) -> Result<Line, BadLine> {
    if bytes.len() > MAX_LINE {
        return Err(BadLine::TooLong);
    }
    let written: Written = serde_json::from_slice(bytes).map_err(|_| BadLine::NotARecord)?;
    if written.record.v != VERSION {
        return Err(BadLine::Version(written.record.v));
    }
    let signature = match &written.signature {
        None => None,
        Some(text) => Some(from_hex(text).ok_or(BadLine::Spelling)?),
    };
    let (record, hash) = record_bytes(&written.record).map_err(|_| BadLine::NotARecord)?;
    let again = encode(&record, written.hash, signature, written.private.as_ref()).map_err(|_| BadLine::NotARecord)?;
    if again.strip_suffix(b"\n") != Some(bytes) {
        return Err(BadLine::Spelling);
    }
    if hash != written.hash {
        return Err(BadLine::Hash);
    }
    let line = Line {
        record: written.record,
        hash,
        signature,
        private: written.private,
    };
    match (&line.private, line.record.private) {
        (Some(private), Some(promised)) if private.commitment() == promised => Ok(line),
        (Some(_), _) => Err(BadLine::Private),
        (None, _) => Ok(line),
    }
}

impl Line {
    /// What was private is gone.
    pub fn is_redacted(&self) -> bool {
        self.record.private.is_some() && self.private.is_none()
    }
}
