//! Outputs that try to lead the collector astray: links, swaps, pipes, names.

use crate::lab::SECRET;
use crate::probe::{cases, shipped};
use anyhow::{Result, ensure};
use atoll_attack::outputs::{self as shipped, contents, holds};
use atoll_engine::{SavedFiles, Wall};
use std::path::Path;
use std::time::Duration;

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

cases! { CASES:
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
        expected: "collected, which does not wait for a writer; only plain files, none above the scratch size",
        oracle: "the end of the collection, and the kinds and sizes of what was saved",
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
        // Who waits for a writer of the pipe waits for ever.
        let out = dir.path().join("out");
        let saved = tokio::time::timeout(Duration::from_secs(120), collect(code, &out, 1)).await??;
        let total: u64 = saved[0].files.iter().map(|file| file.size).sum();
        ensure!(total <= 100 << 20, "{total} bytes came back");
        let names: Vec<&str> = saved[0].files.iter().map(|file| file.path.as_str()).collect();
        ensure!(names.contains(&"/data/output/plain") && !names.iter().any(|n| n.contains("fifo") || n.contains("sock")), "{names:?}");
        ensure!(a_plain_open_hangs(dir.path())?, "the control did not breach");
    }
}

shipped! { shipped:
    f06_links: F06,
    f10_names: F10,
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
