//! The policies that this server knows: those that are shipped, and the operator's own, which are files of one directory. Read
//! and checked at the start. Requests name them, or bring one of their own, and can only tighten what their tenant has.

use crate::auth::check_tenant;
use crate::config::PolicySettings;
use atoll_engine::policy::{Policy, PolicyError, SHIPPED, load};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub enum PoliciesError {
    #[error("cannot read the policy directory `{}` (setting policy.dir)", dir.display())]
    Dir { dir: PathBuf, source: std::io::Error },
    #[error("invalid policy name `{}` (setting policy.dir): use a-z, 0-9, - and _, and not the name of a built-in policy", path.display())]
    Name { path: PathBuf },
    #[error("cannot use the policy `{}` (setting policy.dir)", path.display())]
    Bad { path: PathBuf, source: PolicyError },
    #[error("unknown policy `{name}` in the setting {setting}; available: {known}")]
    Unknown {
        setting: String,
        name: String,
        known: String,
    },
}

/// All that there are, by name, and who has which.
#[derive(Debug)]
pub struct Policies {
    known: BTreeMap<String, Arc<Policy>>,
    default: Arc<Policy>,
    tenants: BTreeMap<String, Arc<Policy>>,
}

impl Policies {
    pub fn load(settings: &PolicySettings) -> Result<Self, PoliciesError> {
        let mut known = BTreeMap::new();
        for (name, _) in SHIPPED {
            let path = PathBuf::from(name);
            let policy = load(name).map_err(|source| PoliciesError::Bad { path, source })?;
            known.insert(name.to_owned(), Arc::new(policy));
        }
        if let Some(dir) = &settings.dir {
            read_dir(Path::new(dir), &mut known)?;
        }
        let find = |setting: &str, name: &str| {
            let unknown = || PoliciesError::Unknown {
                setting: setting.to_owned(),
                name: name.to_owned(),
                known: names(&known),
            };
            known.get(name).cloned().ok_or_else(unknown)
        };
        let default = find("policy.default", &settings.default)?;
        let own = settings.tenants.iter();
        let own = own.map(|(tenant, name)| Ok((tenant.clone(), find(&format!("policy.tenants.{tenant}"), name)?)));
        Ok(Self {
            tenants: own.collect::<Result<_, PoliciesError>>()?,
            default,
            known,
        })
    }

    /// What holds for all that a tenant runs.
    pub fn of(&self, tenant: &str) -> &Arc<Policy> {
        self.tenants.get(tenant).unwrap_or(&self.default)
    }

    /// The same, tightened by what was asked for.
    pub fn within(&self, tenant: &str, asked: Option<&Policy>) -> Arc<Policy> {
        let own = self.of(tenant);
        asked.map_or_else(|| Arc::clone(own), |asked| Arc::new(own.tighten(asked)))
    }

    /// What holds for a sandbox that was made before this start: what it had, or more if its tenant's is stricter by now.
    pub fn still(&self, tenant: &str, had: Policy) -> Arc<Policy> {
        let both = self.of(tenant).tighten(&had);
        Arc::new(match both.digest() == had.digest() {
            true => had,
            false => both,
        })
    }

    pub fn find(&self, name: &str) -> Option<&Arc<Policy>> {
        self.known.get(name)
    }

    /// A policy's name as the metrics tell it: that of one of these, of one that a request brings, or of two together. All
    /// others have one name, so that requests cannot make more and more of them.
    pub fn label(&self, name: &str) -> String {
        let is_known = |part: &str| part == "inline" || self.known.contains_key(part);
        match name.split('+').count() <= 2 && name.split('+').all(is_known) {
            true => name.to_owned(),
            false => "other".to_owned(),
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.known.values()
    }

    /// For people who have named another one.
    pub fn names(&self) -> String {
        names(&self.known)
    }
}

fn names(known: &BTreeMap<String, Arc<Policy>>) -> String {
    known.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Every `NAME.toml`. They may inherit each other; what else lies there is not looked at.
fn read_dir(dir: &Path, known: &mut BTreeMap<String, Arc<Policy>>) -> Result<(), PoliciesError> {
    let unreadable = |source| PoliciesError::Dir {
        dir: dir.to_owned(),
        source,
    };
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_none_or(|end| end != "toml") {
            continue;
        }
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let shipped = SHIPPED.iter().any(|(shipped, _)| *shipped == name);
        // The same letters as a tenant's name.
        if shipped || name == "inline" || check_tenant(name).is_err() {
            return Err(PoliciesError::Name { path });
        }
        let bad = |source| PoliciesError::Bad {
            path: path.clone(),
            source,
        };
        let policy = load(&path.to_string_lossy()).map_err(bad)?.called(name);
        known.insert(name.to_owned(), Arc::new(policy));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_core::Verdict;
    use atoll_engine::code_policy::Rule;

    fn settings(dir: Option<&Path>, default: &str, tenants: &[(&str, &str)]) -> PolicySettings {
        let own = tenants.iter().map(|(tenant, name)| ((*tenant).into(), (*name).into()));
        PolicySettings {
            default: default.to_owned(),
            tenants: own.collect(),
            dir: dir.map(|dir| dir.to_string_lossy().into_owned()),
        }
    }

    #[test]
    fn tenants_have_their_own_and_nothing_loosens_it() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(
            dir.path().join("lab.toml"),
            "inherit = \"guarded\"\n[code.rules]\n\"package\" = \"deny\"",
        )
        .unwrap();
        fs_err::write(dir.path().join("notes.txt"), "nothing").unwrap();
        let policies = Policies::load(&settings(Some(dir.path()), "standard", &[("acme", "lab")])).unwrap();
        assert_eq!(
            (policies.of("acme").name.as_str(), policies.of("x").name.as_str()),
            ("lab", "standard")
        );
        let open = policies.find("open").unwrap();
        let within = policies.within("acme", Some(open));
        assert_eq!(within.digest(), policies.of("acme").digest());
        let still = |tenant: &str| policies.still(tenant, (**open).clone());
        assert_eq!(still("acme").digest(), policies.of("acme").digest());
        let had = policies.of("acme").tighten(policies.find("strict").unwrap());
        assert_eq!(policies.still("acme", had.clone()).name, had.name);
        let strict = policies.within("x", policies.find("strict").map(|strict| &**strict));
        assert_eq!(strict.code.verdict(Rule::NetworkUse), Verdict::Deny);
    }

    #[test]
    fn labels_of_policies_are_bounded() {
        let policies = Policies::load(&settings(None, "standard", &[])).unwrap();
        for name in ["strict", "standard+strict", "standard+inline"] {
            assert_eq!(policies.label(name), name);
        }
        for name in ["", "mine", "strict+mine", "strict+", "standard+inline+strict"] {
            assert_eq!(policies.label(name), "other", "{name}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |settings: &PolicySettings| Policies::load(settings).unwrap_err().to_string();
        assert!(refused(&settings(None, "lax", &[])).contains("unknown policy `lax` in the setting policy.default"));
        assert!(refused(&settings(None, "open", &[("acme", "x")])).contains("policy.tenants.acme"));
        assert!(
            refused(&settings(Some(&dir.path().join("no")), "open", &[])).contains("cannot read the policy directory")
        );
        for (name, text, words) in [
            ("open.toml", "inherit = \"strict\"", "invalid policy name"),
            ("A B.toml", "inherit = \"strict\"", "invalid policy name"),
            ("bad.toml", "inherit = 1", "cannot use the policy"),
        ] {
            let path = dir.path().join(name);
            fs_err::write(&path, text).unwrap();
            assert!(
                refused(&settings(Some(dir.path()), "open", &[])).contains(words),
                "{name}"
            );
            fs_err::remove_file(&path).unwrap();
        }
    }
}
