//! Every rule of the code policy: its name, how much it matters, a sentence, and what to do instead. One table, as data.
//!
//! Names are a contract: policies and people's scripts hold on to them. `{}` in a sentence is what was found.

use atoll_core::Severity;

macro_rules! rules {
    ($($name:ident = $id:literal, $severity:ident, $sentence:literal, $instead:literal;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule { $(#[doc = $sentence] $name),+ }

        impl Rule {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            pub fn id(self) -> &'static str {
                match self { $(Self::$name => $id),+ }
            }

            pub fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity),+ }
            }

            pub fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence),+ }
            }

            pub fn instead(self) -> &'static str {
                match self { $(Self::$name => $instead),+ }
            }
        }
    };
}

rules! {
    ImportModule = "import.module", Low,
        "the module `{}` is not on the list of this policy",
        "use a module of the list, or ask for a policy that has this one";
    ImportRelative = "import.relative", Low,
        "`{}` is imported from beside the code, where no package is",
        "import by the full name";
    ImportStar = "import.star", Info,
        "all names of `{}` are imported, so a reader cannot tell where a name comes from",
        "import the names that are used";
    ImportDynamic = "import.dynamic", Low,
        "the module `{}` is imported by a call",
        "write `import {}` at the top";
    ImportHidden = "import.hidden", High,
        "a module is imported whose name is put together or handed on: {}",
        "write the import with the plain name";
    ImportReach = "import.reach", High,
        "`{}` reaches another module through one that is open",
        "import the module itself";
    BuiltinUse = "builtin.use", Medium,
        "the builtin `{}` runs code or opens the interpreter's own tables",
        "write the code itself, or use a dictionary of your own";
    BuiltinGetattr = "builtin.getattr", Low,
        "`{}` takes an attribute whose name is known only when the code runs",
        "write the attribute, or choose from a dictionary of functions";
    ObjectClimb = "object.climb", High,
        "`{}` climbs from an object into the interpreter",
        "use the object's own methods";
    ObjectDunder = "object.dunder", Low,
        "`{}` is an attribute of the language's own machinery",
        "use the function that stands for it, such as `type()` or `len()`";
    HiddenName = "hidden.name", High,
        "a name is put together from pieces: {}",
        "write the name as it is";
    HiddenCode = "hidden.code", High,
        "code is run that cannot be read here: {}",
        "write the code as it is";
    HiddenLookalike = "hidden.lookalike", High,
        "the name `{}` is written with letters that look like others",
        "write names in one alphabet";
    HiddenBidi = "hidden.bidi", High,
        "the text has a character that turns the direction of reading: {}",
        "remove it, or write it as an escape";
    HiddenCoding = "hidden.coding", High,
        "the first lines ask for the encoding `{}`",
        "write the code as UTF-8, without that line";
    ProcessShell = "process.shell", Medium,
        "`{}` starts another program",
        "do it in the language itself; `os.listdir`, `pathlib` and `shutil` need no shell";
    ProcessControl = "process.control", Medium,
        "`{}` makes, steers or ends processes",
        "let the code run in one process; threads are fine";
    ProcessScript = "process.script", Low,
        "a shell script starts programs, which no list of modules holds",
        "write it in Python";
    NetworkUse = "network.use", Medium,
        "`{}` talks to the network",
        "give the data as an input file; it is then below /data/input";
    PackageInstall = "package.install", Medium,
        "`{}` installs packages",
        "use what the template has, or a template that has the package";
    DataUnpickle = "data.unpickle", Medium,
        "`{}` reads a format that can run code while it is read",
        "use CSV, Parquet or JSON";
    FileWrite = "file.write", Medium,
        "`{}` writes outside of the allowed places",
        "write to /data/output, which comes back, or to /tmp";
    FileDelete = "file.delete", Medium,
        "`{}` removes or renames outside of the allowed places",
        "leave files alone that the code did not make";
    LoopEndless = "loop.endless", Low,
        "the loop `{}` has no way out",
        "add a `break`, a condition or a number of rounds";
    LiteralLarge = "literal.large", Low,
        "a literal is very large: {}",
        "give the data as an input file";
    SourceTooLarge = "source.too_large", High,
        "the code is too long to be looked at: {}",
        "give data as an input file, and cut the code into pieces";
    SourceTooDeep = "source.too_deep", High,
        "the code is nested too deep to be looked at: {}",
        "use names for parts of the expression";
    SourceUnreadable = "source.unreadable", Medium,
        "the code cannot be read here: {}",
        "mend the syntax";
}

impl Rule {
    pub fn named(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.id() == id)
    }

    /// Whether `group` is the rule's name or the beginning of it, up to a dot.
    pub fn is_in(self, group: &str) -> bool {
        let rest = self.id().strip_prefix(group);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_in_groups() {
        for (at, rule) in Rule::ALL.iter().enumerate() {
            assert_eq!(*rule as usize, at);
            assert_eq!(Rule::named(rule.id()), Some(*rule));
            let (group, _) = rule.id().split_once('.').unwrap();
            assert!(rule.is_in(group) && rule.is_in(rule.id()));
            assert!(!rule.is_in(&group[1..]) && !rule.is_in(""));
        }
        assert!(!Rule::ImportStar.is_in("impo"));
    }
}
