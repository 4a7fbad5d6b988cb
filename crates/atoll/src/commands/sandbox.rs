//! `atoll sandbox ls|show|kill`: sandboxes of a running server, by its API.

use super::template::{print, print_json};
use crate::args::{SandboxArgs, SandboxCommand};
use crate::client::Server;
use crate::output::{Failure, visible};
use atoll_core::SandboxId;
use atoll_core::outcome::ExitStatus;
use atoll_server::api::native::{SandboxAnswer, SandboxList};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde::de::DeserializeOwned;

pub(crate) fn run(args: SandboxArgs) -> Result<ExitStatus, Failure> {
    let server = Server::new(&args.server, args.cacert.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::ours(&error))?;
    let tenant = args.tenant.as_deref().map(tenant_query).unwrap_or_default();
    match args.command {
        SandboxCommand::Ls { all, json } => {
            let sandboxes = runtime.block_on(list(&server, &tenant, all))?;
            match json {
                true => print_json(&SandboxList { sandboxes, next: None }),
                false => print(&sandboxes.iter().map(row).collect::<String>()),
            }
        }
        SandboxCommand::Show { id, json } => {
            let sandbox = runtime.block_on(one(&server, Method::GET, &id, &tenant))?;
            match json {
                true => print_json(&sandbox),
                false => print(&shown(&sandbox)?),
            }
        }
        SandboxCommand::Kill { id, json } => {
            let sandbox = runtime.block_on(one(&server, Method::DELETE, &id, &tenant))?;
            let reason = sandbox.reason.clone().unwrap_or_default();
            match json {
                true => print_json(&sandbox),
                false => print(&format!("{} has ended: {}\n", visible(&sandbox.id), visible(&reason))),
            }
        }
    }
}

/// Every page.
async fn list(server: &Server, tenant: &str, all: bool) -> Result<Vec<SandboxAnswer>, Failure> {
    let states = if all { "" } else { "running,paused" };
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/sandboxes?state={states}{after}{tenant}");
        let page: SandboxList = read(&server.ask(Method::GET, &path).await?)?;
        found.extend(page.sandboxes);
        let Some(next) = page.next else { return Ok(found) };
        after = format!("&after={next}");
    }
}

/// A name as part of a query: the server says what is wrong with a strange one.
pub(super) fn tenant_query(name: &str) -> String {
    format!("&tenant={}", utf8_percent_encode(name, NON_ALPHANUMERIC))
}

async fn one(server: &Server, method: Method, id: &str, tenant: &str) -> Result<SandboxAnswer, Failure> {
    let known = SandboxId::parse(id).ok_or_else(|| Failure {
        hint: Some("list the ids with `atoll sandbox ls`".to_owned()),
        ..Failure::usage(format!("no such sandbox: `{}`", visible(id)))
    })?;
    let query = tenant.replacen('&', "?", 1);
    read(&server.ask(method, &format!("/v1/sandboxes/{known}{query}")).await?)
}

pub(super) fn read<T: DeserializeOwned>(answer: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(answer)
        .map_err(|error| Failure::ours_in_words(format!("unexpected response from the server: {error}")))
}

fn row(sandbox: &SandboxAnswer) -> String {
    let end = match (&sandbox.reason, &sandbox.ends_at) {
        (Some(reason), _) => format!("ended: {reason}"),
        (None, Some(at)) => format!("ends {at}"),
        (None, None) => String::new(),
    };
    format!(
        "{} {:<8} {:<16} created {} {}\n",
        visible(&sandbox.id),
        visible(&sandbox.state),
        visible(&sandbox.template),
        visible(&sandbox.created),
        visible(&end)
    )
}

fn shown(sandbox: &SandboxAnswer) -> Result<String, Failure> {
    let value = serde_json::to_value(sandbox).map_err(|error| Failure::ours(&error))?;
    let line = |(key, value): (&String, &serde_json::Value)| match value {
        serde_json::Value::String(word) => format!("{key:<16} {}\n", visible(word)),
        serde_json::Value::Null => format!("{key:<16} -\n"),
        other => format!("{key:<16} {}\n", visible(&other.to_string())),
    };
    Ok(value.as_object().into_iter().flatten().map(line).collect())
}
