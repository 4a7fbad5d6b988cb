//! What the test of a guest kernel and the guest's first process tell each other: orders in, reports out.

use serde::{Deserialize, Serialize};

/// Where the orders lie in the guest's image.
pub const ORDERS: &str = "/guest/orders.json";
/// The ordinary user of the guest.
pub const USER: u32 = 12345;

/// Who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    Root,
    /// An ordinary user in a group of root.
    User,
    /// An ordinary user in a group of its own, as a service manager delegates one.
    Delegated,
}

/// One command of the guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub name: String,
    pub who: Who,
    pub command: Vec<String>,
    /// Killed when it has printed this line; the report comes when what it started has ended, or after two minutes.
    pub kill_after: Option<String>,
}

/// What came of it, one line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    pub name: String,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Control groups that were not there before.
    pub groups_left: Vec<String>,
    /// Processes of user space that were not there before.
    pub processes_left: Vec<String>,
    pub seconds: f64,
}
