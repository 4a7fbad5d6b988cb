//! From four sources to one set of settings, each value with the place that it came from.

use super::file::{self, Text};
use super::nearest::{distance, nearest};
use super::table::{Kind, SETTINGS, Setting};
use super::{AuditSettings, ConfigError, Settings};
use atoll_engine::TierSettings;
use std::path::{Path, PathBuf};

/// Variables of the process that begin with `ATOLL_`.
pub type Environment = Vec<(String, String)>;

/// Variables that are not settings of the server.
const OTHER_VARIABLES: &[&str] = &[
    "ATOLL_HOME",
    "ATOLL_CONFIG",
    "ATOLL_BIN",
    "ATOLL_API_KEY",
    "ATOLL_SERVER",
];

/// What is to be read.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Names of settings with the values that flags gave them.
    pub flags: Vec<(&'static str, String)>,
    pub environment: Environment,
    /// Named by the user: must exist.
    pub file: Option<PathBuf>,
    /// Looked for otherwise.
    pub usual_file: Option<PathBuf>,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    File(PathBuf),
    Variable(String),
    Flag(String),
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// The settings, and for each of [`SETTINGS`] where its value came from.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub settings: Settings,
    pub sources: Vec<Source>,
}

pub fn resolve(sources: &Sources) -> Result<Resolved, ConfigError> {
    let mut resolved = Resolved {
        settings: Settings::default(),
        sources: vec![Source::Default; SETTINGS.len()],
    };
    let usual = sources.usual_file.as_ref().filter(|path| path.exists());
    if let Some(path) = sources.file.as_ref().or(usual) {
        resolved.take_file(path)?;
    }
    resolved.take_environment(&sources.environment)?;
    for (name, value) in &sources.flags {
        let (index, setting) = find(name).ok_or_else(|| unknown(name, "flags".to_owned()))?;
        resolved.take(index, setting, value, Source::Flag(setting.flag()))?;
    }
    check(&resolved.settings)?;
    Ok(resolved)
}

impl Resolved {
    fn take_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        for (name, text) in file::read(path)? {
            let source = Source::File(path.to_owned());
            let (index, setting) = find(&name).ok_or_else(|| unknown(&name, format!("`{source}`")))?;
            let value = one_text(setting, text).map_err(|why| wrong(setting, &source, why))?;
            self.take(index, setting, &value, source)?;
        }
        Ok(())
    }

    fn take_environment(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        for (name, value) in environment {
            let found = SETTINGS.iter().position(|setting| setting.variable() == *name);
            match found.and_then(|index| Some((index, SETTINGS.get(index)?))) {
                Some((index, setting)) => self.take(index, setting, value, Source::Variable(name.clone()))?,
                None => check_stray(name)?,
            }
        }
        Ok(())
    }

    fn take(&mut self, index: usize, setting: &Setting, value: &str, source: Source) -> Result<(), ConfigError> {
        (setting.set)(&mut self.settings, value.trim()).map_err(|why| wrong(setting, &source, why))?;
        self.sources[index] = source;
        Ok(())
    }
}

fn find(name: &str) -> Option<(usize, &'static Setting)> {
    SETTINGS.iter().enumerate().find(|(_, setting)| setting.name == name)
}

fn one_text(setting: &Setting, text: Text) -> Result<String, String> {
    match (setting.kind, text) {
        (Kind::List, Text::Many(words)) => Ok(words.join(",")),
        (Kind::List, _) => Err("expected a list of strings, like [\"a\", \"b\"]".to_owned()),
        (Kind::Map, Text::Pairs(pairs)) => Ok(pairs.join(",")),
        (Kind::Map, _) => Err("expected a table, like { name = \"value\" }".to_owned()),
        (_, Text::Pairs(_)) => Err("expected a single value, not a table".to_owned()),
        (_, Text::One(text)) => Ok(text),
        (_, Text::Many(_)) => Err("expected a single value, not a list".to_owned()),
        (_, Text::Neither(what)) => Err(format!("expected a single value, found {what}")),
    }
}

/// A variable that looks like a mistyped setting is refused; others that begin with `ATOLL_` may be somebody else's.
fn check_stray(name: &str) -> Result<(), ConfigError> {
    if OTHER_VARIABLES.contains(&name) {
        return Ok(());
    }
    let variables: Vec<String> = SETTINGS.iter().map(Setting::variable).collect();
    match variables.iter().find(|known| distance(name, known) <= 2) {
        Some(known) => Err(ConfigError::Unknown {
            name: name.to_owned(),
            source_name: "the environment".to_owned(),
            nearest: Some(known.clone()),
        }),
        None => Ok(()),
    }
}

fn unknown(name: &str, source_name: String) -> ConfigError {
    ConfigError::Unknown {
        name: name.to_owned(),
        source_name,
        nearest: nearest(name, SETTINGS.iter().map(|setting| setting.name)).map(str::to_owned),
    }
}

fn wrong(setting: &Setting, source: &Source, why: String) -> ConfigError {
    ConfigError::Value {
        name: setting.name,
        source_name: source.to_string(),
        why,
    }
}

/// What no single value can be blamed for.
fn check(settings: &Settings) -> Result<(), ConfigError> {
    let refuse = |why: String| Err(ConfigError::Together(why));
    let Settings {
        listen,
        admin_listen,
        pool,
        lifetime,
        ..
    } = settings;
    if settings.insecure_no_auth && !listen.ip().is_loopback() {
        return refuse(format!(
            "insecure_no_auth requires a loopback address, but listen is `{listen}`; use keys instead"
        ));
    }
    if listen == admin_listen && listen.port() != 0 {
        return refuse(format!("listen and admin_listen are both `{listen}`; they must differ"));
    }
    if pool.min > pool.max {
        return refuse(format!(
            "pool.min ({}) is greater than pool.max ({})",
            pool.min, pool.max
        ));
    }
    if settings.profile > settings.max_profile {
        return refuse(format!(
            "profile ({}) is greater than max_profile ({})",
            settings.profile, settings.max_profile
        ));
    }
    check_audit(&settings.audit)?;
    settings.tls.check()?;
    if settings.approval.webhook_url.is_some() && settings.approval.webhook_secret_file.is_none() {
        return refuse("approval.webhook_url requires approval.webhook_secret_file".to_owned());
    }
    if lifetime.idle > lifetime.hard {
        return refuse(format!(
            "lifetime.idle ({}) is greater than lifetime.hard ({})",
            lifetime.idle, lifetime.hard
        ));
    }
    Ok(())
}

/// A file that is full and the one that is written are always there.
fn check_audit(audit: &AuditSettings) -> Result<(), ConfigError> {
    let least = audit.segment_bytes.get().saturating_mul(2);
    match audit.keep_bytes.filter(|keep| keep.get() < least) {
        None => Ok(()),
        Some(keep) => Err(ConfigError::Together(format!(
            "audit.keep_bytes ({keep}) is less than twice audit.segment_bytes ({})",
            audit.segment_bytes
        ))),
    }
}

/// The settings of the audit log alone, for commands that write to it without being a server: others are not looked at.
pub fn resolve_audit(sources: &Sources) -> Result<AuditSettings, ConfigError> {
    let settings = resolve_part(sources, "audit")?;
    check_audit(&settings.audit)?;
    Ok(settings.audit)
}

/// What the operator says about tiers, for commands that run code without a server.
pub fn resolve_tiers(sources: &Sources) -> Result<TierSettings, ConfigError> {
    Ok(resolve_part(sources, "tiers")?.tiers())
}

/// The settings of one table; all others are as if nobody had said anything.
fn resolve_part(sources: &Sources, table: &str) -> Result<Settings, ConfigError> {
    let mut resolved = Resolved {
        settings: Settings::default(),
        sources: vec![Source::Default; SETTINGS.len()],
    };
    let ours = |setting: &Setting| setting.name.split('.').next() == Some(table);
    let usual = sources.usual_file.as_ref().filter(|path| path.exists());
    if let Some(path) = sources.file.as_ref().or(usual) {
        for (name, text) in file::read(path)? {
            let source = Source::File(path.clone());
            let found = find(&name);
            // A mistyped one of ours is not taken for nothing.
            if found.is_none() && name.split('.').next() == Some(table) {
                return Err(unknown(&name, format!("`{source}`")));
            }
            if let Some((index, setting)) = found.filter(|(_, setting)| ours(setting)) {
                let value = one_text(setting, text).map_err(|why| wrong(setting, &source, why))?;
                resolved.take(index, setting, &value, source)?;
            }
        }
    }
    let front = format!("ATOLL_{}_", table.to_ascii_uppercase());
    let named = |(name, _): &&(String, String)| name.starts_with(&front);
    let environment: Environment = sources.environment.iter().filter(named).cloned().collect();
    resolved.take_environment(&environment)?;
    Ok(resolved.settings)
}
