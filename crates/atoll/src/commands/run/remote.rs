//! `atoll run --server`: the same words in and out, the sandbox on a server.

use super::local::interrupt_on_signals;
use super::request::Request;
use super::{gate, show};
use crate::client::{Event, Events, Server, refused};
use crate::commands::dry_report::report;
use crate::output::{Failure, note, visible};
use crate::printer::{Printer, Stream};
use atoll_core::dry_run::DryRun;
use atoll_core::execution::{Execution, LiveUsage};
use atoll_core::outcome::ExitStatus;
use atoll_engine::policy::{Policy, SHIPPED};
use atoll_engine::{ELSEWHERE, Input, OutDir, SavedFiles, Target, safe_path};
use atoll_server::api::native::ErrorBody;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use reqwest::header::ACCEPT;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Notify;

pub(super) async fn run(
    server: &Server,
    request: &mut Request,
    printer: &Printer,
    interrupt: &Arc<Notify>,
) -> Result<ExitStatus, Failure> {
    let form = form(request).await?;
    interrupt_on_signals(interrupt);
    let path = if request.dry_run {
        "/v1/run?dry_run=true"
    } else {
        "/v1/run"
    };
    let upload = server
        .request(Method::POST, path)
        .header(ACCEPT, "text/event-stream")
        .multipart(form);
    let answer = tokio::select! {
        answer = server.send(upload) => answer?,
        () = interrupt.notified() => return Err(interrupted()),
    };
    let mut run = Run {
        json: request.json,
        printer,
        execution: None,
        saving: Saving::new(request.out.take()),
    };
    let execution = run.follow(server, Events::new(answer), interrupt).await?;
    let (execution, files, out) = run.saving.finish(execution);
    if request.policy.is_some() && !request.json {
        gate::tell(&execution.findings);
    }
    if let Some(dry_run) = execution.dry_run.as_ref().filter(|_| !request.json) {
        printer.print(Stream::Stderr, held(dry_run).into_bytes());
    }
    // What a dry run draws is not saved either.
    let out = out.filter(|_| !request.dry_run);
    Ok(show(request, execution, files, out, printer))
}

/// What was held on the server, and how to get it.
fn held(dry_run: &DryRun) -> String {
    let mut text = report(dry_run, &[]);
    if let Some(id) = dry_run.approval_id.as_deref().map(visible) {
        text.push_str(&format!(
            "held: {id}; to get the files, run `atoll approvals approve {id}` with another key that has the scope approve, then `atoll approvals fetch {id}`\n"
        ));
    }
    text
}

async fn form(request: &Request) -> Result<Form, Failure> {
    let limits = &request.limits;
    let mut words = json!({
        "language": request.language,
        "tier": request.tier,
        "template": request.template,
        "profile": request.profile,
        "env": request.env,
        "raw_results": request.raw_results,
        "policy": request.policy.as_deref().map(policy),
        "limits": {
            "memory_bytes": limits.memory, "cpu_milli": limits.cpus, "wall_ms": limits.wall,
            "cpu_time_ms": limits.cpu_time, "scratch_bytes": limits.scratch, "processes": limits.processes,
            "text_output_bytes": limits.text_output, "rich_output_bytes": limits.rich_output,
        },
    });
    if !request.secrets.is_empty() {
        words["secrets"] = json!(request.secrets.reveal().collect::<BTreeMap<_, _>>());
    }
    let mut form = Form::new()
        .percent_encode_noop()
        .text("request", words.to_string())
        .text("code", request.code.clone());
    for input in &request.inputs {
        let part = part(input).await;
        let part =
            part.map_err(|error| Failure::usage(format!("cannot read input `{}`: {error}", input.path.display())))?;
        form = form.part("file", part);
    }
    Ok(form)
}

/// A file is sent piece by piece: none is in memory as a whole.
async fn part(input: &Input) -> std::io::Result<Part> {
    let file = tokio::fs::File::open(&input.path).await?;
    let size = file.metadata().await?.len();
    Ok(Part::stream_with_length(file, size).file_name(input.name.clone()))
}

/// A shipped policy by its name, so that people see it again; a file as what it decides.
fn policy(policy: &Policy) -> Value {
    match SHIPPED.iter().any(|(name, _)| *name == policy.name) {
        true => json!(policy.name),
        false => policy.to_object(),
    }
}

fn interrupted() -> Failure {
    Failure {
        status: ExitStatus::CodeFailed,
        message: "interrupted before the code started".to_owned(),
        hint: None,
    }
}

struct Run<'a> {
    json: bool,
    printer: &'a Printer,
    /// The path by which the running execution is reached.
    execution: Option<String>,
    saving: Saving,
}

impl Run<'_> {
    async fn follow(&mut self, server: &Server, mut events: Events, interrupt: &Notify) -> Result<Execution, Failure> {
        loop {
            tokio::select! {
                event = events.next() => match event? {
                    Some(event) => if let Some(execution) = self.take(event)? {
                        return Ok(execution);
                    },
                    None => return Err(Failure::ours_in_words("the server closed the connection before the execution finished")),
                },
                () = interrupt.notified() => match &self.execution {
                    None => return Err(interrupted()),
                    // Its end comes as an event; if it has ended meanwhile, there is nothing to interrupt.
                    Some(path) => drop(server.ask(Method::POST, &format!("{path}/interrupt")).await),
                },
            }
        }
    }

    fn take(&mut self, event: Event) -> Result<Option<Execution>, Failure> {
        match event.name.as_str() {
            "started" => {
                let data: Value = event.read()?;
                let word = |name: &str| data[name].as_str().unwrap_or_default();
                let path = format!(
                    "/v1/sandboxes/{}/executions/{}",
                    word("sandbox_id"),
                    word("execution_id")
                );
                self.execution = Some(path);
            }
            "held" => {
                let data: Value = event.read()?;
                let id = visible(data["approval_id"].as_str().unwrap_or_default());
                note(&format!(
                    "waiting for approval: {id}; to approve, run `atoll approvals approve {id}` with another key that has the scope approve\n"
                ));
            }
            "stdout" if !self.json => self.printer.pass(Stream::Stdout, &bytes(&event.read()?)),
            "stderr" if !self.json => self.printer.pass(Stream::Stderr, &bytes(&event.read()?)),
            // Advice only: a server of another version may tell something else.
            "usage" => {
                if let Ok(usage) = event.read::<LiveUsage>() {
                    self.printer.status(&usage);
                }
            }
            "file" => self.saving.take(&event.read()?),
            "end" => return event.read().map(Some),
            "error" => {
                let body: ErrorBody = event.read()?;
                return Err(refused(body));
            }
            _ => {}
        }
        Ok(None)
    }
}

/// What is no text comes as bytes as well.
fn bytes(data: &Value) -> Vec<u8> {
    let raw = data["base64"].as_str().and_then(|raw| STANDARD.decode(raw).ok());
    raw.unwrap_or_else(|| data["text"].as_str().unwrap_or_default().as_bytes().to_vec())
}

/// Output files on their way to disk. One that cannot be saved does not hold the others.
struct Saving {
    out: Option<OutDir>,
    open: Option<Result<Target, String>>,
    saved: HashMap<String, PathBuf>,
    failed: HashMap<String, String>,
}

impl Saving {
    fn new(out: Option<OutDir>) -> Self {
        Self {
            out,
            open: None,
            saved: HashMap::new(),
            failed: HashMap::new(),
        }
    }

    fn take(&mut self, piece: &Value) {
        let path = piece["path"].as_str().unwrap_or_default();
        let mut open = match self.open.take() {
            Some(open) if piece["offset"] != 0 => open,
            _ => self.begin(path),
        };
        let content = STANDARD
            .decode(piece["content"].as_str().unwrap_or_default())
            .unwrap_or_default();
        if let Err(error) = open.as_mut().map_or(Ok(()), |target| target.write(&content)) {
            open = Err(error.to_string());
        }
        match piece["last"].as_bool() {
            Some(false) => self.open = Some(open),
            _ => self.end(path, open),
        }
    }

    /// Names come from a sandbox: nothing is written outside of the directory.
    fn begin(&mut self, path: &str) -> Result<Target, String> {
        let name = safe_path(path.strip_prefix("/data/output/").unwrap_or(path));
        let name = name.ok_or_else(|| "the name is not a valid relative path".to_owned())?;
        let out = self.out.as_mut().ok_or_else(|| "no output directory".to_owned())?;
        out.begin(&name).map_err(|error| error.to_string())
    }

    fn end(&mut self, path: &str, open: Result<Target, String>) {
        let done = open.and_then(|target| match &mut self.out {
            Some(out) => out.finish(&target).map_err(|error| error.to_string()),
            None => Err("no output directory".to_owned()),
        });
        match done {
            Ok(place) => drop(self.saved.insert(path.to_owned(), place)),
            Err(why) => drop(self.failed.insert(path.to_owned(), why)),
        }
    }

    /// The same facts that a local run has.
    fn finish(mut self, mut execution: Execution) -> (Execution, SavedFiles, Option<OutDir>) {
        let short = |path: &str| path.strip_prefix("/data/output/").unwrap_or(path).to_owned();
        let left_out = &execution.left_out;
        let (elsewhere, skipped): (Vec<_>, Vec<_>) = left_out.files.iter().partition(|file| file.why == ELSEWHERE);
        let skipped = skipped.iter();
        let mut files = SavedFiles {
            unseen: left_out.count.saturating_sub(left_out.files.len() as u64),
            skipped: skipped.map(|file| (short(&file.path), file.why.clone())).collect(),
            elsewhere: elsewhere.iter().map(|file| file.path.clone()).collect(),
            ..SavedFiles::default()
        };
        for file in &mut execution.files {
            if let Some(place) = self.saved.remove(&file.path) {
                file.saved = Some(place.to_string_lossy().into_owned());
                files.saved.push(place);
            } else if let Some(why) = self.failed.remove(&file.path) {
                let name = short(&file.path);
                files
                    .problem
                    .get_or_insert(format!("cannot save output file `{name}`: {why}"));
                files.skipped.push((name, why.to_string()));
            }
        }
        (execution, files, self.out)
    }
}
