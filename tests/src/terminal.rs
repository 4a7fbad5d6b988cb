//! A command with somebody at the keyboard: its standard input and standard error are a terminal.

use anyhow::Result;
use rustix::process::Pid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// What a command did at the terminal.
#[derive(Debug)]
pub struct Typed {
    pub code: Option<i32>,
    pub stdout: String,
    /// All that stood on the terminal.
    pub shown: String,
}

/// Runs it. `types` is typed when it asks; with `ahead`, that is typed before anything else.
pub fn typed_ahead(command: Command, ahead: &str, types: &str) -> Result<Typed> {
    let types = types.to_owned();
    at_terminal(command, ahead, move |shown, master, _| {
        let asks = shown.ends_with(b"[y/N] ");
        if asks {
            master.write_all(types.as_bytes()).ok();
        }
        asks
    })
}

pub fn typed(command: Command, types: &str) -> Result<Typed> {
    typed_ahead(command, "", types)
}

/// Runs it and interrupts it as soon as these words stand on the terminal.
pub fn interrupted_at(command: Command, words: &'static str) -> Result<Typed> {
    at_terminal(command, "", move |shown, _, pid| {
        let is_there = String::from_utf8_lossy(shown).contains(words);
        if is_there {
            rustix::process::kill_process(pid, rustix::process::Signal::INT).ok();
        }
        is_there
    })
}

/// `react` gets all that stands on the terminal whenever there is more, until it has done its part.
fn at_terminal(
    mut command: Command,
    ahead: &str,
    mut react: impl FnMut(&[u8], &mut File, Pid) -> bool + Send + 'static,
) -> Result<Typed> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let path = ptsname(&master, Vec::new())?.into_string()?;
    let open = || OpenOptions::new().read(true).write(true).open(&path);
    command.stdin(open()?).stderr(open()?).stdout(Stdio::piped());
    let mut master = File::from(master);
    master.write_all(ahead.as_bytes())?;
    let child = command.spawn()?;
    drop(command);
    let pid = Pid::from_child(&child);
    let reading = std::thread::spawn(move || read_all(master, |shown, master| react(shown, master, pid)));
    let output = child.wait_with_output()?;
    Ok(Typed {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout)?,
        shown: reading.join().map_err(|_| anyhow::anyhow!("the reader has failed"))?,
    })
}

fn read_all(mut master: File, mut react: impl FnMut(&[u8], &mut File) -> bool) -> String {
    let (mut shown, mut piece, mut is_done) = (Vec::new(), [0; 4096], false);
    // The other side is gone at its end: an error on Linux.
    while let Ok(count @ 1..) = master.read(&mut piece) {
        shown.extend_from_slice(&piece[..count]);
        is_done = is_done || react(&shown, &mut master);
    }
    String::from_utf8_lossy(&shown).replace("\r\n", "\n")
}
