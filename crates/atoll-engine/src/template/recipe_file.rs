//! The text of `template.toml`: which keys there are, and what each may hold. Pure; [`super::recipe`] reads the files.

use super::version::{Range, VersionError};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, thiserror::Error)]
pub enum RecipeFileError {
    #[error("cannot parse the recipe")]
    Syntax {
        #[source]
        source: toml::de::Error,
    },
    #[error("`{name}` is not a valid name: use 1 to 63 characters from a-z, 0-9 and `-`, and do not start with `-`")]
    Name { name: String },
    #[error("the recipe name `{name}` does not match its directory name `{folder}`")]
    OtherName { name: String, folder: String },
    #[error("`python` must be a version range such as `>=3.10,<3.15`")]
    Python {
        #[source]
        source: VersionError,
    },
    #[error("`{key}` must name a file in the recipe's directory, found `{value}`")]
    NotBeside { key: &'static str, value: String },
    #[error("`fonts` must list files relative to site-packages, found `{value}`")]
    Font { value: String },
    #[error("`{key}` must list module names, found `{value}`")]
    Module { key: &'static str, value: String },
    #[error("`env` cannot set `{key}`: {reason}")]
    Env { key: String, reason: &'static str },
}

/// The system below the packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Base {
    /// The machine's own Python and system libraries.
    Host,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecipeFile {
    pub(super) name: String,
    pub(super) description: String,
    #[expect(dead_code, reason = "one value so far; reading it refuses all others")]
    base: Base,
    python: String,
    pub(super) lock: String,
    #[serde(default)]
    pub(super) preload: Vec<String>,
    #[serde(default)]
    pub(super) warmup: Option<String>,
    #[serde(default)]
    pub(super) touch: Option<String>,
    #[serde(default)]
    pub(super) imports: Vec<String>,
    /// Packages whose modules must be importable after the build.
    #[serde(default)]
    pub(super) packages: Vec<String>,
    #[serde(default)]
    pub(super) fonts: Vec<String>,
    /// Free disk space that a build needs.
    #[serde(default)]
    pub(super) room_mib: Option<u64>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
}

/// Set for every template; a recipe that set them would break the sandbox.
const OURS: [&str; 9] = [
    "HOME",
    "USER",
    "LOGNAME",
    "PATH",
    "LANG",
    "MPLBACKEND",
    "ATOLL_FONTS",
    "PYTHONHOME",
    "PYTHONPATH",
];

/// Reads a recipe that stands in a folder called `folder`.
pub(super) fn parse(text: &str, folder: &str) -> Result<(RecipeFile, Range), RecipeFileError> {
    let file: RecipeFile = toml::from_str(text).map_err(|source| RecipeFileError::Syntax { source })?;
    check_name(&file.name)?;
    if file.name != folder {
        return Err(RecipeFileError::OtherName {
            name: file.name,
            folder: folder.to_owned(),
        });
    }
    check_files(&file)?;
    check_modules("preload", &file.preload)?;
    check_modules("imports", &file.imports)?;
    file.env.iter().try_for_each(|(key, value)| check_env(key, value))?;
    let range = file
        .python
        .parse()
        .map_err(|source| RecipeFileError::Python { source })?;
    Ok((file, range))
}

pub(super) fn check_name(name: &str) -> Result<(), RecipeFileError> {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = (1..=63).contains(&name.len()) && !name.starts_with('-') && name.chars().all(known);
    if good {
        Ok(())
    } else {
        Err(RecipeFileError::Name { name: name.to_owned() })
    }
}

fn check_files(file: &RecipeFile) -> Result<(), RecipeFileError> {
    let beside = [("lock", Some(&file.lock)), ("warmup", file.warmup.as_ref())];
    for (key, value) in beside {
        if let Some(value) = value
            && !is_path_below(value, 1)
        {
            return Err(RecipeFileError::NotBeside {
                key,
                value: value.clone(),
            });
        }
    }
    match file
        .fonts
        .iter()
        .find(|font| !is_path_below(font, 8) || font.contains(':'))
    {
        Some(font) => Err(RecipeFileError::Font { value: font.clone() }),
        None => Ok(()),
    }
}

fn is_path_below(path: &str, most_parts: usize) -> bool {
    let part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
    path.split('/').count() <= most_parts && path.split('/').all(part)
}

fn check_modules(key: &'static str, modules: &[String]) -> Result<(), RecipeFileError> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let part = |part: &str| !part.is_empty() && part.chars().all(word) && !part.starts_with(|c: char| c.is_numeric());
    match modules.iter().find(|module| !module.split('.').all(part)) {
        Some(module) => Err(RecipeFileError::Module {
            key,
            value: module.clone(),
        }),
        None => Ok(()),
    }
}

fn check_env(key: &str, value: &str) -> Result<(), RecipeFileError> {
    let refuse = |reason| {
        Err(RecipeFileError::Env {
            key: key.to_owned(),
            reason,
        })
    };
    if OURS.contains(&key) {
        return refuse("Atoll sets this variable");
    }
    if key.starts_with("LD_") {
        return refuse("the variable changes which shared libraries are loaded");
    }
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if key.is_empty() || key.starts_with(|c: char| c.is_ascii_digit()) || !key.chars().all(word) {
        return refuse("not a valid variable name");
    }
    if value.contains('\0') {
        refuse("the value contains a NUL byte")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "name = \"x\"\ndescription = \"d\"\nbase = \"host\"\npython = \">=3.10\"\nlock = \"l\"\n";

    fn refusal(extra: &str) -> String {
        let error = parse(&format!("{GOOD}{extra}"), "x").unwrap_err();
        match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        }
    }

    #[test]
    fn the_least_recipe_is_read() {
        let (file, range) = parse(GOOD, "x").unwrap();
        assert!(file.preload.is_empty() && file.warmup.is_none() && file.env.is_empty());
        assert!(range.contains("3.12".parse().unwrap()));
    }

    #[test]
    fn each_bad_value_is_named() {
        for (extra, word) in [
            ("colour = 1", "colour"),
            ("warmup = \"../w.py\"", "../w.py"),
            ("fonts = [\"/etc/passwd\"]", "/etc/passwd"),
            ("fonts = [\"a:b.otf\"]", "a:b.otf"),
            ("imports = [\"os; evil\"]", "os; evil"),
            ("preload = [\"a..b\"]", "a..b"),
            ("[env]\nPATH = \"x\"", "`PATH`"),
            ("[env]\nLD_PRELOAD = \"x\"", "LD_PRELOAD"),
            ("[env]\n\"A B\" = \"x\"", "A B"),
        ] {
            let text = refusal(extra);
            assert!(text.contains(word), "{extra}: {text}");
        }
    }

    #[test]
    fn another_base_or_range_is_refused() {
        assert!(parse(&GOOD.replace("host", "debian"), "x").is_err());
        assert!(matches!(
            parse(&GOOD.replace(">=3.10", "new"), "x"),
            Err(RecipeFileError::Python { .. })
        ));
    }

    #[test]
    fn names_are_checked() {
        assert!(matches!(parse(GOOD, "y"), Err(RecipeFileError::OtherName { .. })));
        for name in ["", "-a", "A", "a_b", "a/b", "..", &"a".repeat(64)] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert!(check_name("a").is_ok() && check_name(&"a".repeat(63)).is_ok());
    }
}
