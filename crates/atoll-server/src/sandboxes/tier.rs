//! In which tier a sandbox is made: the engine's choice, with this server's policies and this host's walls.

use super::{Sandboxes, Wish};
use crate::api::{ApiError, ErrorCode};
use crate::auth::Caller;
use atoll_core::Tier;
use atoll_engine::code_policy::{Needs, needs, review};
use atoll_engine::policy::Policy;
use atoll_engine::routing::{Chosen, Facts, NoTier, choose, floor, missing_for};

impl Sandboxes {
    /// The tier of a new sandbox, whose template is built. Where `auto` takes one that is not built, its build begins, and
    /// the code runs in the next tier meanwhile.
    pub(super) fn choose_built(&self, caller: &Caller, policy: &Policy, wish: &Wish) -> Result<Chosen, ApiError> {
        let chosen = self.choose(policy, wish)?;
        let template = wish.template.as_ref().unwrap_or(&self.template);
        let Err(not_built) = self.check_template(caller, template, chosen.tier) else {
            return Ok(chosen);
        };
        let next = chosen.instead(not_built.message()).ok_or(not_built)?;
        self.check_template(caller, template, next.tier)?;
        Ok(next)
    }

    fn choose(&self, policy: &Policy, wish: &Wish) -> Result<Chosen, ApiError> {
        let needs = needs_of(wish);
        let findings = match &wish.code {
            Some((code, language)) if !policy.tiers.rules.is_empty() => review(code, *language, &policy.code).findings,
            _ => Vec::new(),
        };
        let floor = floor(policy, &findings);
        let missing = missing_for(floor.as_ref(), self.node.missing_tiers(), || self.node.emulated());
        let facts = Facts {
            asked: wish.tier,
            needs: &needs,
            floor,
            missing: &missing,
        };
        choose(&facts).map_err(refused)
    }
}

/// Of a sandbox that stays nobody knows what will run in it.
fn needs_of(wish: &Wish) -> Needs {
    let own = wish.template.is_some().then_some("the request specifies a template");
    let more = own.or(wish.dry_run.then_some("the request is a dry run"));
    match (&wish.code, more) {
        (_, Some(why)) => Needs::More(why.to_owned()),
        (Some((code, language)), None) if wish.tier == Some(Tier::Auto) => needs(code, *language),
        (Some(_), None) => Needs::Plain,
        (None, None) => Needs::More("the code that a persistent sandbox will run is not known in advance".to_owned()),
    }
}

fn refused(no_tier: NoTier) -> ApiError {
    match &no_tier {
        NoTier::Missing { tier, why } => {
            let message = format!("tier `{tier}` is not available on this host: {why}");
            ApiError::new(ErrorCode::NoWall, message)
                .hint("run `atoll doctor` on the server to see which tiers its host supports")
        }
        NoTier::BelowFloor { .. } => match no_tier.refusal() {
            Some(refusal) => {
                let error = ApiError::new(ErrorCode::PolicyDenied, refusal.error.value);
                refusal
                    .hint
                    .into_iter()
                    .fold(error, |error, hint| error.hint(hint.instead))
            }
            None => ApiError::internal(),
        },
    }
}
