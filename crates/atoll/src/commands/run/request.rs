//! From words to meaning: every argument of `atoll run` is read and checked before anything is started.

use super::secrets;
use crate::args::RunArgs;
use crate::commands::{code, policy};
use crate::output::{Failure, note, on_one_line};
use atoll_core::{Language, Limits, ProfileName, Tier};
use atoll_engine::policy::Policy;
use atoll_engine::{Input, InputDirectory, OutDir, Secrets, check_distinct, with_secrets};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// Links of an input directory that a note names; of more it gives the number.
const SHOWN_LINKS: usize = 5;

#[derive(Debug)]
pub(super) struct Request {
    pub(super) code: String,
    pub(super) language: Language,
    /// `None`: the usual one.
    pub(super) tier: Option<Tier>,
    pub(super) limits: Limits,
    pub(super) inputs: Vec<Input>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) secrets: Secrets,
    /// `None`: the usual one.
    pub(super) template: Option<String>,
    pub(super) profile: ProfileName,
    pub(super) server: Option<String>,
    /// Whom to trust to be the server.
    pub(super) cacert: Option<PathBuf>,
    /// `None`: the standard one, and nobody wants to hear of it.
    pub(super) policy: Option<Arc<Policy>>,
    pub(super) raw_results: bool,
    /// Nothing is saved before somebody has seen what would be.
    pub(super) dry_run: bool,
    /// Saved CSV files are for a spreadsheet.
    pub(super) csv_safe: bool,
    /// Text without what steers a terminal, whoever reads it.
    pub(super) strip: bool,
    pub(super) json: bool,
    /// Where charts and files go. Taken when they are collected.
    pub(super) out: Option<OutDir>,
    charts: bool,
}

impl Request {
    pub(super) fn read(args: RunArgs) -> Result<Self, Failure> {
        refuse_planned(&args)?;
        let language = code::language(args.lang.as_deref(), args.file.as_deref())?;
        if language == Language::R {
            return Err(Failure::usage(format!(
                "language `{language}` is not supported yet; use python, javascript, typescript or bash"
            )));
        }
        let tier = args.tier.as_deref().map(word::<Tier>).transpose()?;
        let limits = limits(&args)?;
        let inputs = args
            .inputs
            .iter()
            .map(|text| input(text))
            .collect::<Result<Vec<_>, _>>()?
            .concat();
        check_distinct(&inputs).map_err(|error| Failure::bad(&error))?;
        let env: BTreeMap<_, _> = args.env.iter().map(|pair| variable(pair)).collect::<Result<_, _>>()?;
        let secrets = secrets::read(&args.secret)?;
        with_secrets(&env, &secrets).map_err(|error| Failure::bad(&error))?;
        if let Some(out) = args.out.as_deref().filter(|out| out.exists() && !out.is_dir()) {
            return Err(Failure::usage(format!(
                "`--out` is not a directory: `{}`",
                out.display()
            )));
        }
        let code = code::read(args.code.as_deref(), args.file.as_deref())?;
        if language == Language::Bash && code.contains('\0') {
            return Err(Failure::usage(
                "code contains a NUL character, which bash does not support",
            ));
        }
        let policy = args.policy.as_deref().map(policy::open).transpose()?.map(Arc::new);
        // Last, because it makes the directory.
        let charts = args.out.is_some() || !args.json;
        let out = match args.out {
            Some(path) if args.dry_run => OutDir::later(path),
            Some(path) => OutDir::prepare(path).map_err(|error| Failure::bad(&error))?,
            None => OutDir::later(PathBuf::from("atoll-out")),
        };
        Ok(Self {
            code,
            language,
            tier,
            limits,
            inputs,
            env,
            secrets,
            template: args.template,
            profile: word(&args.profile)?,
            server: args.server,
            cacert: args.cacert,
            policy,
            raw_results: args.raw_results,
            dry_run: args.dry_run,
            csv_safe: args.csv_safe,
            strip: args.strip,
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
    let planned = |what: &str| Err(Failure::usage(format!("{what} is not supported yet")));
    match args {
        RunArgs { net, .. } if net != "none" => planned("network access (`--net` other than `none`)"),
        _ => Ok(()),
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
fn input(text: &OsStr) -> Result<Vec<Input>, Failure> {
    let whole = Path::new(text);
    let cut = text
        .as_bytes()
        .iter()
        .rposition(|byte| *byte == b'=')
        .filter(|_| !whole.exists());
    let (path, name) = match cut {
        None => (whole, None),
        Some(at) => {
            let (path, name) = (&text.as_bytes()[..at], &text.as_bytes()[at + 1..]);
            let name = std::str::from_utf8(name).map_err(|_| Failure::usage("input name is not valid UTF-8"))?;
            (Path::new(OsStr::from_bytes(path)), Some(name))
        }
    };
    let made = if path.is_dir() {
        InputDirectory::list(path, name).map(all_files)
    } else {
        Input::new(path.to_owned(), name).map(|input| vec![input])
    };
    made.map_err(|error| Failure::bad(&error))
}

/// The files, after a note that names the links that were not followed.
fn all_files(listed: InputDirectory) -> Vec<Input> {
    let shown = listed.links.iter().take(SHOWN_LINKS);
    let shown: Vec<String> = shown
        .map(|link| format!("`{}`", on_one_line(&link.to_string_lossy())))
        .collect();
    let more = listed.links.len().saturating_sub(SHOWN_LINKS);
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    if !shown.is_empty() {
        note(&format!(
            "note: symbolic links in an input directory are not followed: {}{more}\n",
            shown.join(", ")
        ));
    }
    listed.files
}

fn variable(pair: &str) -> Result<(String, String), Failure> {
    match pair.split_once('=') {
        Some((name, value)) if !name.is_empty() && !pair.contains('\0') => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Failure::usage(format!(
            "invalid `--env` value `{}`: expected NAME=VALUE",
            pair.escape_debug()
        ))),
    }
}
