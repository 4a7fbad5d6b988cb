//! What cannot be asked on this machine, or not be shown to work: repeated in docs/escape.md, with the same words.

/// What a machine gives the jail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here {
    pub rootless: bool,
    pub cgroups: bool,
}

/// What is not asked: the claim itself, or only its control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Claim,
    Control,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    NoGroup,
    Rootless,
}

const NO_GROUP: &str = "no cgroup: kernel memory is not accounted";
const NEEDS_ROOT: &str = "the control must use or drop root privileges";

pub const DIFFERENT: &[(&str, When, Part, &str)] = &[
    ("R06", When::NoGroup, Part::Claim, NO_GROUP),
    ("R06b", When::NoGroup, Part::Claim, NO_GROUP),
    ("R06c", When::NoGroup, Part::Claim, NO_GROUP),
    ("R07c", When::NoGroup, Part::Claim, NO_GROUP),
    ("R08", When::NoGroup, Part::Claim, NO_GROUP),
    ("P23b", When::Rootless, Part::Claim, "all sandboxes share one host user"),
    (
        "Z05",
        When::Rootless,
        Part::Claim,
        "needs the template `python-data`; random numbers do not depend on whether Atoll runs as root",
    ),
    (
        "Z17",
        When::Rootless,
        Part::Claim,
        "root of the namespace is the same host user, so file ownership shows nothing; P02d tests the layer itself",
    ),
    ("F14", When::Rootless, Part::Control, NEEDS_ROOT),
];

impl Here {
    /// Why the whole probe is left out here.
    pub fn leaves_out(self, id: &str) -> Option<&'static str> {
        self.different(id, |part| part == Part::Claim)
    }

    /// Why the probe's control is left out here.
    pub fn leaves_out_control(self, id: &str) -> Option<&'static str> {
        self.different(id, |_| true)
    }

    fn different(self, id: &str, part: impl Fn(Part) -> bool) -> Option<&'static str> {
        let found = DIFFERENT
            .iter()
            .find(|row| row.0 == id && self.is(row.1) && part(row.2));
        found.map(|row| row.3)
    }

    fn is(self, when: When) -> bool {
        match when {
            When::NoGroup => !self.cgroups,
            When::Rootless => self.rootless,
        }
    }
}
