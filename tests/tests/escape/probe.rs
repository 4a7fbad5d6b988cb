//! How cases become tests: those of the suite alone with their words, and the shipped ones by their names.

/// A probe that needs more than one piece of code and is not shipped: written in Rust, told in the same words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) id: &'static str,
    pub(crate) claim: &'static str,
    pub(crate) expected: &'static str,
    /// What the host looks at.
    pub(crate) oracle: &'static str,
    /// What must work in the same sandbox.
    pub(crate) twin: &'static str,
    /// Where the same attempt succeeds, and why that is safe.
    pub(crate) control: &'static str,
}

/// Each case becomes a test of its own and an entry of the list; one without its words does not compile.
macro_rules! cases {
    ($list:ident: $($name:ident { $($field:ident: $text:literal),* $(,)? } $body:block)*) => {
        pub(crate) const $list: &[crate::probe::Case] = &[$(crate::probe::Case { $($field: $text),* }),*];
        $(#[tokio::test]
        async fn $name() -> anyhow::Result<()> {
            const CASE: crate::probe::Case = crate::probe::Case { $($field: $text),* };
            if crate::rootless::here().leaves_out(CASE.id).is_none() { $body }
            Ok(())
        })*
    };
}
pub(crate) use cases;

/// Each shipped case of a module becomes a test, and none is forgotten.
macro_rules! shipped {
    ($module:ident: $($name:ident: $case:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $name() -> anyhow::Result<()> {
            crate::lab::case_holds(&$module::$case).await
        })*
        #[test]
        fn every_shipped_case_is_a_test() {
            assert_eq!([$($module::$case.id),*].len(), $module::ALL.len());
        }
    };
}
pub(crate) use shipped;
