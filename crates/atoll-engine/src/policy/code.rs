//! The part of a policy that is about code: a verdict for each rule, allowed modules and places, bounds.

use crate::code_policy::Rule;
use atoll_core::{Language, Verdict};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Directories that code may read, besides those that it may write to.
const READABLE: [&str; 6] = ["/data", "/dev/null", "/home/user", "/mnt/data", "/tmp", "/usr/share"];
/// Files and directories that hold credentials, wherever they are.
const PRIVATE: [&str; 9] = [
    ".aws",
    ".docker",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".netrc",
    ".pgpass",
    ".pypirc",
    ".ssh",
];

/// Where every sandbox has scratch.
const WRITABLE: [&str; 8] = [
    "/app",
    "/code",
    "/data/output",
    "/home/user",
    "/mnt/data",
    "/tmp",
    "/var/tmp",
    "/workspace",
];

/// Resolved: every rule has its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CodePolicy {
    verdicts: BTreeMap<&'static str, Verdict>,
    /// By the name of a language; a language that is not there may import anything.
    pub modules: BTreeMap<String, BTreeSet<String>>,
    /// Directories below which code may write.
    pub write: BTreeSet<String>,
    pub limits: CodeLimits,
}

/// How much of a source is looked at. Beyond it, the code has a finding and is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CodeLimits {
    pub source_bytes: u64,
    pub literal_bytes: u64,
}

impl CodePolicy {
    /// Nothing is held, nothing is listed: the root of all policies.
    pub fn bare() -> Self {
        Self {
            verdicts: Rule::ALL.iter().map(|rule| (rule.id(), Verdict::Allow)).collect(),
            modules: BTreeMap::new(),
            write: WRITABLE.map(str::to_owned).into(),
            limits: CodeLimits {
                source_bytes: 1 << 20,
                literal_bytes: 64 << 10,
            },
        }
    }

    pub fn verdict(&self, rule: Rule) -> Verdict {
        self.verdicts.get(rule.id()).copied().unwrap_or(Verdict::Deny)
    }

    /// The verdict of each rule.
    pub fn verdicts(&self) -> &BTreeMap<&'static str, Verdict> {
        &self.verdicts
    }

    /// Sets the verdict of a rule or of a group of rules; `false` if there is none of that name.
    pub fn set(&mut self, group: &str, verdict: Verdict) -> bool {
        let mut found = false;
        for rule in Rule::ALL.iter().filter(|rule| rule.is_in(group)) {
            self.verdicts.insert(rule.id(), verdict);
            found = true;
        }
        found
    }

    pub fn set_all(&mut self, verdict: Verdict) {
        self.verdicts.values_mut().for_each(|one| *one = verdict);
    }

    /// Whether a module may be imported: it is listed, or is below one that is.
    pub fn allows_module(&self, language: Language, name: &str) -> bool {
        let Some(list) = self.listed(language) else {
            return true;
        };
        let is_below = |listed: &String| {
            name.strip_prefix(listed.as_str())
                .is_some_and(|rest| rest.starts_with('.'))
        };
        list.contains(name) || list.iter().any(is_below)
    }

    /// The listed parts of a module: `os.path` for `os`. Where only parts are listed, the rest is not allowed.
    pub fn listed_parts<'a>(&'a self, language: Language, module: &'a str) -> impl Iterator<Item = &'a str> {
        let from: (Bound<&str>, Bound<&str>) = (Bound::Included(module), Bound::Unbounded);
        self.listed(language)
            .into_iter()
            .flat_map(move |list| list.range::<str, _>(from))
            .map(String::as_str)
            .take_while(move |name| name.starts_with(module))
            .filter(move |name| name.as_bytes().get(module.len()) == Some(&b'.'))
    }

    fn listed(&self, language: Language) -> Option<&BTreeSet<String>> {
        let language = match language {
            Language::Typescript => Language::Javascript,
            other => other,
        };
        self.modules.get(language.as_str())
    }

    /// Whether code may read a path, as it is written.
    pub fn allows_read(&self, path: &str) -> bool {
        let place = plain(path);
        let is_private = place.split('/').any(|part| PRIVATE.contains(&part));
        let mut readable = READABLE.into_iter().chain(self.write.iter().map(String::as_str));
        !is_private && readable.any(|dir| is_within(&place, dir))
    }

    /// Whether code may write to a path, as it is written. One that is not absolute begins in the working directory.
    pub fn allows_write(&self, path: &str) -> bool {
        let place = plain(path);
        self.write.iter().any(|dir| is_within(&place, dir))
    }

    /// Whether code may delete a path with all below it: it may write there, and the path is not one of the directories
    /// themselves.
    pub fn allows_delete_tree(&self, path: &str) -> bool {
        let place = plain(path.trim_end_matches("/*"));
        let is_whole = self.write.iter().any(|dir| place == dir.trim_end_matches('/'));
        self.allows_write(path) && !is_whole
    }

    /// What both allow.
    pub fn tighten(&self, call: &Self) -> Self {
        let mut all = self.clone();
        for (id, verdict) in &call.verdicts {
            let own = all.verdicts.entry(id).or_insert(Verdict::Deny);
            *own = (*own).max(*verdict);
        }
        for (language, list) in &call.modules {
            let both = match self.modules.get(language) {
                None => list.clone(),
                Some(own) => common(own, list, |name, listed| {
                    name == listed || name.starts_with(&format!("{listed}."))
                }),
            };
            all.modules.insert(language.clone(), both);
        }
        all.write = common(&self.write, &call.write, is_within);
        all.limits = CodeLimits {
            source_bytes: self.limits.source_bytes.min(call.limits.source_bytes),
            literal_bytes: self.limits.literal_bytes.min(call.limits.literal_bytes),
        };
        all
    }
}

/// Entries of either list that lie within one of the other.
fn common(one: &BTreeSet<String>, other: &BTreeSet<String>, within: fn(&str, &str) -> bool) -> BTreeSet<String> {
    let kept = |own: &BTreeSet<String>, list: &BTreeSet<String>| {
        let held = own.iter().filter(|name| list.iter().any(|listed| within(name, listed)));
        held.cloned().collect::<BTreeSet<String>>()
    };
    &kept(one, other) | &kept(other, one)
}

fn is_within(path: &str, dir: &str) -> bool {
    let rest = path.strip_prefix(dir.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A path without `.` and `..`, from the root. No file is looked at.
fn plain(path: &str) -> String {
    let below_home = path
        .strip_prefix('~')
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let home = below_home.map(|rest| format!("/home/user{rest}"));
    let path = home.as_deref().unwrap_or(path);
    let whole = match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("/home/user/{path}"),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_compared_without_dots() {
        let policy = CodePolicy::bare();
        for inside in [
            "a.csv",
            "/tmp/x",
            "/var/tmp/x",
            "/workspace/x",
            "/data/output",
            "~/x",
            "/data/output/../output/x",
            "./a/../b",
        ] {
            assert!(policy.allows_write(inside), "{inside}");
        }
        for outside in [
            "/data/outputs/x",
            "../x",
            "/etc/passwd",
            "/data/output/../../etc/x",
            "/",
            "/tmpx",
        ] {
            assert!(!policy.allows_write(outside), "{outside}");
        }
    }

    #[test]
    fn data_is_read_and_credentials_are_not() {
        let policy = CodePolicy::bare();
        for inside in [
            "a.csv",
            "/data/input/a.csv",
            "~/a",
            "/usr/share/fonts/a.ttf",
            "/dev/null",
        ] {
            assert!(policy.allows_read(inside), "{inside}");
        }
        for outside in [
            "/etc/passwd",
            "~/.ssh/id_rsa",
            "/data/../etc/x",
            "../../root",
            "/proc/self/environ",
            "/",
        ] {
            assert!(!policy.allows_read(outside), "{outside}");
        }
    }

    #[test]
    fn whole_directories_are_not_deleted() {
        let policy = CodePolicy::bare();
        for inside in ["/tmp/x", "build", "/data/output/charts", "~/cache/*"] {
            assert!(policy.allows_delete_tree(inside), "{inside}");
        }
        for whole in ["/", "/usr", "~", "~/*", ".", "/data/output/", "/tmp/*", "/tmp/x/.."] {
            assert!(!policy.allows_delete_tree(whole), "{whole}");
        }
    }

    #[test]
    fn parts_of_a_module_are_listed() {
        let mut policy = CodePolicy::bare();
        let list = ["os.path", "os.walk", "osx.path", "os-x"].map(str::to_owned);
        policy.modules.insert("python".into(), list.into());
        let parts: Vec<&str> = policy.listed_parts(Language::Python, "os").collect();
        assert_eq!(parts, ["os.path", "os.walk"]);
        assert_eq!(policy.listed_parts(Language::Python, "os.path").count(), 0);
        assert_eq!(policy.listed_parts(Language::Javascript, "os").count(), 0);
    }

    #[test]
    fn both_lists_hold() {
        let (mut one, mut other) = (CodePolicy::bare(), CodePolicy::bare());
        one.modules
            .insert("python".into(), ["numpy", "os.path"].map(str::to_owned).into());
        other
            .modules
            .insert("python".into(), ["numpy", "os", "json"].map(str::to_owned).into());
        other.write = ["/tmp/own"].map(str::to_owned).into();
        other.set("hidden", Verdict::Deny);
        one.set("process", Verdict::Ask);
        let both = one.tighten(&other);
        assert_eq!(both.modules["python"], ["numpy", "os.path"].map(str::to_owned).into());
        assert_eq!(both.write, other.write);
        assert_eq!(both.verdict(Rule::HiddenName), Verdict::Deny);
        assert_eq!(both.verdict(Rule::ProcessShell), Verdict::Ask);
        assert_eq!(both, other.tighten(&one));
    }
}
