//! `/v1/keys`: an operator's keys make, list and revoke the keys of all tenants.

use super::wire::{CreatedKey, Key, KeyList, NewKeyRequest};
use crate::api::{ApiError, AppState, Json, Path};
use crate::auth::{Caller, SecretKey};
use crate::store::{KeyRecord, StoreError};
use atoll_core::KeyId;
use atoll_engine::Ticket;
use atoll_engine::audit::{Action, Closing, Ending, KeyFact};
use axum::extract::State;
use axum::http::StatusCode;

/// Create a key; its secret is returned only once
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
    // No key is made that is not written down before.
    let door = state.sandboxes.node().door(caller.actor());
    let ticket = door.enter(Action::KeyCreate, &new.name).await?;
    let made = state.store.create_key(new).await;
    let record = closed(ticket, made, |record| Some(record.fact()))?;
    // So that the key works when its owner reads the answer.
    state.keys.refresh(&state.store).await?;
    let created = CreatedKey {
        record: record.into(),
        key: secret.reveal().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(created)))
}

/// List all keys, including revoked ones, without their secrets
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

/// Revoke a key permanently
#[utoipa::path(
    delete, path = "/v1/keys/{id}", tag = "keys", security(("key" = [])),
    params(("id" = String, Path, description = "Key ID")),
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
    let door = state.sandboxes.node().door(caller.actor());
    // Never refused: a key that somebody has stolen must end, whatever is wrong with the log.
    let ticket = door.enter_anyway(Action::KeyRevoke, id.as_str()).await;
    if ticket.is_late() {
        tracing::error!(key = %id, "key revoked, but the audit log cannot be written now; the entry is written later");
    }
    let revoked = state.store.revoke_key(id).await;
    let revoked = closed(ticket, revoked, |record| record.as_ref().map(KeyRecord::fact))?;
    state.keys.refresh(&state.store).await?;
    revoked
        .map(|record| Json(record.into()))
        .ok_or_else(|| ApiError::not_found("key"))
}

fn closed<T>(
    ticket: Ticket,
    done: Result<T, StoreError>,
    about: impl FnOnce(&T) -> Option<KeyFact>,
) -> Result<T, StoreError> {
    ticket.close(|| match &done {
        Ok(done) => Closing {
            about_key: about(done),
            ..Closing::of(Ending::Ok)
        },
        Err(error) => Closing::failed(error),
    });
    done
}
