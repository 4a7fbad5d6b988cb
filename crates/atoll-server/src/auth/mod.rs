//! Who calls: keys as secrets, the ring of valid keys in memory, and the [`Caller`] that handlers get.
//!
//! No engine here. A route's class (see `api::table`) says whether a caller is needed and with which scope.

mod caller;
mod key;
mod present;
mod ring;
mod scopes;

pub use caller::Caller;
pub(crate) use caller::address;
pub use key::{Digest, SecretKey};
pub use present::{Presented, presented};
pub use ring::{KeyRing, KeyTable};
pub use scopes::Scopes;

use atoll_core::service::Scope;
use atoll_engine::audit::Actor;

/// The tenant of keys that name none, and of requests without a key where those are allowed.
pub const DEFAULT_TENANT: &str = "default";

/// Why a tenant or the name of a key is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    #[error(
        "invalid tenant `{0}`: expected 1 to 63 characters from a-z, 0-9, - and _, starting with a letter or digit"
    )]
    Tenant(String),
    #[error("the tenant `{0}` is reserved: the audit log uses it for actions without a key")]
    Reserved(String),
    #[error("invalid key name: expected 1 to 100 printable characters")]
    Key,
}

pub fn check_tenant(tenant: &str) -> Result<(), BadName> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let first = tenant.bytes().next().is_some_and(plain);
    let rest = tenant.bytes().all(|byte| plain(byte) || byte == b'-' || byte == b'_');
    let fine = first && rest && tenant.len() <= 63;
    fine.then_some(()).ok_or_else(|| BadName::Tenant(tenant.to_owned()))
}

/// The same for one that gets a key: names of the audit log are nobody's.
pub fn check_own_tenant(tenant: &str) -> Result<(), BadName> {
    let taken = [Actor::local(), Actor::system()];
    match taken.iter().any(|actor| actor.tenant == tenant) {
        true => Err(BadName::Reserved(tenant.to_owned())),
        false => check_tenant(tenant),
    }
}

pub fn check_key_name(name: &str) -> Result<(), BadName> {
    let fine = !name.trim().is_empty() && name.chars().count() <= 100 && !name.contains(char::is_control);
    fine.then_some(()).ok_or(BadName::Key)
}

/// What a new key may do if nobody says otherwise: everything but operating the server.
pub fn default_scopes() -> Scopes {
    Scopes::of(&[Scope::Run, Scope::Read])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_audit_log_are_no_tenants_of_keys() {
        for name in ["local", "system", "A"] {
            assert!(check_own_tenant(name).is_err(), "{name}");
        }
        assert_eq!(check_own_tenant("team"), Ok(()));
    }

    #[test]
    fn tenants_are_plain_words() {
        for fine in ["a", "team-1", "0_x", &"a".repeat(63)] {
            assert_eq!(check_tenant(fine), Ok(()), "{fine}");
        }
        for bad in ["", "-a", "A", "a b", "a/b", "a\n", "ä", &"a".repeat(64)] {
            assert!(check_tenant(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn who_acts_without_a_key_is_no_tenant_of_keys() {
        for reserved in ["system", "local"] {
            assert_eq!(check_tenant(reserved), Ok(()));
            assert_eq!(check_own_tenant(reserved), Err(BadName::Reserved(reserved.to_owned())));
        }
        assert!(check_own_tenant("team").is_ok() && check_own_tenant("A").is_err());
    }

    #[test]
    fn names_of_keys_are_printable() {
        assert_eq!(check_key_name("the team's notebook ✓"), Ok(()));
        for bad in ["", "  ", "a\r\nb", "\u{1b}[2J", &"x".repeat(101)] {
            assert!(check_key_name(bad).is_err(), "{bad:?}");
        }
    }
}
