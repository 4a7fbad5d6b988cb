//! The environment that code is given: bounded, because a program's environment is.

use std::collections::BTreeMap;

/// All names and values together. The kernel gives a program 128 KiB per variable, and one message must hold them all.
const MAX_BYTES: usize = 96 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("environment is larger than 96 KiB: {bytes} bytes; give large values as input files")]
pub struct EnvironmentError {
    bytes: usize,
}

/// Refuses an environment that no program could be started with.
pub fn check_environment(env: &BTreeMap<String, String>) -> Result<(), EnvironmentError> {
    let bytes = env.iter().map(|(name, value)| written(name) + written(value)).sum();
    if bytes > MAX_BYTES {
        return Err(EnvironmentError { bytes });
    }
    Ok(())
}

/// As long as it is in a message.
fn written(text: &str) -> usize {
    serde_json::to_string(text).map_or(usize::MAX, |text| text.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_large_value_and_many_small_ones_are_refused_alike() {
        let one = |size| BTreeMap::from([("A".to_owned(), "x".repeat(size))]);
        let many = (0..200).map(|n| (format!("A{n}"), "x".repeat(1000))).collect();
        assert_eq!(check_environment(&one(90_000)), Ok(()));
        assert!(check_environment(&one(100_000)).is_err());
        assert!(check_environment(&many).is_err());
    }
}
