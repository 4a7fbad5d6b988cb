//! Failures of installers that Atoll can explain, by words of their output. Pure.

/// A failure that is known by words of its output.
#[derive(Debug)]
pub struct Known {
    words: &'static [&'static str],
    pub(super) what: &'static str,
    pub(super) hint: &'static str,
    pub(super) cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Host,
    /// The host has no package index.
    NoIndex,
    /// The index does not have the package.
    NoPackage,
    Conflict,
}

static KNOWN: [Known; 5] = [
    Known {
        words: &["No space left on device", "Disk quota exceeded"],
        what: "the disk is full",
        hint: "free some disk space, or set ATOLL_HOME (and TMPDIR) to a directory on a larger disk",
        cause: Cause::Host,
    },
    Known {
        words: &["DO NOT MATCH THE HASHES", "Hash mismatch"],
        what: "a package does not match its hash in the lock file",
        hint: "clear the installer's cache, then retry",
        cause: Cause::Host,
    },
    Known {
        words: &[
            "Temporary failure in name resolution",
            "Failed to establish a new connection",
            "Network is unreachable",
            "Connection refused",
            "Read timed out",
            "ProxyError",
            "SSLError",
            "dns error",
            "error sending request",
        ],
        what: "the package index is unreachable",
        hint: "check the network, the proxy, and PIP_INDEX_URL if you use a mirror, then retry",
        cause: Cause::NoIndex,
    },
    Known {
        words: &[
            "No matching distribution found",
            "no wheels with a matching",
            "Packages were unavailable because",
            "was not found in the package registry",
            "was not found in the provided package locations",
            "no usable wheels",
            "there is no version of",
        ],
        what: "the package index has no matching package for this Python version",
        hint: "check the spelling, the version and the index (PIP_INDEX_URL), or set ATOLL_PYTHON to the path of another \
               Python version that the recipe allows",
        cause: Cause::NoPackage,
    },
    Known {
        words: &["ResolutionImpossible", "No solution found"],
        what: "the packages conflict with each other or with the packages of the template",
        hint: "request another version, or use --from with a template that has fewer packages",
        cause: Cause::Conflict,
    },
];

impl Known {
    /// The first that fits: an index that is not reachable does not have the package either.
    pub(super) fn find<'a>(lines: impl Iterator<Item = &'a str>) -> Option<&'static Self> {
        // Installers wrap their sentences.
        let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        let text = words.join(" ");
        KNOWN
            .iter()
            .find(|known| known.words.iter().any(|words| text.contains(words)))
    }
}
