//! One dispatch in the log: what is known before it begins, and what is known after it. An entry that is dropped without an
//! end was given up.

use super::action::{Action, Ending};
use super::digest::Digest;
use super::log::AuditLog;
use super::output::RecordedOutput;
use super::record::{Actor, Behind, Closed, FileFact, FindingFact, KeyFact, Opened, Secrets, Traffic};
use crate::gate::{PassedCommand, RefusedCommand};
use atoll_core::execution::{Execution, Hint, OutputFile, Receipt, Usage};
use atoll_core::{ExecutionId, Finding, SandboxId};
use atoll_guard::redact::Redactor;
use std::borrow::Cow;
use std::sync::Arc;

/// Kept of a long code; its digest covers all of it.
const MAX_CODE: usize = 128 << 10;
/// Kept of one path, before its digest.
const MAX_PATH: usize = 256;
/// Kept of an error, before its digest. Errors of file calls contain the path.
const MAX_ERROR: usize = 512;
/// Kept of one word of a command, of the name of a rule.
const MAX_TEXT: usize = 4 << 10;
/// Kept of names or words together.
const MAX_TEXTS: usize = 32 << 10;
const MAX_FILES: usize = 1024;
const MAX_FINDINGS: usize = 256;

/// What is known before the action starts.
#[derive(Clone, Debug)]
pub struct Opening<'a> {
    pub action: Action,
    pub actor: &'a Actor,
    pub sandbox: Option<SandboxId>,
    pub execution: Option<ExecutionId>,
    pub language: Option<String>,
    pub template: Option<String>,
    pub code: Option<&'a str>,
    pub port: Option<u16>,
    pub paths: Vec<String>,
    pub command: Vec<String>,
    pub behind: Behind,
    /// Takes secrets out of all texts of the entry, also of its end. Digests are of what they say.
    pub hides: Option<Arc<Redactor>>,
}

impl<'a> Opening<'a> {
    pub fn new(action: Action, actor: &'a Actor) -> Self {
        Self {
            action,
            actor,
            sandbox: None,
            execution: None,
            language: None,
            template: None,
            code: None,
            port: None,
            paths: Vec::new(),
            command: Vec::new(),
            behind: Behind::default(),
            hides: None,
        }
    }

    pub fn within(mut self, sandbox: &SandboxId) -> Self {
        self.sandbox = Some(sandbox.clone());
        self
    }

    pub fn at(mut self, path: &str) -> Self {
        self.paths.push(path.to_owned());
        self
    }

    pub(super) fn split(mut self, keeps_code: bool) -> (Opened, Secrets) {
        let mut code = self.code.filter(|_| keeps_code).map(Cow::Borrowed);
        if let Some(hides) = &self.hides {
            code = code.map(|code| Cow::Owned(hides.text(&code).into_owned()));
            hides.lines(&mut self.paths);
            hides.lines(&mut self.command);
        }
        let secrets = Secrets {
            address: self.actor.address.clone(),
            key_name: self.actor.key_name.as_deref().map(|name| cut(name, MAX_TEXT)),
            code: code.map(|code| cut(&code, MAX_CODE)),
            paths: bounded(self.paths, |path| shortened(path, MAX_PATH)),
            command: bounded(self.command, |word| cut(word, MAX_TEXT)),
            error: None,
            output: None,
        };
        let opened = Opened {
            action: self.action,
            actor: self.actor.clone(),
            sandbox: self.sandbox,
            execution: self.execution,
            language: self.language,
            template: self.template,
            code: self.code.map(|code| Digest::of(code.as_bytes())),
            port: self.port,
            late: None,
            uid: self.actor.uid,
            attack: self.actor.attack,
            tier: self.behind.tier,
            policy: self.behind.policy,
        };
        (opened, secrets)
    }
}

/// What is known after it.
#[derive(Clone, Debug)]
pub struct Closing {
    pub outcome: Ending,
    pub sandbox: Option<SandboxId>,
    pub inputs: Vec<FileFact>,
    pub outputs: Vec<FileFact>,
    pub paths: Vec<String>,
    pub findings: Vec<FindingFact>,
    /// Of the policy, and who was asked.
    pub verdict: Option<String>,
    pub approver: Option<String>,
    pub usage: Option<Usage>,
    pub receipt: Option<Receipt>,
    pub reason: Option<String>,
    pub error: Option<String>,
    pub traffic: Option<Traffic>,
    pub about_key: Option<KeyFact>,
    pub behind: Behind,
    /// Of an execution, without secrets.
    pub output: Option<Box<RecordedOutput>>,
}

impl Closing {
    pub fn of(outcome: Ending) -> Self {
        Self {
            outcome,
            sandbox: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            paths: Vec::new(),
            findings: Vec::new(),
            verdict: None,
            approver: None,
            usage: None,
            receipt: None,
            reason: None,
            error: None,
            traffic: None,
            about_key: None,
            behind: Behind::default(),
            output: None,
        }
    }

    /// What was refused or went wrong on our side.
    pub fn failed(error: &dyn std::error::Error) -> Self {
        Self {
            error: Some(error.to_string()),
            ..Self::of(Ending::Failed)
        }
    }

    pub fn of_execution(execution: &Execution) -> Self {
        Self {
            usage: Some(execution.usage),
            receipt: Some(execution.receipt.clone()),
            ..Self::judged(execution.outcome.into(), &execution.findings, execution.hint.as_ref())
        }
    }

    /// A command that its policy did not let start.
    pub fn of_refused(refused: &RefusedCommand) -> Self {
        let RefusedCommand { refusal, findings, .. } = refused;
        Self {
            approver: refused.approver.clone(),
            ..Self::judged(refusal.outcome.into(), findings, refusal.hint.as_ref())
        }
    }

    /// A command that has ended.
    pub fn of_command(outcome: Ending, passed: PassedCommand) -> Self {
        Self {
            approver: passed.approver,
            ..Self::judged(outcome, &passed.findings, None)
        }
    }

    fn judged(outcome: Ending, findings: &[Finding], hint: Option<&Hint>) -> Self {
        let fact = |finding: &Finding| FindingFact {
            rule: cut(&finding.rule, MAX_TEXT),
            severity: finding.severity.as_str().to_owned(),
            line: finding.line,
        };
        let strictest = findings.iter().map(|finding| finding.verdict).max();
        Self {
            verdict: strictest.map(|verdict| verdict.as_str().to_owned()),
            findings: findings.iter().take(MAX_FINDINGS).map(fact).collect(),
            reason: hint.map(|hint| cut(&hint.rule, MAX_TEXT)),
            ..Self::of(outcome)
        }
    }

    /// Files that came out.
    pub fn with_files(mut self, files: &[OutputFile]) -> Self {
        let fact = |file: &OutputFile| FileFact {
            size: file.size,
            sha256: Digest::parse(&file.sha256),
        };
        self.outputs = files.iter().take(MAX_FILES).map(fact).collect();
        self.paths = files.iter().map(|file| file.path.clone()).collect();
        self
    }

    pub(super) fn hidden_by(mut self, hides: Option<&Redactor>) -> Self {
        if let Some(hides) = hides {
            hides.lines(&mut self.paths);
            for text in self.error.iter_mut().chain(&mut self.reason) {
                hides.hide(text);
            }
        }
        self
    }

    pub(super) fn split(self, entry: u64) -> (Box<Closed>, Secrets) {
        let secrets = Secrets {
            paths: bounded(self.paths, |path| shortened(path, MAX_PATH)),
            error: self.error.map(|error| shortened(&error, MAX_ERROR)),
            output: self.output,
            ..Secrets::default()
        };
        let facts = self.receipt;
        let closed = Closed {
            entry,
            outcome: self.outcome,
            sandbox: self.sandbox,
            inputs: self.inputs,
            outputs: self.outputs,
            findings: self.findings,
            verdict: self.verdict,
            approver: self.approver,
            usage: self.usage,
            receipt: facts.as_ref().map(digest_of),
            facts,
            reason: self.reason,
            traffic: self.traffic,
            about_key: self.about_key,
            tier: self.behind.tier,
            policy: self.behind.policy,
        };
        (Box::new(closed), secrets)
    }
}

fn digest_of(receipt: &Receipt) -> Digest {
    Digest::of(&serde_json::to_vec(receipt).unwrap_or_default())
}

/// The first bytes of a text, whole characters only.
pub(super) fn cut(text: &str, most: usize) -> String {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}

/// A short text as it is; of a long one its beginning and the digest of the whole, by which it can be recognised.
fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}… sha256:{}", cut(text, most), Digest::of(text.as_bytes()))
}

pub(super) fn bounded(texts: Vec<String>, shorten: impl Fn(&str) -> String) -> Vec<String> {
    let mut left = MAX_TEXTS;
    let mut kept = Vec::new();
    for text in texts {
        let text = shorten(&text);
        if text.len() + 1 > left {
            break;
        }
        left -= text.len() + 1;
        kept.push(text);
    }
    kept
}

/// Something that is being done. It is in the log already.
#[derive(Debug)]
pub struct Entry {
    log: Arc<AuditLog>,
    pub seq: u64,
    hides: Option<Arc<Redactor>>,
    closed: bool,
}

impl Entry {
    pub(super) fn new(log: Arc<AuditLog>, seq: u64, hides: Option<Arc<Redactor>>) -> Self {
        Self {
            log,
            seq,
            hides,
            closed: false,
        }
    }

    /// Waits for the lock of the log.
    pub fn close(mut self, closing: Closing) {
        self.closed = true;
        self.log.finish(self.seq, closing.hidden_by(self.hides.as_deref()));
    }

    /// Does not wait. A log that is given back has something to catch up with.
    pub fn close_soon(mut self, closing: Closing) -> Option<Arc<AuditLog>> {
        self.closed = true;
        let is_late = self.log.finish_soon(self.seq, closing.hidden_by(self.hides.as_deref()));
        is_late.then(|| Arc::clone(&self.log))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.closed {
            self.log.finish(self.seq, Closing::of(Ending::Abandoned));
        }
    }
}
