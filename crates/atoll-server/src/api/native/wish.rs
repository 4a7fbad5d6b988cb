//! From words to a sandbox that is wanted: language, tier, template, profile and limits, checked as `atoll run` checks them.

use super::wire::{LimitsRequest, SecretValues};
use crate::api::object::Object;
use crate::api::{ApiError, AppState};
use crate::sandboxes::Wish;
use atoll_core::{Language, Limits, ProfileName, Tier};
use atoll_engine::session::Rule;
use atoll_engine::{Secrets, secrets_of, with_secrets};
use std::collections::BTreeMap;

/// In what a sandbox is made.
#[derive(Debug)]
pub(super) struct Place {
    tier: Option<Tier>,
    template: Option<String>,
    limits: Limits,
}

impl Place {
    pub(super) fn of(
        state: &AppState,
        tier: Option<String>,
        template: Option<String>,
        profile: Option<String>,
        limits: Option<Object<LimitsRequest>>,
    ) -> Result<Self, ApiError> {
        let tier = tier.as_deref().map(str::parse).transpose()?;
        let most = state.settings.max_profile;
        let profile = profile
            .as_deref()
            .map_or(Ok(state.settings.profile), str::parse::<ProfileName>)?;
        if profile > most {
            let message = format!("profile too large: requested `{profile}`, this server allows at most `{most}`");
            return Err(
                ApiError::invalid(message).hint("the operator can raise the maximum with the setting max_profile")
            );
        }
        let limits = limits.unwrap_or_default().0.over(Limits::of(profile), most)?;
        Ok(Self { tier, template, limits })
    }

    /// With the server's idle time and no end of its own.
    pub(super) fn wish(self, state: &AppState, (env, secrets): Variables) -> Wish {
        Wish {
            tier: self.tier,
            code: None,
            template: self.template,
            limits: self.limits,
            env,
            secrets,
            inputs: Vec::new(),
            metadata: BTreeMap::new(),
            rule: Rule::Idle(state.settings.lifetime.idle.duration()),
            longest: None,
            pause_at_end: false,
            marks: BTreeMap::new(),
            max_executions: None,
            once: false,
            dry_run: false,
            policy: None,
            snapshot: None,
        }
    }
}

pub(super) fn language(word: Option<&str>) -> Result<Language, ApiError> {
    let language = word.map_or(Ok(Language::Python), Language::read)?;
    match language {
        Language::Python | Language::Javascript | Language::Typescript | Language::Bash => Ok(language),
        Language::R => Err(ApiError::invalid("language `r` is not supported yet")),
    }
}

pub(super) fn checked_code(code: Option<String>) -> Result<String, ApiError> {
    match code {
        Some(code) if !code.trim().is_empty() => Ok(code),
        Some(_) => Err(ApiError::invalid("the code is empty")),
        None => Err(ApiError::invalid("the request contains no code")),
    }
}

/// What code finds in its environment: what may be shown, and what may not.
pub(super) type Variables = (BTreeMap<String, String>, Secrets);

pub(super) async fn checked_env(env: BTreeMap<String, String>, secrets: SecretValues) -> Result<Variables, ApiError> {
    let secrets = secrets_of(secrets.0).await?;
    with_secrets(&env, &secrets).map_err(|error| ApiError::invalid(error.to_string()))?;
    Ok((env, secrets))
}
