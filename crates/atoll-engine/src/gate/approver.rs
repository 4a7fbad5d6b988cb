//! Who is asked when a policy asks: a way to somebody, which the caller brings. The engine holds what is asked about meanwhile.

use super::{Decision, Judged, Refusal};
use crate::audit::{Actor, Digest};
use crate::backend::TierError;
use crate::control::Control;
use crate::engine::EngineError;
use crate::policy::Policy;
use crate::sandbox::Walled;
use atoll_core::{ExecutionId, Finding, Language, Limits, Outcome, SandboxId};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::Pin;

/// What somebody is to decide about.
#[derive(Debug)]
pub struct Question<'a> {
    /// Who asks.
    pub by: &'a Actor,
    pub sandbox: &'a SandboxId,
    /// Absent: it is a command.
    pub execution: Option<&'a ExecutionId>,
    pub language: Language,
    pub code: &'a str,
    pub findings: &'a [Finding],
    pub policy: &'a Policy,
    pub limits: &'a Limits,
    pub inputs: Vec<InputFact>,
    /// Variables that the code is given, without secrets.
    pub env: BTreeMap<String, String>,
}

/// An input file as it was when the sandbox was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFact {
    pub name: String,
    /// Known a moment after the sandbox was made, and not of very large files.
    pub sha256: Option<Digest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Approved {
        by: String,
    },
    Denied {
        by: String,
        reason: Option<String>,
    },
    Expired,
    /// Nobody was asked, and why, if there is more to say than that.
    Nobody(Option<String>),
}

/// Hears the name of the question as soon as it waits for its answer.
pub type Held<'a> = &'a mut (dyn FnMut(&str) + Send);

pub type Asking<'a> = Pin<Box<dyn Future<Output = Result<Answer, EngineError>> + Send + 'a>>;

/// A way to somebody who answers. Dropping the future takes the question back.
pub trait Approver: Debug + Send + Sync {
    fn ask<'a>(&'a self, question: Question<'a>, held: Held<'a>) -> Asking<'a>;
}

/// What the gate and those who were asked have decided.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) findings: Vec<Finding>,
    pub(crate) policy: String,
    /// In place of the execution.
    pub(crate) refusal: Option<Refusal>,
    pub(crate) approver: Option<String>,
}

impl Settled {
    fn new(judged: Judged, refusal: Option<Refusal>, approver: Option<String>) -> Self {
        Self {
            findings: judged.findings,
            policy: judged.policy,
            refusal,
            approver,
        }
    }
}

/// What is asked about, as far as the sandbox does not know it itself.
pub(crate) struct Asked<'a> {
    pub(crate) by: &'a Actor,
    pub(crate) execution: Option<&'a ExecutionId>,
    pub(crate) language: Language,
    pub(crate) code: &'a str,
    pub(crate) policy: &'a Policy,
    pub(crate) limits: &'a Limits,
    /// Besides the sandbox's own.
    pub(crate) env: &'a BTreeMap<String, String>,
    /// The reins by which it is given up while it waits.
    pub(crate) control: Option<&'a Control>,
}

impl Walled {
    /// Holds what the policy asks about until somebody answers. It is given up when it is interrupted, or the sandbox ends.
    pub(crate) async fn settle(
        &self,
        asked: Asked<'_>,
        judged: Judged,
        held: Held<'_>,
    ) -> Result<Settled, EngineError> {
        let refusal = match &judged.decision {
            Decision::Run => return Ok(Settled::new(judged, None, None)),
            Decision::Refuse(refusal) => Some(refusal.clone()),
            Decision::Ask(refusal) if self.approver.is_none() => Some(refusal.clone()),
            Decision::Ask(refusal) => self.secret_in(asked.code).map(|secret| refusal.clone().unseen(&secret)),
        };
        let (Decision::Ask(question), Some(approver), None) = (&judged.decision, &self.approver, &refusal) else {
            return Ok(Settled::new(judged, refusal, None));
        };
        let interrupted = async {
            match asked.control {
                Some(control) => control.interrupted().await,
                None => std::future::pending().await,
            }
        };
        let asking = async { approver.ask(self.question(&asked, &judged.findings).await, held).await };
        let answer = tokio::select! {
            answer = asking => answer?,
            () = interrupted => return Err(EngineError::Interrupted),
            () = self.ended() => return Err(TierError::Over.into()),
        };
        let (refusal, approver) = match answer {
            Answer::Approved { by } => (None, Some(by)),
            Answer::Denied { by, reason } => (Some(question.clone().denied(reason)), Some(by)),
            Answer::Expired => (Some(question.clone().expired()), None),
            Answer::Nobody(why) => (Some(question.clone().with_nobody(why)), None),
        };
        Ok(Settled::new(judged, refusal, approver))
    }

    async fn question<'a>(&'a self, asked: &Asked<'a>, findings: &'a [Finding]) -> Question<'a> {
        Question {
            by: asked.by,
            sandbox: self.id(),
            execution: asked.execution,
            language: asked.language,
            code: asked.code,
            findings,
            policy: asked.policy,
            limits: asked.limits,
            inputs: self.input_facts().await,
            env: self.variables_told(asked.env),
        }
    }
}

impl Refusal {
    /// Somebody was asked and has said no.
    fn denied(mut self, reason: Option<String>) -> Self {
        let instead = match reason {
            Some(reason) => format!("an approver denied the request: {reason}"),
            None => "an approver denied the request without giving a reason".to_owned(),
        };
        self.say("ApprovalDenied", Outcome::ApprovalDenied, instead);
        self
    }

    /// The user was asked on the terminal and has said no.
    #[must_use]
    pub fn declined(mut self) -> Self {
        let instead = "not run: you answered no".to_owned();
        self.say("ApprovalDenied", Outcome::ApprovalDenied, instead);
        self
    }

    /// The user could not be asked: the command has no terminal.
    #[must_use]
    pub fn without_terminal(mut self) -> Self {
        if let Some(hint) = &mut self.hint {
            hint.instead.push_str("; run it on a terminal to be asked");
        }
        self
    }

    fn expired(mut self) -> Self {
        let instead = "no approver decided within the time limit; submit the code again, or rewrite the code so that the rule does not apply";
        self.say("ApprovalExpired", Outcome::ApprovalExpired, instead.to_owned());
        self
    }

    /// Who is to say yes must see what runs, and nobody is shown a secret. So a secret cannot hide code.
    fn unseen(self, secret: &str) -> Self {
        let why = format!(
            "approval is not possible: the code contains the value of the secret `{secret}`; read it from the environment"
        );
        self.with_nobody(Some(why))
    }

    fn with_nobody(mut self, why: Option<String>) -> Self {
        if let Some(why) = why {
            self.say("ApprovalDenied", Outcome::ApprovalDenied, why);
        }
        self
    }

    fn say(&mut self, name: &str, outcome: Outcome, instead: String) {
        self.outcome = outcome;
        name.clone_into(&mut self.error.name);
        self.error.value = format!("{}; {instead}", self.error.value);
        if let Some(hint) = &mut self.hint {
            hint.instead = instead;
        }
    }
}
