//! The key of the first start: there is no default key, so the first server makes one and says where it is kept.

use crate::auth::{DEFAULT_TENANT, Scopes, SecretKey};
use crate::config::Quotas;
use crate::private_file;
use crate::store::{KeyRecord, NewKey, Store, StoreError};
use atoll_engine::audit::{Action, Actor, AuditError, AuditLog, Closing, Ending, Opening};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A key that was made just now.
#[derive(Debug)]
pub struct FirstKey {
    pub key: SecretKey,
    /// The file that keeps it, readable by its owner only.
    pub path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum FirstKeyError {
    #[error("cannot write the first key to `{}`", path.display())]
    Keep { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot record the first key in the audit log")]
    Audit(#[from] AuditError),
}

/// Its name in the store, by which a later start finds that it was made. Revoked, it is not made again.
const NAME: &str = "first key";

/// Makes a key with every scope if there was none of its name. Other keys do not count: one that was made before the first
/// start may lack scopes, and no file keeps it. The file is written first: a key that nobody can know is worse than a file
/// that opens nothing.
pub(crate) async fn make(store: &Store, home: &Path, log: &Arc<AuditLog>) -> Result<Option<FirstKey>, FirstKeyError> {
    if store.list_keys().await?.iter().any(|key| key.name == NAME) {
        return Ok(None);
    }
    let key = SecretKey::generate();
    let path = home.join("first-key");
    private_file::write(&path, &format!("{}\n", key.reveal())).map_err(|source| FirstKeyError::Keep {
        path: path.clone(),
        source,
    })?;
    let new = NewKey {
        name: NAME.to_owned(),
        tenant: DEFAULT_TENANT.to_owned(),
        scopes: Scopes::all(),
        quotas: Quotas::default(),
        digest: key.digest(),
    };
    let actor = Actor::system();
    let entry = log.begin(Opening::new(Action::KeyCreate, &actor).at(&new.name))?;
    let made = store.create_first_key(new).await?;
    entry.close(Closing {
        about_key: made.as_ref().map(KeyRecord::fact),
        ..Closing::of(Ending::Ok)
    });
    Ok(made.map(|_| FirstKey { key, path }))
}
