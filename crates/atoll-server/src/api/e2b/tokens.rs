//! What a client shows to reach one sandbox: two tokens, and signatures of file addresses made with the first.
//!
//! Both are made from a secret of this process and the sandbox's id, so nothing has to be kept or looked up.

use atoll_core::SandboxId;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

#[derive(Clone)]
pub(super) struct Tokens {
    secret: [u8; 32],
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens")
    }
}

/// What a signed address asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signed<'a> {
    pub(super) path: &'a str,
    pub(super) operation: &'a str,
    pub(super) user: &'a str,
    pub(super) expiration: Option<&'a str>,
}

impl Tokens {
    pub(super) fn new(secret: [u8; 32]) -> Self {
        Self { secret }
    }

    /// For files, commands and code.
    pub(super) fn access(&self, id: &SandboxId) -> String {
        self.make("access", id)
    }

    /// For servers inside, and for contexts.
    pub(super) fn traffic(&self, id: &SandboxId) -> String {
        self.make("traffic", id)
    }

    fn make(&self, what: &str, id: &SandboxId) -> String {
        // The secret is of fixed length and on both sides, so nothing can be appended to a known token's source.
        let mut hash = Sha256::new();
        for part in [
            &self.secret[..],
            what.as_bytes(),
            b":",
            id.as_str().as_bytes(),
            &self.secret[..],
        ] {
            hash.update(part);
        }
        hex(&hash.finalize())
    }

    pub(super) fn is_access(&self, id: &SandboxId, shown: &str) -> bool {
        same(&self.access(id), shown)
    }

    pub(super) fn is_traffic(&self, id: &SandboxId, shown: &str) -> bool {
        same(&self.traffic(id), shown)
    }

    /// Whether `signature` was made for this request with the sandbox's token.
    pub(super) fn is_signed(&self, id: &SandboxId, asked: Signed<'_>, signature: &str) -> bool {
        same(&sign(&self.access(id), asked), signature)
    }
}

fn sign(token: &str, asked: Signed<'_>) -> String {
    let mut raw = format!("{}:{}:{}:{token}", asked.path, asked.operation, asked.user);
    if let Some(expiration) = asked.expiration {
        raw.push(':');
        raw.push_str(expiration);
    }
    format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(raw)))
}

fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_that_clients_make() {
        let asked = Signed {
            path: "/tmp/a b.txt",
            operation: "read",
            user: "",
            expiration: None,
        };
        let token = format!("tok_{}", "ab".repeat(16));
        assert_eq!(sign(&token, asked), "v1_LmFTxE6WQwL+2ylDPRc2dXsnFsTL3VbHV9JDmh+e8j8");
    }

    #[test]
    fn a_token_opens_one_sandbox_for_one_thing() {
        let tokens = Tokens::new([7; 32]);
        let [one, other] = [[1; 16], [2; 16]].map(SandboxId::from_random);
        assert!(tokens.is_access(&one, &tokens.access(&one)));
        assert!(!tokens.is_access(&other, &tokens.access(&one)));
        assert!(!tokens.is_traffic(&one, &tokens.access(&one)));
        assert!(!Tokens::new([8; 32]).is_access(&one, &tokens.access(&one)));
    }
}
