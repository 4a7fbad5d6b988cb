//! A report: the entries that a question asks for, with the records that prove them, signed as a whole.
//!
//! `atoll audit report` makes one; [`check_page`] and the page itself check it without the log. A run of the chain goes from
//! a record of the report to the next signed one. Records of others in between lose their private part. No text for people
//! here, but what the page shows.

mod page;
mod proof;

use super::error::AuditError;
use super::index::{Index, Query};
use super::line::BadLine;
use super::moment::Moment;
use super::view::View;
use atoll_core::SandboxId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

pub use page::{check_page, make_page};
pub use proof::{BadReport, ProvenReport};

/// Of a report as text; each is read into memory.
const MAX_ENTRIES: usize = 100_000;
/// Of a report as a page.
pub const MAX_PAGE: usize = MAX_PAGE_MIB << 20;
const MAX_PAGE_MIB: usize = 64;
const PAGE: usize = 500;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error(transparent)]
    Log(#[from] AuditError),
    #[error("no entry of the audit log matches --sandbox, --api-key, --since and --until")]
    Empty,
    #[error("the report exceeds {MAX_ENTRIES} entries or {MAX_PAGE_MIB} MiB; narrow it with --since and --until")]
    TooLarge,
    #[error("the newest records of the report are not signed yet")]
    Unsigned,
    #[error("the audit log was modified or is damaged; find the place with `atoll audit verify`")]
    Line(#[from] BadLine),
    #[error("the audit log was modified or is damaged; find the place with `atoll audit verify`")]
    Chain(#[source] BadReport),
    #[error("cannot serialize the report")]
    Spelling(#[from] serde_json::Error),
}

/// What a report is about. All that is given must hold of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportQuery {
    pub sandbox: Option<SandboxId>,
    /// As it was asked for: a name or an id.
    pub api_key: Option<String>,
    /// Ids of the keys with that name: names are private and can be redacted.
    pub keys: Vec<String>,
    pub since: Option<Moment>,
    pub until: Option<Moment>,
}

impl ReportQuery {
    /// Of the API keys with this name or id.
    pub fn of_key(mut self, index: &Index, name: String) -> Result<Self, AuditError> {
        let mut query = Query {
            since: self.since,
            until: self.until,
            api_key: Some(name.clone()),
            ..Query::default()
        };
        let mut ids = BTreeSet::new();
        loop {
            let page = index.list(&query, PAGE)?;
            let Some(last) = page.last() else { break };
            query.after = Some(last.id);
            ids.extend(page.into_iter().filter_map(|view| view.actor.key));
        }
        self.keys = ids.into_iter().collect();
        self.api_key = Some(name);
        Ok(self)
    }

    fn takes(&self, view: &View) -> bool {
        let of_key = || view.actor.key.as_ref().is_some_and(|key| self.keys.contains(key));
        self.sandbox.as_ref().is_none_or(|id| view.sandbox.as_ref() == Some(id))
            && self.since.is_none_or(|since| view.time >= since)
            && self.until.is_none_or(|until| view.time < until)
            && (self.api_key.is_none() || of_key())
    }

    /// Entries of the report, in order.
    pub fn entries(&self, index: &Index) -> Result<Vec<View>, ReportError> {
        let (mut found, mut last) = (Vec::new(), 0);
        loop {
            let page = self.page(index, last)?;
            let Some(view) = page.last() else { break };
            last = view.id;
            found.extend(page.into_iter().filter(|view| self.takes(view)));
            if found.len() > MAX_ENTRIES {
                return Err(ReportError::TooLarge);
            }
        }
        if found.is_empty() {
            return Err(ReportError::Empty);
        }
        Ok(found)
    }

    fn page(&self, index: &Index, after: u64) -> Result<Vec<View>, AuditError> {
        if let Some(id) = &self.sandbox {
            return index.about(id.as_str(), after, PAGE);
        }
        let query = Query {
            since: self.since,
            until: self.until,
            after: Some(after),
            ..Query::default()
        };
        index.list(&query, PAGE)
    }
}
