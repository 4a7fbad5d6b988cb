//! The secrets of a sandbox: given to its programs, and taken out of what it says. Values are kept in memory only, for as long
//! as the sandbox lives. Not a wall: code can spell a value in a way that nobody knows.

use crate::engine::EngineError;
use crate::inside::CommandSpec;
use crate::lock::lock;
use crate::sandbox::Walled;
use atoll_core::execution::Execution;
use atoll_guard::redact::{Redactor, Secrets, SecretsError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// To prepare the search for more bytes than this takes longer than a caller should wait on a thread that others share.
const LONG: usize = 1 << 10;

/// The same as [`Secrets::new`], beside other work if there are many.
pub async fn secrets_of(values: BTreeMap<String, String>) -> Result<Secrets, EngineError> {
    let bytes = values.values().map(String::len).sum();
    beside(bytes, move || Secrets::new(values)).await
}

async fn beside(
    bytes: usize,
    work: impl FnOnce() -> Result<Secrets, SecretsError> + Send + 'static,
) -> Result<Secrets, EngineError> {
    match bytes > LONG {
        // The thread is gone only if the runtime is.
        true => Ok(tokio::task::spawn_blocking(work)
            .await
            .map_err(|_| EngineError::Interrupted)??),
        false => Ok(work()?),
    }
}

fn bytes_of(secrets: &Secrets) -> usize {
    secrets.reveal().map(|(_, value)| value.len()).sum()
}

impl Walled {
    /// What its programs are started with.
    pub(crate) fn variables(&self) -> BTreeMap<String, String> {
        let secrets = self.secrets.reveal();
        let secrets = secrets.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.env.clone().into_iter().chain(secrets).collect()
    }

    /// What takes secrets out; `None` if it was never given one.
    pub(crate) fn hides(&self) -> Option<Arc<Redactor>> {
        lock(&self.known).redactor().cloned()
    }

    /// A call brings secrets of its own. What it prints later, or another call, must not tell them either.
    pub(crate) async fn learn(&self, secrets: &Secrets) -> Result<(), EngineError> {
        if secrets.is_empty() {
            return Ok(());
        }
        let _turn = self.learning.lock().await;
        let (known, newer) = (lock(&self.known).clone(), secrets.clone());
        let bytes = bytes_of(&known) + bytes_of(&newer);
        let known = beside(bytes, move || known.with(&newer)).await?;
        *lock(&self.known) = known;
        Ok(())
    }

    /// The name of a secret whose value is in a text.
    pub(crate) fn secret_in(&self, text: &str) -> Option<String> {
        self.hides()?.find(text.as_bytes()).map(str::to_owned)
    }

    /// The words of an answer. Its streams, results and findings were searched when they came.
    pub(crate) fn without_secrets(&self, mut execution: Execution) -> Execution {
        if let Some(hides) = self.hides() {
            execution.error.iter_mut().for_each(|error| hides.error(error));
            execution.hint.iter_mut().for_each(|hint| hides.hint(hint));
        }
        execution
    }

    /// Variables of the sandbox and of a call, as they are told.
    pub(crate) fn variables_told(&self, own: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut all = self.env.clone();
        all.extend(own.clone());
        if let Some(hides) = self.hides() {
            for value in all.values_mut() {
                hides.hide(value);
            }
        }
        all
    }

    /// A command as it is told to those who ask for it.
    pub(crate) fn told(&self, mut spec: CommandSpec) -> CommandSpec {
        if let Some(hides) = self.hides() {
            hides.lines(&mut spec.argv);
            for value in spec.env.values_mut() {
                hides.hide(value);
            }
        }
        spec
    }
}
