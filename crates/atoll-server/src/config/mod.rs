//! Settings of the server: flags over `ATOLL_*` environment over `atoll.toml` over defaults.
//!
//! [`table::SETTINGS`] is the one list of them. Flags, variables, the file's keys, `--print-config` and the example file
//! all come from it or are checked against it. Saying nothing means the default; an unknown name is refused.

mod file;
mod nearest;
mod print;
mod resolve;
mod table;
mod tls;
mod value;
mod webhook;

pub use print::print;
pub use resolve::{Environment, Resolved, Source, Sources, resolve, resolve_audit, resolve_tiers};
pub use table::{SETTINGS, Setting};
pub use tls::{TlsMode, TlsSettings};
pub(crate) use value::split_port;
pub use value::{Domain, HostPattern, WebOrigin};
pub use webhook::WebhookUrl;

use atoll_core::ProfileName;
use atoll_core::service::*;
use atoll_engine::{Layer, RuntimeKind, TierSettings};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Every setting with its value. What each means is in [`SETTINGS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub listen: SocketAddr,
    pub admin_listen: SocketAddr,
    /// `None`: `sbx.localhost:<port>`, with the port that is really listened on.
    pub domain: Option<Domain>,
    pub allowed_hosts: Vec<HostPattern>,
    pub cors_origins: Vec<WebOrigin>,
    pub insecure_no_auth: bool,
    pub max_body_bytes: BodyBytes,
    /// Input files are kept on disk until the sandbox has them.
    pub max_input_bytes: InputBytes,
    pub max_connections: ConnectionCount,
    pub header_timeout: TimeoutMillis,
    pub read_timeout: TimeoutMillis,
    pub idle_timeout: TimeoutMillis,
    pub drain_timeout: TimeoutMillis,
    pub template: String,
    pub profile: ProfileName,
    pub max_profile: ProfileName,
    pub raw_results: bool,
    pub required_layers: Vec<Layer>,
    /// The day of the oldest release of gVisor that is taken; `None`: any.
    pub gvisor_min_release: Option<u32>,
    /// The runtime of containers, and no other; `None`: the first that is there.
    pub container_runtime: Option<RuntimeKind>,
    pub max_sandboxes: SandboxCount,
    /// `None`: half of them.
    pub max_tenant_sandboxes: Option<SandboxCount>,
    pub queue_timeout: QueueMillis,
    pub tls: TlsSettings,
    pub lifetime: LifetimeSettings,
    pub pool: PoolSettings,
    pub e2b: E2bSettings,
    /// For keys that have no quotas of their own.
    pub quota: Quotas,
    pub policy: PolicySettings,
    pub approval: ApprovalSettings,
    pub log: LogSettings,
    pub audit: AuditSettings,
    /// Where traces go by OTLP; `None` is off.
    pub otlp_endpoint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifetimeSettings {
    pub idle: LifetimeMillis,
    pub hard: LifetimeMillis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    pub min: PoolSize,
    pub max: PoolSize,
    /// Besides these: of the profile `data`.
    pub data: PoolSize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct E2bSettings {
    pub profile: ProfileName,
}

/// By names: what they mean is read and checked when the server starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    pub default: String,
    pub tenants: BTreeMap<String, String>,
    pub dir: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalSettings {
    pub mode: ApprovalMode,
    pub expiry: ApprovalMillis,
    /// Of one tenant.
    pub max_pending: PendingCount,
    pub webhook_url: Option<WebhookUrl>,
    /// Has the secret that signs.
    pub webhook_secret_file: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    pub format: LogFormat,
    pub level: LogLevel,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// `None`: `audit` in the data directory.
    pub dir: Option<String>,
    pub record: RecordLevel,
    pub segment_bytes: SegmentBytes,
    /// `None`: no bound.
    pub keep_bytes: Option<LogBytes>,
    /// `None`: no bound.
    pub key_bytes_per_day: Option<BytesPerDay>,
    pub sync: bool,
    /// `None`: for ever.
    pub keep: Option<RetentionMillis>,
}

/// What one key may use; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quotas {
    pub live_sandboxes: Option<SandboxCount>,
    pub creates_per_minute: Option<CreatesPerMinute>,
    pub cpu_seconds_per_day: Option<CpuSecondsPerDay>,
    pub bytes_per_day: Option<BytesPerDay>,
}

impl Quotas {
    /// These, and where they say nothing, the others.
    pub fn or(self, others: Self) -> Self {
        Self {
            live_sandboxes: self.live_sandboxes.or(others.live_sandboxes),
            creates_per_minute: self.creates_per_minute.or(others.creates_per_minute),
            cpu_seconds_per_day: self.cpu_seconds_per_day.or(others.cpu_seconds_per_day),
            bytes_per_day: self.bytes_per_day.or(others.bytes_per_day),
        }
    }
}

impl Settings {
    /// Live sandboxes that one tenant may have. By default the others find as many places again.
    pub fn tenant_share(&self) -> u64 {
        let half = self.max_sandboxes.get().div_ceil(2);
        self.max_tenant_sandboxes.map_or(half, SandboxCount::get)
    }

    /// What they say about programs that build tiers.
    pub fn tiers(&self) -> TierSettings {
        TierSettings {
            gvisor_min_release: self.gvisor_min_release,
            runtime: self.container_runtime,
            ..TierSettings::from_environment()
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7070),
            admin_listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7071),
            domain: None,
            allowed_hosts: Vec::new(),
            cors_origins: Vec::new(),
            insecure_no_auth: false,
            max_body_bytes: BodyBytes::known(10 << 20),
            max_input_bytes: InputBytes::known(1 << 30),
            max_connections: ConnectionCount::known(4_096),
            header_timeout: TimeoutMillis::known(10_000),
            read_timeout: TimeoutMillis::known(30_000),
            // Longer than the 300 s for which E2B's clients keep an idle connection.
            idle_timeout: TimeoutMillis::known(330_000),
            drain_timeout: TimeoutMillis::known(30_000),
            template: "python-data".to_owned(),
            profile: ProfileName::Small,
            max_profile: ProfileName::Data,
            raw_results: false,
            required_layers: Vec::new(),
            gvisor_min_release: None,
            container_runtime: None,
            max_sandboxes: SandboxCount::known(200),
            max_tenant_sandboxes: None,
            queue_timeout: QueueMillis::known(5_000),
            tls: TlsSettings::default(),
            lifetime: LifetimeSettings {
                idle: LifetimeMillis::known(1_200_000),
                hard: LifetimeMillis::known(86_400_000),
            },
            pool: PoolSettings {
                min: PoolSize::known(2),
                max: PoolSize::known(16),
                data: PoolSize::known(0),
            },
            e2b: E2bSettings {
                profile: ProfileName::Small,
            },
            quota: Quotas::default(),
            policy: PolicySettings {
                default: "standard".to_owned(),
                tenants: BTreeMap::new(),
                dir: None,
            },
            approval: ApprovalSettings {
                mode: ApprovalMode::Wait,
                expiry: ApprovalMillis::known(300_000),
                max_pending: PendingCount::known(100),
                webhook_url: None,
                webhook_secret_file: None,
            },
            log: LogSettings {
                format: LogFormat::Text,
                level: LogLevel::Info,
            },
            audit: AuditSettings {
                dir: None,
                record: RecordLevel::None,
                segment_bytes: SegmentBytes::known(16 << 20),
                keep_bytes: None,
                key_bytes_per_day: Some(BytesPerDay::known(64 << 20)),
                sync: false,
                keep: None,
            },
            otlp_endpoint: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("unknown setting `{name}` in {source_name}{}", did_you_mean(.nearest.as_deref()))]
    Unknown {
        name: String,
        source_name: String,
        nearest: Option<String>,
    },
    #[error("setting `{name}` from {source_name}: {why}")]
    Value {
        name: &'static str,
        source_name: String,
        why: String,
    },
    #[error("conflicting settings: {0}")]
    Together(String),
    #[error("cannot read the settings file `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the settings file `{}` is not valid TOML: {why}", path.display())]
    Syntax { path: PathBuf, why: String },
}

fn did_you_mean(name: Option<&str>) -> String {
    name.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
