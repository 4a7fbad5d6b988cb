//! `--secret`: where the values come from. Never from the command line itself, which everybody on the machine can read.

use crate::output::Failure;
use atoll_engine::Secrets;
use std::collections::BTreeMap;
use std::io::Read;

/// Read of a file at most; a secret is shorter.
const MOST_BYTES: u64 = 64 << 10;

/// No message shows what was given: it can be a value in the wrong place.
pub(super) fn read(args: &[String]) -> Result<Secrets, Failure> {
    let numbered = args.iter().enumerate();
    let one = |(at, arg): (usize, &String)| one(arg).map_err(|why| wrong(at + 1, &why));
    let values: BTreeMap<String, String> = numbered.map(one).collect::<Result<_, _>>()?;
    if values.len() < args.len() {
        return Err(Failure::usage("duplicate name in `--secret`"));
    }
    Secrets::new(values).map_err(|error| Failure::bad(&error))
}

fn wrong(number: usize, why: &str) -> Failure {
    Failure::usage(format!("`--secret` number {number}: {why}"))
}

fn one(arg: &str) -> Result<(String, String), String> {
    let (name, place) = arg.split_once('=').unwrap_or((arg, ""));
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
    let value = std::env::var_os(name).ok_or("environment variable is not set")?;
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
