//! `--secret`: where the values come from. Never from the command line itself, which everybody on the machine can read.

use crate::output::Failure;
use atoll_engine::Secrets;
use std::collections::BTreeMap;
use std::io::Read;

/// Read of a file at most; a secret is shorter.
const MOST_BYTES: u64 = 64 << 10;

/// Longer words are no names.
const LONGEST_NAME: usize = 64;

pub(super) fn read(args: &[String]) -> Result<Secrets, Failure> {
    let mut values = BTreeMap::new();
    for (at, arg) in args.iter().enumerate() {
        let wrong = |why: &str| wrong(at + 1, arg, why);
        let (name, value) = one(arg).map_err(|why| wrong(&why))?;
        if values.insert(name, value).is_some() {
            return Err(wrong("duplicate name"));
        }
    }
    Secrets::new(values).map_err(|error| Failure::bad(&error))
}

/// The message names the variable if its name is in capitals or stands before `=@`. Anything else can be a value in the
/// wrong place and is not shown.
fn wrong(number: usize, arg: &str, why: &str) -> Failure {
    let (name, place) = arg.split_once('=').unwrap_or((arg, ""));
    let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"_-.".contains(&byte);
    let has_letter = name.contains(|c: char| c.is_ascii_uppercase());
    let is_in_capitals = has_letter && name.len() <= LONGEST_NAME && name.bytes().all(is_capital);
    let is_shown = is_in_capitals || (place.starts_with('@') && Secrets::check_name(name).is_ok());
    Failure::usage(if is_shown {
        format!("`--secret {name}`: {why}")
    } else {
        format!("`--secret` number {number}: {why}")
    })
}

fn one(arg: &str) -> Result<(String, String), String> {
    let (name, place) = arg.split_once('=').unwrap_or((arg, ""));
    Secrets::check_name(name).map_err(|error| error.to_string())?;
    let value = match place.strip_prefix('@') {
        Some(path) => of_file(path)?,
        None if name == arg => of_variable(name)?,
        None => {
            return Err(
                "expected NAME or NAME=@FILE; a value on the command line would be visible to every user on this host"
                    .to_owned(),
            );
        }
    };
    Ok((name.to_owned(), value))
}

fn of_variable(name: &str) -> Result<String, String> {
    let value = std::env::var_os(name)
        .ok_or("environment variable is not set; export it, or read the value from a file with NAME=@FILE")?;
    value
        .into_string()
        .map_err(|_| "the value is not valid UTF-8".to_owned())
}

/// Without the line break that editors and `echo` leave at the end.
fn of_file(path: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
    read.map_err(|error| format!("cannot read the file: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| "the file is not valid UTF-8".to_owned())?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}
