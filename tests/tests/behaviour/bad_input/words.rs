//! Code, values and flags that cannot be used.

use super::world::{World, check};
use anyhow::Result;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

#[test]
fn code_that_is_not_there_or_is_no_code() -> Result<()> {
    check(&[
        (
            &["missing.py"],
            "code cannot be read: `missing.py`: No such file or directory (os error 2)",
        ),
        (&["folder"], "code is a directory, not a file: `folder`"),
        (&["latin1.py"], "code is not UTF-8: byte 5 cannot be read"),
        (&["empty.py"], "code is empty"),
        (&["blank.py"], "code is empty"),
        (&["-c", ""], "code is empty"),
        (&["-c", " \n "], "code is empty"),
    ])
}

#[test]
fn code_from_standard_input_is_checked_alike() -> Result<()> {
    let world = World::new()?;
    assert_eq!(world.refused(&[], Some(b""))?, "code is empty");
    assert_eq!(
        world.refused(&[OsStr::new("-")], Some(b"print('\xff')"))?,
        "code is not UTF-8: byte 7 cannot be read"
    );
    assert_eq!(
        world.refused(&[OsStr::new("--lang=bash")], Some(b"echo a\0b"))?,
        "code has a NUL character, which a shell cannot read"
    );
    let long = vec![b'#'; (10 << 20) + 1];
    assert_eq!(
        world.refused(&[], Some(&long))?,
        "code is longer than 10 MiB: standard input; give data with `--in`"
    );
    Ok(())
}

#[test]
fn code_as_an_argument_must_be_utf8() -> Result<()> {
    let world = World::new()?;
    let sentence = world.refused(&[OsStr::new("-c"), OsStr::from_bytes(b"print('\xff')")], None)?;
    assert!(sentence.contains("UTF-8"), "{sentence}");
    Ok(())
}

#[test]
fn values_out_of_range_are_refused_with_the_range() -> Result<()> {
    let memory = "memory is out of range: asked";
    let time = "timeout is out of range: asked";
    check(&[
        (
            &["ok.py", "--memory", "1MiB"],
            &format!("{memory} 1 MiB, allowed 64 MiB to 1024 GiB"),
        ),
        (
            &["ok.py", "--memory", "0"],
            &format!("{memory} 0 bytes, allowed 64 MiB to 1024 GiB"),
        ),
        (
            &["ok.py", "--memory", "2000GiB"],
            &format!("{memory} 2000 GiB, allowed 64 MiB to 1024 GiB"),
        ),
        (
            &["ok.py", "--memory", "lots"],
            "memory cannot be read: `lots`; write it like `512MiB` or `4GiB`",
        ),
        (
            &["ok.py", "--memory=-1"],
            "memory cannot be read: `-1`; write it like `512MiB` or `4GiB`",
        ),
        (
            &["ok.py", "--timeout", "-1"],
            "timeout cannot be read: `-1`; write it like `30s`, `500ms` or `5m`",
        ),
        (
            &["ok.py", "--timeout", "0s"],
            &format!("{time} 0 s, allowed 100 ms to 86400 s"),
        ),
        (
            &["ok.py", "--timeout", "25h"],
            &format!("{time} 90000 s, allowed 100 ms to 86400 s"),
        ),
        (
            &["ok.py", "--timeout", "soon"],
            "timeout cannot be read: `soon`; write it like `30s`, `500ms` or `5m`",
        ),
        (
            &["ok.py", "--cpus", "0"],
            "cpus is out of range: asked 0, allowed 0.1 to 1024",
        ),
        (
            &["ok.py", "--cpus", "two"],
            "cpus cannot be read: `two`; write it like `1`, `0.5` or `2`",
        ),
    ])
}

#[test]
fn unknown_words_are_refused_with_those_that_are_known() -> Result<()> {
    let tiers = "auto, wasm, jail, container, gvisor, microvm";
    let templates = "cannot use this template: there is no template";
    check(&[
        (
            &["ok.py", "--lang", "cobol"],
            "unknown language `cobol`; one of: python, javascript, typescript, bash",
        ),
        (
            &["ok.py", "--lang", "r"],
            "language is planned, not there yet: `r`; use python, javascript, typescript or bash",
        ),
        (
            &["ok.py", "--profile", "huge"],
            "unknown profile `huge`; one of: small, data",
        ),
        (
            &["ok.py", "--tier", "moat"],
            &format!("unknown tier `moat`; one of: {tiers}"),
        ),
        (
            &["ok.py", "--template", "nope"],
            &format!("{templates} `nope`; known are python-data, python-min"),
        ),
        (
            &["ok.py", "--net", "example.com"],
            "network access (`--net` other than `none`) is planned, not there yet",
        ),
        (
            &["ok.py", "--policy", "lax"],
            "there is no policy `lax`; shipped are open, standard, guarded and strict, others are files",
        ),
        (
            &["ok.py", "--server", "https://127.0.0.1"],
            "not the address of a server: `https://127.0.0.1`: https is not spoken yet; use a tunnel or a proxy on this machine",
        ),
    ])?;
    let world = World::new()?;
    for name in ["../python-min", "", "a\nb", "/etc", "python-min/"] {
        let sentence = world.refused_words(&["ok.py", "--template", name])?;
        assert!(sentence.contains("template"), "{name:?}: {sentence}");
    }
    Ok(())
}

#[test]
fn flags_that_make_no_sense() -> Result<()> {
    check(&[
        (
            &["ok.py", "--env", "NOVALUE"],
            "`--env` takes NAME=VALUE, not \"NOVALUE\"",
        ),
        (&["ok.py", "--env", "=x"], "`--env` takes NAME=VALUE, not \"=x\""),
        (
            &[
                "ok.py",
                "--lang",
                "bash",
                "--env",
                &format!("A={}", "x".repeat(131_000)),
            ],
            "environment is larger than 96 KiB: 131007 bytes; give large values as input files",
        ),
        (&["ok.py", "--out", "x.csv"], "`--out` is not a directory: `x.csv`"),
        (
            &["ok.py", "-c", "print(1)"],
            "the argument '[FILE]' cannot be used with '--code <CODE>'",
        ),
        (&["ok.py", "--frobnicate"], "unexpected argument '--frobnicate' found"),
        (&["ok.py", "second.py"], "unexpected argument 'second.py' found"),
    ])
}
