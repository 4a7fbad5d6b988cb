//! A command with somebody at the keyboard: its standard input and standard error are a terminal.

use anyhow::Result;
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
pub fn typed_ahead(mut command: Command, ahead: &str, types: &str) -> Result<Typed> {
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
    let types = types.to_owned();
    let reading = std::thread::spawn(move || read_and_answer(master, &types));
    let output = child.wait_with_output()?;
    Ok(Typed {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout)?,
        shown: reading.join().map_err(|_| anyhow::anyhow!("the reader has failed"))?,
    })
}

pub fn typed(command: Command, types: &str) -> Result<Typed> {
    typed_ahead(command, "", types)
}

fn read_and_answer(mut master: File, types: &str) -> String {
    let (mut shown, mut piece, mut asked) = (Vec::new(), [0; 4096], false);
    // The other side is gone at its end: an error on Linux.
    while let Ok(count @ 1..) = master.read(&mut piece) {
        shown.extend_from_slice(&piece[..count]);
        if !asked && shown.ends_with(b"[y/N] ") {
            asked = true;
            master.write_all(types.as_bytes()).ok();
        }
    }
    String::from_utf8_lossy(&shown).replace("\r\n", "\n")
}
