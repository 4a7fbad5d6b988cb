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
            "cannot read code from `missing.py`: No such file or directory (os error 2)",
        ),
        (&["folder"], "cannot read code: `folder` is a directory"),
        (&["latin1.py"], "code is not valid UTF-8: invalid byte at offset 5"),
        (&["empty.py"], "code is empty"),
        (&["blank.py"], "code is empty"),
        (&["-c", ""], "code is empty"),
        (&["-c", " \n "], "code is empty"),
    ])
}

#[test]
fn code_from_standard_input_is_checked_alike() -> Result<()> {
    let world = World::new()?;
    assert_eq!(
        world.refused(&[], Some(b""))?,
        "no code given: pass a file, use `-c CODE`, or pipe code to standard input"
    );
    assert_eq!(
        world.refused(&[OsStr::new("-")], Some(b"print('\xff')"))?,
        "code is not valid UTF-8: invalid byte at offset 7"
    );
    assert_eq!(
        world.refused(&[OsStr::new("--lang=bash")], Some(b"echo a\0b"))?,
        "code contains a NUL character, which bash does not support"
    );
    let long = vec![b'#'; (10 << 20) + 1];
    assert_eq!(
        world.refused(&[], Some(&long))?,
        "code in standard input exceeds 10 MiB; pass data with `--in`"
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
    let memory = "memory is out of range: requested";
    let time = "timeout is out of range: requested";
    check(&[
        (
            &["ok.py", "--memory", "1MiB"],
            &format!("{memory} 1 MiB, allowed 64 MiB to 1 TiB"),
        ),
        (
            &["ok.py", "--memory", "0"],
            &format!("{memory} 0 bytes, allowed 64 MiB to 1 TiB"),
        ),
        (
            &["ok.py", "--memory", "2000GiB"],
            &format!("{memory} 2000 GiB, allowed 64 MiB to 1 TiB"),
        ),
        (
            &["ok.py", "--memory", "lots"],
            "invalid value `lots` for memory: expected a value such as `512MiB` or `4GiB`",
        ),
        (
            &["ok.py", "--memory=-1"],
            "invalid value `-1` for memory: expected a value such as `512MiB` or `4GiB`",
        ),
        (
            &["ok.py", "--timeout", "-1"],
            "invalid value `-1` for timeout: expected a value such as `30s`, `500ms` or `5m`",
        ),
        (
            &["ok.py", "--timeout", "0s"],
            &format!("{time} 0 s, allowed 100 ms to 24 h"),
        ),
        (
            &["ok.py", "--timeout", "25h"],
            &format!("{time} 25 h, allowed 100 ms to 24 h"),
        ),
        (
            &["ok.py", "--timeout", "soon"],
            "invalid value `soon` for timeout: expected a value such as `30s`, `500ms` or `5m`",
        ),
        (
            &["ok.py", "--cpus", "0"],
            "cpus is out of range: requested 0, allowed 0.1 to 1024",
        ),
        (
            &["ok.py", "--cpus", "two"],
            "invalid value `two` for cpus: expected a value such as `1`, `0.5` or `2`",
        ),
    ])
}

#[test]
fn unknown_words_are_refused_with_those_that_are_known() -> Result<()> {
    let tiers = "auto, wasm, jail, container, gvisor, microvm";
    let templates = "unknown template";
    check(&[
        (
            &["ok.py", "--lang", "cobol"],
            "unknown language `cobol`; expected one of: python, javascript, typescript, bash",
        ),
        (
            &["ok.py", "--lang", "r"],
            "language `r` is not supported yet; use python, javascript, typescript or bash",
        ),
        (
            &["ok.py", "--profile", "huge"],
            "unknown profile `huge`; expected one of: small, data",
        ),
        (
            &["ok.py", "--tier", "moat"],
            &format!("unknown tier `moat`; expected one of: {tiers}"),
        ),
        (
            &["ok.py", "--template", "nope"],
            &format!("{templates} `nope`; known templates: python-data, python-full, python-min"),
        ),
        (
            &["ok.py", "--net", "example.com"],
            "network access (`--net` other than `none`) is not supported yet",
        ),
        (
            &["ok.py", "--policy", "lax"],
            "unknown policy `lax`; use open, standard, guarded, strict or the path of a policy file",
        ),
        (
            &["ok.py", "--server", "https://127.0.0.1/v1"],
            "invalid server URL `https://127.0.0.1/v1`: a path or query is not allowed",
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
            "invalid `--env` value `NOVALUE`: expected NAME=VALUE",
        ),
        (
            &["ok.py", "--env", "=x"],
            "invalid `--env` value `=x`: expected NAME=VALUE",
        ),
        (
            &[
                "ok.py",
                "--lang",
                "bash",
                "--env",
                &format!("A={}", "x".repeat(131_000)),
            ],
            "environment exceeds 96 KiB (131007 bytes); pass large values as input files",
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
