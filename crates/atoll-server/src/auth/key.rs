//! A key: `e2b_` and 40 lower-case hexadecimal digits, because old E2B clients check that. Kept only as its SHA-256.

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

const PREFIX: &str = "e2b_";
const DIGITS: usize = 40;

/// The secret itself, as it is shown once. Its debug form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(String);

/// What is stored and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl SecretKey {
    /// 160 bits from the kernel.
    pub fn generate() -> Self {
        let bytes = crate::random_bytes::<{ DIGITS / 2 }>();
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self(format!("{PREFIX}{digits}"))
    }

    /// For showing it to its owner, once.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    /// Whether a text has the form of a key at all.
    pub fn looks_like_one(text: &str) -> bool {
        let digits = text.strip_prefix(PREFIX);
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        digits.is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(hex))
    }
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey(not shown)")
    }
}

impl Digest {
    pub fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// In a time that does not depend on where the two differ.
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_form_that_old_clients_check() {
        let key = SecretKey::generate();
        assert!(SecretKey::looks_like_one(key.reveal()), "{}", key.reveal());
        assert_ne!(key, SecretKey::generate());
        for bad in ["", "e2b_", "e2b_ABCDEF", "sk_0123456789012345678901234567890123456789"] {
            assert!(!SecretKey::looks_like_one(bad), "{bad}");
        }
    }

    #[test]
    fn the_debug_form_hides_the_secret() {
        let key = SecretKey::generate();
        assert!(!format!("{key:?}").contains(&key.reveal()[8..]));
    }

    #[test]
    fn a_digest_is_equal_to_itself_only() {
        let one = Digest::of(b"a");
        assert!(one.is(&Digest::of(b"a")) && !one.is(&Digest::of(b"b")));
        assert_eq!(Digest::from_bytes(&one.as_bytes()[..31]), None);
    }
}
