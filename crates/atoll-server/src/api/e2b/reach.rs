//! How each sandbox may be reached from outside, as its maker said: by whom, under which name, and whether it wakes up.

use super::E2b;
use super::route::{ACCESS, TRAFFIC, header_id, of_host, plain_id, stranger, word};
use super::waking::Waking;
use crate::api::ApiError;
use crate::auth::Caller;
use atoll_core::SandboxId;
use atoll_engine::audit::Actor;
use atoll_engine::session::{Rule, Session, State};
use axum::extract::Request;
use axum::http::{Extensions, HeaderMap};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    /// Servers inside answer everybody, not only who shows a token.
    pub(super) public: bool,
    /// What servers inside see as their host; `${PORT}` is the port.
    pub(super) host: Option<String>,
    /// A request wakes it when it is paused.
    pub(super) wakes: bool,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            public: true,
            host: None,
            wakes: false,
        }
    }
}

const PUBLIC: &str = "e2b.public";
const HOST: &str = "e2b.host";
const WAKES: &str = "e2b.wakes";

impl Reach {
    /// For a sandbox that outlives this server. What is usual is not said.
    pub(super) fn marks(&self) -> BTreeMap<String, String> {
        let public = (!self.public).then(|| (PUBLIC, "no".to_owned()));
        let host = self.host.clone().map(|host| (HOST, host));
        let wakes = self.wakes.then(|| (WAKES, "yes".to_owned()));
        let said = [public, host, wakes].into_iter().flatten();
        said.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn of_marks(marks: &BTreeMap<String, String>) -> Self {
        Self {
            public: !marks.contains_key(PUBLIC),
            host: marks.get(HOST).cloned(),
            wakes: marks.contains_key(WAKES),
        }
    }
}

/// Only those that differ from what is usual are kept.
#[derive(Debug, Default)]
pub(super) struct Reaches {
    known: Mutex<HashMap<SandboxId, Known>>,
}

#[derive(Debug)]
struct Known {
    reach: Reach,
    waking: Arc<Waking>,
}

impl Reaches {
    /// Remembers one, and forgets those that are gone.
    pub(super) fn set(&self, id: &SandboxId, reach: Reach, lives: impl Fn(&SandboxId) -> bool) {
        if reach != Reach::default() {
            let mut known = self.lock();
            known.retain(|id, _| lives(id));
            let waking = Arc::default();
            known.insert(id.clone(), Known { reach, waking });
        }
    }

    pub(super) fn of(&self, id: &SandboxId) -> Reach {
        self.lock().get(id).map(|known| known.reach.clone()).unwrap_or_default()
    }

    /// What the requests that wake it share, if requests wake it.
    fn waking(&self, id: &SandboxId) -> Option<Arc<Waking>> {
        let known = self.lock();
        let one = known.get(id).filter(|known| known.reach.wakes)?;
        Some(Arc::clone(&one.waking))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl E2b {
    /// After a restart: a paused sandbox is reached as its maker said, or not.
    pub(crate) fn know_again(&self, session: &Session) {
        let reach = Reach::of_marks(&session.spec.marks);
        self.reach.set(session.id(), reach, |_| true);
    }

    /// Whether a request may go to a server inside. Nobody reaches one whose maker's key was revoked.
    pub(super) fn may_reach(&self, id: &SandboxId, headers: &HeaderMap) -> bool {
        !self.is_revoked(id) && (self.reach.of(id).public || self.shows_token(id, headers))
    }

    fn is_revoked(&self, id: &SandboxId) -> bool {
        self.sandboxes.owner(id).is_some_and(|owner| owner.is_revoked())
    }

    fn shows_token(&self, id: &SandboxId, headers: &HeaderMap) -> bool {
        word(headers, ACCESS).is_some_and(|shown| self.tokens.is_access(id, shown))
            || word(headers, TRAFFIC).is_some_and(|shown| self.tokens.is_traffic(id, shown))
    }

    /// Who visits a server inside: with a token as who made the sandbox, otherwise only the address is known.
    pub(super) fn visitor(&self, session: &Session, owner: &Caller, request: &Request) -> Actor {
        match self.shows_token(session.id(), request.headers()) {
            true => owner.clone().seen_in(request.extensions()).actor(),
            false => stranger(session, request.extensions()),
        }
    }

    /// Wakes the paused sandbox that a request is for, if its maker wanted that and the request may go to it. The sandbox
    /// then lives as long again as it was made for. `port_inside` is the sandbox whose server the request is for.
    /// Returns whether requests wake it; it runs then, unless it was paused again since.
    pub(super) async fn wake(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
        port_inside: Option<&str>,
    ) -> Result<bool, ApiError> {
        let Some((session, waking)) = self.sleeper(headers, port_inside) else {
            return Ok(false);
        };
        if !self.may_wake(session.id(), headers, port_inside.is_some()) {
            return Ok(false);
        }
        let wake = async {
            session.settled().await;
            match session.state() {
                State::Paused => self.resume_for(&session, extensions).await,
                State::Running | State::Ended => Ok(()),
            }
        };
        waking.alone(wake).await?;
        Ok(true)
    }

    fn may_wake(&self, id: &SandboxId, headers: &HeaderMap, is_port: bool) -> bool {
        if is_port {
            self.may_reach(id, headers)
        } else {
            !self.is_revoked(id) && self.shows_token(id, headers)
        }
    }

    async fn resume_for(&self, session: &Arc<Session>, extensions: &Extensions) -> Result<(), ApiError> {
        self.sandboxes.check_day_of(session.id())?;
        let by = stranger(session, extensions);
        let (Rule::For(long) | Rule::Idle(long)) = session.spec.rule;
        session.extend_to(&by, long).await?;
        match self.sandboxes.resume(&by, session).await {
            // A client that connects was first.
            Err(_) if session.state() == State::Running => {}
            resumed => resumed?,
        }
        tracing::debug!(sandbox = %session.id(), "sandbox resumed by a request");
        Ok(())
    }

    fn sleeper(&self, headers: &HeaderMap, port_inside: Option<&str>) -> Option<(Arc<Session>, Arc<Waking>)> {
        let named = match port_inside {
            Some(name) => Some(name.to_owned()),
            None => header_id(headers).ok()?.map(str::to_owned),
        };
        let id = plain_id(&named.or_else(|| of_host(headers).map(|(_, id)| id))?)?;
        Some((self.sandboxes.by_id(&id)?, self.reach.waking(&id)?))
    }
}

/// The variables of a call, and those by which a program knows where it runs.
pub(super) fn with_names(session: &Session, own: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([
        ("E2B_SANDBOX".to_owned(), "true".to_owned()),
        ("E2B_SANDBOX_ID".to_owned(), session.id().to_string()),
        ("E2B_TEMPLATE_ID".to_owned(), session.template.clone()),
    ]);
    all.extend(own);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_maker_said_is_known_after_a_restart() {
        for (public, wakes) in [(true, true), (false, false), (false, true)] {
            for host in [None, Some("x:${PORT}".to_owned())] {
                let reach = Reach { public, host, wakes };
                assert_eq!(Reach::of_marks(&reach.marks()), reach);
            }
        }
        assert!(Reach::default().marks().is_empty());
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let id = |n| SandboxId::from_random([n; 16]);
        let reaches = Reaches::default();
        let private = Reach {
            public: false,
            ..Reach::default()
        };
        reaches.set(&id(1), private.clone(), |_| true);
        assert!(!reaches.of(&id(1)).public && reaches.of(&id(2)).public);
        reaches.set(&id(2), private, |one| *one != id(1));
        assert!(reaches.of(&id(1)).public && !reaches.of(&id(2)).public);
        reaches.set(&id(3), Reach::default(), |_| true);
        assert_eq!(reaches.lock().len(), 1);
    }
}
