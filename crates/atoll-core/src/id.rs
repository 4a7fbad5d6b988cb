//! Ids, one type per kind, printable with a prefix. Made from 16 random bytes that the caller brings.

use serde::{Deserialize, Serialize};

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// 128 bits as 26 lower-case base32 letters: safe in host names, paths and cgroup names.
fn base32(bytes: [u8; 16]) -> String {
    let mut bits = u128::from_be_bytes(bytes);
    let mut letters = [0u8; 26];
    for letter in letters.iter_mut().rev() {
        *letter = ALPHABET[(bits & 31) as usize];
        bits >>= 5;
    }
    letters.iter().map(|&b| char::from(b)).collect()
}

macro_rules! id {
    ($name:ident, $prefix:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn from_random(bytes: [u8; 16]) -> Self {
                Self(format!("{}{}", $prefix, base32(bytes)))
            }

            /// A text that has exactly the form of this kind of id.
            pub fn parse(text: &str) -> Option<Self> {
                let letters = text.strip_prefix($prefix)?;
                let fine = letters.len() == 26 && letters.bytes().all(|letter| ALPHABET.contains(&letter));
                fine.then(|| Self(text.to_owned()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    SandboxId,
    "sbx",
    "Names one sandbox. Letters and digits only, so it fits a host name."
);
id!(
    ContextId,
    "ctx_",
    "Names one context, a running interpreter inside a sandbox."
);
id!(
    ExecutionId,
    "exec_",
    "Names one execution, a piece of code run in a context."
);

id!(
    SnapshotId,
    "snp",
    "Names one saved sandbox. Letters and digits only, so that it can stand where the name of a template does."
);

id!(KeyId, "key_", "Names one key. Not secret: it may be listed and logged.");
id!(
    ApprovalId,
    "apr_",
    "Names one question of a policy, which somebody is to answer."
);
id!(
    RequestId,
    "req_",
    "Names one request, in logs and in the answer's headers."
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_in_one_bit_of_their_source() {
        let zero = SandboxId::from_random([0; 16]);
        let mut one = [0; 16];
        one[15] = 1;
        assert_eq!(zero.as_str(), "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa");
        assert_eq!(SandboxId::from_random(one).as_str(), "sbxaaaaaaaaaaaaaaaaaaaaaaaaab");
    }

    #[test]
    fn only_what_has_the_form_is_an_id() {
        let id = KeyId::from_random([7; 16]);
        assert_eq!(KeyId::parse(id.as_str()), Some(id.clone()));
        assert_eq!(SandboxId::parse(id.as_str()), None);
        for text in [
            "",
            "key_",
            "key_AAAAAAAAAAAAAAAAAAAAAAAAAA",
            "key_../aaaaaaaaaaaaaaaaaaaaaaa",
        ] {
            assert_eq!(KeyId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_highest_bit_is_kept() {
        let mut high = [0; 16];
        high[0] = 0x80;
        assert_ne!(ContextId::from_random(high), ContextId::from_random([0; 16]));
    }
}
