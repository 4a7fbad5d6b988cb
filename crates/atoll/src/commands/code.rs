//! Code that is named on the command line: where it comes from, and in which language it is.

use crate::output::Failure;
use atoll_core::Language;
use std::io::{IsTerminal, Read};
use std::path::Path;

/// Longer code is data and belongs into an input file.
const MAX_CODE_BYTES: u64 = 10 << 20;

/// As asked for, else as the name of the file ends.
pub(super) fn language(asked: Option<&str>, file: Option<&Path>) -> Result<Language, Failure> {
    if let Some(word) = asked {
        return Language::read(word).map_err(|error| Failure::bad(&error));
    }
    let end = file.and_then(Path::extension).and_then(|end| end.to_str());
    match end.unwrap_or_default().to_ascii_lowercase().as_str() {
        "sh" | "bash" => Ok(Language::Bash),
        "js" | "mjs" | "cjs" => Ok(Language::Javascript),
        "ts" | "mts" | "cts" => Ok(Language::Typescript),
        "ipynb" => Err(Failure::usage(
            "notebooks are not supported: convert it to a script with `jupyter nbconvert --to script`",
        )),
        _ => Ok(Language::Python),
    }
}

/// From the argument, the file, or standard input.
pub(super) fn read(argument: Option<&str>, file: Option<&Path>) -> Result<String, Failure> {
    let bytes = match (argument, file) {
        (Some(code), _) => code.as_bytes().to_vec(),
        (None, Some(file)) if file.as_os_str() != "-" => read_file(file)?,
        (None, None) if std::io::stdin().is_terminal() => return Err(no_code()),
        (None, _) => read_all(&mut std::io::stdin().lock(), "standard input")?,
    };
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").map(<[u8]>::to_vec).unwrap_or(bytes);
    let code = String::from_utf8(bytes).map_err(|error| {
        Failure::usage(format!(
            "code is not valid UTF-8: invalid byte at offset {}",
            error.utf8_error().valid_up_to()
        ))
    })?;
    match (code.trim().is_empty(), file) {
        (true, None) if argument.is_none() => Err(no_code()),
        (true, _) => Err(Failure::usage("code is empty")),
        (false, _) => Ok(code),
    }
}

fn no_code() -> Failure {
    Failure::usage("no code given: pass a file, use `-c CODE`, or pipe code to standard input")
}

fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let shown = path.display();
    if path.is_dir() {
        return Err(Failure::usage(format!("cannot read code: `{shown}` is a directory")));
    }
    let file = std::fs::File::open(path);
    let mut file = file.map_err(|error| Failure::usage(format!("cannot read code from `{shown}`: {error}")))?;
    read_all(&mut file, &format!("`{shown}`"))
}

fn read_all(source: &mut impl Read, what: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = source.take(MAX_CODE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::usage(format!("cannot read code from {what}: {error}")))?;
    if bytes.len() as u64 > MAX_CODE_BYTES {
        return Err(Failure::usage(format!(
            "code in {what} exceeds 10 MiB; pass data with `--in`"
        )));
    }
    Ok(bytes)
}
