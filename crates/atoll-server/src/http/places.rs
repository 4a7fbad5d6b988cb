//! Places for connections. Whoever has shown a valid key or token keeps its place; a stranger has it until it is needed.
//!
//! When all places are taken, a newcomer gets that of a stranger: of the address that has most of them, the one that has
//! been there longest. So connections without a key cannot shut out those with one, who show it at once. One tenant keeps three
//! quarters of all places at most; what it has beyond is a stranger's. Only when nobody is a stranger is there no place.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    next: u64,
    held: BTreeMap<u64, Held>,
}

#[derive(Debug)]
struct Held {
    address: IpAddr,
    /// The tenant whose key was shown.
    known: Option<Arc<str>>,
    leave: Arc<Notify>,
}

/// The place of one connection, given back with the last copy. In the extensions of its requests.
#[derive(Clone, Debug)]
pub(crate) struct Place(Arc<Seat>);

#[derive(Debug)]
struct Seat {
    number: u64,
    places: Arc<Places>,
    leave: Arc<Notify>,
}

impl Places {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            books: Mutex::default(),
        })
    }

    /// A free place, or that of a stranger, who is told to leave.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut books = self.lock();
        if books.held.len() >= self.most {
            let number = books.most_displaceable()?;
            books.held.remove(&number)?.leave.notify_one();
        }
        let number = books.next;
        books.next += 1;
        let leave = Arc::new(Notify::new());
        let newcomer = Held {
            address: network(address),
            known: None,
            leave: Arc::clone(&leave),
        };
        books.held.insert(number, newcomer);
        Some(Place(Arc::new(Seat {
            number,
            places: Arc::clone(self),
            leave,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Its client has shown who it is: the place is its own from now on, unless its tenant has too many.
    pub(crate) fn is_known(&self, tenant: &Arc<str>) {
        let places = &self.0.places;
        let mut books = places.lock();
        let of_tenant = |held: &&Held| held.known.as_ref() == Some(tenant);
        let has_room = books.held.values().filter(of_tenant).count() < (places.most * 3).div_ceil(4);
        if let Some(held) = books.held.get_mut(&self.0.number)
            && held.known.is_none()
            && has_room
        {
            held.known = Some(Arc::clone(tenant));
        }
    }

    /// Ends when somebody else needs the place. Awaited by one at a time.
    pub(crate) async fn displaced(&self) {
        self.0.leave.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Who was displaced has none any more.
        self.places.lock().held.remove(&self.number);
    }
}

impl Books {
    fn most_displaceable(&self) -> Option<u64> {
        let mut of_address: HashMap<IpAddr, (usize, u64)> = HashMap::new();
        for (number, stranger) in self.held.iter().filter(|(_, held)| held.known.is_none()) {
            let (count, _oldest) = of_address.entry(stranger.address).or_insert((0, *number));
            *count += 1;
        }
        let most = of_address
            .into_values()
            .max_by_key(|(count, oldest)| (*count, Reverse(*oldest)));
        most.map(|(_, oldest)| oldest)
    }
}

/// One machine has many addresses of version 6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        four @ IpAddr::V4(_) => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn from(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    fn was_displaced(place: &Place) -> bool {
        place.displaced().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_stranger_makes_room_and_who_is_known_stays() {
        let places = Places::new(3);
        let take = || places.take(from("10.0.0.1"));
        let (known, oldest, other) = (take().unwrap(), take().unwrap(), take().unwrap());
        known.is_known(&"a".into());
        let newcomer = take().unwrap();
        assert_eq!(
            [&known, &oldest, &other, &newcomer].map(was_displaced),
            [false, true, false, false]
        );
        drop(oldest);
        newcomer.is_known(&"b".into());
        other.is_known(&"c".into());
        assert!(take().is_none(), "nobody is a stranger");
        drop(other);
        assert!(take().is_some());
        assert!(take().is_some(), "whose place nobody holds any more is free");
    }

    #[test]
    fn one_tenant_does_not_get_all_places() {
        let places = Places::new(4);
        let all: Vec<Place> = (0..4).map(|_| places.take(from("10.0.0.1")).unwrap()).collect();
        for place in &all {
            place.is_known(&"a".into());
            place.is_known(&"a".into());
        }
        let other = places.take(from("10.0.0.2")).unwrap();
        other.is_known(&"b".into());
        assert_eq!(
            all.iter().map(was_displaced).collect::<Vec<_>>(),
            [false, false, false, true]
        );
        assert!(places.take(from("10.0.0.3")).is_none());
    }

    #[test]
    fn who_has_many_makes_room_first() {
        let places = Places::new(4);
        let modest = places.take(from("10.0.0.1")).unwrap();
        let greedy = ["2001:db8::1", "2001:db8::2", "2001:db8::3"].map(|one| places.take(from(one)).unwrap());
        let newcomer = places.take(from("::ffff:10.0.0.2")).unwrap();
        assert!(!was_displaced(&modest) && !was_displaced(&newcomer));
        assert_eq!(greedy.each_ref().map(was_displaced), [true, false, false]);
        assert!(modest.0.number < newcomer.0.number && places.lock().held.len() == 4);
    }
}
