//! Terminals behind walls that descriptors do not pass: the agent inside gives them their size, and carries their bytes where the
//! kernel does not tell when they end.

use anyhow::{Context, Result, bail, ensure};
use atoll_core::wire::agent::TerminalSize;
use atoll_engine::{CommandEvent, CommandSpec, Engine, Listener, Walls};
use atoll_tests::{gvisor_engine, microvm_engine, sandbox, stop};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Emulated guests are slow, and the first one boots.
const BOUND: Duration = Duration::from_secs(300);

fn bash(script: &str) -> CommandSpec {
    CommandSpec {
        argv: ["/bin/bash", "-c", script].map(str::to_owned).to_vec(),
        stdin: true,
        terminal: Some(TerminalSize { columns: 80, rows: 24 }),
        ..CommandSpec::default()
    }
}

/// All that a terminal shows until it ends, and how its command has ended.
async fn shown(listener: &mut Listener) -> Result<(String, Option<i32>)> {
    let (mut said, mut code) = (Vec::new(), None);
    while let Some(event) = timeout(BOUND, listener.next()).await.context("no answer")? {
        match event {
            CommandEvent::Terminal(bytes) => said.extend(bytes),
            CommandEvent::End(end) => code = end.code,
            CommandEvent::Stdout(_) | CommandEvent::Stderr(_) => bail!("a terminal has one stream"),
        }
    }
    Ok((String::from_utf8_lossy(&said).into_owned(), code))
}

async fn is_resized(engine: Arc<Engine>) -> Result<()> {
    let one = sandbox(&engine).await?;
    let spec = bash("read line; stty size; exit 4");
    let (command, mut listener) = timeout(BOUND, one.spawn(spec)).await??;
    let size = TerminalSize { columns: 99, rows: 30 };
    ensure!(timeout(BOUND, command.resize(size)).await?, "no terminal");
    ensure!(command.write(b"go\n").await?, "it reads no more");
    let expected = ("go\r\n30 99\r\n".to_owned(), Some(4));
    assert_eq!(shown(&mut listener).await?, expected);
    assert!(!command.resize(size).await, "it has ended");
    one.end().await?;
    stop(engine).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_of_a_guest_is_resized() -> Result<()> {
    is_resized(microvm_engine("python-min").await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_of_gvisor_is_resized() -> Result<()> {
    is_resized(gvisor_engine("python-min", Walls::default()).await?).await
}

/// What a program at a terminal expects: that it is one, its keys, the news of another size, and all of its output.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_of_gvisor_is_a_terminal() -> Result<()> {
    let engine = gvisor_engine("python-min", Walls::default()).await?;
    let one = sandbox(&engine).await?;
    let script = "trap 'echo interrupted' INT; trap 'stty size' WINCH; tty; test -t 0 && echo terminal; \
                  echo ready; while [[ $line != end ]]; do read -t 1 line; done";
    let (command, mut listener) = timeout(BOUND, one.spawn(bash(script))).await??;
    let mut said = String::new();
    let mut step = 0;
    while let Some(event) = timeout(BOUND, listener.next()).await.context(said.clone())? {
        if let CommandEvent::Terminal(bytes) = event {
            said.push_str(&String::from_utf8_lossy(&bytes));
        }
        if step == 0 && said.contains("ready") {
            step = 1;
            ensure!(command.write(b"\x03").await?, "it reads no more");
        } else if step == 1 && said.contains("interrupted") {
            step = 2;
            let size = TerminalSize { columns: 91, rows: 17 };
            ensure!(timeout(BOUND, command.resize(size)).await?, "no terminal");
        } else if step == 2 && said.contains("17 91") {
            step = 3;
            ensure!(command.write(b"end\n").await?, "it reads no more");
        }
    }
    // The size may be told more than once.
    let rest = said.strip_prefix("/dev/pts/0\r\nterminal\r\nready\r\ninterrupted\r\n17 91\r\n");
    let rest = rest.with_context(|| said.clone())?;
    assert!(rest.lines().all(|line| matches!(line, "17 91" | "end")), "{said}");
    let (_command, mut listener) = timeout(BOUND, one.spawn(bash("seq 20000; sleep 1000 & exit 0"))).await??;
    let (text, code) = shown(&mut listener).await?;
    let all: String = (1..=20_000).map(|number| format!("{number}\r\n")).collect();
    assert!(text == all && code == Some(0), "{} bytes, {code:?}", text.len());
    one.end().await?;
    stop(engine).await
}
