//! What the engine and the first process of a guest tell each other, in frames over a serial port. Data only, and its
//! bounds: the other side of a frame is not to be trusted with its length.
//!
//! The engine asks, one thing at a time, and each question has one answer. The first frame comes unasked: the guest is up.

use crate::plan::{Mode, TemplatePlan};
use atoll_core::Limits;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::io::{self, Read, Write};

/// The longest frame either side takes.
pub const MAX_FRAME: usize = 1 << 20;
/// The bytes of an input come in pieces of at most this.
pub const PIECE: usize = 48 << 10;

/// What a guest is booted for. Lies in its first file system.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestPlan {
    pub template: TemplatePlan,
    pub limits: Limits,
    pub mode: Mode,
    /// Files of modules below `/modules`, in the order in which they are loaded.
    pub modules: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToGuest {
    /// A restored guest has the clock and the random numbers of all others: here are its own.
    Renew { unix_nanos: i64, seed: Vec<u8> },
    /// From now on the sandbox has these limits.
    Limit { limits: Limits },
    /// More of a file below `/data/input`, whose bytes follow the frame. The last piece seals it.
    Input { name: String, bytes: usize, last: bool },
    /// The walls of a process of the sandbox, by its number there.
    Inspect { pid: u32 },
    /// What the guest's kernel has counted.
    Count,
    /// Gives memory back that nothing needs: before the guest is saved.
    Settle,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum FromGuest {
    /// The sandbox stands.
    Up {
        kernel: String,
    },
    Done,
    Inspected {
        layers: Map<String, Value>,
    },
    Counted(Counted),
    Failed {
        message: String,
        /// The wall that the guest's kernel cannot build, if it is that.
        no_wall: Option<String>,
    },
}

/// What happened to the sandbox's processes, as the guest's kernel counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// Processes killed because memory was used up.
    pub oom_kills: u64,
    /// Processes that could not be started because there were too many.
    pub refused: u64,
    pub peak_bytes: u64,
}

/// A frame: its length, then JSON.
pub fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    Ok([&length.to_le_bytes()[..], &body].concat())
}

/// The length of a frame, from its first four bytes.
pub fn length_of(head: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(head) as usize;
    match length <= MAX_FRAME {
        true => Ok(length),
        false => Err(io::Error::other(format!(
            "a frame of {length} bytes exceeds the limit of {MAX_FRAME} bytes"
        ))),
    }
}

pub(super) fn write(mut port: impl Write, message: &FromGuest) -> io::Result<()> {
    port.write_all(&encode(message)?)
}

pub(super) fn read<T: DeserializeOwned>(mut port: impl Read) -> io::Result<T> {
    let mut head = [0; 4];
    port.read_exact(&mut head)?;
    let mut body = vec![0; length_of(head)?];
    port.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_and_a_long_one_is_refused_before_it_is_held() {
        let frame = encode(&ToGuest::Limit { limits: Limits::SMALL }).unwrap();
        let back: ToGuest = read(frame.as_slice()).unwrap();
        assert!(matches!(back, ToGuest::Limit { limits } if limits == Limits::SMALL));
        let long = [&u32::MAX.to_le_bytes()[..], b"{}"].concat();
        let refused = read::<ToGuest>(long.as_slice()).unwrap_err();
        assert!(refused.to_string().contains("exceeds the limit"), "{refused}");
        assert!(read::<ToGuest>(&frame[..7]).is_err());
    }

    #[test]
    fn what_is_not_of_the_talk_is_refused() {
        assert!(serde_json::from_str::<ToGuest>(r#"{"type":"shell"}"#).is_err());
    }
}
