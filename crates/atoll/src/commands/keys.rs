//! `atoll keys create|list|revoke`: straight on the store, with or without a server beside it.

use super::template::{print, print_json};
use super::{home, usable_home};
use crate::args::{CreateKeyArgs, KeysArgs, KeysCommand};
use crate::output::{Failure, note, visible};
use atoll_core::KeyId;
use atoll_core::outcome::ExitStatus;
use atoll_engine::audit::{Action, Actor, Closing, Ending, Opening};
use atoll_server::Store;
use atoll_server::api::native::{CreatedKey, Key, KeyList};
use atoll_server::auth::{Scopes, SecretKey, check_key_name, check_new_tenant};
use atoll_server::config::Quotas;
use atoll_server::store::NewKey;

pub(crate) fn run(args: KeysArgs) -> Result<ExitStatus, Failure> {
    match args.command {
        KeysCommand::Create(args) => create(args),
        KeysCommand::List { json } => list(json),
        KeysCommand::Revoke { id, json } => revoke(&id, json),
    }
}

/// Opens the store and does one thing with it. A store that was not there is no server's: most likely the server has
/// another data directory.
fn with_store<T, W: Future<Output = Result<T, atoll_server::store::StoreError>>>(
    work: impl FnOnce(Store) -> W,
) -> Result<T, Failure> {
    let home = usable_home()?;
    let path = Store::path(&home);
    if !path.exists() {
        note(&format!(
            "note: there was no store of keys in `{}`; a server with another ATOLL_HOME does not know what is made here\n",
            home.display()
        ));
    }
    let store = Store::open(&path).map_err(|error| Failure::ours(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| Failure::ours(&error))?;
    runtime.block_on(work(store)).map_err(|error| Failure::ours(&error))
}

fn create(args: CreateKeyArgs) -> Result<ExitStatus, Failure> {
    check_key_name(&args.name).map_err(|error| Failure::bad(&error))?;
    check_new_tenant(&args.tenant).map_err(|error| Failure::bad(&error))?;
    let scopes: Scopes = args.scope.parse().map_err(|error| Failure::bad(&error))?;
    if scopes.is_empty() {
        return Err(Failure::usage("a key needs at least one scope"));
    }
    let secret = SecretKey::generate();
    let new = NewKey {
        name: args.name,
        tenant: args.tenant,
        scopes,
        quotas: quotas(&args.quota)?,
        digest: secret.digest(),
    };
    let record = written(Action::KeyCreate, &new.name.clone(), || {
        with_store(|store| async move { store.create_key(new).await })
    })?;
    let created = CreatedKey {
        record: record.into(),
        key: secret.reveal().to_owned(),
    };
    if args.json {
        return print_json(&created);
    }
    print(&format!(
        "{}\n{} of tenant {}; this is the only time that the key is shown\nfor servers with the data directory `{}`\n",
        created.key,
        created.record.id,
        created.record.tenant,
        home()?.display()
    ))
}

/// Nothing happens to a key that is not in the audit log before.
fn written<T>(action: Action, subject: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let log = super::audit::log_of(&usable_home()?)?;
    let actor = Actor::local();
    let entry = log
        .begin(Opening::new(action, &actor).at(subject))
        .map_err(|error| Failure::ours(&error))?;
    let done = work();
    entry.close(Closing::of(match done {
        Ok(_) => Ending::Ok,
        Err(_) => Ending::Failed,
    }));
    done
}

fn quotas(given: &[String]) -> Result<Quotas, Failure> {
    let mut quotas = Quotas::default();
    for quota in given.iter().flat_map(|words| words.split(',')) {
        let (name, value) = quota
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("not a quota: `{quota}`; write it like live_sandboxes=10")))?;
        let bad = |error: &dyn std::error::Error| Failure::bad(error);
        match name {
            "live_sandboxes" => quotas.live_sandboxes = Some(value.parse().map_err(|error| bad(&error))?),
            "creates_per_minute" => quotas.creates_per_minute = Some(value.parse().map_err(|error| bad(&error))?),
            "cpu_seconds_per_day" => quotas.cpu_seconds_per_day = Some(value.parse().map_err(|error| bad(&error))?),
            "bytes_per_day" => quotas.bytes_per_day = Some(value.parse().map_err(|error| bad(&error))?),
            other => {
                return Err(Failure::usage(format!(
                    "unknown quota `{other}`; one of: live_sandboxes, creates_per_minute, cpu_seconds_per_day, bytes_per_day"
                )));
            }
        }
    }
    Ok(quotas)
}

fn list(json: bool) -> Result<ExitStatus, Failure> {
    let records = with_store(|store| async move { store.list_keys().await })?;
    let keys: Vec<Key> = records.into_iter().map(Key::from).collect();
    if json {
        return print_json(&KeyList { keys });
    }
    print(&keys.iter().map(row).collect::<String>())
}

fn row(key: &Key) -> String {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let state = match (&key.revoked, &key.last_used) {
        (Some(at), _) => format!("revoked {at}"),
        (None, Some(at)) => format!("last used {at}"),
        (None, None) => "never used".to_owned(),
    };
    format!(
        "{} {:<12} {:<15} {:<35} {}\n",
        key.id,
        key.tenant,
        scopes.join(","),
        state,
        visible(&key.name)
    )
}

fn revoke(id: &str, json: bool) -> Result<ExitStatus, Failure> {
    let unknown = || Failure {
        hint: Some("`atoll keys list` shows the ids".to_owned()),
        ..Failure::usage(format!("no such key: `{}`", visible(id)))
    };
    let wanted = KeyId::parse(id).ok_or_else(unknown)?;
    let record = written(Action::KeyRevoke, wanted.clone().as_str(), || {
        with_store(|store| async move { store.revoke_key(wanted).await })
    })?;
    let key = Key::from(record.ok_or_else(unknown)?);
    if json {
        return print_json(&key);
    }
    print(&format!("{} is revoked\n", key.id))
}
