//! Outputs that try to lead the collector astray: links, swaps, pipes, names.

use crate::lab::SECRET;
use crate::probe::cases;
use anyhow::{Result, ensure};
use atoll_engine::{SavedFiles, Wall};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Runs code in a new sandbox and collects what it left, `times` over. Nothing but plain files may come back.
async fn collect(code: &str, out: &Path, times: u32) -> Result<Vec<SavedFiles>> {
    let engine = crate::lab::engine_without(&[] as &[Wall]).await?;
    let mut sandbox = atoll_tests::sandbox(&engine).await?;
    let execution = atoll_tests::python(&mut sandbox, code).await?;
    ensure!(execution.error.is_none(), "{:?}", execution.error);
    let mut all = Vec::new();
    for n in 0..times {
        all.push(sandbox.collect(Some(&out.join(n.to_string()))).await?);
    }
    sandbox.end().await?;
    atoll_tests::stop(engine).await?;
    Ok(all)
}

fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(contents(&entry.path())),
            _ => found.push((entry.path(), std::fs::read(entry.path()).unwrap_or_default())),
        }
    }
    found
}

fn holds(files: &[(PathBuf, Vec<u8>)], needle: &str) -> bool {
    files
        .iter()
        .any(|(_, bytes)| bytes.windows(needle.len()).any(|window| window == needle.as_bytes()))
}

/// Names that try something, made in the current directory by `MAKE`.
const NAMES: &str = "NAMES=[b'a\\nb',b'-rf',b'.hidden',b'con',b'\\xff\\xfe',('x'*250).encode(),'\\u202egnp.exe'.encode(),\
    b'..\\\\..\\\\x',b'%2e%2e%2fx',b'...',b' ',b'a\\r\\nSet-Cookie: x',b'plain']";
const MAKE: &str = "import os\nos.chdir('/data/output')\nfor n in NAMES: os.close(os.open(n,os.O_CREAT|os.O_WRONLY))\n\
    os.makedirs('deep/'+'d/'*50)\nopen('deep/'+'d/'*50+'f','w').write('x')";

/// What is wrong with saved paths: outside of `base`, not there, or with characters that hide what they are.
fn lies(base: &Path, saved: &[PathBuf]) -> Vec<PathBuf> {
    let honest = |path: &PathBuf| {
        let text = path.to_string_lossy();
        path.starts_with(base)
            && path.is_file()
            && !text.chars().any(|c| c.is_control() || c == '\u{202e}')
            && !path.components().any(|c| c == std::path::Component::ParentDir)
    };
    saved.iter().filter(|path| !honest(path)).cloned().collect()
}

/// What a careless host would do with the same names, and with one that only a lying sandbox sends.
fn save_as_they_are(base: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir(base)?;
    let list = format!("{NAMES}\nfor n in NAMES: print(n.hex())");
    let output = std::process::Command::new("python3")
        .args(["-I", "-c", &list])
        .output()?;
    let names = String::from_utf8(output.stdout)?;
    let bytes = |line: &str| -> Result<Vec<u8>> {
        let pairs = (0..line.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&line[at..at + 2], 16));
        Ok(pairs.collect::<Result<_, _>>()?)
    };
    let mut names = names.lines().map(bytes).collect::<Result<Vec<_>>>()?;
    names.push(b"../x".to_vec());
    let mut saved = Vec::new();
    for name in names {
        let path = base.join(std::ffi::OsString::from_vec(name));
        std::fs::write(&path, "")?;
        saved.push(path);
    }
    Ok(saved)
}

cases! { CASES:
    f06_links {
        id: "F06",
        claim: "A link among the outputs brings back nothing of where it points",
        expected: "links are skipped, to the host, to the template and to /proc alike; the plain file comes",
        oracle: "no collected byte is of a canary or of /etc/passwd",
        twin: "a plain file of the same directory is collected",
        control: "a reader that follows links gets the canary through the same link (own files of the test)",
    } {
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("canary"), SECRET)?;
        let code = format!(
            "import os\nos.chdir('/data/output')\nos.symlink('/etc/passwd','a')\nos.symlink('/proc/self/environ','b')\n\
             os.symlink({:?},'c')\nos.symlink('/etc','d')\nos.symlink('/proc/1/root','e')\nos.symlink('/','f')\n\
             open('plain','w').write('plain')\nos.symlink('plain','g')",
            dir.path().join("canary")
        );
        let out = dir.path().join("out");
        let saved = collect(&code, &out, 1).await?;
        let files = contents(&out);
        let names: Vec<&str> = saved[0].files.iter().map(|file| file.path.as_str()).collect();
        ensure!(names == ["/data/output/plain"], "collected {names:?}");
        ensure!(!holds(&files, SECRET) && !holds(&files, "root:x:0") && holds(&files, "plain"));
        std::os::unix::fs::symlink(dir.path().join("canary"), dir.path().join("link"))?;
        ensure!(std::fs::read_to_string(dir.path().join("link"))? == SECRET, "the control did not breach");
    }
    f07_swap {
        id: "F07",
        claim: "A directory swapped for a link while outputs are collected leads nowhere",
        expected: "each round gives the sandbox's own file or nothing, over 40 rounds against a swap loop",
        oracle: "no collected byte is of /etc/passwd",
        twin: "the swapped file itself is collected at least once",
        control: "a reader by path meets the link within 20,000 tries of the same swap (own directories of the test)",
    } {
        let code = "import os,threading,ctypes\nos.chdir('/data/output')\nos.mkdir('d')\nopen('d/passwd','w').write('mine')\nos.symlink('/etc','l')\n\
            libc=ctypes.CDLL(None)\n\
            def loop():\n    while True: libc.renameat2(-100,b'd',-100,b'l',2)\n\
            threading.Thread(target=loop,daemon=True).start()";
        let dir = tempfile::tempdir()?;
        collect(code, dir.path(), 40).await?;
        let files = contents(dir.path());
        ensure!(!holds(&files, "root:x:0"), "a file of /etc came back");
        ensure!(holds(&files, "mine"), "the twin is dead: nothing was collected");
        ensure!(a_naive_reader_is_led_astray()?, "the control did not breach");
    }
    f09_kinds {
        id: "F09",
        claim: "Pipes, sockets, directories, sparse giants and growing files hold nobody up",
        expected: "collected within seconds; only plain files, none above the scratch size",
        oracle: "wall clock, and the kinds and sizes of what was saved",
        twin: "a plain file of the same directory is collected",
        control: "a plain open of such a pipe on the host still hangs after 300 ms (own pipe, then released)",
    } {
        let code = "import os,socket,threading,resource\nos.chdir('/data/output')\nos.mkfifo('fifo')\ns=socket.socket(socket.AF_UNIX);s.bind('sock')\n\
            os.makedirs('x/y/z')\nopen('plain','w').write('plain')\n\
            import signal;signal.signal(signal.SIGXFSZ,signal.SIG_IGN)\n\
            f=open('sparse','wb')\ntry: f.truncate(8<<40)\nexcept OSError as e: f.truncate(99<<20)\n\
            g=open('grows','wb',0)\n\
            def grow():\n    while g.tell()<60<<20:\n        try: g.write(b'x'*4096)\n        except OSError: break\n\
            threading.Thread(target=grow,daemon=True).start()";
        let dir = tempfile::tempdir()?;
        let begun = Instant::now();
        let saved = collect(code, &dir.path().join("out"), 1).await?;
        ensure!(begun.elapsed() < Duration::from_secs(20), "took {:?}", begun.elapsed());
        let total: u64 = saved[0].files.iter().map(|file| file.size).sum();
        ensure!(total <= 100 << 20, "{total} bytes came back");
        let names: Vec<&str> = saved[0].files.iter().map(|file| file.path.as_str()).collect();
        ensure!(names.contains(&"/data/output/plain") && !names.iter().any(|n| n.contains("fifo") || n.contains("sock")), "{names:?}");
        ensure!(a_plain_open_hangs(dir.path())?, "the control did not breach");
    }
    f10_names {
        id: "F10",
        claim: "No name of an output leads out of the caller's directory or hides what it is",
        expected: "each file is saved below the directory, without control characters and turning marks",
        oracle: "the parent directory holds nothing new; every saved path is below the directory and shows what it is",
        twin: "a file with an ordinary name is saved under it",
        control: "a saver that takes the sandbox's names as they are, and one of a lying sandbox, fails the same look (own directories)",
    } {
        let dir = tempfile::tempdir()?;
        let out = dir.path().join("out");
        let saved = collect(&format!("{NAMES}\n{MAKE}"), &out, 1).await?;
        let lies = lies(&out.join("0"), &saved[0].saved);
        ensure!(lies.is_empty(), "{lies:?}");
        let beside: Vec<_> = std::fs::read_dir(dir.path())?.flatten().map(|e| e.file_name()).collect();
        ensure!(beside == ["out"], "{beside:?}");
        ensure!(out.join("0/plain").is_file() && saved[0].saved.len() > 8, "the twin is dead: {:?}", saved[0].saved);
        let naive = dir.path().join("naive");
        let found = self::lies(&naive, &save_as_they_are(&naive)?);
        ensure!(found.len() >= 4 && dir.path().join("x").exists(), "the control did not breach: {found:?}");
    }
}

fn a_naive_reader_is_led_astray() -> Result<bool> {
    let dir = tempfile::tempdir()?;
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("d"))?;
    std::fs::create_dir(at("outside"))?;
    std::fs::write(at("d/passwd"), "mine")?;
    std::fs::write(at("outside/passwd"), SECRET)?;
    std::os::unix::fs::symlink(at("outside"), at("l"))?;
    let swap = || {
        rustix::fs::renameat_with(
            rustix::fs::CWD,
            at("d"),
            rustix::fs::CWD,
            at("l"),
            rustix::fs::RenameFlags::EXCHANGE,
        )
    };
    for n in 0..20_000 {
        if n % 3 == 0 {
            swap()?;
        }
        if std::fs::read_to_string(at("d/passwd")).is_ok_and(|text| text == SECRET) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn a_plain_open_hangs(dir: &Path) -> Result<bool> {
    let path = dir.join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    let reader = std::thread::spawn({
        let path = path.clone();
        move || std::fs::File::open(path).map(drop)
    });
    std::thread::sleep(Duration::from_millis(300));
    let hangs = !reader.is_finished();
    drop(std::fs::OpenOptions::new().write(true).open(&path)?);
    reader.join().ok();
    Ok(hangs)
}
