//! A claim that a pool prepares for before it comes. A server makes one for each create that waits for a slot.

use super::size::Demand;
use crate::lock::lock;
use std::sync::{Arc, Mutex};

/// Counts one claim as demand of its pool. Dropping it ends that: the claim comes now, or it will not come.
#[derive(Debug)]
pub struct ExpectedClaim {
    demand: Arc<Mutex<Demand>>,
}

impl ExpectedClaim {
    pub(super) fn new(demand: Arc<Mutex<Demand>>) -> Self {
        lock(&demand).expect();
        Self { demand }
    }
}

impl Drop for ExpectedClaim {
    fn drop(&mut self) {
        lock(&self.demand).expected_ended();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::Instant;

    #[test]
    fn a_dropped_claim_is_no_demand() {
        let demand = Arc::<Mutex<Demand>>::default();
        let claims = || lock(&demand).next_claims(Duration::from_secs(1), Instant::now());
        let [one, other] = [(); 2].map(|()| ExpectedClaim::new(Arc::clone(&demand)));
        assert_eq!(claims(), 2);
        drop(one);
        assert_eq!(claims(), 1);
        drop(other);
        assert_eq!(claims(), 0);
    }
}
