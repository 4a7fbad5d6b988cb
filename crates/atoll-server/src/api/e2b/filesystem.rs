//! `filesystem.Filesystem`: what is in a sandbox, moved, made, removed and watched. The agent inside does it.

use super::connect::{Item, failed_stream, one_envelope, stream, unary};
use super::route::Inside;
use super::words;
use crate::api::{ApiError, AppState, ErrorCode, Meter};
use crate::auth::Caller;
use crate::clock::rfc3339_nanos;
use atoll_core::wire::agent::{Change, ChangeKind, Entry, EntryKind};
use atoll_engine::session::{NextPause, Session, State as Life};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(super) struct PathCall {
    pub(super) path: String,
    pub(super) depth: u32,
    source: String,
    destination: String,
    recursive: bool,
    #[serde(alias = "include_entry")]
    include_entry: bool,
    #[serde(alias = "watcher_id")]
    watcher_id: String,
}

type Answer = Result<Json<Value>, ApiError>;

pub(super) async fn stat(inside: Inside, body: Bytes) -> Answer {
    let call: PathCall = unary(&body)?;
    let _using = inside.session.begin_use()?;
    Ok(Json(
        json!({"entry": entry(&inside.sandbox()?.stat(&call.path).await?)}),
    ))
}

pub(super) async fn make_dir(inside: Inside, body: Bytes) -> Answer {
    let call: PathCall = unary(&body)?;
    let _using = inside.session.begin_use()?;
    Ok(Json(
        json!({"entry": entry(&inside.sandbox()?.make_dir(&call.path).await?)}),
    ))
}

pub(super) async fn rename(inside: Inside, body: Bytes) -> Answer {
    let call: PathCall = unary(&body)?;
    let _using = inside.session.begin_use()?;
    let moved = inside.sandbox()?.rename(&call.source, &call.destination).await?;
    Ok(Json(json!({"entry": entry(&moved)})))
}

pub(super) async fn remove(inside: Inside, body: Bytes) -> Answer {
    let call: PathCall = unary(&body)?;
    let _using = inside.session.begin_use()?;
    inside.sandbox()?.remove(&call.path).await?;
    Ok(Json(json!({})))
}

/// Changes as they happen, until the client goes.
pub(super) async fn watch_dir(
    State(state): State<AppState>,
    caller: Caller,
    inside: Inside,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match start_watch(&inside, &headers, &body).await {
        Ok(response) => Meter::new(&state.sandboxes, caller).answer(response),
        Err(error) => failed_stream(error),
    }
}

async fn start_watch(inside: &Inside, headers: &HeaderMap, body: &[u8]) -> Result<Response, ApiError> {
    let call: PathCall = one_envelope(headers, body)?;
    let paused = inside.session.next_pause();
    drop(inside.session.begin_use()?);
    let watch = inside.sandbox()?.watch(&call.path, call.recursive).await?;
    let follow = Follow {
        session: Arc::clone(&inside.session),
        paused,
        watch: Some(watch),
        include_entry: call.include_entry,
    };
    let started = futures_util::stream::once(async { Item::Message(json!({"start": {}})) });
    let changes = futures_util::stream::unfold(follow, |mut follow| async move {
        let item = follow.next().await?;
        Some((item, follow))
    });
    Ok(stream(futures_util::StreamExt::chain(started, changes)))
}

/// A watch that is given up when the client goes.
struct Follow {
    session: Arc<Session>,
    paused: NextPause,
    watch: Option<atoll_engine::Watch>,
    include_entry: bool,
}

impl Follow {
    async fn next(&mut self) -> Option<Item> {
        let watch = self.watch.as_mut()?;
        let seen = tokio::select! {
            biased;
            seen = watch.next() => seen,
            () = &mut self.paused => return Some(self.end(was_paused())),
        };
        match seen {
            Some(one) => Some(Item::Message(json!({"filesystem": change(&one, self.include_entry)}))),
            None if self.session.end_reason().is_some() => Some(Item::Lost),
            // A pause to disk ends it before it is known as a pause.
            None if self.session.state() == Life::Paused => Some(self.end(was_paused())),
            None => Some(self.end(ApiError::new(
                ErrorCode::QuotaExceeded,
                "changes arrived too fast and some were dropped; start a new watch",
            ))),
        }
    }

    fn end(&mut self, why: ApiError) -> Item {
        self.give_up();
        Item::Error(why)
    }
}

fn was_paused() -> ApiError {
    ApiError::new(ErrorCode::Conflict, words::paused("start a new watch"))
}

impl Follow {
    /// The agent goes on with a watch until it is told.
    fn give_up(&mut self) {
        if let Some(watch) = self.watch.take() {
            let session = Arc::clone(&self.session);
            tokio::spawn(async move { session.unwatch(watch).await });
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.give_up();
    }
}

pub(super) async fn create_watcher(State(state): State<AppState>, inside: Inside, body: Bytes) -> Answer {
    let call: PathCall = unary(&body)?;
    drop(inside.session.begin_use()?);
    let watch = inside.sandbox()?.watch(&call.path, call.recursive).await?;
    let id = state
        .e2b
        .watchers
        .add(Arc::clone(&inside.session), watch, call.include_entry)?;
    Ok(Json(json!({"watcherId": id})))
}

pub(super) async fn watcher_events(
    State(state): State<AppState>,
    caller: Caller,
    inside: Inside,
    body: Bytes,
) -> Result<Response, ApiError> {
    let call: PathCall = unary(&body)?;
    // A round trip to the agent: what it saw before is here when it answers.
    inside.sandbox()?.stat("/").await?;
    let events = state.e2b.watchers.take(inside.session.id(), &call.watcher_id)?;
    let text = format!("{{\"events\":[{}]}}", events.join(","));
    let answer = ([(header::CONTENT_TYPE, "application/json")], text).into_response();
    Ok(Meter::new(&state.sandboxes, caller).answer(answer))
}

pub(super) async fn remove_watcher(State(state): State<AppState>, inside: Inside, body: Bytes) -> Answer {
    let call: PathCall = unary(&body)?;
    state.e2b.watchers.remove(inside.session.id(), &call.watcher_id)?;
    Ok(Json(json!({})))
}

pub(super) fn change(change: &Change, include_entry: bool) -> Value {
    let kind = match change.kind {
        ChangeKind::Created => "EVENT_TYPE_CREATE",
        ChangeKind::Written => "EVENT_TYPE_WRITE",
        ChangeKind::Removed => "EVENT_TYPE_REMOVE",
        ChangeKind::Renamed => "EVENT_TYPE_RENAME",
        ChangeKind::Permissions => "EVENT_TYPE_CHMOD",
    };
    let mut event = json!({"name": change.name, "type": kind});
    if let Some(there) = change.entry.as_ref().filter(|_| include_entry) {
        event["entry"] = entry(there);
    }
    event
}

pub(super) fn entry(entry: &Entry) -> Value {
    let kind = match entry.kind {
        EntryKind::File => "FILE_TYPE_FILE",
        EntryKind::Directory => "FILE_TYPE_DIRECTORY",
        EntryKind::Link => "FILE_TYPE_SYMLINK",
        EntryKind::Other => "FILE_TYPE_UNSPECIFIED",
    };
    let mut value = json!({
        "name": entry.path.rsplit('/').next().unwrap_or_default(),
        "type": kind,
        "path": entry.path,
        "size": entry.size.to_string(),
        "mode": entry.mode,
        "permissions": permissions(entry),
        "owner": entry.owner,
        "group": entry.group,
        "modifiedTime": rfc3339_nanos(entry.modified_ns),
    });
    if let Some(target) = &entry.link_target {
        value["symlinkTarget"] = json!(target);
        value["isSymlink"] = json!(true);
    }
    if !entry.metadata.is_empty() {
        value["metadata"] = json!(entry.metadata);
    }
    value
}

/// `drwxr-xr-x`
fn permissions(entry: &Entry) -> String {
    let first = match entry.kind {
        EntryKind::Directory => 'd',
        EntryKind::Link => 'l',
        EntryKind::File | EntryKind::Other => '-',
    };
    let bits = (0..9).rev().map(|bit| match entry.mode >> bit & 1 {
        1 => ['x', 'w', 'r'][bit % 3],
        _ => '-',
    });
    std::iter::once(first).chain(bits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_look_as_ls_shows_them() {
        let mut one = Entry {
            path: "/home/user/a".into(),
            kind: EntryKind::File,
            size: 3,
            mode: 0o644,
            owner: "user".into(),
            group: "user".into(),
            modified_ns: 0,
            link_target: None,
            metadata: std::collections::BTreeMap::new(),
        };
        assert_eq!(permissions(&one), "-rw-r--r--");
        (one.kind, one.mode) = (EntryKind::Directory, 0o755);
        assert_eq!(permissions(&one), "drwxr-xr-x");
        assert_eq!(entry(&one)["size"], "3");
    }
}
