//! The one list of settings: name, meaning, how to read and to show its value.

use super::Settings;
use crate::auth::check_tenant;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

/// One setting. The flag is `--pool-min`, the variable `ATOLL_POOL_MIN`, the key in the file `min` below `[pool]`.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// With a dot where the file has a table.
    pub name: &'static str,
    pub about: &'static str,
    pub(super) kind: Kind,
    pub(super) set: fn(&mut Settings, &str) -> Result<(), String>,
    pub(super) get: fn(&Settings) -> String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Text,
    /// `none` turns it off.
    Optional,
    Flag,
    /// Several values, with commas in flags and variables.
    List,
    /// Names with a value each: `a=b,c=d` in flags and variables, a table in the file.
    Map,
}

impl Setting {
    pub fn flag(&self) -> String {
        self.name.replace(['.', '_'], "-")
    }

    pub fn variable(&self) -> String {
        format!("ATOLL_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    /// True or false and nothing else.
    pub fn is_switch(&self) -> bool {
        self.kind == Kind::Flag
    }

    pub fn value(&self, settings: &Settings) -> String {
        (self.get)(settings)
    }
}

fn put<T: FromStr<Err: Display>>(place: &mut T, text: &str) -> Result<(), String> {
    *place = text.parse().map_err(|error: T::Err| error.to_string())?;
    Ok(())
}

fn put_optional<T: FromStr<Err: Display>>(place: &mut Option<T>, text: &str) -> Result<(), String> {
    *place = match text {
        "none" => None,
        text => Some(text.parse().map_err(|error: T::Err| error.to_string())?),
    };
    Ok(())
}

/// A number that is no day would be below every release and check nothing.
fn put_day(place: &mut Option<u32>, text: &str) -> Result<(), String> {
    let is_day = |day: u32| {
        let (month, day) = (day / 100 % 100, day % 100);
        text.len() == 8 && (1..=12).contains(&month) && (1..=31).contains(&day)
    };
    *place = match text {
        "none" => None,
        text => Some(
            text.parse()
                .ok()
                .filter(|day| is_day(*day))
                .ok_or("it is no day as 20240513")?,
        ),
    };
    Ok(())
}

fn put_list<T: FromStr<Err: Display>>(place: &mut Vec<T>, text: &str) -> Result<(), String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    *place = words
        .map(|word| word.parse().map_err(|error: T::Err| error.to_string()))
        .collect::<Result<_, String>>()?;
    Ok(())
}

macro_rules! settings {
    ($($name:literal, $kind:ident, $about:literal, |$s:ident| $place:expr, $set:ident, $show:expr;)+) => {
        /// Every setting, in the order in which people read them.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            name: $name,
            about: $about,
            kind: Kind::$kind,
            set: |$s, text| $set(&mut $place, text),
            get: |$s| $show(&$place),
        }),+];
    };
}

fn show<T: Display>(value: &T) -> String {
    value.to_string()
}

/// Sizes and times without the space of running text, so that they can be copied into a file.
fn show_tight<T: Display>(value: &T) -> String {
    let text = value.to_string().replace(' ', "");
    text.strip_suffix("bytes").map(str::to_owned).unwrap_or(text)
}

fn show_option<T: Display>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(|| "none".to_owned(), show_tight)
}

fn show_list<T: Display>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

fn put_word(place: &mut String, text: &str) -> Result<(), String> {
    let fine = !text.is_empty() && text.len() <= 100 && !text.contains(char::is_control);
    if !fine {
        return Err("must be 1 to 100 printable characters".to_owned());
    }
    text.clone_into(place);
    Ok(())
}

/// A file or a directory, from the root.
fn put_path(place: &mut Option<String>, text: &str) -> Result<(), String> {
    *place = match text {
        "none" => None,
        path if path.starts_with('/') && !path.contains('\0') => Some(path.to_owned()),
        other => return Err(format!("not a path from the root: `{other}`")),
    };
    Ok(())
}

fn show_path(value: &Option<String>) -> String {
    value.clone().unwrap_or_else(|| "none".to_owned())
}

/// Tenants, each with a word of its own.
fn put_map(place: &mut BTreeMap<String, String>, text: &str) -> Result<(), String> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let read = |pair: &str| {
        let (tenant, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("not TENANT=NAME: `{pair}`"))?;
        check_tenant(tenant.trim()).map_err(|error| error.to_string())?;
        let mut word = String::new();
        put_word(&mut word, value.trim())?;
        Ok((tenant.trim().to_owned(), word))
    };
    *place = pairs.map(read).collect::<Result<_, String>>()?;
    Ok(())
}

fn show_map(values: &BTreeMap<String, String>) -> String {
    let pairs = values.iter().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(",")
}

fn put_flag(place: &mut bool, text: &str) -> Result<(), String> {
    *place = text.parse().map_err(|_| format!("not true or false: `{text}`"))?;
    Ok(())
}

fn put_url(place: &mut Option<String>, text: &str) -> Result<(), String> {
    *place = match text {
        "none" => None,
        url if url.starts_with("http://") || url.starts_with("https://") => Some(url.to_owned()),
        other => return Err(format!("not an http or https address: `{other}`")),
    };
    Ok(())
}

settings! {
    "listen", Text, "Address of the API; port 0 takes any free one", |s| s.listen, put, show;
    "admin_listen", Text, "Address of metrics, health and readiness, for operators only", |s| s.admin_listen, put, show;
    "domain", Optional, "Name below which sandboxes have names of their own, with the port that clients see; none is sbx.localhost with the port of the API", |s| s.domain, put_optional, show_option;
    "allowed_hosts", List, "Host names that requests may carry, besides loopback names, the listen address and names below the domain", |s| s.allowed_hosts, put_list, show_list;
    "cors_origins", List, "Origins of web pages that may call the API from a browser", |s| s.cors_origins, put_list, show_list;
    "insecure_no_auth", Flag, "Take requests without a key; only with a loopback listen address", |s| s.insecure_no_auth, put_flag, show;
    "max_body_bytes", Number, "Largest request body that is read whole; streamed uploads are bounded by the sandbox", |s| s.max_body_bytes, put, show_tight;
    "max_input_bytes", Number, "Input files of one request together; they lie on the disk of the data directory until the sandbox has them", |s| s.max_input_bytes, put, show_tight;
    "max_connections", Number, "Open connections of the API", |s| s.max_connections, put, show;
    "header_timeout", Number, "Time for the head of a request to arrive", |s| s.header_timeout, put, show_tight;
    "read_timeout", Number, "Time for a body to arrive that is read whole, and between two pieces of any other", |s| s.read_timeout, put, show_tight;
    "idle_timeout", Number, "Time that a connection may wait for its next request", |s| s.idle_timeout, put, show_tight;
    "drain_timeout", Number, "Time that running requests get to end after SIGTERM", |s| s.drain_timeout, put, show_tight;
    "template", Text, "Template of sandboxes that name none", |s| s.template, put_word, show;
    "profile", Text, "Limits of sandboxes that name none: small or data", |s| s.profile, put, show;
    "max_profile", Text, "The most that a request of the native API may ask for, each limit but the times for itself: small or data", |s| s.max_profile, put, show;
    "raw_results", Flag, "Give every result as the code made it, not cleaned for a viewer", |s| s.raw_results, put_flag, show;
    "required_layers", List, "Walls without which no sandbox starts, besides those that always must stand: cgroups", |s| s.required_layers, put_list, show_list;
    "max_sandboxes", Number, "Sandboxes that live at the same time, of all tenants", |s| s.max_sandboxes, put, show;
    "tiers.gvisor_min_release", Optional, "Oldest release of gVisor that hostile code is given to, as its day: 20240513; none takes any", |s| s.gvisor_min_release, put_day, show_option;
    "tiers.container_runtime", Optional, "Runtime of containers, and no other: crun, runc or kata-runtime; none takes crun or runc, whichever is there", |s| s.container_runtime, put_optional, show_option;
    "lifetime.idle", Number, "Time after which an unused sandbox ends", |s| s.lifetime.idle, put, show_tight;
    "lifetime.hard", Number, "Time after which a sandbox ends in any case", |s| s.lifetime.hard, put, show_tight;
    "pool.min", Number, "Prepared sandboxes that always wait", |s| s.pool.min, put, show;
    "pool.max", Number, "Prepared sandboxes that wait at most", |s| s.pool.max, put, show;
    "e2b.profile", Text, "Limits of sandboxes that are made by the E2B dialect: small or data", |s| s.e2b.profile, put, show;
    "quota.live_sandboxes", Optional, "Live sandboxes per key, for keys without a quota of their own", |s| s.quota.live_sandboxes, put_optional, show_option;
    "quota.creates_per_minute", Optional, "Sandboxes per key and minute, likewise", |s| s.quota.creates_per_minute, put_optional, show_option;
    "quota.cpu_seconds_per_day", Optional, "Processor seconds per key and day, likewise", |s| s.quota.cpu_seconds_per_day, put_optional, show_option;
    "quota.bytes_per_day", Optional, "Bytes in and out per key and day, likewise", |s| s.quota.bytes_per_day, put_optional, show_option;
    "policy.default", Text, "Policy of tenants that have none of their own: open, standard, guarded, strict, or one of policy.dir", |s| s.policy.default, put_word, show;
    "policy.tenants", Map, "Policies of tenants, in place of the default", |s| s.policy.tenants, put_map, show_map;
    "policy.dir", Optional, "Directory with policies of your own, each NAME.toml; none is no such directory", |s| s.policy.dir, put_path, show_path;
    "approval.mode", Text, "What becomes of code that a policy asks about: wait for an answer, or refuse at once", |s| s.approval.mode, put, show;
    "approval.expiry", Number, "Time after which a question that nobody has answered is answered with no", |s| s.approval.expiry, put, show_tight;
    "approval.max_pending", Number, "Questions of one tenant that wait at the same time", |s| s.approval.max_pending, put, show;
    "approval.webhook_url", Optional, "Where questions and what became of them are told, by signed POST requests over http or https; only its host is ever shown", |s| s.approval.webhook_url, put_optional, show_option;
    "approval.webhook_secret_file", Optional, "File with the secret that signs them", |s| s.approval.webhook_secret_file, put_path, show_path;
    "log.format", Text, "text or json, to stderr", |s| s.log.format, put, show;
    "log.level", Text, "error, warn, info or debug", |s| s.log.level, put, show;
    "audit.dir", Optional, "Directory of the audit log; none is `audit` in the data directory", |s| s.audit.dir, put_path, show_path;
    "audit.keep_code", Flag, "Keep the code of executions in the audit log, not only its digest", |s| s.audit.keep_code, put_flag, show;
    "audit.segment_bytes", Number, "Size at which the audit log begins its next file", |s| s.audit.segment_bytes, put, show_tight;
    "audit.sync", Flag, "Flush each record of the audit log to the disk before the action starts", |s| s.audit.sync, put_flag, show;
    "audit.keep", Optional, "Time after which files of the audit log are removed; none keeps them for ever", |s| s.audit.keep, put_optional, show_option;
    "audit.keep_bytes", Optional, "Size of all files of the audit log together, at least two of them; the oldest go. none is no bound", |s| s.audit.keep_bytes, put_optional, show_option;
    "otlp.endpoint", Optional, "Where traces are sent by OTLP over HTTP; needs a build with the feature otlp", |s| s.otlp_endpoint, put_url, show_option;
}
