//! The environment that code is given: bounded and well-formed, because a program's environment is.

use atoll_guard::redact::Secrets;
use std::collections::BTreeMap;

/// All names and values together. The kernel gives a program 128 KiB per variable, and one message must hold them all.
const MAX_BYTES: usize = 96 << 10;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    #[error("environment exceeds 96 KiB ({bytes} bytes); pass large values as input files")]
    Large { bytes: usize },
    #[error("invalid environment variable name `{shown}`: it must not be empty or contain `=` or NUL")]
    Name { shown: String },
    #[error("the value of environment variable `{name}` contains NUL")]
    Value { name: String },
    #[error("`{name}` is set both as a secret and in `env`; set it only once")]
    Twice { name: String },
}

/// Variables and secrets together, as a program is given them.
pub fn with_secrets(
    env: &BTreeMap<String, String>,
    secrets: &Secrets,
) -> Result<BTreeMap<String, String>, EnvironmentError> {
    if let Some(name) = secrets.names().find(|name| env.contains_key(*name)) {
        return Err(EnvironmentError::Twice { name: name.to_owned() });
    }
    let secrets = secrets
        .reveal()
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let all = env.clone().into_iter().chain(secrets).collect();
    check_environment(&all).map(|()| all)
}

/// Refuses an environment that no program could be started with.
pub fn check_environment(env: &BTreeMap<String, String>) -> Result<(), EnvironmentError> {
    let bytes = env.iter().map(|(name, value)| written(name) + written(value)).sum();
    if bytes > MAX_BYTES {
        return Err(EnvironmentError::Large { bytes });
    }
    env.iter().try_for_each(|(name, value)| check_variable(name, value))
}

fn check_variable(name: &str, value: &str) -> Result<(), EnvironmentError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        let shown = name.escape_debug().to_string();
        return Err(EnvironmentError::Name { shown });
    }
    match value.contains('\0') {
        true => Err(EnvironmentError::Value { name: name.to_owned() }),
        false => Ok(()),
    }
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

    #[test]
    fn what_no_program_could_have_is_refused() {
        let check = |name: &str, value: &str| check_environment(&BTreeMap::from([(name.into(), value.into())]));
        for name in ["", "A=B", "=", "A\0"] {
            assert!(
                matches!(check(name, "x"), Err(EnvironmentError::Name { .. })),
                "{name:?}"
            );
        }
        assert!(matches!(check("A", "x\0y"), Err(EnvironmentError::Value { .. })));
        assert_eq!(check("ü b", "=\n"), Ok(()));
    }

    #[test]
    fn a_secret_is_a_variable_and_a_name_is_given_once() {
        let secrets = |size| Secrets::new(BTreeMap::from([("KEY".to_owned(), "x".repeat(size))])).unwrap();
        let env = |name: &str, size| BTreeMap::from([(name.to_owned(), "y".repeat(size))]);
        let all = with_secrets(&env("A", 1), &secrets(9)).unwrap();
        assert_eq!((all["A"].as_str(), all["KEY"].as_str()), ("y", "xxxxxxxxx"));
        let twice = EnvironmentError::Twice { name: "KEY".to_owned() };
        assert_eq!(with_secrets(&env("KEY", 1), &secrets(9)), Err(twice));
        assert!(with_secrets(&env("A", 96_000), &secrets(4_000)).is_err());
    }
}
