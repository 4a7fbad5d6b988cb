//! What a try showed: contained, breached or inconclusive, with the evidence. Only a try that could have worked counts.

use serde::Serialize;

/// `Inconclusive` is never a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Breached,
    Inconclusive,
    Contained,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Breached => "breached",
            Self::Inconclusive => "inconclusive",
            Self::Contained => "contained",
        }
    }
}

/// One probe, judged.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub id: String,
    pub claim: String,
    pub verdict: Verdict,
    /// What keeps it from being contained, in sentences.
    pub why: Vec<String>,
    /// What was seen inside, and what the host looked at.
    pub seen: Vec<String>,
    /// Where the same try succeeded, and what it saw there.
    pub control: Vec<String>,
}

/// Collects what speaks for and against a claim.
#[derive(Debug, Default)]
pub struct Shown {
    breaches: Vec<String>,
    doubts: Vec<String>,
    seen: Vec<String>,
    control: Vec<String>,
}

impl Shown {
    /// A part of the claim, with what was seen. If it does not hold, that is a breach.
    pub fn holds(&mut self, holds: bool, what: impl Into<String>) {
        match holds {
            true => self.seen.push(what.into()),
            false => self.breaches.push(format!("check failed: {}", what.into())),
        }
    }

    /// Something allowed that must work, or the claim says nothing.
    pub fn works(&mut self, works: bool, what: impl Into<String>) {
        match works {
            true => self.seen.push(what.into()),
            false => self.doubts.push(format!(
                "the permitted operation failed, so the probe proves nothing: {}",
                what.into()
            )),
        }
    }

    /// The same try where the wall is not. It must succeed.
    pub fn control(&mut self, succeeds: bool, what: impl Into<String>) {
        match succeeds {
            true => self.control.push(what.into()),
            false => self.doubts.push(format!("the control did not breach: {}", what.into())),
        }
    }

    pub fn saw(&mut self, what: impl Into<String>) {
        self.seen.push(what.into());
    }

    pub fn breach(&mut self, what: impl Into<String>) {
        self.breaches.push(what.into());
    }

    pub fn doubt(&mut self, what: impl Into<String>) {
        self.doubts.push(what.into());
    }

    pub fn saw_in_control(&mut self, what: impl Into<String>) {
        self.control.push(what.into());
    }

    /// A claim that was never looked at is not held.
    pub fn judge(mut self, id: impl Into<String>, claim: impl Into<String>) -> Finding {
        if self.breaches.is_empty() && self.doubts.is_empty() && (self.seen.is_empty() || self.control.is_empty()) {
            self.doubts.push("no evidence was collected".to_owned());
        }
        let verdict = match (self.breaches.is_empty(), self.doubts.is_empty()) {
            (false, _) => Verdict::Breached,
            (true, false) => Verdict::Inconclusive,
            (true, true) => Verdict::Contained,
        };
        self.breaches.append(&mut self.doubts);
        Finding {
            id: id.into(),
            claim: claim.into(),
            verdict,
            why: self.breaches,
            seen: self.seen,
            control: self.control,
        }
    }
}

impl Finding {
    /// A probe that was not made here.
    pub fn left_out(id: impl Into<String>, claim: impl Into<String>, why: impl Into<String>) -> Self {
        let mut shown = Shown::default();
        shown.doubt(why);
        shown.judge(id, claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_passes_without_a_look_and_a_control() {
        let verdict = |shown: Shown| shown.judge("X01", "a claim").verdict;
        assert_eq!(verdict(Shown::default()), Verdict::Inconclusive);
        let mut looked = Shown::default();
        looked.holds(true, "it held");
        assert_eq!(verdict(looked), Verdict::Inconclusive);
        let mut whole = Shown::default();
        whole.holds(true, "it held");
        whole.control(true, "it breached");
        assert_eq!(verdict(whole), Verdict::Contained);
    }

    #[test]
    fn a_breach_outweighs_a_doubt() {
        let mut shown = Shown::default();
        shown.works(false, "files open");
        shown.holds(false, "nothing is found");
        shown.control(false, "it is found");
        let finding = shown.judge("X01", "a claim");
        assert_eq!(finding.verdict, Verdict::Breached);
        assert_eq!(finding.why.len(), 3);
        assert!(finding.why[0].starts_with("check failed: "), "{:?}", finding.why);
    }
}
