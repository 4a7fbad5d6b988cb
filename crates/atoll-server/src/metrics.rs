//! Every number that is shown to Prometheus: its name, its meaning, and the one function that sets it.
//!
//! Labels come from closed lists, from our own table of routes, from the policies of the settings, or from the tenants that
//! have keys: never from a request.

mod labels;

use crate::limits::Limits;
use crate::ready::{Readiness, Ready};
use crate::store::Usage;
use atoll_core::{EndReason, Outcome, Tier};
use labels::*;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use std::time::Duration;

/// Where a claimed sandbox came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimedFrom {
    Pool,
    Demand,
}

/// What was hit by tenant code or by a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitHit {
    Memory,
    CpuTime,
    WallTime,
    Output,
    RateOfCreates,
    QuotaOfKey,
    Capacity,
}

impl LimitHit {
    pub const ALL: &'static [Self] = &[
        Self::Memory,
        Self::CpuTime,
        Self::WallTime,
        Self::Output,
        Self::RateOfCreates,
        Self::QuotaOfKey,
        Self::Capacity,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::CpuTime => "cpu_time",
            Self::WallTime => "wall_time",
            Self::Output => "output",
            Self::RateOfCreates => "rate_of_creates",
            Self::QuotaOfKey => "quota_of_key",
            Self::Capacity => "capacity",
        }
    }
}

/// From 0.25 ms to 30 s: a warm claim is at one end, a cold one with a large template at the other.
const SECONDS: [f64; 16] = [
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

fn histogram() -> Histogram {
    Histogram::new(SECONDS)
}

#[derive(Debug)]
struct Numbers {
    registry: Registry,
    ready: Gauge,
    pool_depth: Family<PoolLabels, Gauge>,
    claims: Family<ClaimLabels, Counter>,
    claim_seconds: Family<ClaimLabels, Histogram, fn() -> Histogram>,
    creates_waiting: Gauge,
    create_wait_seconds: Histogram,
    sandboxes_live: Gauge,
    sandboxes_ended: Family<ReasonLabels, Counter>,
    sandbox_memory: Gauge,
    executions: Family<OutcomeLabels, Counter>,
    execution_seconds: Histogram,
    limits_hit: Family<LimitLabels, Counter>,
    denials: Family<DenialLabels, Counter>,
    tenant_sandboxes: Family<TenantLabels, Counter>,
    tenant_executions: Family<TenantLabels, Counter>,
    tenant_cpu_ms: Family<TenantLabels, Counter>,
    tenant_bytes: Family<TenantBytesLabels, Counter>,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    process_memory: Gauge,
    process_descriptors: Gauge,
}

/// A handle; all copies count in the same place.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Numbers>);

impl Default for Metrics {
    fn default() -> Self {
        Self(Arc::new(Numbers::new()))
    }
}

impl Numbers {
    fn new() -> Self {
        let mut registry = Registry::with_prefix("atoll");
        let claim_seconds = Family::new_with_constructor(histogram as fn() -> Histogram);
        let request_seconds = Family::new_with_constructor(histogram as fn() -> Histogram);
        let mut numbers = Self {
            ready: Gauge::default(),
            pool_depth: Family::default(),
            claims: Family::default(),
            claim_seconds,
            creates_waiting: Gauge::default(),
            create_wait_seconds: histogram(),
            sandboxes_live: Gauge::default(),
            sandboxes_ended: Family::default(),
            sandbox_memory: Gauge::default(),
            executions: Family::default(),
            execution_seconds: histogram(),
            limits_hit: Family::default(),
            denials: Family::default(),
            tenant_sandboxes: Family::default(),
            tenant_executions: Family::default(),
            tenant_cpu_ms: Family::default(),
            tenant_bytes: Family::default(),
            requests: Family::default(),
            request_seconds,
            process_memory: Gauge::default(),
            process_descriptors: Gauge::default(),
            registry: Registry::default(),
        };
        numbers.register_sandboxes(&mut registry);
        numbers.register_tenants(&mut registry);
        numbers.register_server(&mut registry);
        numbers.registry = registry;
        numbers.begin_at_zero();
        numbers
    }

    /// What has not happened yet is 0, not absent: rates and alerts work from the first scrape.
    fn begin_at_zero(&self) {
        for outcome in Outcome::ALL {
            let outcome = outcome.as_str();
            self.executions.get_or_create(&OutcomeLabels { outcome }).inc_by(0);
        }
        for reason in EndReason::ALL {
            let reason = reason.as_str();
            self.sandboxes_ended.get_or_create(&ReasonLabels { reason }).inc_by(0);
        }
        for limit in LimitHit::ALL {
            let limit = limit.as_str();
            self.limits_hit.get_or_create(&LimitLabels { limit }).inc_by(0);
        }
    }

    fn register_sandboxes(&self, to: &mut Registry) {
        to.register("pool_depth", "Ready sandboxes in the pool", self.pool_depth.clone());
        to.register(
            "claims",
            "Sandbox claims, warm (from the pool) or cold",
            self.claims.clone(),
        );
        let help = "Time to claim a sandbox";
        to.register_with_unit("claim_duration", help, Unit::Seconds, self.claim_seconds.clone());
        let help = "Create and resume requests that wait in the queue of a full server";
        to.register("creates_waiting", help, self.creates_waiting.clone());
        let help = "Time that a create or resume request waits until it is admitted or refused";
        to.register_with_unit("create_wait", help, Unit::Seconds, self.create_wait_seconds.clone());
        to.register("sandboxes_live", "Live sandboxes", self.sandboxes_live.clone());
        to.register(
            "sandboxes_ended",
            "Ended sandboxes, by reason",
            self.sandboxes_ended.clone(),
        );
        let help = "Memory used by all sandboxes";
        to.register_with_unit("sandbox_memory", help, Unit::Bytes, self.sandbox_memory.clone());
        to.register("executions", "Executions, by outcome", self.executions.clone());
        let help = "Wall-clock time of executions";
        to.register_with_unit(
            "execution_duration",
            help,
            Unit::Seconds,
            self.execution_seconds.clone(),
        );
        to.register(
            "limits_hit",
            "Limits reached by code or callers",
            self.limits_hit.clone(),
        );
        to.register(
            "denials",
            "Executions and commands that a policy did not let run, by policy and rule",
            self.denials.clone(),
        );
    }

    fn register_tenants(&self, to: &mut Registry) {
        to.register(
            "tenant_sandboxes",
            "Sandboxes created, by tenant",
            self.tenant_sandboxes.clone(),
        );
        to.register(
            "tenant_executions",
            "Executions, by tenant",
            self.tenant_executions.clone(),
        );
        to.register(
            "tenant_cpu_milliseconds",
            "CPU time, by tenant",
            self.tenant_cpu_ms.clone(),
        );
        to.register(
            "tenant_bytes",
            "Bytes transferred, by tenant and direction",
            self.tenant_bytes.clone(),
        );
    }

    fn register_server(&self, to: &mut Registry) {
        to.register("ready", "1 if sandboxes can be created", self.ready.clone());
        to.register(
            "requests",
            "Requests, by method, route and status",
            self.requests.clone(),
        );
        let help = "Time from the request headers to the end of the response";
        to.register_with_unit("request_duration", help, Unit::Seconds, self.request_seconds.clone());
        let help = "Resident memory of the server process";
        to.register_with_unit(
            "process_resident_memory",
            help,
            Unit::Bytes,
            self.process_memory.clone(),
        );
        to.register(
            "process_open_descriptors",
            "Open file descriptors of the server process",
            self.process_descriptors.clone(),
        );
    }
}

/// What the engine's side tells.
impl Metrics {
    pub fn pool_depth(&self, template: &str, tier: Tier, waiting: usize) {
        let labels = PoolLabels {
            template: template.to_owned(),
            tier: tier.as_str(),
        };
        self.0.pool_depth.get_or_create(&labels).set(signed(waiting));
    }

    pub fn claimed(&self, template: &str, tier: Tier, from: ClaimedFrom, took: Duration) {
        let from = match from {
            ClaimedFrom::Pool => "warm",
            ClaimedFrom::Demand => "cold",
        };
        let labels = ClaimLabels {
            template: template.to_owned(),
            tier: tier.as_str(),
            from,
        };
        self.0.claims.get_or_create(&labels).inc();
        self.0.claim_seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub fn create_waited(&self, took: Duration) {
        self.0.create_wait_seconds.observe(took.as_secs_f64());
    }

    pub fn sandbox_ended(&self, reason: EndReason) {
        self.0
            .sandboxes_ended
            .get_or_create(&ReasonLabels {
                reason: reason.as_str(),
            })
            .inc();
    }

    /// Also counts the limit, if the outcome is one.
    pub fn execution_ended(&self, outcome: Outcome, took: Duration) {
        self.0
            .executions
            .get_or_create(&OutcomeLabels {
                outcome: outcome.as_str(),
            })
            .inc();
        self.0.execution_seconds.observe(took.as_secs_f64());
        match outcome {
            Outcome::MemoryLimit => self.limit_hit(LimitHit::Memory),
            Outcome::CpuLimit => self.limit_hit(LimitHit::CpuTime),
            Outcome::Timeout => self.limit_hit(LimitHit::WallTime),
            Outcome::Ok | Outcome::Error | Outcome::Interrupted | Outcome::Crashed | Outcome::Killed => {}
            Outcome::Denied | Outcome::ApprovalDenied | Outcome::ApprovalExpired => {}
        }
    }

    pub fn limit_hit(&self, limit: LimitHit) {
        self.0
            .limits_hit
            .get_or_create(&LimitLabels { limit: limit.as_str() })
            .inc();
    }

    /// The name of the policy is a label of `Policies`.
    pub fn denied(&self, policy: String, rule: &'static str) {
        self.0.denials.get_or_create(&DenialLabels { policy, rule }).inc();
    }

    pub fn sandbox_memory(&self, bytes: u64) {
        self.0.sandbox_memory.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    pub fn tenant_used(&self, tenant: &str, more: Usage) {
        let labels = TenantLabels {
            tenant: tenant.to_owned(),
        };
        self.0.tenant_sandboxes.get_or_create(&labels).inc_by(more.sandboxes);
        self.0.tenant_executions.get_or_create(&labels).inc_by(more.executions);
        self.0.tenant_cpu_ms.get_or_create(&labels).inc_by(more.cpu_ms);
        for (direction, bytes) in [("in", more.bytes_in), ("out", more.bytes_out)] {
            let labels = TenantBytesLabels {
                tenant: tenant.to_owned(),
                direction,
            };
            self.0.tenant_bytes.get_or_create(&labels).inc_by(bytes);
        }
    }
}

/// What the server itself tells.
impl Metrics {
    pub(crate) fn request_ended(&self, method: &'static str, route: &str, status: Option<u16>, took: Duration) {
        let labels = RequestLabels {
            method,
            route: route.to_owned(),
            status: status.map_or_else(|| "aborted".to_owned(), |status| status.to_string()),
        };
        self.0.requests.get_or_create(&labels).inc();
        let labels = RouteLabels {
            route: route.to_owned(),
        };
        self.0
            .request_seconds
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    /// Everything as text, with what is read only when somebody looks.
    pub(crate) fn show(&self, ready: &Readiness, limits: &Limits) -> Result<String, std::fmt::Error> {
        self.0.ready.set(i64::from(ready.now() == Ready::Ready));
        self.0
            .creates_waiting
            .set(i64::try_from(limits.waiting()).unwrap_or(i64::MAX));
        self.0
            .sandboxes_live
            .set(i64::try_from(limits.live()).unwrap_or(i64::MAX));
        self.0.process_memory.set(resident_bytes().unwrap_or(0));
        self.0.process_descriptors.set(open_descriptors());
        let mut text = String::new();
        encode(&mut text, &self.0.registry)?;
        Ok(text)
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn resident_bytes() -> Option<i64> {
    let text = fs_err::read_to_string("/proc/self/statm").ok()?;
    let pages: i64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(i64::try_from(rustix::param::page_size()).ok()?)
}

fn open_descriptors() -> i64 {
    fs_err::read_dir("/proc/self/fd").map_or(0, |entries| signed(entries.count()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    #[test]
    fn every_number_is_shown_under_its_name() {
        let metrics = Metrics::default();
        metrics.pool_depth("python-data", Tier::Jail, 3);
        metrics.claimed("python-data", Tier::Jail, ClaimedFrom::Pool, Duration::from_millis(2));
        metrics.create_waited(Duration::from_secs(2));
        metrics.execution_ended(Outcome::MemoryLimit, Duration::from_millis(5));
        metrics.sandbox_ended(EndReason::ExpiredIdle);
        metrics.denied("strict".to_owned(), "import.module");
        metrics.tenant_used(
            "default",
            Usage {
                cpu_ms: 7,
                bytes_out: 9,
                ..Usage::default()
            },
        );
        metrics.request_ended("other", "/v1/keys", Some(200), Duration::from_millis(1));
        let text = metrics
            .show(&Readiness::default(), &Limits::new(&Settings::default()))
            .unwrap();
        for line in [
            r#"atoll_pool_depth{template="python-data",tier="jail"} 3"#,
            r#"atoll_claims_total{template="python-data",tier="jail",from="warm"} 1"#,
            r#"atoll_claim_duration_seconds_bucket{le="0.0025",template="python-data",tier="jail",from="warm"} 1"#,
            "atoll_creates_waiting 0",
            r#"atoll_create_wait_seconds_bucket{le="2.5"} 1"#,
            r#"atoll_executions_total{outcome="memory_limit"} 1"#,
            r#"atoll_limits_hit_total{limit="memory"} 1"#,
            r#"atoll_sandboxes_ended_total{reason="expired_idle"} 1"#,
            r#"atoll_denials_total{policy="strict",rule="import.module"} 1"#,
            r#"atoll_tenant_cpu_milliseconds_total{tenant="default"} 7"#,
            r#"atoll_tenant_bytes_total{tenant="default",direction="out"} 9"#,
            r#"atoll_requests_total{method="other",route="/v1/keys",status="200"} 1"#,
            "atoll_ready 0",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
