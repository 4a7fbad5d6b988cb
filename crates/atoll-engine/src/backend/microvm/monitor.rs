//! QEMU's monitor (QMP): saving a machine, and bringing a saved one back. Lines of JSON, bounded.
//!
//! QEMU writes no memory: that of the guest which is saved for a template is a file already, and that of a live one is written by
//! the machine's keeper while the machine stands still. What is left, the state of processor and devices, is small.

use super::control::socket;
use crate::backend::TierError;
use atoll_jail::channel;
use atoll_jail::vm::command::STATE;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

/// The longest line that is listened to.
const MAX_LINE: usize = 1 << 20;
/// Memory stays where it is, so this is quick.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(2);
/// QEMU's number for a file that it writes its devices to, and how it calls it.
const DEVICES: u32 = 9;
const DEVICES_NAME: &str = "/dev/fdset/9";

#[derive(Debug)]
pub(super) struct Monitor {
    stream: UnixStream,
    heard: Vec<u8>,
}

impl Monitor {
    /// Also returns QEMU's end.
    pub(super) fn new() -> Result<(Self, OwnedFd), TierError> {
        let (stream, theirs) = socket()?;
        let heard = Vec::new();
        Ok((Self { stream, heard }, theirs))
    }

    /// Writes the machine's state, without its memory, which is a file already. Afterwards it stands still.
    pub(super) async fn save(&mut self, state: &OwnedFd) -> Result<(), TierError> {
        bounded(self.save_now(state)).await
    }

    /// The first thing that is said to a machine: when it is answered, the machine has all its parts, and its memory.
    pub(super) async fn greet(&mut self) -> Result<(), TierError> {
        bounded(self.greet_now()).await
    }

    /// The state is the machine's own descriptor. Afterwards it runs.
    pub(super) async fn load(&mut self) -> Result<(), TierError> {
        bounded(self.load_now()).await
    }

    /// Nothing in it goes on until it is let.
    pub(super) async fn stop(&mut self) -> Result<(), TierError> {
        bounded(self.order("stop")).await
    }

    /// What it has written its devices to is closed as well.
    pub(super) async fn go_on(&mut self) -> Result<(), TierError> {
        bounded(self.order("cont")).await?;
        let closed = self.execute("remove-fd", json!({"fdset-id": DEVICES}), &[]);
        // A machine that has written nothing has none.
        bounded(async { closed.await.map(drop) }).await.ok();
        Ok(())
    }

    /// Writes the state of a machine that was stopped, without its memory, in the form of [`Self::save`].
    pub(super) async fn write_devices(&mut self, to: &OwnedFd) -> Result<(), TierError> {
        bounded(self.write_now(to)).await
    }

    async fn order(&mut self, what: &str) -> Result<(), TierError> {
        self.execute(what, json!({}), &[]).await.map(drop)
    }

    /// The command is named after its first user; it is for any machine whose memory somebody else writes.
    async fn write_now(&mut self, to: &OwnedFd) -> Result<(), TierError> {
        let set = json!({"fdset-id": DEVICES});
        self.execute("add-fd", set, &[to.as_fd()]).await?;
        let file = json!({"filename": DEVICES_NAME, "live": false});
        self.execute("xen-save-devices-state", file, &[]).await.map(drop)
    }

    async fn save_now(&mut self, state: &OwnedFd) -> Result<(), TierError> {
        let name = json!({"fdname": "state"});
        self.execute("getfd", name, &[state.as_fd()]).await?;
        self.execute("migrate", json!({"uri": "fd:state"}), &[]).await?;
        loop {
            let told = self.execute("query-migrate", json!({}), &[]).await?;
            match told["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => return Err(failed(format!("saving the state failed: {told}"))),
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    }

    async fn load_now(&mut self) -> Result<(), TierError> {
        let from = json!({"uri": format!("fd:{STATE}")});
        self.execute("migrate-incoming", from, &[]).await?;
        loop {
            let told = self.execute("query-status", json!({}), &[]).await?;
            match told["status"].as_str() {
                Some("running") => return Ok(()),
                Some("inmigrate" | "prelaunch") => tokio::time::sleep(LOOK).await,
                _ => return Err(failed(format!("restoring the state failed: {told}"))),
            }
        }
    }

    async fn greet_now(&mut self) -> Result<(), TierError> {
        self.line().await?;
        self.execute("qmp_capabilities", json!({}), &[]).await?;
        let shared = json!({"capabilities": [{"capability": "x-ignore-shared", "state": true}]});
        self.execute("migrate-set-capabilities", shared, &[]).await.map(drop)
    }

    async fn execute(&mut self, what: &str, how: Value, fds: &[BorrowedFd<'_>]) -> Result<Value, TierError> {
        let line = format!("{}\n", json!({"execute": what, "arguments": how}));
        self.stream.writable().await.map_err(TierError::Start)?;
        // A short line into an empty socket.
        channel::send_bytes(&self.stream, line.as_bytes(), fds).map_err(TierError::Channel)?;
        loop {
            let mut said = self.line().await?;
            if let Some(answer) = said.get_mut("return") {
                return Ok(answer.take());
            }
            if let Some(error) = said.get("error") {
                return Err(failed(format!("{what}: {}", error["desc"])));
            }
        }
    }

    async fn line(&mut self) -> Result<Value, TierError> {
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                return serde_json::from_slice(&line).map_err(|error| failed(error.to_string()));
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece).await.map_err(TierError::Start)? {
                0 => return Err(failed("the process exited".to_owned())),
                count if self.heard.len() + count <= MAX_LINE => self.heard.extend_from_slice(&piece[..count]),
                _ => return Err(failed("a monitor message is too long".to_owned())),
            }
        }
    }
}

async fn bounded(work: impl Future<Output = Result<(), TierError>>) -> Result<(), TierError> {
    let late = |_| failed(format!("no response within {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, work).await.map_err(late)?
}

fn failed(why: String) -> TierError {
    TierError::Sandbox(format!("QEMU: {why}"))
}
