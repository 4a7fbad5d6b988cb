//! Secrets as callers hand them in. Values are read, and never written, told or printed.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Default)]
pub struct SecretValues(pub BTreeMap<String, String>);

impl<'de> Deserialize<'de> for SecretValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The reader's own words would show what it did not expect.
        let read = BTreeMap::deserialize(deserializer);
        read.map(Self)
            .map_err(|_| D::Error::custom("`secrets` must be an object with string values"))
    }
}

/// Names only.
impl Serialize for SecretValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.keys().map(|name| (name, "")))
    }
}

impl fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_an_error_nor_a_print_shows_a_value() {
        let read = |json: &str| serde_json::from_str::<SecretValues>(json);
        let good = read(r#"{"KEY":"hunter22"}"#).unwrap();
        assert_eq!(format!("{good:?}"), r#"{"KEY"}"#);
        assert_eq!(serde_json::to_string(&good).unwrap(), r#"{"KEY":""}"#);
        for bad in [r#"{"KEY":22334455}"#, r#""22334455""#, r#"[22334455]"#] {
            let error = read(bad).unwrap_err().to_string();
            assert!(
                error.contains("`secrets` must be") && !error.contains("22334455"),
                "{error}"
            );
        }
    }
}
