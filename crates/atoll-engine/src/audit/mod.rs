//! The tamper-evident audit log: what was asked for, by whom, and how it ended, in a chain that cannot be changed unseen.
//!
//! Files and hashes only: no sandbox, no HTTP, no tokio. The engine's door (`door.rs`) opens an entry before anything is done
//! and closes it afterwards; `atoll audit` reads. What it proves and what it does not is in `docs/audit.md`.
//!
//! | File | What |
//! |---|---|
//! | `record.rs`, `line.rs` | a record and its one spelling |
//! | `chain.rs`, `segment.rs`, `file.rs` | the chain in its segments, under a lock |
//! | `start.rs`, `catch_up.rs` | what was there before, and what others write meanwhile |
//! | `log.rs`, `entry.rs`, `late.rs` | what the engine uses |
//! | `quota.rs` | how much each key may cause in a day |
//! | `verify.rs` | finds what was changed, with the segments and the public key only |
//! | `report.rs` | entries with the part of the chain that proves them, as one page |
//! | `redact.rs`, `retain.rs` | forgetting that stays provable |
//! | `output.rs` | what is kept of the output of an execution |
//! | `index.rs`, `ocsf.rs`, `notebook.rs` | questions, and other people's words |

mod action;
mod catch_up;
mod chain;
mod digest;
mod entry;
mod error;
mod file;
mod files;
mod head;
mod index;
mod key;
mod late;
mod line;
mod lock;
mod log;
mod moment;
mod notebook;
mod ocsf;
mod output;
mod quota;
mod record;
mod redact;
mod report;
mod retain;
mod segment;
mod start;
mod verify;
mod view;
mod writers;

pub use action::{Action, Ending};
pub use digest::Digest;
pub use entry::{Closing, Entry, Opening};
pub use error::{AuditError, Break};
pub use index::{Index, Query};
pub use key::PublicKey;
pub use line::{BadLine, Line, MAX_LINE, Private, decode};
pub use log::{AuditLog, AuditOptions, Prepared};
pub use moment::Moment;
pub use notebook::notebook;
pub use ocsf::ocsf;
pub use output::{RecordedOutput, RecordedResult};
pub use record::{
    Actor, Behind, Body, Closed, FileFact, FindingFact, KeyFact, Missed, Missing, Opened, Place, Record, Secrets,
    Traffic,
};
pub use report::{BadReport, MAX_PAGE, ProvenReport, ReportError, ReportQuery, check_page, make_page};
pub use verify::{Problem, Report, verify};
pub use view::View;

#[cfg(test)]
mod tests;
