//! Shipped cases of the network.

use crate::probe::shipped;
use atoll_attack::network as shipped;

shipped! { shipped:
    n21_listeners: N21,
}
