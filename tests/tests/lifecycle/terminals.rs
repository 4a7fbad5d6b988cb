//! Terminals behind walls that descriptors do not pass: the agent inside gives them their size.

use anyhow::{Context, Result, ensure};
use atoll_core::wire::agent::TerminalSize;
use atoll_engine::{CommandEvent, CommandSpec};
use atoll_tests::{microvm_engine, sandbox, stop};
use std::time::Duration;
use tokio::time::timeout;

/// Emulated guests are slow, and the first one boots.
const BOUND: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_of_a_guest_is_resized() -> Result<()> {
    let engine = microvm_engine("python-min").await?;
    let one = sandbox(&engine).await?;
    let spec = CommandSpec {
        argv: ["/bin/bash", "-c", "read line; stty size"].map(str::to_owned).to_vec(),
        stdin: true,
        terminal: Some(TerminalSize { columns: 80, rows: 24 }),
        ..CommandSpec::default()
    };
    let (command, mut listener) = timeout(BOUND, one.spawn(spec)).await??;
    let size = TerminalSize { columns: 99, rows: 30 };
    ensure!(timeout(BOUND, command.resize(size)).await?, "no terminal");
    ensure!(command.write(b"go\n").await?, "it reads no more");
    let mut said = Vec::new();
    while let Some(event) = timeout(BOUND, listener.next()).await.context("no answer")? {
        if let CommandEvent::Terminal(bytes) = event {
            said.extend(bytes);
        }
    }
    assert_eq!(String::from_utf8_lossy(&said), "go\r\n30 99\r\n");
    assert!(!command.resize(size).await, "it has ended");
    one.end().await?;
    stop(engine).await
}
