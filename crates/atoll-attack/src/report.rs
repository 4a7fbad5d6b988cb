//! What an attack found, for people (Markdown) and for programs (JSON).

use crate::bench::Bench;
use crate::here::Here;
use crate::verdict::{Finding, Verdict};
use atoll_core::execution::Receipt;
use atoll_core::outcome::ExitStatus;
use atoll_engine::HostFacts;
use serde::Serialize;
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub date: String,
    pub version: &'static str,
    pub seconds: u64,
    pub tier: &'static str,
    pub host: HostReport,
    pub template: TemplateReport,
    pub summary: Summary,
    pub findings: Vec<Finding>,
    /// Of an ordinary execution of the same install.
    pub receipt: Receipt,
}

#[derive(Clone, Debug, Serialize)]
pub struct TemplateReport {
    pub name: String,
    pub digest: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct HostReport {
    pub kernel: String,
    pub architecture: &'static str,
    pub user: u32,
    pub mode: &'static str,
    pub cgroups: String,
    pub landlock_abi: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub contained: usize,
    pub breached: usize,
    pub inconclusive: usize,
}

impl HostReport {
    pub(crate) fn of(facts: &HostFacts) -> Self {
        let user = rustix::process::geteuid();
        Self {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            architecture: std::env::consts::ARCH,
            user: user.as_raw(),
            mode: if user.is_root() { "root" } else { "rootless" },
            cgroups: facts.cgroups.clone(),
            landlock_abi: facts.landlock_abi,
        }
    }

    pub(crate) fn here(&self) -> Here {
        Here {
            rootless: self.mode == "rootless",
            cgroups: self.cgroups != "none",
        }
    }
}

impl Summary {
    fn of(findings: &[Finding]) -> Self {
        let count = |verdict: Verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
        Self {
            contained: count(Verdict::Contained),
            breached: count(Verdict::Breached),
            inconclusive: count(Verdict::Inconclusive),
        }
    }

    /// The line that everybody reads.
    pub fn in_words(self) -> String {
        let Self {
            contained,
            breached,
            inconclusive,
        } = self;
        let meaning = match (breached, inconclusive) {
            (0, 0) => "all probes were contained",
            (0, _) => "inconclusive probes do not count as passed",
            (_, _) => "isolation is broken: do not run untrusted code on this host",
        };
        format!("{contained} contained, {breached} breached, {inconclusive} inconclusive: {meaning}")
    }

    /// A breach is a wall that is not there. What was not shown is no pass.
    pub fn exit_status(self) -> ExitStatus {
        match (self.breached, self.inconclusive) {
            (0, 0) => ExitStatus::Ok,
            (0, _) => ExitStatus::CodeFailed,
            (_, _) => ExitStatus::NoWall,
        }
    }
}

impl Report {
    pub fn new(bench: &Bench, host: HostReport, receipt: Receipt, findings: Vec<Finding>, took: Duration) -> Self {
        Self {
            date: OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION"),
            seconds: took.as_secs(),
            tier: bench.config.tier.as_str(),
            host,
            template: TemplateReport {
                name: bench.template.name.clone(),
                digest: bench.template.digest.clone(),
            },
            summary: Summary::of(&findings),
            findings,
            receipt,
        }
    }

    /// The whole report for people: facts of the host, a table, and the evidence of each probe.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "# Attack on the `{}` tier\n\n{}.\n\n",
            self.tier,
            self.summary.in_words()
        );
        for (name, value) in self.facts() {
            text.push_str(&format!("- {name}: {value}\n"));
        }
        text.push_str("\n| Probe | Verdict | Claim |\n|---|---|---|\n");
        for finding in &self.findings {
            let verdict = match finding.verdict {
                Verdict::Contained => "contained".to_owned(),
                other => format!("**{}**", other.as_str()),
            };
            text.push_str(&format!("| {} | {verdict} | {} |\n", finding.id, finding.claim));
        }
        text.push_str("\n## Evidence\n");
        self.findings
            .iter()
            .for_each(|finding| text.push_str(&finding.markdown()));
        let receipt = serde_json::to_string_pretty(&self.receipt).unwrap_or_default();
        text.push_str(&format!(
            "\n## Receipt of an ordinary execution\n\n```json\n{receipt}\n```\n"
        ));
        text
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let host = &self.host;
        vec![
            ("date", self.date.clone()),
            ("Atoll", self.version.to_owned()),
            ("kernel", format!("{} {}", host.kernel, host.architecture)),
            ("user", format!("{} ({})", host.user, host.mode)),
            ("cgroups", host.cgroups.clone()),
            ("Landlock ABI", host.landlock_abi.to_string()),
            ("template", format!("{} {}", self.template.name, self.template.digest)),
            ("duration", format!("{} s", self.seconds)),
        ]
    }
}

impl Finding {
    fn markdown(&self) -> String {
        let mut text = format!("\n### {} {}: {}\n\n", self.id, self.verdict.as_str(), self.claim);
        for (name, lines) in [("why", &self.why), ("seen", &self.seen), ("control", &self.control)] {
            lines
                .iter()
                .for_each(|line| text.push_str(&format!("- {name}: {}\n", one_line(line))));
        }
        text
    }
}

/// Evidence may hold words that a sandbox has made: one line, no mark-up of its own.
fn one_line(text: &str) -> String {
    let text = text.chars().flat_map(|c| match c.is_control() {
        true => c.escape_default().collect::<Vec<_>>(),
        false => vec![c],
    });
    text.collect::<String>().replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(contained: usize, breached: usize, inconclusive: usize) -> Summary {
        Summary {
            contained,
            breached,
            inconclusive,
        }
    }

    #[test]
    fn only_a_whole_containment_is_a_pass() {
        assert_eq!(summary(9, 0, 0).exit_status(), ExitStatus::Ok);
        assert_eq!(summary(9, 0, 1).exit_status(), ExitStatus::CodeFailed);
        assert_eq!(summary(9, 1, 1).exit_status(), ExitStatus::NoWall);
        assert!(
            summary(9, 0, 1)
                .in_words()
                .contains("inconclusive probes do not count as passed")
        );
    }

    #[test]
    fn evidence_cannot_break_out_of_its_line() {
        assert_eq!(one_line("a\n# b <img>\u{1b}[2J"), "a\\n# b &lt;img>\\u{1b}[2J");
    }
}
