//! A probe that needs more than one piece of code: written in Rust, told in the same words.

use crate::bench::Bench;
use crate::error::AttackError;
use crate::here::Here;
use crate::lab::Lab;
use crate::verdict::{Finding, Shown};
use std::pin::Pin;

type Running<'a> = Pin<Box<dyn Future<Output = Result<(), AttackError>> + 'a>>;

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub id: &'static str,
    pub claim: &'static str,
    pub expected: &'static str,
    /// What the host looks at.
    pub oracle: &'static str,
    /// What must work in the same sandbox.
    pub twin: &'static str,
    /// Where the same attempt succeeds, and why that is safe.
    pub control: &'static str,
    pub run: for<'a> fn(&'a Bench, &'a Lab, &'a mut Shown) -> Running<'a>,
}

impl Case {
    /// Makes the try. What went wrong on the way says nothing about the wall.
    pub async fn finding(&self, bench: &Bench, lab: &Lab, here: Here) -> Finding {
        if let Some(why) = here.leaves_out(self.id) {
            return Finding::left_out(self.id, self.claim, why);
        }
        let mut shown = Shown::default();
        if let Err(error) = (self.run)(bench, lab, &mut shown).await {
            shown.doubt(error.in_words());
        }
        shown.judge(self.id, self.claim)
    }
}

/// Each case is a constant; one without its words does not compile. `ALL` lists them.
macro_rules! cases {
    ($($name:ident { $($field:ident: $text:literal),* $(,)? } |$bench:ident, $lab:ident, $shown:ident| $body:block)*) => {
        $(pub const $name: crate::case::Case = crate::case::Case {
            $($field: $text,)*
            run: |$bench, $lab, $shown| Box::pin(async move { $body Ok(()) }),
        };)*
        pub const ALL: &[crate::case::Case] = &[$($name),*];
    };
}
pub(crate) use cases;
