//! Inputs that cannot be read, and names that an input cannot have.

use super::world::{World, check};
use anyhow::Result;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;

#[test]
fn inputs_that_are_not_there_or_are_no_files() -> Result<()> {
    check(&[
        (
            &["ok.py", "--in", "none.csv"],
            "cannot read input `none.csv`: No such file or directory (os error 2)",
        ),
        (
            &["ok.py", "--in", "x.csv/"],
            "cannot read input `x.csv/`: Not a directory (os error 20)",
        ),
        (
            &["ok.py", "--in", "folder"],
            "input directory `folder` contains no files",
        ),
        (
            &["ok.py", "--in", "/dev/zero"],
            "input is not a regular file: `/dev/zero`",
        ),
        (&["ok.py", "--in", ""], "input name is empty"),
        (&["ok.py", "--in", "/"], "input name is empty"),
        (&["ok.py", "--in", "/proc"], "input is not a regular file: `/proc`"),
        (
            &["ok.py", "--in", "other", "--in", "x.csv=other"],
            "input name is both a file and a directory: `other`",
        ),
        (
            &["ok.py", "--in", "other=../x"],
            "input name is not a plain file name: `../x`",
        ),
    ])
}

#[test]
fn a_directory_with_a_pipe_or_too_many_files_is_refused() -> Result<()> {
    let world = World::new()?;
    let folder = world.cwd().join("folder");
    let pipe = folder.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)?;
    assert_eq!(
        world.refused_words(&["ok.py", "--in", "folder"])?,
        "input is not a regular file: `folder/pipe`"
    );
    fs::remove_file(pipe)?;
    for number in 0..65 {
        fs::write(folder.join(number.to_string()), "")?;
    }
    assert_eq!(
        world.refused_words(&["ok.py", "--in", "folder"])?,
        "input directory `folder` has more than 64 files; pass it as one archive file, or pass only the files that the code \
         needs"
    );
    Ok(())
}

#[test]
fn a_pipe_as_input_is_refused_without_waiting_for_a_writer() -> Result<()> {
    let world = World::new()?;
    let pipe = world.cwd().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)?;
    assert_eq!(
        world.refused_words(&["ok.py", "--in", "pipe"])?,
        "input is not a regular file: `pipe`"
    );
    Ok(())
}

#[test]
fn hostile_input_names() -> Result<()> {
    check(&[
        (
            &["ok.py", "--in", "x.csv=../x"],
            "input name is not a plain file name: `../x`",
        ),
        (
            &["ok.py", "--in", "x.csv=/etc/passwd"],
            "input name is not a plain file name: `/etc/passwd`",
        ),
        (
            &["ok.py", "--in", "x.csv=a\nb"],
            "input name is not a plain file name: `a\\nb`",
        ),
        (
            &["ok.py", "--in", "x.csv=\u{1b}[31m"],
            "input name is not a plain file name: `\\u{1b}[31m`",
        ),
        (
            &["ok.py", "--in", "x.csv=.."],
            "input name is not a plain file name: `..`",
        ),
        (
            &["ok.py", "--in", "x.csv=."],
            "input name is not a plain file name: `.`",
        ),
        (&["ok.py", "--in", "x.csv="], "input name is empty"),
        (
            &["ok.py", "--in", "x.csv", "--in", "other/x.csv"],
            "duplicate input name: `x.csv`",
        ),
        (
            &["ok.py", "--in", "x.csv=a", "--in", "other/x.csv=a"],
            "duplicate input name: `a`",
        ),
    ])?;
    let world = World::new()?;
    let long = format!("x.csv={}", "n".repeat(4096));
    assert_eq!(
        world.refused_words(&["ok.py", "--in", &long])?,
        "input name is longer than 255 bytes: 4096"
    );
    Ok(())
}

#[test]
fn input_names_that_are_not_utf8() -> Result<()> {
    let world = World::new()?;
    let given = OsString::from_iter([OsStr::new("x.csv="), OsStr::from_bytes(b"\xff\xfe")]);
    assert_eq!(
        world.refused(&["ok.py".as_ref(), "--in".as_ref(), &given], None)?,
        "input name is not valid UTF-8"
    );
    fs::write(world.cwd().join(OsStr::from_bytes(b"\xff.csv")), "a")?;
    let own = world.refused(
        &["ok.py".as_ref(), "--in".as_ref(), OsStr::from_bytes(b"\xff.csv")],
        None,
    )?;
    assert_eq!(own, "input name is not a plain file name: `\\xff.csv`");
    Ok(())
}
