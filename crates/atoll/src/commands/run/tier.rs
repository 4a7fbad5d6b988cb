//! Which tier a local run is in: what was asked for, what the code needs, what the policy demands and what this host has.

use super::gate::{Passed, nowhere};
use super::request::Request;
use crate::output::Failure;
use atoll_core::execution::{Execution, TierChoice};
use atoll_core::{ExecutionId, Tier};
use atoll_engine::code_policy::{Needs, needs};
use atoll_engine::policy::Policy;
use atoll_engine::routing::{self, Chosen, Facts, Floor, NoTier};
use atoll_engine::template::TemplateStore;
use atoll_engine::{EngineError, TierError, TierSettings, look, microvm_host, missing_tiers, try_out};
use std::collections::BTreeMap;
use std::path::Path;

/// The facts, and what to do with them.
pub(super) struct Choosing {
    asked: Option<Tier>,
    needs: Needs,
    floor: Option<Floor>,
    missing: BTreeMap<Tier, String>,
    settings: TierSettings,
}

/// A tier, or the answer of a policy that does not allow it.
pub(super) type Choice = Result<Chosen, Box<Execution>>;

impl Choosing {
    pub(super) fn new(request: &Request, passed: &Passed, settings: TierSettings) -> Self {
        let policy = request.policy.clone().unwrap_or_else(Policy::standard);
        let (asked, floor) = (request.tier, routing::floor(&policy, &passed.findings));
        let missing = missing_tiers(&settings, |tier| routing::counts(tier, asked, floor.as_ref()));
        Self {
            asked,
            needs: needs_of(request),
            floor,
            missing,
            settings,
        }
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            asked: self.asked,
            needs: &self.needs,
            floor: self.floor.clone(),
            missing: &self.missing,
        }
    }

    pub(super) fn choose(&self, request: &Request, store: &TemplateStore, program: &Path) -> Result<Choice, Failure> {
        let emulated = || {
            let host = microvm_host(store.home(), program, self.settings.microvm_kernel.as_deref());
            host.ok().and_then(|host| host.emulated)
        };
        let missing = routing::missing_for(self.floor.as_ref(), &self.missing, emulated);
        let facts = Facts {
            missing: &missing,
            ..self.facts()
        };
        let chosen = match routing::choose(&facts) {
            Ok(chosen) => chosen,
            Err(no_tier) => return refused(request, &no_tier, &self.settings).map(|refused| Err(Box::new(refused))),
        };
        Ok(Ok(self.before_a_build(chosen, store, program)))
    }

    /// A template is not built for a jail that cannot be: plain code that named no tier does not need one.
    fn before_a_build(&self, chosen: Chosen, store: &TemplateStore, program: &Path) -> Chosen {
        let is_built = store
            .show(super::local::DEFAULT_TEMPLATE)
            .is_ok_and(|shown| shown.info.built);
        if is_built || chosen.tier != Tier::Jail || routing::instead_of_jail(&self.facts(), "").is_none() {
            return chosen;
        }
        match trial(program, store) {
            Err(EngineError::Tier(TierError::NoWall { message, .. })) => {
                self.instead_of_jail(&chosen, &message).unwrap_or(chosen)
            }
            _ => chosen,
        }
    }

    /// Where the code goes if this host turns out not to have what the chosen tier needs.
    pub(super) fn instead(&self, chosen: &Chosen, why: &str) -> Option<Chosen> {
        let reason = format!("{} is not available on this host: {why}", chosen.tier);
        let next = chosen.instead(&reason);
        next.or_else(|| self.instead_of_jail(chosen, why))
    }

    /// Where the code goes if this host cannot build the jail.
    fn instead_of_jail(&self, chosen: &Chosen, why: &str) -> Option<Chosen> {
        let is_jail = chosen.tier == Tier::Jail;
        is_jail.then(|| routing::instead_of_jail(&self.facts(), why)).flatten()
    }

    /// What the result says about it.
    pub(super) fn told(&self, chosen: Chosen, moved_from: Option<Tier>) -> TierChoice {
        TierChoice {
            asked: self.asked,
            reason: chosen.reason,
            moved_from,
        }
    }
}

/// The tier that the code goes to when it turns out to need more.
pub(super) fn moved(tier: Tier, reason: String) -> Chosen {
    Chosen {
        tier,
        reason,
        next: None,
    }
}

fn needs_of(request: &Request) -> Needs {
    let own = request.template.is_some().then_some("the request specifies a template");
    match own.or(request.dry_run.then_some("the request is a dry run")) {
        Some(why) => Needs::More(why.to_owned()),
        None => needs(&request.code, request.language),
    }
}

fn trial(program: &Path, store: &TemplateStore) -> Result<(), EngineError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| EngineError::Tier(TierError::Start(error)))?;
    runtime.block_on(try_out(program, store.home()))
}

fn refused(request: &Request, no_tier: &NoTier, settings: &TierSettings) -> Result<Execution, Failure> {
    let policy = request.policy.clone().unwrap_or_else(Policy::standard);
    match no_tier {
        NoTier::Missing { tier, why } => Err(Failure::no_wall(
            format!("tier `{tier}` is not available on this host: {why}"),
            fix(*tier, settings),
        )),
        NoTier::BelowFloor { asked, .. } => {
            let refusal = no_tier.refusal().ok_or_else(|| {
                Failure::ours_in_words("internal error: the policy refused the tier without a reason")
            })?;
            let id = ExecutionId::from_random(super::random());
            let found = (Vec::new(), policy.digest().to_owned());
            Ok(refusal.into_execution(id, request.language, found, nowhere(*asked)))
        }
    }
}

/// How to make the tier available. A tier that the host has may still be too weak for the policy, which has no fix.
fn fix(tier: Tier, settings: &TierSettings) -> String {
    match look(settings, tier) {
        Err(TierError::NoWall { fix, .. }) => fix,
        _ => "run `atoll doctor` to see which tiers this host supports".to_owned(),
    }
}
