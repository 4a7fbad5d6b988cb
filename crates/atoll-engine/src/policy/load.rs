//! Where policies come from: four that are shipped, and files, which may inherit either.

use super::code::CodePolicy;
use super::file::PolicyFile;
use super::tiers::TierPolicy;
use super::{Parts, Policy, PolicyError};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Name and text, from the loosest to the strictest.
pub const SHIPPED: [(&str, &str); 4] = [
    ("open", include_str!("shipped/open.toml")),
    ("standard", include_str!("shipped/standard.toml")),
    ("guarded", include_str!("shipped/guarded.toml")),
    ("strict", include_str!("shipped/strict.toml")),
];
const MOST_BYTES: u64 = 1 << 20;
const MOST_FILES: usize = 8;
/// What somebody sends is kept as long as the sandbox lives.
const MOST_INLINE_BYTES: usize = 64 << 10;
const INLINE: &str = "inline";

/// By a shipped name, else by the path of a file.
pub fn load(name: &str) -> Result<Policy, PolicyError> {
    let source = Source::of(name, None)?;
    let (description, parts) = resolve(&source, &mut Vec::new())?;
    Ok(Policy::new(name.to_owned(), description, parts))
}

/// One that somebody sends as an object: it inherits shipped policies only, and no file is looked at.
pub fn inline(object: &serde_json::Value) -> Result<Policy, PolicyError> {
    let within = |error| PolicyError::In {
        path: INLINE.to_owned(),
        error: Box::new(error),
    };
    if object.to_string().len() > MOST_INLINE_BYTES {
        return Err(within(PolicyError::TooMuch(MOST_INLINE_BYTES)));
    }
    let file = PolicyFile::of_object(object).map_err(within)?;
    let (description, parts) = apply(file, |parent| {
        let known = SHIPPED.iter().find(|(name, _)| *name == parent);
        let (name, text) = known.ok_or_else(|| PolicyError::Unknown(parent.to_owned()))?;
        Ok(resolve(&Source::Shipped(name, text), &mut Vec::new())?.1)
    })
    .map_err(within)?;
    Ok(Policy::new(INLINE.to_owned(), description, parts))
}

/// One that we have written ourselves, by [`Policy::to_object`]: it inherits nothing.
pub(crate) fn resolved(name: &str, object: &serde_json::Value) -> Result<Policy, PolicyError> {
    let file = PolicyFile::of_object(object)?;
    let (description, parts) = apply(file, |parent| Err(PolicyError::Unknown(parent.to_owned())))?;
    Ok(Policy::new(name.to_owned(), description, parts))
}

/// One that is part of this program.
pub(super) fn shipped(name: &str) -> Policy {
    // A test loads each of them; a policy that could not be read would deny everything.
    load(name).unwrap_or_else(|_| {
        let mut code = CodePolicy::bare();
        code.set_all(atoll_core::Verdict::Deny);
        Policy::new(name.to_owned(), None, (code, TierPolicy::default()))
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Shipped(&'static str, &'static str),
    File(PathBuf),
}

impl Source {
    /// What looks like a path is one, from the directory of the file that names it.
    fn of(name: &str, beside: Option<&Path>) -> Result<Self, PolicyError> {
        if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Ok(Self::Shipped(name, text));
        }
        let path = beside.map_or_else(|| PathBuf::from(name), |dir| dir.join(name));
        let is_path = name.contains('/') || name.ends_with(".toml") || path.exists();
        match is_path {
            true => Ok(Self::File(
                fs_err::canonicalize(&path).map_err(|error| unreadable(&path, error))?,
            )),
            false => Err(PolicyError::Unknown(name.to_owned())),
        }
    }

    fn text(&self) -> Result<String, PolicyError> {
        match self {
            Self::Shipped(_, text) => Ok((*text).to_owned()),
            Self::File(path) => read(path),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Shipped(name, _) => (*name).to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    fn directory(&self) -> Option<&Path> {
        match self {
            Self::Shipped(..) => None,
            Self::File(path) => path.parent(),
        }
    }
}

fn unreadable(path: &Path, error: std::io::Error) -> PolicyError {
    PolicyError::Read {
        path: path.display().to_string(),
        error,
    }
}

fn read(path: &Path) -> Result<String, PolicyError> {
    let mut text = String::new();
    let file = fs_err::File::open(path).map_err(|error| unreadable(path, error))?;
    let read = file.take(MOST_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| unreadable(path, error))?;
    match text.len() as u64 > MOST_BYTES {
        true => Err(PolicyError::TooLong(path.display().to_string())),
        false => Ok(text),
    }
}

fn resolve(source: &Source, seen: &mut Vec<Source>) -> Result<(Option<String>, Parts), PolicyError> {
    if seen.contains(source) {
        return Err(PolicyError::Cycle(source.name()));
    }
    if seen.len() >= MOST_FILES {
        return Err(PolicyError::TooFar(MOST_FILES));
    }
    seen.push(source.clone());
    let within = |error| PolicyError::In {
        path: source.name(),
        error: Box::new(error),
    };
    let text = source.text()?;
    let file = PolicyFile::parse(&text).map_err(within)?;
    apply(file, |parent| {
        let parent = Source::of(parent, source.directory())?;
        Ok(resolve(&parent, seen)?.1)
    })
    .map_err(within)
}

/// What a file says over what it inherits.
fn apply(
    file: PolicyFile,
    inherit: impl FnOnce(&str) -> Result<Parts, PolicyError>,
) -> Result<(Option<String>, Parts), PolicyError> {
    let inherited = match &file.inherit {
        Some(parent) => inherit(parent)?,
        None if file.code.default.is_none() => return Err(PolicyError::NoDefault),
        None => (CodePolicy::bare(), TierPolicy::default()),
    };
    let description = file.description.clone();
    Ok((description, file.apply(inherited)?))
}
