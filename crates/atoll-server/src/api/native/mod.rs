//! The native dialect: `/v1/...`, health, and the description of the API itself.

mod convert;
pub(crate) mod error;
mod health;
mod keys;
mod wire;

pub use error::{ErrorBody, ErrorWords};
pub(crate) use health::{healthz, readyz};
pub use wire::{CreatedKey, Health, Key, KeyList, KeyQuotas, NewKeyRequest};

use crate::api::table::{Access, Dialect, Route};
use crate::api::{ErrorCode, openapi, page};
use atoll_core::service::Scope;
use axum::http::Method;
use utoipa::OpenApi;

/// Every route of this dialect.
pub(crate) fn routes() -> Vec<Route> {
    let open = Access::Open;
    let admin = Access::Key(Scope::Admin);
    let native = Dialect::Native;
    vec![
        Route::new(Method::GET, "/healthz", open, native, health::healthz),
        Route::new(Method::GET, "/readyz", open, native, health::readyz),
        Route::new(Method::GET, "/openapi.json", open, native, openapi::json),
        Route::new(Method::GET, "/docs", open, native, page::html),
        Route::new(Method::POST, "/v1/keys", admin, native, keys::create),
        Route::new(Method::GET, "/v1/keys", admin, native, keys::list),
        Route::new(Method::DELETE, "/v1/keys/{id}", admin, native, keys::revoke),
    ]
}

/// This dialect's part of the description of the API.
#[derive(Debug, OpenApi)]
#[openapi(
    paths(health::healthz, health::readyz, keys::create, keys::list, keys::revoke),
    components(schemas(ErrorBody))
)]
pub(crate) struct Description;

/// The closed list of codes, for the description.
pub(crate) fn code_list() -> String {
    let row = |code: &ErrorCode| {
        format!(
            "| `{}` | {} | {} |\n",
            code.as_str(),
            code.status().as_u16(),
            code.about()
        )
    };
    let rows: String = ErrorCode::ALL.iter().map(row).collect();
    format!("| code | status | meaning |\n|---|---|---|\n{rows}")
}
