//! Signatures of letters as Standard Webhooks defines them: HMAC-SHA256 over an id, a time and a body. Receivers check them
//! with a library and can tell our requests from others', and new ones from old ones that somebody sends again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";
const LEAST: usize = 24;

/// Shared with the receiver. Not shown.
#[derive(Clone)]
pub(super) struct Secret(Hmac<Sha256>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(not shown)")
    }
}

impl Secret {
    /// From `whsec_` and base64; libraries accept the text without the prefix too. `None`: it is neither, or too short.
    pub(super) fn new(text: &str) -> Option<Self> {
        let text = text.strip_prefix(PREFIX).unwrap_or(text);
        let bytes = STANDARD.decode(text).ok().filter(|bytes| bytes.len() >= LEAST)?;
        Hmac::new_from_slice(&bytes).ok().map(Self)
    }

    /// Signs `<id>.<seconds>.<body>`.
    pub(super) fn sign(&self, id: &str, seconds: u64, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that the libraries of Standard Webhooks are tested with.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;

    #[test]
    fn the_signature_is_what_the_libraries_compute() {
        let secret = Secret::new(SECRET).unwrap();
        let signed = secret.sign(ID, 1_614_265_330, BODY);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_ne!(secret.sign(ID, 1_614_265_331, BODY), signed);
        assert_ne!(secret.sign("msg_other", 1_614_265_330, BODY), signed);
        assert_ne!(secret.sign(ID, 1_614_265_330, b"{}"), signed);
    }

    #[test]
    fn what_is_short_is_no_secret_and_none_is_shown() {
        let of = |bytes: usize| Secret::new(&format!("{PREFIX}{}", STANDARD.encode(vec![7; bytes])));
        assert!(of(LEAST).is_some() && of(LEAST - 1).is_none());
        assert!(Secret::new("not base64, however long it may be").is_none());
        let bare = SECRET.trim_start_matches(PREFIX);
        assert_eq!(format!("{:?}", Secret::new(bare).unwrap()), "Secret(not shown)");
    }
}
