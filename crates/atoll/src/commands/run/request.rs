//! From words to meaning: every argument of `atoll run` is read and checked before anything is started.

use crate::args::RunArgs;
use crate::output::Failure;
use atoll_core::{Language, Limits, ProfileName, Tier};
use atoll_engine::{Input, OutDir, check_distinct, check_environment};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Longer code is data and belongs into an input file.
const MAX_CODE_BYTES: u64 = 10 << 20;

#[derive(Debug)]
pub(super) struct Request {
    pub(super) code: String,
    pub(super) language: Language,
    pub(super) limits: Limits,
    pub(super) inputs: Vec<Input>,
    pub(super) env: BTreeMap<String, String>,
    /// `None`: the usual one.
    pub(super) template: Option<String>,
    pub(super) profile: ProfileName,
    pub(super) server: Option<String>,
    pub(super) json: bool,
    /// Where charts and files go. Taken when they are collected.
    pub(super) out: Option<OutDir>,
    charts: bool,
}

impl Request {
    pub(super) fn read(args: RunArgs) -> Result<Self, Failure> {
        refuse_planned(&args)?;
        let language = language(&args)?;
        if language == Language::R {
            return Err(Failure::usage(format!(
                "language is planned, not there yet: `{language}`; use python, javascript, typescript or bash"
            )));
        }
        check_tier(word::<Tier>(&args.tier)?)?;
        let limits = limits(&args)?;
        let inputs = args
            .inputs
            .iter()
            .map(|text| input(text))
            .collect::<Result<Vec<_>, _>>()?;
        check_distinct(&inputs).map_err(|error| Failure::bad(&error))?;
        let env: BTreeMap<_, _> = args.env.iter().map(|pair| variable(pair)).collect::<Result<_, _>>()?;
        check_environment(&env).map_err(|error| Failure::bad(&error))?;
        if let Some(out) = args.out.as_deref().filter(|out| out.exists() && !out.is_dir()) {
            return Err(Failure::usage(format!(
                "`--out` is not a directory: `{}`",
                out.display()
            )));
        }
        let code = code(&args)?;
        if language == Language::Bash && code.contains('\0') {
            return Err(Failure::usage("code has a NUL character, which a shell cannot read"));
        }
        // Last, because it makes the directory.
        let charts = args.out.is_some() || !args.json;
        let out = match args.out {
            Some(path) => OutDir::prepare(path).map_err(|error| Failure::bad(&error))?,
            None => OutDir::later(PathBuf::from("atoll-out")),
        };
        Ok(Self {
            code,
            language,
            limits,
            inputs,
            env,
            template: args.template,
            profile: word(&args.profile)?,
            server: args.server,
            json: args.json,
            out: Some(out),
            charts,
        })
    }

    /// An object holds the charts itself; they are saved as well if a directory was named.
    pub(super) fn saves_charts(&self) -> bool {
        self.charts
    }
}

/// Flags of the contract whose machinery comes later say so; they never do less than they promise.
fn refuse_planned(args: &RunArgs) -> Result<(), Failure> {
    let planned = |what: &str| Err(Failure::usage(format!("{what} is planned, not there yet")));
    match args {
        RunArgs { net, .. } if net != "none" => planned("network access (`--net` other than `none`)"),
        RunArgs { policy: Some(_), .. } => planned("`--policy`"),
        _ => Ok(()),
    }
}

/// A request never silently gets another wall than it asked for.
fn check_tier(tier: Tier) -> Result<(), Failure> {
    match tier {
        Tier::Auto | Tier::Jail => Ok(()),
        Tier::Wasm | Tier::Container | Tier::Gvisor | Tier::Microvm => Err(Failure::no_wall(
            format!("this version of Atoll cannot build the tier `{tier}`"),
            "use `--tier jail`; `atoll doctor` shows what this machine can do",
        )),
    }
}

fn word<T: FromStr<Err: std::error::Error>>(text: &str) -> Result<T, Failure> {
    text.parse::<T>().map_err(|error| Failure::bad(&error))
}

fn limits(args: &RunArgs) -> Result<Limits, Failure> {
    let mut limits = Limits::of(word::<ProfileName>(&args.profile)?);
    if let Some(memory) = &args.memory {
        limits.memory = word(memory)?;
    }
    if let Some(cpus) = &args.cpus {
        limits.cpus = word(cpus)?;
    }
    if let Some(timeout) = &args.timeout {
        limits.wall = word(timeout)?;
    }
    if let Some(cpu_time) = &args.cpu_time {
        limits.cpu_time = word(cpu_time)?;
    }
    Ok(limits)
}

/// `PATH`, or `PATH=NAME`. A file whose own name has a `=` is found first.
fn input(text: &OsStr) -> Result<Input, Failure> {
    let whole = Path::new(text);
    let cut = text
        .as_bytes()
        .iter()
        .rposition(|byte| *byte == b'=')
        .filter(|_| !whole.exists());
    let made = match cut {
        None => Input::new(whole.to_owned(), None),
        Some(at) => {
            let (path, name) = (&text.as_bytes()[..at], &text.as_bytes()[at + 1..]);
            let name = std::str::from_utf8(name).map_err(|_| Failure::usage("input name is not UTF-8"))?;
            Input::new(PathBuf::from(OsStr::from_bytes(path)), Some(name))
        }
    };
    made.map_err(|error| Failure::bad(&error))
}

fn variable(pair: &str) -> Result<(String, String), Failure> {
    match pair.split_once('=') {
        Some((name, value)) if !name.is_empty() && !pair.contains('\0') => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Failure::usage(format!("`--env` takes NAME=VALUE, not {pair:?}"))),
    }
}

/// As asked for, else as the name of the file ends.
fn language(args: &RunArgs) -> Result<Language, Failure> {
    if let Some(lang) = &args.lang {
        return Language::read(lang).map_err(|error| Failure::bad(&error));
    }
    let end = args
        .file
        .as_deref()
        .and_then(Path::extension)
        .and_then(|end| end.to_str());
    match end.unwrap_or_default().to_ascii_lowercase().as_str() {
        "sh" | "bash" => Ok(Language::Bash),
        "js" | "mjs" | "cjs" => Ok(Language::Javascript),
        "ts" | "mts" | "cts" => Ok(Language::Typescript),
        "ipynb" => Err(Failure::usage(
            "a notebook is not code: turn it into a script first, with `jupyter nbconvert --to script`",
        )),
        _ => Ok(Language::Python),
    }
}

fn code(args: &RunArgs) -> Result<String, Failure> {
    let bytes = match (&args.code, &args.file) {
        (Some(code), _) => code.clone().into_bytes(),
        (None, Some(file)) if file.as_os_str() != "-" => read_file(file)?,
        (None, None) if std::io::stdin().is_terminal() => {
            return Err(Failure::usage("no code: name a file, use `-c CODE`, or pipe it in"));
        }
        (None, _) => read_all(&mut std::io::stdin().lock(), "standard input")?,
    };
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").map(<[u8]>::to_vec).unwrap_or(bytes);
    let code = String::from_utf8(bytes).map_err(|error| {
        Failure::usage(format!(
            "code is not UTF-8: byte {} cannot be read",
            error.utf8_error().valid_up_to()
        ))
    })?;
    if code.trim().is_empty() {
        return Err(Failure::usage("code is empty"));
    }
    Ok(code)
}

fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let shown = path.display();
    if path.is_dir() {
        return Err(Failure::usage(format!("code is a directory, not a file: `{shown}`")));
    }
    let file = std::fs::File::open(path);
    let mut file = file.map_err(|error| Failure::usage(format!("code cannot be read: `{shown}`: {error}")))?;
    read_all(&mut file, &format!("`{shown}`"))
}

fn read_all(source: &mut impl Read, what: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = source.take(MAX_CODE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::usage(format!("code cannot be read: {what}: {error}")))?;
    if bytes.len() as u64 > MAX_CODE_BYTES {
        return Err(Failure::usage(format!(
            "code is longer than 10 MiB: {what}; give data with `--in`"
        )));
    }
    Ok(bytes)
}
