//! HMAC-SHA256 over a time and a body, as `v1=` and hexadecimal digits: who knows the secret can tell our requests from others',
//! and new ones from old ones that somebody sends again.

use hmac::{Hmac, Mac};
use sha2::Sha256;

const LEAST: usize = 16;

/// Shared with the receiver. Not shown.
#[derive(Clone)]
pub(super) struct Secret(Hmac<Sha256>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(not shown)")
    }
}

impl Secret {
    /// `None`: too short to be one.
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        let made = Hmac::new_from_slice(bytes).ok()?;
        (bytes.len() >= LEAST).then_some(Self(made))
    }

    /// Signs `<seconds>.<body>`.
    pub(super) fn sign(&self, seconds: u64, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        mac.update(format!("{seconds}.").as_bytes());
        mac.update(body);
        let digest = mac.finalize().into_bytes();
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("v1={hex}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_what_others_compute() {
        // printf '1000.body' | openssl dgst -sha256 -hmac 0123456789abcdef
        let wanted = "v1=a3e52350c46ed66dd917360bc888d50b5cfd5af3cf9d374c3567db0053c967a0";
        let secret = Secret::new(b"0123456789abcdef").unwrap();
        assert_eq!(secret.sign(1_000, b"body"), wanted);
        assert_ne!(secret.sign(1_001, b"body"), wanted);
        assert_ne!(secret.sign(1_000, b"bodi"), wanted);
    }

    #[test]
    fn what_is_short_is_no_secret_and_none_is_shown() {
        assert!(Secret::new(b"fifteen bytes..").is_none());
        let shown = format!("{:?}", Secret::new(b"0123456789abcdef").unwrap());
        assert_eq!(shown, "Secret(not shown)");
    }
}
