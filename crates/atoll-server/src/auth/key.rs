//! A key: `e2b_` and 40 lower-case hexadecimal digits, because old E2B clients check that. Kept only as its SHA-256.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

const PREFIX: &str = "e2b_";
const DIGITS: usize = 40;
/// Whoever reads it inside may be as generous.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

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

    /// Whether somewhere in the value of a header there is what has the form of a key, in plain or as a password of
    /// `Basic`.
    pub(crate) fn is_in(value: &[u8]) -> bool {
        let basic = value
            .split_at_checked(6)
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"basic "));
        let unpacked = basic.and_then(|(_, packed)| LENIENT.decode(packed.trim_ascii()).ok());
        let has_one = |text: &[u8]| text.windows(PREFIX.len() + DIGITS).any(is_one);
        has_one(value) || unpacked.is_some_and(|text| has_one(&text))
    }
}

fn is_one(text: &[u8]) -> bool {
    let hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let digits = text.strip_prefix(PREFIX.as_bytes());
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(hex))
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
        assert!(is_one(key.reveal().as_bytes()), "{}", key.reveal());
        assert_ne!(key, SecretKey::generate());
        for bad in ["", "e2b_", "e2b_ABCDEF", "sk_0123456789012345678901234567890123456789"] {
            assert!(!is_one(bad.as_bytes()), "{bad}");
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
