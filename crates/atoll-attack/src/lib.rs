//! Tries to leave a sandbox of this very install, and says what became of it.
//!
//! `atoll doctor --attack` and the escape suite share every probe that is here: what it does, what is expected, what the host
//! looks at, and where the same try succeeds (its control). A claim counts as held only if its control breached. Probes
//! touch our own sandboxes, our own files and listeners on the loopback, and nothing else; every load ends by itself.

mod attack;
pub mod bench;
mod call_table;
mod calls;
mod case;
pub mod elsewhere;
mod elsewhere_table;
pub mod ends;
mod error;
pub mod here;
mod knocks;
mod lab;
mod left;
mod load;
mod load_table;
mod memory;
pub mod neighbours;
pub mod network;
pub mod outputs;
mod probe;
mod probe_table;
pub mod processes;
mod report;
mod tries;
mod verdict;

pub use attack::{attack, attack_only, cases, steps};
pub use call_table::{ROWS, Row, RowControl};
pub use calls::Answers;
pub use case::Case;
pub use elsewhere::{Elsewhere, Ground, Instead};
pub use elsewhere_table::{ALIKE, ELSEWHERE};
pub use error::AttackError;
pub use lab::Lab;
pub use left::nothing_left;
pub use load::{Load, Roomier, loads};
pub use load_table::LOADS;
pub use probe::{Control, Expect, Facts, Oracle, Probe};
pub use probe_table::{FILES, KERNEL, NETWORK, ZYGOTE};
pub use report::{HostReport, Report, Summary};
pub use tries::{Progress, probes};
pub use verdict::{Finding, Shown, Verdict};
