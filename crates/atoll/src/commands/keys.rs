//! `atoll keys create|list|revoke`: straight on the store, with or without a server beside it.

use super::audit::{log_of, noted};
use super::template::{print, print_json};
use super::{home, usable_home};
use crate::args::{CreateKeyArgs, KeysArgs, KeysCommand};
use crate::output::{Failure, note, visible};
use atoll_core::KeyId;
use atoll_core::outcome::ExitStatus;
use atoll_engine::audit::{Action, Actor, Closing, Ending, Opening};
use atoll_server::Store;
use atoll_server::api::native::{CreatedKey, Key, KeyList};
use atoll_server::auth::{Scopes, SecretKey, check_key_name, check_own_tenant};
use atoll_server::config::Quotas;
use atoll_server::store::{KeyRecord, NewKey};

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
            "note: created a new key store in `{}`; servers with a different ATOLL_HOME do not use it\n",
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
    check_own_tenant(&args.tenant).map_err(|error| Failure::bad(&error))?;
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
    let (log, actor, name) = (log_of(&usable_home()?)?, Actor::local(), new.name.clone());
    // No key is made that is not in the audit log before.
    let record = noted(
        &log,
        Opening::new(Action::KeyCreate, &actor).at(&name),
        || with_store(|store| async move { store.create_key(new).await }),
        |record| about(Some(record)),
    )?;
    let created = CreatedKey {
        record: record.into(),
        key: secret.reveal().to_owned(),
    };
    if args.json {
        return print_json(&created);
    }
    print(&format!(
        "{}\n{}, tenant {}; the key is not shown again\nvalid for servers with data directory `{}`\n",
        created.key,
        created.record.id,
        created.record.tenant,
        home()?.display()
    ))
}

fn about(record: Option<&KeyRecord>) -> Closing {
    Closing {
        about_key: record.map(KeyRecord::fact),
        ..Closing::of(Ending::Ok)
    }
}

fn quotas(given: &[String]) -> Result<Quotas, Failure> {
    let mut quotas = Quotas::default();
    for quota in given.iter().flat_map(|words| words.split(',')) {
        let (name, value) = quota.split_once('=').ok_or_else(|| {
            Failure::usage(format!(
                "invalid quota `{quota}`: expected QUOTA=VALUE, for example live_sandboxes=10"
            ))
        })?;
        let bad = |error: &dyn std::error::Error| Failure::bad(error);
        match name {
            "live_sandboxes" => quotas.live_sandboxes = Some(value.parse().map_err(|error| bad(&error))?),
            "creates_per_minute" => quotas.creates_per_minute = Some(value.parse().map_err(|error| bad(&error))?),
            "cpu_seconds_per_day" => quotas.cpu_seconds_per_day = Some(value.parse().map_err(|error| bad(&error))?),
            "bytes_per_day" => quotas.bytes_per_day = Some(value.parse().map_err(|error| bad(&error))?),
            other => {
                return Err(Failure::usage(format!(
                    "unknown quota `{other}`: expected live_sandboxes, creates_per_minute, cpu_seconds_per_day or bytes_per_day"
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
    let header = (!keys.is_empty()).then(|| columns(["ID", "TENANT", "SCOPES", "STATE", "NAME"]));
    print(&header.into_iter().chain(keys.iter().map(row)).collect::<String>())
}

fn columns([id, tenant, scopes, state, name]: [&str; 5]) -> String {
    format!("{id:<30} {tenant:<12} {scopes:<15} {state:<35} {name}\n")
}

fn row(key: &Key) -> String {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let state = match (&key.revoked, &key.last_used) {
        (Some(at), _) => format!("revoked {at}"),
        (None, Some(at)) => format!("last used {at}"),
        (None, None) => "never used".to_owned(),
    };
    let name = visible(&key.name);
    columns([key.id.as_str(), &key.tenant, &scopes.join(","), &state, &name])
}

fn revoke(id: &str, json: bool) -> Result<ExitStatus, Failure> {
    let unknown = || Failure {
        hint: Some("list the ids with `atoll keys list`".to_owned()),
        ..Failure::usage(format!("no such key: `{}`", visible(id)))
    };
    let wanted = KeyId::parse(id).ok_or_else(unknown)?;
    let record = revoked(wanted)?;
    let key = Key::from(record.ok_or_else(unknown)?);
    if json {
        return print_json(&key);
    }
    print(&format!("{} revoked\n", key.id))
}

/// Never refused because of the log: a key that somebody has stolen must end. What could not be written is said.
fn revoked(id: KeyId) -> Result<Option<KeyRecord>, Failure> {
    let actor = Actor::local();
    let entry = log_of(&usable_home()?).and_then(|log| {
        let opening = Opening::new(Action::KeyRevoke, &actor).at(id.as_str());
        log.begin(opening).map_err(|error| Failure::ours(&error))
    });
    let done = with_store(|store| async move { store.revoke_key(id).await });
    match (entry, &done) {
        (Ok(entry), Ok(record)) => entry.close(about(record.as_ref())),
        (Ok(entry), Err(_)) => entry.close(Closing::of(Ending::Failed)),
        (Err(failure), _) => note(&format!(
            "note: the audit log is not writable, so this revocation is not recorded\n{}",
            failure.text()
        )),
    }
    done
}
