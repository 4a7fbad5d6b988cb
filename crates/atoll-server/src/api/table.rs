//! The one table of routes. A route has a class of access by type, so none can exist that nobody has judged.
//!
//! The router is built from the table and from nothing else; tests walk the same table.

use super::budget::Hold;
use super::extract::read_whole;
use super::idempotency::{Once, answer_once};
use super::{ApiError, AppState};
use crate::auth::{Caller, Presented, presented};
use crate::http::{Place, RequestNotes, catch_panics, until_revoked};
use atoll_core::service::Scope;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, Method};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};

/// Who may call a route.
#[derive(Clone, Copy)]
pub enum Access {
    /// Anybody: nothing about any tenant is told, and nothing is changed.
    Open,
    /// A valid key with this scope.
    Key(Scope),
    /// Something else than a key, such as the token of one sandbox; the check says who that is.
    Token(TokenCheck),
    /// Nothing is shown but the name of a sandbox, whose owner is found; who asks stays a stranger.
    Named(TokenCheck),
}

/// Finds the caller of a request that shows no key, or refuses it.
pub type TokenCheck = fn(&AppState, &Parts) -> Result<Caller, ApiError>;

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open => f.write_str("Open"),
            Self::Key(scope) => write!(f, "Key({scope})"),
            Self::Token(_) => f.write_str("Token"),
            Self::Named(_) => f.write_str("Named"),
        }
    }
}

/// Whose words a route speaks, also when it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Native,
    E2bApi,
    E2bRpc,
    E2bInterpreter,
}

impl Dialect {
    fn render(self, error: &ApiError) -> Response {
        match self {
            Self::Native => super::native::error::render(error),
            Self::E2bApi => super::e2b::error::render_api(error),
            Self::E2bRpc => super::e2b::error::render_rpc(error),
            Self::E2bInterpreter => super::e2b::error::render_text(error),
        }
    }
}

/// One method on one path.
#[derive(Clone, Debug)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub access: Access,
    pub dialect: Dialect,
    /// Its body is read before the handler is called.
    whole_body: bool,
    /// An `Idempotency-Key` has a meaning.
    idempotency: bool,
    handler: MethodRouter<AppState>,
}

impl Route {
    pub fn new<H, T>(method: Method, path: &'static str, access: Access, dialect: Dialect, handler: H) -> Self
    where
        H: axum::handler::Handler<T, AppState>,
        T: 'static,
    {
        // Methods of our own tables only; a strange one would not be served, and a test walks the table.
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::TRACE);
        Self::of(method, path, access, dialect, on(filter, handler))
    }

    /// The same with a handler that knows its method already.
    pub(crate) fn of(
        method: Method,
        path: &'static str,
        access: Access,
        dialect: Dialect,
        handler: MethodRouter<AppState>,
    ) -> Self {
        Self {
            method,
            path,
            access,
            dialect,
            whole_body: false,
            idempotency: false,
            handler,
        }
    }

    /// The body is read whole, within the server's limits, and refused in the words of the dialect.
    #[must_use]
    pub(crate) fn with_whole_body(mut self) -> Self {
        self.whole_body = true;
        self
    }

    /// A request with an `Idempotency-Key` is done once, and its repeats get the same answer.
    #[must_use]
    pub(crate) fn with_idempotency(mut self) -> Self {
        self.idempotency = true;
        self
    }
}

/// Makes the router of these routes: each behind its check, each refusing in its dialect.
pub(crate) fn build(routes: Vec<Route>, state: &AppState) -> Router<AppState> {
    routes.into_iter().fold(Router::new(), |router, route| {
        let (access, dialect) = (route.access, route.dialect);
        let check = middleware::from_fn_with_state((state.clone(), access), authorise);
        let speak = middleware::map_response(move |response: Response| async move { spoken(dialect, response) });
        let handler = match route.whole_body {
            true => route
                .handler
                .route_layer(middleware::from_fn_with_state(state.clone(), read_whole)),
            false => route.handler,
        };
        let once = Once::new(state, route.path, dialect);
        let handler = match route.idempotency {
            true => handler
                .route_layer(catch_panics())
                .route_layer(middleware::from_fn_with_state(once, answer_once)),
            false => handler,
        };
        router.route(
            route.path,
            handler
                .route_layer(check)
                .route_layer(catch_panics())
                .route_layer(speak),
        )
    })
}

async fn authorise(State((state, access)): State<(AppState, Access)>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    if let (Presented::Key(secret), false) = (presented(&parts.headers), matches!(access, Access::Open)) {
        state.keys.look_again(secret, &state.store).await;
    }
    match find_caller(&state, access, &parts) {
        Ok(Some(caller)) => {
            let caller = caller.seen_in(&parts.extensions);
            if !matches!(access, Access::Named(_)) {
                note(&parts.extensions, &caller);
            }
            parts.extensions.insert(caller.clone());
            let hold = state.budget.hold(&caller.tenant);
            parts.extensions.insert(hold.clone());
            while_valid(caller, hold, next.run(Request::from_parts(parts, body))).await
        }
        Ok(None) => next.run(Request::from_parts(parts, body)).await,
        Err(refused) => refused.into_response(),
    }
}

/// Who has shown a key or a token keeps the place of the connection, and is named in the log.
fn note(extensions: &Extensions, caller: &Caller) {
    if let Some(notes) = extensions.get::<RequestNotes>() {
        notes.set_caller(caller);
    }
    if let Some(place) = extensions.get::<Place>() {
        place.is_known(&caller.tenant);
    }
}

/// A revoked key ends what it is just doing, too. What the request holds is held until its answer is over.
async fn while_valid(caller: Caller, hold: Hold, answering: impl Future<Output = Response>) -> Response {
    let answer = tokio::select! {
        answer = answering => answer,
        () = caller.revoked() => return ApiError::unauthenticated("the key was revoked").into_response(),
    };
    let revoked = async move {
        caller.revoked().await;
        drop(hold);
    };
    answer.map(|body| until_revoked(body, revoked))
}

fn find_caller(state: &AppState, access: Access, parts: &Parts) -> Result<Option<Caller>, ApiError> {
    match access {
        Access::Open => Ok(None),
        Access::Token(check) | Access::Named(check) => check(state, parts).map(Some),
        Access::Key(scope) => {
            let caller = key_caller(state, parts)?;
            caller.require(scope)?;
            Ok(Some(caller))
        }
    }
}

/// The caller by the key that the request shows. Where none is needed any other word for one is as good: there are clients that
/// do not start without.
pub(crate) fn key_caller(state: &AppState, parts: &Parts) -> Result<Caller, ApiError> {
    match presented(&parts.headers) {
        Presented::Key(secret) => {
            let found = state.keys.find(secret);
            let found = found.or_else(|| state.settings.insecure_no_auth.then(Caller::anonymous));
            found.ok_or_else(|| ApiError::unauthenticated("the key is not valid"))
        }
        Presented::Nothing if state.settings.insecure_no_auth => Ok(Caller::anonymous()),
        Presented::Nothing => Err(ApiError::unauthenticated("an API key is required")),
        Presented::Unclear => Err(ApiError::unauthenticated(
            "the request contains two different keys, or an empty one",
        )),
    }
}

/// An error that was made below comes out in the words of the dialect.
pub(crate) fn spoken(dialect: Dialect, mut response: Response) -> Response {
    let Some(error) = response.extensions_mut().remove::<ApiError>() else {
        return response;
    };
    let mut spoken = dialect.render(&error);
    spoken.extensions_mut().insert(error.code());
    spoken
}
