//! `/v1/keys`: an operator's keys make, list and revoke the keys of all tenants.

use super::wire::{CreatedKey, Key, KeyList, NewKeyRequest};
use crate::api::{ApiError, AppState, Json, Path};
use crate::auth::{Caller, SecretKey};
use crate::store::StoreError;
use atoll_core::KeyId;
use atoll_engine::Ticket;
use atoll_engine::audit::{Action, Closing, Ending};
use axum::extract::State;
use axum::http::StatusCode;

/// Make a key; the answer shows its secret, this once
#[utoipa::path(
    post, path = "/v1/keys", tag = "keys", request_body = NewKeyRequest, security(("key" = [])),
    responses(
        (status = 201, body = CreatedKey), (status = 400, body = super::ErrorBody), (status = 401, body = super::ErrorBody),
        (status = 403, body = super::ErrorBody), (status = 408, body = super::ErrorBody),
        (status = 413, body = super::ErrorBody), (status = 415, body = super::ErrorBody),
        (status = 503, body = super::ErrorBody),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    caller: Caller,
    Json(request): Json<NewKeyRequest>,
) -> Result<(StatusCode, Json<CreatedKey>), ApiError> {
    let secret = SecretKey::generate();
    let new = request.into_new_key(secret.digest())?;
    let ticket = enter(&state, &caller, Action::KeyCreate, &new.name).await?;
    let record = closed(ticket, state.store.create_key(new).await)?;
    // So that the key works when its owner reads the answer.
    state.keys.refresh(&state.store).await?;
    let created = CreatedKey {
        record: record.into(),
        key: secret.reveal().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(created)))
}

/// All keys, revoked ones included, without their secrets
#[utoipa::path(
    get, path = "/v1/keys", tag = "keys", security(("key" = [])),
    responses(
        (status = 200, body = KeyList), (status = 401, body = super::ErrorBody), (status = 403, body = super::ErrorBody),
    )
)]
pub(crate) async fn list(State(state): State<AppState>) -> Result<Json<KeyList>, ApiError> {
    let keys = state.store.list_keys().await?;
    Ok(Json(KeyList {
        keys: keys.into_iter().map(Key::from).collect(),
    }))
}

/// Revoke a key for good
#[utoipa::path(
    delete, path = "/v1/keys/{id}", tag = "keys", security(("key" = [])),
    params(("id" = String, Path, description = "The key's id")),
    responses(
        (status = 200, body = Key), (status = 401, body = super::ErrorBody), (status = 403, body = super::ErrorBody),
        (status = 404, body = super::ErrorBody), (status = 503, body = super::ErrorBody),
    )
)]
pub(crate) async fn revoke(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Key>, ApiError> {
    let id = KeyId::parse(&id).ok_or_else(|| ApiError::not_found("key"))?;
    let ticket = enter(&state, &caller, Action::KeyRevoke, id.as_str()).await?;
    let revoked = closed(ticket, state.store.revoke_key(id).await)?;
    state.keys.refresh(&state.store).await?;
    revoked
        .map(|record| Json(record.into()))
        .ok_or_else(|| ApiError::not_found("key"))
}

/// Nothing happens to a key that is not written down before.
async fn enter(state: &AppState, caller: &Caller, action: Action, subject: &str) -> Result<Ticket, ApiError> {
    let door = state.sandboxes.node().door(caller.actor());
    Ok(door.enter(action, subject).await?)
}

fn closed<T>(ticket: Ticket, done: Result<T, StoreError>) -> Result<T, StoreError> {
    ticket.close(|| match &done {
        Ok(_) => Closing::of(Ending::Ok),
        Err(error) => Closing::failed(error),
    });
    done
}
