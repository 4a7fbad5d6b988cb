//! Bytes of the audit log that each key has caused today (UTC). The process counts them in memory, so a restart begins at
//! zero.

use super::moment::Moment;
use super::record::Actor;
use std::collections::{HashMap, HashSet};

#[derive(Debug)]
pub(super) struct Quota {
    /// `None`: unlimited.
    limit: Option<u64>,
    day: i64,
    used: HashMap<String, u64>,
    /// Keys whose refusal has an entry of this day.
    noted: HashSet<String>,
    /// Keys of the entries that this process has open: the closing record counts as well.
    open: HashMap<u64, String>,
}

impl Quota {
    pub(super) fn new(limit: Option<u64>) -> Self {
        Self {
            limit,
            day: 0,
            used: HashMap::new(),
            noted: HashSet::new(),
            open: HashMap::new(),
        }
    }

    /// The limit, if the actor's key has reached it. Actors without a key have none.
    pub(super) fn reached(&mut self, actor: &Actor, now: Moment) -> Option<u64> {
        self.turn_to(now);
        let used = *self.used.get(actor.key.as_ref()?)?;
        self.limit.filter(|limit| used >= *limit)
    }

    /// Whether the log has an entry of today about the refusal of this key.
    pub(super) fn is_noted(&self, actor: &Actor) -> bool {
        actor.key.as_ref().is_none_or(|key| self.noted.contains(key))
    }

    pub(super) fn note(&mut self, actor: &Actor) {
        self.noted.extend(actor.key.clone());
    }

    /// A record that opens an entry was written.
    pub(super) fn opened(&mut self, entry: u64, key: Option<String>, bytes: u64, now: Moment) {
        if let Some(key) = key {
            self.charge(&key, bytes, now);
            self.open.insert(entry, key);
        }
    }

    /// A record that closes an entry was written.
    pub(super) fn closed(&mut self, entry: u64, bytes: u64, now: Moment) {
        if let Some(key) = self.open.remove(&entry) {
            self.charge(&key, bytes, now);
        }
    }

    fn charge(&mut self, key: &str, bytes: u64, now: Moment) {
        self.turn_to(now);
        let used = self.used.entry(key.to_owned()).or_default();
        *used = used.saturating_add(bytes);
    }

    /// Entries stay open over midnight, counts do not.
    fn turn_to(&mut self, now: Moment) {
        if self.day != now.day() {
            self.day = now.day();
            self.used.clear();
            self.noted.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(key: Option<&str>) -> Actor {
        Actor {
            key: key.map(str::to_owned),
            ..Actor::local()
        }
    }

    #[test]
    fn both_records_of_an_entry_count_until_midnight() {
        let mut quota = Quota::new(Some(100));
        let one = actor(Some("key_a"));
        let evening = Moment::from_micros(86_400_000_000 * 3 - 1);
        quota.opened(1, one.key.clone(), 60, evening);
        assert_eq!(quota.reached(&one, evening), None);
        quota.closed(1, 40, evening);
        quota.closed(1, 40, evening);
        quota.note(&one);
        assert_eq!(quota.reached(&one, evening), Some(100));
        assert_eq!(quota.reached(&actor(Some("key_b")), evening), None);
        let midnight = Moment::from_micros(86_400_000_000 * 3);
        assert_eq!(quota.reached(&one, midnight), None);
        assert!(!quota.is_noted(&one));
    }

    #[test]
    fn without_a_limit_or_a_key_nothing_is_refused() {
        let now = Moment::from_micros(0);
        let mut unlimited = Quota::new(None);
        unlimited.opened(1, Some("key_a".to_owned()), u64::MAX, now);
        assert_eq!(unlimited.reached(&actor(Some("key_a")), now), None);
        let mut quota = Quota::new(Some(1));
        quota.opened(1, None, 10, now);
        assert_eq!(quota.reached(&actor(None), now), None);
        assert!(quota.is_noted(&actor(None)) && quota.open.is_empty());
    }
}
