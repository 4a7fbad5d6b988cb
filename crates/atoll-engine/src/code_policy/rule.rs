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
        "the module `{}` is not on this policy's allow-list",
        "use a module on the allow-list, or request a policy that allows this one";
    ImportRelative = "import.relative", Low,
        "`{}` is a relative import, and the code is not part of a package",
        "import the module by its absolute name";
    ImportStar = "import.star", Info,
        "a star import of `{}` hides where each name comes from",
        "import only the names that the code uses";
    ImportDynamic = "import.dynamic", Low,
        "the module `{}` is imported dynamically by a function call",
        "write `import {}` at the top of the code";
    ImportHidden = "import.hidden", High,
        "the name of an imported module is computed or passed indirectly: {}",
        "write the import with a literal module name";
    ImportReach = "import.reach", High,
        "`{}` reaches another module through an imported one",
        "import that module directly";
    BuiltinUse = "builtin.use", Medium,
        "the builtin `{}` runs code or exposes interpreter internals",
        "write the code inline, or use your own dictionary";
    BuiltinGetattr = "builtin.getattr", Low,
        "`{}` accesses an attribute whose name is known only at run time",
        "write the attribute name in the code, or look the function up in a dictionary";
    ObjectClimb = "object.climb", High,
        "`{}` reaches interpreter internals from an ordinary object",
        "use the object's public methods";
    ObjectDunder = "object.dunder", Low,
        "`{}` is a special attribute that the language uses internally",
        "use the matching built-in function, such as `type()` or `len()`";
    HiddenName = "hidden.name", High,
        "a name is assembled at run time: {}",
        "write the name literally";
    HiddenCode = "hidden.code", High,
        "the code runs other code that cannot be analysed in advance: {}",
        "write that code inline";
    HiddenLookalike = "hidden.lookalike", High,
        "the name `{}` contains characters that look like other letters",
        "use letters of one alphabet in a name";
    HiddenBidi = "hidden.bidi", High,
        "the source contains a bidirectional control character: {}",
        "remove it, or write it as an escape sequence";
    HiddenCoding = "hidden.coding", High,
        "the source declares the encoding `{}`",
        "use UTF-8, and remove the declaration";
    ProcessShell = "process.shell", Medium,
        "`{}` starts another program",
        "use the language's own functions; `os.listdir`, `pathlib` and `shutil` need no shell";
    ProcessControl = "process.control", Medium,
        "`{}` creates, controls or terminates processes",
        "run in a single process; threads are allowed";
    ProcessScript = "process.script", Low,
        "a shell script can start any program, and module allow-lists do not apply to it",
        "write it in Python";
    NetworkUse = "network.use", Medium,
        "`{}` uses the network",
        "pass the data as an input file; inputs appear in /data/input";
    PackageInstall = "package.install", Medium,
        "`{}` installs packages",
        "use the template's packages, or a template that includes this package";
    DataUnpickle = "data.unpickle", Medium,
        "`{}` reads a format that can execute code while it is loaded",
        "use CSV, Parquet or JSON";
    DataExtension = "data.extension", Medium,
        "`{}` loads an extension into a database",
        "use the functions that the database has built in";
    FileRead = "file.read", Medium,
        "`{}` reads outside the data directories",
        "pass the data as an input file; inputs appear in /data/input";
    FileWrite = "file.write", Medium,
        "`{}` writes outside the allowed directories",
        "write to /data/output, which is returned with the result, or to /tmp";
    FileDelete = "file.delete", Medium,
        "`{}` deletes or renames files outside the allowed directories",
        "delete or rename only files that the code created";
    FileDeleteTree = "file.delete_tree", Medium,
        "`{}` deletes a directory with all files in it",
        "delete only directories that the code created";
    FileProfile = "file.profile", Medium,
        "`{}` writes a file that is executed when a shell or Python starts",
        "write to /data/output, which is returned with the result";
    EnvironmentDump = "environment.dump", Medium,
        "`{}` reads all environment variables",
        "read the variables that the code needs by their names";
    LoopEndless = "loop.endless", Low,
        "the loop `{}` has no exit",
        "add a `break`, a condition or an iteration limit";
    LiteralLarge = "literal.large", Low,
        "a literal or constant expression is too large: {}",
        "pass the data as an input file";
    SourceTooLarge = "source.too_large", High,
        "the code is too large to analyse: {}",
        "pass data as input files, and split the code into smaller parts";
    SourceTooDeep = "source.too_deep", High,
        "the code is too deeply nested or complex to analyse: {}",
        "assign parts of the expression to variables";
    SourceUnreadable = "source.unreadable", Medium,
        "the code cannot be parsed: {}",
        "fix the syntax";
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
