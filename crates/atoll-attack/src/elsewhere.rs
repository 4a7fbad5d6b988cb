//! What a probe's promise comes to where something else than our own jail stands between the code and the host.
//!
//! A probe asks for an answer of the host's kernel behind the jail's walls. Under gVisor another kernel answers, and what it
//! lets happen stays in it; in a container of runc there is a second id; in a guest the jail's own walls stand under an older
//! kernel. Each difference is a row of [`ELSEWHERE`](crate::elsewhere_table::ELSEWHERE): which probe, what is expected there
//! instead, and why that keeps the promise. What is not in a row is expected as everywhere.

use crate::elsewhere_table::{ALIKE, ELSEWHERE};
use crate::probe::Expect;
use atoll_core::Outcome;
use atoll_core::Tier;
use atoll_core::execution::Receipt;
use atoll_engine::Wall;

/// Who answers the code's system calls, and how it was set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ground {
    /// The host's kernel, behind the jail's walls.
    #[default]
    Host,
    /// The same, in a container of runc.
    Runc,
    /// gVisor's kernel.
    Gvisor,
    /// The kernel of a guest, Linux 6.1: the jail's walls but Landlock.
    Guest,
}

#[derive(Debug)]
pub struct Elsewhere {
    pub id: &'static str,
    pub at: Ground,
    pub why: &'static str,
    pub instead: Instead,
}

#[derive(Debug)]
pub enum Instead {
    /// It is about a wall that is not there. The reason says what is asked in its place.
    NotAsked,
    /// Other answers to these facts, and what the control shows.
    Answers {
        expect: &'static [Expect],
        breach: Option<&'static [(&'static str, &'static str)]>,
    },
    /// Another end of a load.
    Load(LoadThere),
    /// The probe looks where it is.
    Itself,
}

#[derive(Debug)]
pub struct LoadThere {
    /// Empty: as everywhere.
    pub ends: &'static [Outcome],
    /// Empty: as everywhere.
    pub expect: &'static [Expect],
    /// What the control shows, if it cannot run to its end.
    pub breach: Option<&'static [(&'static str, &'static str)]>,
    /// The whole sandbox ends with it.
    pub ends_sandbox: bool,
    /// Whether the memory charged to the sandbox is measured. The smallest loads are below the counter's precision.
    pub is_measured: bool,
}

impl Elsewhere {
    /// As the documents have it.
    pub fn line(&self) -> String {
        let (at, part) = (self.at.as_str(), self.instead.as_str());
        format!("| {} | {at} | {part} | {} |", self.id, self.why)
    }
}

impl Instead {
    fn as_str(&self) -> &'static str {
        match self {
            Self::NotAsked => "not run",
            Self::Answers { breach: None, .. } => "different expected results",
            Self::Answers { expect: [], .. } => "different control",
            Self::Answers { .. } => "different expected results and control",
            Self::Load(there) if there.ends_sandbox && there.is_measured => "counted as memory, or ends the sandbox",
            Self::Load(there) if there.ends_sandbox => "ends the sandbox",
            Self::Load(there) if there.breach.is_some() => "different control",
            Self::Load(there) if there.ends.contains(&Outcome::Timeout) => "may time out",
            Self::Load(_) => "counted as memory",
            Self::Itself => "handled in the probe",
        }
    }
}

impl Ground {
    /// As the documents name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "the host",
            Self::Runc => "runc",
            Self::Gvisor => "gVisor",
            Self::Guest => "VM guest",
        }
    }

    /// By the walls that were read back.
    pub fn of(receipt: &Receipt) -> Self {
        let runtime = receipt
            .layers
            .get("runtime")
            .and_then(|runtime| runtime["name"].as_str());
        match (receipt.tier, runtime) {
            (Tier::Gvisor, _) => Self::Gvisor,
            (Tier::Microvm, _) => Self::Guest,
            (_, Some("runc")) => Self::Runc,
            _ => Self::Host,
        }
    }

    /// Whether each sandbox has a kernel of its own, which knows nothing of its neighbours.
    pub(crate) fn has_own_kernel(self) -> bool {
        match self {
            Self::Host | Self::Runc => false,
            Self::Gvisor | Self::Guest => true,
        }
    }

    pub(crate) fn has_landlock(self) -> bool {
        !self.has_own_kernel()
    }

    /// Whether it can be built without this wall. A guest never has Landlock and always has groups: it is not made anew for them.
    pub(crate) fn can_lack(self, wall: Wall) -> bool {
        self != Self::Guest || !matches!(wall, Wall::Landlock | Wall::Cgroups)
    }

    /// How many sandboxes try something at once. An emulated processor is slow and is one only.
    pub(crate) fn at_once(self, usual: usize) -> usize {
        match self {
            Self::Host | Self::Runc | Self::Gvisor => usual,
            Self::Guest => 2,
        }
    }

    pub(crate) fn row(self, id: &str) -> Option<&'static Elsewhere> {
        ELSEWHERE.iter().find(|row| row.id == id && row.at == self)
    }

    pub fn asks(self, id: &str) -> bool {
        !self.row(id).is_some_and(|row| matches!(row.instead, Instead::NotAsked))
    }

    pub(crate) fn load(self, id: &str) -> Option<&'static LoadThere> {
        match &self.row(id)?.instead {
            Instead::Load(there) => Some(there),
            _ => None,
        }
    }

    /// Whether the kernel there gives the filter's own answer to this call, with this word.
    pub(crate) fn answers_alike(self, call: &str, word: &str) -> bool {
        ALIKE
            .iter()
            .any(|(at, name, answer)| *at == self && *name == call && *answer == word)
    }
}

/// The expectations that count: one of `there` stands in for all of `usual` that meet the same fact.
pub(crate) fn judged_by<'a>(name: &str, usual: &'a [Expect], there: &'a [Expect]) -> Vec<&'a Expect> {
    let meeting = |list: &'a [Expect]| list.iter().filter(|one| one.meets(name)).collect::<Vec<_>>();
    match meeting(there) {
        own if own.is_empty() => meeting(usual),
        own => own,
    }
}
