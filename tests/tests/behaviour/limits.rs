//! Memory, time and processes: enforced by the kernel, each its own outcome, with the number that was hit.

use anyhow::{Context, Result};
use atoll_core::execution::Execution;
use atoll_core::quantity::{CpuTimeMillis, MIB, MemoryBytes, ProcessCount, WallMillis};
use atoll_core::{Language, Limits, Outcome};
use atoll_tests::{PATIENT, Place, execute_within};

const GREEDY: &str = "kept = 1\nx = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1";

fn rule(execution: &Execution) -> Option<&str> {
    execution.hint.as_ref().map(|hint| hint.rule.as_str())
}

#[tokio::test]
async fn memory_is_limited_and_a_fresh_context_follows() -> Result<()> {
    let limits = Limits {
        memory: MemoryBytes::known(128 * MIB),
        ..Limits::SMALL
    };
    let mut place = Place::limited("python-min", limits).await?;
    let ended = place.python(GREEDY).await?;
    assert_eq!(
        (ended.outcome, rule(&ended)),
        (Outcome::MemoryLimit, Some("memory_limit: 128 MiB")),
        "{ended:?}"
    );
    assert_eq!(
        ended.error.map(|error| (error.name, error.value)),
        Some((
            "MemoryError".into(),
            "memory_limit: 128 MiB; the state of this context is lost".into()
        ))
    );
    assert!(ended.usage.peak_memory_bytes <= 128 * MIB, "{:?}", ended.usage);
    assert_eq!(place.python("print('kept' in globals())").await?.stdout, "False\n");
    place.end().await
}

#[tokio::test]
async fn the_small_profile_has_512_mib_and_the_data_profile_more() -> Result<()> {
    let mut small = Place::new("python-min").await?;
    let ended = small.python(GREEDY).await?;
    assert_eq!(
        (ended.outcome, rule(&ended)),
        (Outcome::MemoryLimit, Some("memory_limit: 512 MiB"))
    );
    small.end().await?;
    let mut data = Place::limited("python-min", Limits::DATA).await?;
    let ended = data.python(GREEDY).await?;
    assert_eq!(ended.outcome, Outcome::Ok, "{ended:?}");
    data.end().await
}

#[tokio::test]
async fn an_allocation_that_fails_is_an_error_that_keeps_the_state_and_names_the_limit() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let ended = place.python("kept = 1\nx = bytearray(1 << 45)").await?;
    assert_eq!(
        (ended.outcome, rule(&ended)),
        (Outcome::Error, Some("memory_limit: 512 MiB"))
    );
    let error = ended.error.context("no error")?;
    assert_eq!(error.name, "MemoryError");
    assert!(
        error.traceback.iter().any(|line| line.contains("Cell In[1], line 2")),
        "{error:?}"
    );
    assert_eq!(place.python("print(kept)").await?.stdout, "1\n");
    place.end().await
}

/// Outcomes are facts of the kernel: a word of the code makes none, and a process that the kernel ended is not hidden.
#[tokio::test]
async fn memory_is_judged_by_the_kernel_not_by_words() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let word = place.python("raise MemoryError('I say so')").await?;
    assert_eq!(word.outcome, Outcome::Error, "{word:?}");
    let greedy = "python3 -c 'x = bytearray(700 << 20)'";
    let child = place
        .python(&format!(
            "import subprocess\nprint(subprocess.call({greedy:?}, shell=True))"
        ))
        .await?;
    assert_eq!(
        (child.outcome, rule(&child)),
        (Outcome::Ok, Some("memory_limit: 512 MiB")),
        "{child:?}"
    );
    let shell = place.bash("head -c 700M /dev/zero | tail").await?;
    assert_eq!(
        (shell.outcome, shell.exit_code, rule(&shell)),
        (Outcome::Error, Some(137), Some("memory_limit: 512 MiB")),
        "{shell:?}"
    );
    let next = place.bash("echo fine").await?;
    assert_eq!((next.stdout.as_str(), rule(&next)), ("fine\n", None), "{next:?}");
    place.end().await
}

#[tokio::test]
async fn an_answer_that_is_late_is_no_lack_of_processes() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let code = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                s.setblocking(False); s.bind(('127.0.0.1', 0)); s.recv(1)";
    let ended = place.python(code).await?;
    assert_eq!(
        ended.error.as_ref().map(|error| error.name.as_str()),
        Some("BlockingIOError")
    );
    assert_eq!(rule(&ended), None, "{ended:?}");
    place.end().await
}

#[tokio::test]
async fn huge_pages_and_core_files_of_the_host_are_out_of_reach() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let code = "import ctypes, mmap, os, resource\n\
                def tried(f):\n    try: f()\n    except Exception as e: return type(e).__name__\n    return 'done'\n\
                print(tried(lambda: os.memfd_create('plain')), tried(lambda: os.memfd_create('huge', 4)),\n\
                      tried(lambda: mmap.mmap(-1, 2 << 20, flags=0x22)), tried(lambda: mmap.mmap(-1, 2 << 20, flags=0x40022)),\n\
                      resource.getrlimit(4), tried(lambda: resource.setrlimit(4, (0, 0))),\n\
                      tried(lambda: resource.setrlimit(7, (64, 64))))";
    let ended = place.python(code).await?;
    assert_eq!(
        ended.stdout, "done PermissionError done PermissionError (1, 1) ValueError done\n",
        "{ended:?}"
    );
    place.end().await
}

#[tokio::test]
async fn processor_time_is_limited_for_the_code_and_its_children() -> Result<()> {
    let limits = Limits {
        cpu_time: CpuTimeMillis::known(1_000),
        ..Limits::SMALL
    };
    let mut place = Place::limited("python-min", limits).await?;
    let burn = "while True: pass";
    let child = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'while True: pass'])";
    for code in [burn, child] {
        let ended = place.python(code).await?;
        assert_eq!(
            (ended.outcome, rule(&ended)),
            (Outcome::CpuLimit, Some("cpu_limit: 1 s")),
            "{code}: {ended:?}"
        );
        assert!(ended.usage.cpu_ms >= 1_000, "{:?}", ended.usage);
    }
    let next = place.python("print('next')").await?;
    assert_eq!(
        (next.outcome, next.stdout.as_str()),
        (Outcome::Ok, "next\n"),
        "the count starts anew"
    );
    place.end().await
}

#[tokio::test]
async fn wall_time_is_limited_also_for_code_that_does_not_listen() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let asleep = "import time\nprint('begun', flush=True)\ntime.sleep(1000)";
    let deaf = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('begun', flush=True)\ntime.sleep(1000)";
    let in_c = "import re\nprint('begun', flush=True)\nre.match('(a+)+b', 'a' * 1000)";
    for code in [asleep, deaf, in_c] {
        let (wall, late) = place.timed_out(Language::Python, code, "begun").await?;
        assert_eq!(
            (late.outcome, rule(&late)),
            (Outcome::Timeout, Some(format!("timeout: {wall}").as_str())),
            "{code}: {late:?}"
        );
        assert_eq!(late.stdout, "begun\n", "{code}");
    }
    assert_eq!(place.python("print('next')").await?.stdout, "next\n");
    place.end().await
}

#[tokio::test]
async fn processes_are_limited_and_the_hint_says_so() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let patient = "import os, signal\nkept, kids = 1, []\nwhile True:\n    pid = os.fork()\n    if pid == 0: signal.pause()\n    kids.append(pid)";
    let ended = place.python(patient).await?;
    assert_eq!(
        (ended.outcome, rule(&ended)),
        (Outcome::Error, Some("processes: 64")),
        "{ended:?}"
    );
    assert_eq!(ended.error.map(|error| error.name), Some("BlockingIOError".into()));
    let after = place
        .python("for pid in kids: os.kill(pid, 9)\nprint(kept, 32 < len(kids) < 64)")
        .await?;
    assert_eq!(after.stdout, "1 True\n", "{after:?}");
    place.end().await
}

#[tokio::test]
async fn fork_bombs_and_thread_floods_end_in_an_error() -> Result<()> {
    let limits = Limits {
        processes: ProcessCount::known(32),
        ..Limits::SMALL
    };
    let bomb = "import os\nwhile True: os.fork()";
    let threads = "import threading\nwhile True: threading.Thread(target=threading.Event().wait, daemon=True).start()";
    for code in [bomb, threads] {
        let mut place = Place::limited("python-min", limits).await?;
        let ended = place.python(code).await?;
        assert_eq!(
            (ended.outcome, rule(&ended)),
            (Outcome::Error, Some("processes: 32")),
            "{code}: {ended:?}"
        );
        place.end().await?;
    }
    Ok(())
}

/// The context's own channel, flooded: the engine's clocks still come to their turn.
const FLOOD: &str = r#"
import os, socket, struct, time
frame = b'{"type":"turn"}'
flood = (struct.pack("<I", len(frame)) + frame) * 3000
channel, began = socket.socket(fileno=os.dup(3)), time.monotonic()
while time.monotonic() - began < 240:
    try:
        channel.send(flood)
    except (BlockingIOError, KeyboardInterrupt):
        pass
    try:
        channel.recv(1 << 16, socket.MSG_DONTWAIT)
    except (OSError, KeyboardInterrupt):
        pass
print("ended by itself")
"#;

#[tokio::test]
async fn a_flooded_channel_does_not_stop_the_clock() -> Result<()> {
    let limits = Limits {
        wall: WallMillis::known(2_000),
        ..Limits::SMALL
    };
    let mut place = Place::limited("python-min", limits).await?;
    let ended = place.python(FLOOD).await?;
    assert_eq!(
        (ended.outcome, ended.stdout.as_str()),
        (Outcome::Timeout, ""),
        "{:?}",
        ended.usage
    );
    let next = execute_within(&mut place.sandbox, PATIENT, Language::Python, "print(6 * 7)").await?;
    assert_eq!(next.stdout, "42\n");
    place.end().await
}

/// A child of the context that stops it on a sign, and tells that it has.
const STOPPER: &str = "import os, subprocess\n\
    wait = 'until [ -e /tmp/go ]; do sleep 0.01; done'\n\
    subprocess.Popen(['sh', '-c', f'{wait}; kill -STOP {os.getpid()}; : > /tmp/stopped'])";
const STOP: &str = ": > /tmp/go; until [ -e /tmp/stopped ]; do sleep 0.01; done; rm /tmp/go /tmp/stopped";

#[tokio::test]
async fn a_context_that_does_not_take_the_code_is_replaced() -> Result<()> {
    let limits = Limits {
        wall: WallMillis::known(2_000),
        ..PATIENT
    };
    let mut place = Place::new("python-min").await?;
    let more_than_fits = format!("#{}\nprint('unstopped')", "x".repeat(3 << 20));
    for code in ["print('unstopped')", &more_than_fits] {
        assert_eq!(place.python(STOPPER).await?.outcome, Outcome::Ok);
        assert_eq!(place.bash(STOP).await?.outcome, Outcome::Ok);
        let stopped = execute_within(&mut place.sandbox, limits, Language::Python, code).await?;
        assert_eq!(
            (stopped.outcome, stopped.stdout.as_str()),
            (Outcome::Timeout, ""),
            "{:?}",
            stopped.error
        );
    }
    assert_eq!(place.python("print(6 * 7)").await?.stdout, "42\n");
    place.end().await
}
