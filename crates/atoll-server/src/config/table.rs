//! The one list of settings: name, meaning, how to read and to show its value.

use super::Settings;
use crate::auth::check_tenant;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::str::FromStr;

/// One setting. The flag is `--pool-min`, the variable `ATOLL_POOL_MIN`, the key in the file `min` below `[pool]`.
/// `tls.mode` is the exception: its flag is `--tls` and its variable `ATOLL_TLS`.
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
        self.outer_name().replace(['.', '_'], "-")
    }

    pub fn variable(&self) -> String {
        format!("ATOLL_{}", self.outer_name().replace('.', "_").to_ascii_uppercase())
    }

    /// The name in flags and variables. A file cannot have both a value `tls` and a table `[tls]`; flags can.
    fn outer_name(&self) -> &'static str {
        match self.name {
            "tls.mode" => "tls",
            name => name,
        }
    }

    /// True or false and nothing else.
    pub fn is_switch(&self) -> bool {
        self.kind == Kind::Flag
    }

    /// What stands for the value in a help text.
    pub fn value_name(&self) -> &'static str {
        match self.kind {
            Kind::Flag => "true|false",
            Kind::List => "VALUE[,VALUE]",
            Kind::Map => "NAME=VALUE[,NAME=VALUE]",
            Kind::Number | Kind::Text | Kind::Optional => "VALUE",
        }
    }

    /// Its meaning with its default, unless it is off by default: then the meaning says what that does.
    pub fn help(&self, defaults: &Settings) -> String {
        match self.value(defaults).as_str() {
            "" | "none" => self.about.to_owned(),
            default => format!("{} [default: {default}]", self.about),
        }
    }

    pub fn value(&self, settings: &Settings) -> String {
        (self.get)(settings)
    }
}

fn put<T: FromStr<Err: Display>>(place: &mut T, text: &str) -> Result<(), String> {
    *place = text.parse().map_err(|error: T::Err| error.to_string())?;
    Ok(())
}

fn put_address(place: &mut SocketAddr, text: &str) -> Result<(), String> {
    let example = || format!("`{text}`: expected ADDRESS:PORT such as 127.0.0.1:7070");
    *place = text.parse().map_err(|_| example())?;
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
                .ok_or("expected a date like 20240513")?,
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
        other => return Err(format!("expected an absolute path, found `{other}`")),
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
            .ok_or_else(|| format!("expected TENANT=NAME, found `{pair}`"))?;
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
    *place = text
        .parse()
        .map_err(|_| format!("expected true or false, found `{text}`"))?;
    Ok(())
}

fn put_url(place: &mut Option<String>, text: &str) -> Result<(), String> {
    *place = match text {
        "none" => None,
        url if url.starts_with("http://") || url.starts_with("https://") => Some(url.to_owned()),
        other => return Err(format!("expected an http:// or https:// URL, found `{other}`")),
    };
    Ok(())
}

settings! {
    "listen", Text, "Listen address of the API; port 0 selects a free port", |s| s.listen, put_address, show;
    "admin_listen", Text, "Listen address for metrics, health and readiness; for operators only", |s| s.admin_listen, put_address, show;
    "domain", Optional, "Domain suffix for sandbox hostnames, with the port that clients connect to [none: sbx.localhost with the API port]", |s| s.domain, put_optional, show_option;
    "allowed_hosts", List, "Host names to accept in the Host header, in addition to loopback names, the listen address and names under the domain", |s| s.allowed_hosts, put_list, show_list;
    "cors_origins", List, "Web origins allowed to call the API from a browser", |s| s.cors_origins, put_list, show_list;
    "insecure_no_auth", Flag, "Accept requests without a key; requires a loopback listen address", |s| s.insecure_no_auth, put_flag, show;
    "max_body_bytes", Number, "Maximum size of a buffered request body; streamed uploads are limited by the sandbox", |s| s.max_body_bytes, put, show_tight;
    "max_input_bytes", Number, "Maximum total size of the input files of one request; they are stored in the data directory until the sandbox has received them", |s| s.max_input_bytes, put, show_tight;
    "max_connections", Number, "Maximum number of open API connections", |s| s.max_connections, put, show;
    "header_timeout", Number, "Deadline for receiving the request headers", |s| s.header_timeout, put, show_tight;
    "read_timeout", Number, "Deadline for receiving a buffered request body, and the maximum pause between two chunks of a streamed one", |s| s.read_timeout, put, show_tight;
    "idle_timeout", Number, "Time that an idle connection stays open between requests", |s| s.idle_timeout, put, show_tight;
    "drain_timeout", Number, "Time that running requests have to finish after SIGTERM", |s| s.drain_timeout, put, show_tight;
    "template", Text, "Default template for new sandboxes", |s| s.template, put_word, show;
    "profile", Text, "Default limits for new sandboxes [small|data]", |s| s.profile, put, show;
    "max_profile", Text, "Upper bound for each limit in native API requests, except time limits [small|data]", |s| s.max_profile, put, show;
    "raw_results", Flag, "Return results exactly as the code produced them, without sanitizing them", |s| s.raw_results, put_flag, show;
    "required_layers", List, "Isolation layers that a sandbox must have to start, in addition to those that are always required [cgroups]", |s| s.required_layers, put_list, show_list;
    "max_sandboxes", Number, "Maximum number of live sandboxes across all tenants", |s| s.max_sandboxes, put, show;
    "max_tenant_sandboxes", Optional, "Maximum number of live sandboxes of one tenant [none: half of max_sandboxes, rounded up]", |s| s.max_tenant_sandboxes, put_optional, show_option;
    "queue_timeout", Number, "Time that a request to create or resume a sandbox waits for a free slot while the server has max_sandboxes live sandboxes; 0 refuses it at once", |s| s.queue_timeout, put, show_tight;
    "tls.mode", Optional, "Serve the API over HTTPS: `local` creates a CA and a certificate for the domain [none|local]", |s| s.tls.mode, put_optional, show_option;
    "tls.cert", Optional, "PEM file with a certificate chain to serve the API over HTTPS with; requires tls.key", |s| s.tls.cert, put_path, show_path;
    "tls.key", Optional, "PEM file with the private key of tls.cert; both files are read again when one of them changes", |s| s.tls.key, put_path, show_path;
    "tiers.gvisor_min_release", Optional, "Oldest gVisor release to accept, as a date like 20240513 [none: any release]", |s| s.gvisor_min_release, put_day, show_option;
    "tiers.container_runtime", Optional, "Container runtime: crun, runc or kata-runtime [none: crun if installed, otherwise runc]", |s| s.container_runtime, put_optional, show_option;
    "lifetime.idle", Number, "Default idle timeout of a sandbox", |s| s.lifetime.idle, put, show_tight;
    "lifetime.hard", Number, "Maximum lifetime of a sandbox", |s| s.lifetime.hard, put, show_tight;
    "pool.min", Number, "Minimum number of ready sandboxes in the pool", |s| s.pool.min, put, show;
    "pool.max", Number, "Maximum number of ready sandboxes in the pool", |s| s.pool.max, put, show;
    "pool.data", Number, "Number of further ready sandboxes with the limits of the profile data; each holds a scratch file system and needs mkfs.ext4", |s| s.pool.data, put, show;
    "e2b.profile", Text, "Limits of sandboxes created through the E2B API [small|data]", |s| s.e2b.profile, put, show;
    "quota.live_sandboxes", Optional, "Live sandboxes per key, for keys without their own quota [none: unlimited]", |s| s.quota.live_sandboxes, put_optional, show_option;
    "quota.creates_per_minute", Optional, "Sandboxes created per key and minute, for keys without their own quota [none: unlimited]", |s| s.quota.creates_per_minute, put_optional, show_option;
    "quota.cpu_seconds_per_day", Optional, "CPU seconds per key and day, for keys without their own quota [none: unlimited]", |s| s.quota.cpu_seconds_per_day, put_optional, show_option;
    "quota.bytes_per_day", Optional, "Bytes transferred (in and out) per key and day, for keys without their own quota [none: unlimited]", |s| s.quota.bytes_per_day, put_optional, show_option;
    "policy.default", Text, "Policy for tenants without an entry in policy.tenants: open, standard, guarded, strict, or one from policy.dir", |s| s.policy.default, put_word, show;
    "policy.tenants", Map, "Policies for individual tenants, instead of the default", |s| s.policy.tenants, put_map, show_map;
    "policy.dir", Optional, "Directory with custom policies, one NAME.toml file each [none: no custom policies]", |s| s.policy.dir, put_path, show_path;
    "approval.mode", Text, "What to do with code that requires approval: wait for a decision, or refuse it at once [wait|refuse]", |s| s.approval.mode, put, show;
    "approval.expiry", Number, "Time after which an undecided approval request expires; its code does not run", |s| s.approval.expiry, put, show_tight;
    "approval.max_pending", Number, "Maximum number of pending approval requests per tenant", |s| s.approval.max_pending, put, show;
    "approval.webhook_url", Optional, "URL that receives approval requests and decisions as signed POST requests over http or https; Atoll shows only its host", |s| s.approval.webhook_url, put_optional, show_option;
    "approval.webhook_secret_file", Optional, "File with the secret that signs webhook requests", |s| s.approval.webhook_secret_file, put_path, show_path;
    "log.format", Text, "Format of the log on stderr [text|json]", |s| s.log.format, put, show;
    "log.level", Text, "Log level [error|warn|info|debug]", |s| s.log.level, put, show;
    "audit.dir", Optional, "Directory of the audit log [none: `audit` in the data directory]", |s| s.audit.dir, put_path, show_path;
    "audit.record", Text, "What the audit log stores about executions in addition to digests: nothing, the code, or the code and the output [none|code|full]", |s| s.audit.record, put, show;
    "audit.segment_bytes", Number, "Size at which the audit log starts a new segment", |s| s.audit.segment_bytes, put, show_tight;
    "audit.sync", Flag, "Flush each audit log entry to disk before the action starts", |s| s.audit.sync, put_flag, show;
    "audit.keep", Optional, "Age at which audit log segments are deleted [none: never]", |s| s.audit.keep, put_optional, show_option;
    "audit.keep_bytes", Optional, "Maximum total size of the audit log, at least two segments; the oldest segments are deleted first [none: unlimited]", |s| s.audit.keep_bytes, put_optional, show_option;
    "audit.key_bytes_per_day", Optional, "Maximum size of the audit log entries of one key per day (UTC); then its actions are refused [none: unlimited]", |s| s.audit.key_bytes_per_day, put_optional, show_option;
    "otlp.endpoint", Optional, "Endpoint for traces, sent with OTLP over HTTP; requires a build with the `otlp` feature", |s| s.otlp_endpoint, put_url, show_option;
}
