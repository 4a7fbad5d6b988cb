//! Whether a piece of code is plain computation, or what more it needs: a fact for the choice of a tier.
//!
//! A guess on the safe side, never a wall: code that hides what it needs meets a tier that does not have it, and is run again in
//! one that has.

use super::python;
use atoll_core::Language;

/// What a piece of code needs besides a processor and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Python, with modules of its standard library that compute.
    Plain,
    /// More than that, in words: "the code imports pandas".
    More(String),
}

/// Modules that compute, and read or write the files they are given.
pub const PLAIN_MODULES: &[&str] = &[
    "__future__",
    "abc",
    "array",
    "ast",
    "base64",
    "binascii",
    "bisect",
    "calendar",
    "cmath",
    "collections",
    "colorsys",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "graphlib",
    "hashlib",
    "heapq",
    "html",
    "io",
    "itertools",
    "json",
    "keyword",
    "math",
    "numbers",
    "operator",
    "pprint",
    "random",
    "re",
    "reprlib",
    "secrets",
    "statistics",
    "string",
    "struct",
    "textwrap",
    "time",
    "types",
    "typing",
    "unicodedata",
    "uuid",
    "zlib",
    "zoneinfo",
];

/// Looks at the code. What cannot be read needs more.
pub fn needs(source: &str, language: Language) -> Needs {
    match language {
        Language::Python => python::needs(source),
        other => Needs::More(format!("the language is {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn more(source: &str) -> String {
        match needs(source, Language::Python) {
            Needs::Plain => panic!("plain: {source}"),
            Needs::More(why) => why,
        }
    }

    #[test]
    fn computation_with_the_standard_library_is_plain() {
        for source in [
            "1+1",
            "import math, json\nprint(math.pi)",
            "from collections import Counter as C\nC('abc')",
            "def f(n):\n    from statistics import mean\n    return mean(range(n))\nf(9)",
            "with open('/data/input/a.csv') as f:\n    print(f.read())",
        ] {
            assert_eq!(needs(source, Language::Python), Needs::Plain, "{source}");
        }
    }

    #[test]
    fn what_needs_more_says_what() {
        assert_eq!(more("import pandas as pd"), "the code imports pandas");
        assert_eq!(
            more("if x:\n    from matplotlib import pyplot"),
            "the code imports matplotlib"
        );
        assert_eq!(more("import os\nos.getpid()"), "the code imports os");
        assert_eq!(more("from . import x"), "the code uses a relative import");
        assert_eq!(
            more("!ls"),
            "the code contains a shell command or an IPython magic command"
        );
        assert_eq!(
            more("%matplotlib inline\n1"),
            "the code contains a shell command or an IPython magic command"
        );
        assert_eq!(
            more("%%bash\nls"),
            "the code contains a shell command or an IPython magic command"
        );
        assert_eq!(more("__import__('os').getpid()"), "the code uses __import__");
        assert_eq!(more("exec('import os')"), "the code uses exec");
        assert_eq!(more("def f(:"), "the code cannot be parsed");
        assert_eq!(more("a\0b"), "the code cannot be parsed");
        assert_eq!(more(&"(".repeat(5000)), "the code cannot be parsed");
        assert_eq!(
            needs("ls", Language::Bash),
            Needs::More("the language is bash".to_owned())
        );
    }
}
