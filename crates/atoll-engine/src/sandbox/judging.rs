//! What the policy, and somebody whom it asks, say to code and commands of a sandbox.

use super::{Request, Walled};
use crate::audit::Actor;
use crate::contexts::Slot;
use crate::engine::EngineError;
use crate::execute::Output;
use crate::gate::{self, Asked, Decision, InputFact, PassedCommand, Place, Refusal, RefusedCommand, Settled};
use crate::inside::CommandSpec;
use crate::policy::Policy;
use crate::routing::Seen;
use atoll_core::{Execution, ExecutionId, Finding, Language};
use std::sync::Arc;
use std::time::Duration;

/// Who is asked waits so long for the digests of large inputs, and then does without.
const DIGESTS_WITHIN: Duration = Duration::from_secs(5);

impl Walled {
    /// What a call is held against.
    fn policy_with(&self, call: Option<&Policy>) -> Arc<Policy> {
        call.map_or_else(|| Arc::clone(&self.policy), |call| Arc::new(self.policy.tighten(call)))
    }

    /// Whether the policy, or somebody whom it asks, lets a command start.
    pub(crate) async fn pass_command(&self, by: &Actor, spec: &CommandSpec) -> Result<PassedCommand, EngineError> {
        let (script, mut judged) = gate::judge_command(spec, &self.policy).await;
        judged.keep_floor(&self.policy, gate::seen(spec), (self.tier(), &self.guests));
        self.hides().iter().for_each(|hides| judged.hide(hides));
        let asked = Asked {
            by,
            execution: None,
            language: Language::Bash,
            code: &script,
            policy: &self.policy,
            limits: &self.limits,
            env: &spec.env,
            control: None,
        };
        let settled = self.settle(asked, judged, &mut |_| {}).await?;
        let (findings, approver) = (settled.findings, settled.approver);
        match settled.refusal {
            None => Ok(PassedCommand { findings, approver }),
            Some(refusal) => Err(EngineError::Policy(Box::new(RefusedCommand {
                refusal,
                findings,
                approver,
            }))),
        }
    }

    /// The input files with their digests, which are read since the sandbox was made.
    pub(crate) async fn input_facts(&self) -> Vec<InputFact> {
        let mut told = self.input_digests.subscribe();
        let read = async {
            let facts = told.wait_for(Option::is_some).await;
            facts.ok().and_then(|facts| facts.clone()).unwrap_or_default()
        };
        let facts = match self.inputs.is_empty() {
            true => Vec::new(),
            false => tokio::time::timeout(DIGESTS_WITHIN, read).await.unwrap_or_default(),
        };
        let fact = |(at, name): (usize, &String)| InputFact {
            name: name.clone(),
            sha256: facts.get(at).and_then(|fact| fact.sha256),
        };
        self.inputs.iter().enumerate().map(fact).collect()
    }

    /// What the policy, and somebody whom it asks, say to the code. Its context is not touched meanwhile.
    pub(super) async fn judged(
        &self,
        by: &Actor,
        slot: &Slot,
        request: &Request<'_>,
        sink: &mut (dyn FnMut(Output<'_>) + Send),
    ) -> Result<Settled, EngineError> {
        let policy = self.policy_with(request.policy.as_deref());
        let mut judged = gate::judge_aside(request.code, slot.language, &policy, self.once).await;
        let approved = request.approved && matches!(judged.decision, Decision::Ask(_));
        if approved {
            judged.decision = Decision::Run;
        }
        judged.keep_floor(&policy, Seen::Whole, (self.tier(), &self.guests));
        judged.keep_from(&policy, self.tier(), self.policy.tiers.wasm.gives());
        self.hides().iter().for_each(|hides| judged.hide(hides));
        let asked = Asked {
            by,
            execution: Some(&request.id),
            language: slot.language,
            code: request.code,
            policy: &policy,
            limits: request.limits.as_ref().unwrap_or(&self.limits),
            env: &request.env,
            control: Some(&request.control),
        };
        let mut settled = self.settle(asked, judged, &mut |id| sink(Output::Held(id))).await?;
        if approved {
            settled.approver = by.key.clone().or_else(|| Some(by.tenant.clone()));
        }
        Ok(settled)
    }

    /// The answer in place of an execution.
    pub(super) fn refused(
        &self,
        slot: &Slot,
        id: ExecutionId,
        refusal: Refusal,
        settled: (Vec<Finding>, String),
    ) -> Execution {
        let place = Place {
            sandbox: Some(self.id.clone()),
            context: Some(slot.id.clone()),
            template: Some(self.template_digest.clone()),
            tier: self.bare.tier,
        };
        refusal.into_execution(id, slot.language, settled, place)
    }
}
