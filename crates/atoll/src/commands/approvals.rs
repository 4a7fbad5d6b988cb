//! `atoll approvals list|show|approve|deny|revoke|fetch`: what policies ask about on a running server, by its API.

mod fetch;

use super::dry_report::report;
use super::sandbox::{read, tenant_query};
use super::template::{print, print_json};
use crate::args::{ApprovalsArgs, ApprovalsCommand};
use crate::client::Server;
use crate::output::{Failure, on_one_line, visible};
use atoll_core::ApprovalId;
use atoll_core::outcome::ExitStatus;
use atoll_server::api::native::{ApprovalList, ApprovalView};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};

pub(crate) fn run(args: ApprovalsArgs) -> Result<ExitStatus, Failure> {
    let server = Server::new(&args.server, args.cacert.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::ours(&error))?;
    let tenant = args.tenant.as_deref().map(tenant_query).unwrap_or_default();
    let at = Place {
        server: &server,
        tenant: &tenant,
    };
    let status = match args.command {
        None => args.status,
        Some(ApprovalsCommand::List { status }) => status.or(args.status),
        Some(ApprovalsCommand::Fetch { id, out }) => {
            let saved = runtime.block_on(at.fetch(&id, out))?;
            return match args.json {
                true => print_json(&json!({"saved": saved})),
                false => print(
                    &saved
                        .iter()
                        .map(|path| format!("saved: {}\n", on_one_line(path)))
                        .collect::<String>(),
                ),
            };
        }
        Some(command) => {
            let shows = matches!(command, ApprovalsCommand::Show { .. });
            let one = runtime.block_on(at.one(command))?;
            return match (args.json, shows) {
                (true, _) => print_json(&one),
                (false, true) => print(&shown(&one)),
                (false, false) => print(&format!("{} is {}\n", visible(&one.id), visible(&one.status))),
            };
        }
    };
    let approvals = runtime.block_on(at.list(status.as_deref()))?;
    match args.json {
        true => print_json(&ApprovalList { approvals, next: None }),
        false => print(&approvals.iter().map(row).collect::<String>()),
    }
}

/// Where, and whose.
struct Place<'a> {
    server: &'a Server,
    tenant: &'a str,
}

impl Place<'_> {
    /// Every page.
    async fn list(&self, status: Option<&str>) -> Result<Vec<ApprovalView>, Failure> {
        let status = utf8_percent_encode(status.unwrap_or("pending"), NON_ALPHANUMERIC).to_string();
        let status = if status == "all" { "" } else { &status };
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/approvals?status={status}{after}{}", self.tenant);
            let page: ApprovalList = read(&self.server.ask(Method::GET, &path).await?)?;
            found.extend(page.approvals);
            let Some(next) = page.next else { return Ok(found) };
            after = format!("&after={next}");
        }
    }

    async fn one(&self, command: ApprovalsCommand) -> Result<ApprovalView, Failure> {
        let (id, verb, body) = match command {
            ApprovalsCommand::Show { id } => (id, "", None),
            ApprovalsCommand::Approve { id, scope } => (id, "/approve", Some(json!({"scope": scope}))),
            ApprovalsCommand::Deny { id, reason } => (id, "/deny", Some(json!({"reason": reason}))),
            ApprovalsCommand::Revoke { id } => (id, "/revoke", Some(Value::Null)),
            // Done before.
            ApprovalsCommand::List { .. } | ApprovalsCommand::Fetch { .. } => {
                return Err(Failure::ours_in_words(
                    "internal error: `list` and `fetch` do not address a single approval",
                ));
            }
        };
        let known = known(&id)?;
        let path = format!("/v1/approvals/{known}{verb}{}", self.tenant.replacen('&', "?", 1));
        read(&match body {
            None => self.server.ask(Method::GET, &path).await?,
            Some(Value::Null) => self.server.ask(Method::POST, &path).await?,
            Some(body) => self.server.tell(Method::POST, &path, &body).await?,
        })
    }
}

fn known(id: &str) -> Result<ApprovalId, Failure> {
    ApprovalId::parse(id).ok_or_else(|| Failure {
        hint: Some("list the ids with `atoll approvals`".to_owned()),
        ..Failure::usage(format!("no such approval: `{}`", visible(id)))
    })
}

fn row(one: &ApprovalView) -> String {
    let asker = one.asked_by.key_name.as_deref().unwrap_or(&one.asked_by.key_id);
    visible(&format!(
        "{} {:<9} {:<10} {} requested {} by {asker}, expires {}\n",
        one.id,
        one.status,
        one.language,
        if one.kind == "outputs" {
            "dry-run files".to_owned()
        } else {
            one.rules.join(",")
        },
        one.created,
        one.expires,
    ))
}

/// Everything that somebody who decides wants to see. The code comes last, each line behind a bar: it cannot pass for ours.
fn shown(one: &ApprovalView) -> String {
    let asker = &one.asked_by;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| text.push_str(&format!("{name:<12} {}\n", on_one_line(value)));
    line("id", &one.id);
    line("kind", &one.kind);
    line("status", &one.status);
    line("created", &one.created);
    line("expires", &one.expires);
    line("tenant", &one.tenant);
    let name = asker.key_name.as_deref().unwrap_or("-");
    line("requester", &format!("{} ({name})", asker.key_id));
    line("sandbox", &one.sandbox_id);
    line("execution", one.execution_id.as_deref().unwrap_or("-"));
    line("policy", &format!("{} {}", one.policy.name, one.policy.digest));
    line("network", &one.network);
    if let Some(limits) = &one.limits {
        line("limits", &json!(limits).to_string());
    }
    for input in &one.inputs {
        let digest = input.sha256.as_deref().unwrap_or("digest unknown");
        line("input", &format!("{} {digest}", input.name));
    }
    for (name, value) in &one.env {
        line("variable", &format!("{name}={value}"));
    }
    for finding in &one.findings {
        let words = format!(
            "{}: line {}, column {}: {} ({})",
            finding.verdict, finding.line, finding.column, finding.message, finding.rule
        );
        line("finding", &words);
    }
    if let Some(answer) = &one.answer {
        let scope = answer.scope.as_deref().unwrap_or("-");
        let reason = answer.reason.as_deref().unwrap_or("-");
        line(
            "decision",
            &format!("by {} at {}, scope {scope}, reason {reason}", answer.by, answer.at),
        );
    }
    line("language", &one.language);
    line("code", &one.code_sha256);
    if let Some(dry_run) = one
        .dry_run
        .as_ref()
        .and_then(|told| serde_json::from_value(json!(told)).ok())
    {
        let told = report(&dry_run, &[]);
        text.extend(told.lines().map(|line| format!("> {line}\n")));
    }
    let code = visible(one.code.as_deref().unwrap_or_default());
    text.extend(code.lines().map(|line| format!("| {line}\n")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_words_of_others_cannot_pass_for_ours() {
        let view = json!({
            "id": "apr_a", "status": "pending", "created": "c", "expires": "e", "tenant": "t",
            "asked_by": {"key_id": "key_a", "key_name": "me\nstatus approved"}, "sandbox_id": "sbx", "execution_id": null, "kind": "code", "dry_run": null,
            "language": "python", "code": "x = 1\x1b[2J\nstatus       approved\n\u{202e}y", "code_sha256": "sha256:0",
            "findings": [], "rules": ["process.shell"], "inputs": [{"name": "a.csv", "sha256": null}], "env": {}, "limits": null,
            "network": "none", "policy": {"name": "guarded", "digest": "sha256:1"}, "answer": null,
        });
        let text = shown(&serde_json::from_value(view).unwrap());
        assert!(text.contains("| status       approved\n| \\u{202e}y\n"), "{text}");
        assert!(
            text.contains("me\\nstatus approved") && !text.contains('\x1b'),
            "{text}"
        );
        assert_eq!(text.lines().filter(|line| line.starts_with("status")).count(), 1);
    }
}
