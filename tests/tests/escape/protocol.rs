//! User code that speaks to the engine by itself: forged, broken and giant frames, descriptors, crashes.

use crate::lab::{engine_without, shown};
use crate::probe::cases;
use anyhow::{Result, ensure};
use atoll_core::quantity::WallMillis;
use atoll_core::{Execution, Language, Limits, Outcome};
use atoll_engine::{Engine, Sandbox};
use atoll_tests::process::eventually;
use atoll_tests::{PATIENT, execute, execute_within, python};
use std::process::Command;
use std::sync::Arc;

/// A frame by hand; `send` writes raw bytes to the control socket.
const WIRE: &str = "
import os, json, socket, array, struct, time
def frame(body): return struct.pack('<I', len(body)) + body
def send(data):
    view = memoryview(data)
    while view: view = view[os.write(3, view):]
";

async fn fresh() -> Result<(Arc<Engine>, Sandbox)> {
    let engine = engine_without(&[]).await?;
    let sandbox = atoll_tests::sandbox(&engine).await?;
    Ok((engine, sandbox))
}

/// After whatever it was: this sandbox computes, and so does a new one of the same engine.
async fn goes_on(engine: Arc<Engine>, mut sandbox: Sandbox) -> Result<()> {
    ensure!(
        shown(&python(&mut sandbox, "6*7").await?) == "42",
        "the sandbox does not go on"
    );
    sandbox.end().await?;
    let mut next = atoll_tests::sandbox(&engine).await?;
    ensure!(
        shown(&python(&mut next, "6*7").await?) == "42",
        "the engine does not go on"
    );
    next.end().await?;
    atoll_tests::stop(engine).await
}

async fn attempt(code: &str) -> Result<Execution> {
    let (engine, mut sandbox) = fresh().await?;
    let execution = python(&mut sandbox, &format!("{WIRE}\n{code}")).await?;
    goes_on(engine, sandbox).await?;
    Ok(execution)
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// Unwinding a recursion that filled all memory can take long.
const BRIEF: Limits = Limits {
    wall: WallMillis::known(8_000),
    ..PATIENT
};

cases! { CASES:
    z12_garbage {
        id: "Z12",
        claim: "Garbage on the control socket harms nobody",
        expected: "frames that mean nothing are dropped; the execution and the next one end as usual",
        oracle: "the engine answers for this and for a new sandbox",
        twin: "a result of the same execution still arrives",
        control: "a well-formed frame is taken: a forged result of the own execution shows (only oneself is lied about)",
    } {
        let garbage = "for body in [b'', b'{}', b'[]', b'\\xff'*50, b'null', b'{\"type\":\"run\"}', b'{\"type\":\"done\",\"id\":5}', b'['*100000, b'{\"type\":\"result\",\"id\":\"exec_other\",\"main\":true,\"data\":{\"text/plain\":\"forged\"},\"chart\":null}', b'{\"type\":\"done\",\"id\":\"exec_other\",\"exit_code\":0}', b'{\"type\":\"failed\",\"step\":1,\"errno\":1}', b'{\"type\":\"ready\"}', b'{\"type\":\"warmed\"}']: send(frame(body))\n'mine'";
        let execution = attempt(garbage).await?;
        ensure!(execution.outcome == Outcome::Ok && shown(&execution) == "'mine'", "{execution:?}");
        ensure!(!format!("{:?}", execution.results).contains("forged"), "a result of another execution was taken");
        let forged = attempt("import gc\nfrom atoll_kernel.report import Report\nr=[o for o in gc.get_objects() if isinstance(o,Report)]\nids={v for o in r for v in vars(o).values() if isinstance(v,str) and v.startswith('exec_')}\nfor i in ids: send(frame(json.dumps({'type':'result','id':i,'main':False,'data':{'text/plain':'forged'},'chart':None}).encode()))").await?;
        ensure!(format!("{:?}", forged.results).contains("forged"), "the control did not breach: {forged:?}");
    }
    z12_partial {
        id: "Z12b",
        claim: "Half a frame or a frame without an end stops nothing but its own execution",
        expected: "the execution ends by its deadline or its end; the next one works in a whole context",
        oracle: "the engine answers for this and for a new sandbox",
        twin: "the next execution in the same sandbox computes",
        control: "the stream is out of step: the broken execution itself is not ok (only oneself is harmed)",
    } {
        let (engine, mut sandbox) = fresh().await?;
        let limits = Limits { wall: WallMillis::known(3_000), ..PATIENT };
        let code = format!("{WIRE}\nsend(struct.pack('<I', 1000) + b'half')");
        let execution = execute_within(&mut sandbox, limits, Language::Python, &code).await?;
        ensure!(execution.outcome != Outcome::Ok, "the control did not breach: {execution:?}");
        goes_on(engine, sandbox).await?;
    }
    z12_giant {
        id: "Z12c",
        claim: "A giant length costs the engine no memory",
        expected: "4 GiB announced and 40 MB sent: the engine's memory grows by less than 40 MB",
        oracle: "peak memory of the engine's own process",
        twin: "the next execution computes",
        control: "the same bytes are visible to the meter when the test itself holds them (own memory)",
    } {
        let (engine, mut sandbox) = fresh().await?;
        python(&mut sandbox, "1").await?;
        let before = resident_kib();
        let limits = "import threading\nthreading.Timer(1.0, lambda: os._exit(3)).start()";
        python(&mut sandbox, &format!("{WIRE}\n{limits}\nsend(struct.pack('<I', 0xFFFFFFFF))\nfor _ in range(40): send(b'x'*1000000)\ntime.sleep(5)")).await?;
        let grown = resident_kib() - before;
        ensure!(grown < 40_000, "grew by {grown} KiB");
        goes_on(engine, sandbox).await?;
        let held = vec![1u8; 48 << 20];
        ensure!(held.iter().map(|b| u64::from(*b)).sum::<u64>() > 0 && resident_kib() - before > 40_000, "the control did not breach");
    }
    z12_descriptors {
        id: "Z12d",
        claim: "Descriptors sent over the control socket do not pile up in the engine",
        expected: "200 descriptors sent beside bytes: the engine holds no more than before",
        oracle: "the number of open descriptors of the engine's process",
        twin: "sending itself works",
        control: "a receiver that asks for them does get them (an own socket pair inside the sandbox)",
    } {
        let count = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let (engine, mut sandbox) = fresh().await?;
        python(&mut sandbox, "1").await?;
        let before = count();
        let sent = python(&mut sandbox, &format!("{WIRE}\ns=socket.socket(fileno=os.dup(3))\nf=os.open('/dev/null',os.O_RDONLY)\nn=0\nfor _ in range(50):\n    s.sendmsg([frame(b'{{}}')],[(socket.SOL_SOCKET,socket.SCM_RIGHTS,array.array('i',[f]*4))]); n+=1\ns.detach()\na,b=socket.socketpair()\nsocket.send_fds(a,[b'x'],[f])\n(n, len(socket.recv_fds(b,9,4)[1]))")).await?;
        ensure!(shown(&sent) == "(50, 1)", "the control did not breach: {sent:?}");
        eventually("no more descriptors than before", || count() <= before + 1)?;
        goes_on(engine, sandbox).await?;
    }
    z13_forged_end {
        id: "Z13",
        claim: "A forged end helps nobody: how a process ended is the kernel's word, and the next execution is whole",
        expected: "what is printed after a forged end reaches no later execution; the next result is right",
        oracle: "output and result of the next execution",
        twin: "the next execution computes",
        control: "the forged end is believed for the own execution: its later print is missing there (only oneself)",
    } {
        let (engine, mut sandbox) = fresh().await?;
        let forge = format!("{WIRE}\nimport gc\nfrom atoll_kernel.report import Report\nids={{v for o in gc.get_objects() if isinstance(o,Report) for v in vars(o).values() if isinstance(v,str) and v.startswith('exec_')}}\nfor i in ids: send(frame(json.dumps({{'type':'done','id':i,'exit_code':None}}).encode()))\nwhile not os.path.exists('/tmp/go'): time.sleep(.02)\nprint('late words', flush=True)\n'late result'");
        let first = python(&mut sandbox, &forge).await?;
        ensure!(first.outcome == Outcome::Ok && !first.stdout.contains("late"), "the control did not breach: {first:?}");
        let told = execute(&mut sandbox, Language::Bash, "touch /tmp/go").await?;
        ensure!(told.outcome == Outcome::Ok, "{told:?}");
        let second = python(&mut sandbox, "print('mine')\n6*7").await?;
        ensure!(second.outcome == Outcome::Ok && shown(&second) == "42", "{second:?}");
        ensure!(!format!("{:?}", second.results).contains("late result"), "a forged execution wrote into the next one: {second:?}");
        sandbox.end().await?;
        let (_, mut other) = (0, atoll_tests::sandbox(&engine).await?);
        ensure!(python(&mut other, "import os; os._exit(0)").await?.outcome == Outcome::Ok);
        ensure!(python(&mut other, "import os; os._exit(7)").await?.exit_code == Some(7));
        ensure!(python(&mut other, "import os; os.kill(os.getpid(), 11)").await?.outcome == Outcome::Crashed);
        goes_on(engine, other).await?;
    }
    r16_crashes {
        id: "R16",
        claim: "A crash ends this execution only",
        expected: "segfault, abort, stack overflow and endless recursion are reported (the last one by its deadline, if unwinding takes longer); the sandbox and a neighbour go on",
        oracle: "the neighbour's context answers with its state",
        twin: "the same sandbox computes after each",
        control: "the same crash outside kills the process that runs it (a plain child of the test)",
    } {
        let engine = engine_without(&[]).await?;
        let mut sandbox = atoll_tests::sandbox(&engine).await?;
        let mut neighbour = atoll_tests::sandbox(&engine).await?;
        python(&mut neighbour, "x = 41").await?;
        for code in [
            "import ctypes; ctypes.string_at(0)",
            "import os; os.abort()",
            "import sys; sys.setrecursionlimit(10**9)\ndef f(): return f()\nf()",
            "import ctypes; ctypes.CFUNCTYPE(None)(0)()",
            "import faulthandler; faulthandler.enable(); import ctypes; ctypes.string_at(0)",
        ] {
            let crashed = execute_within(&mut sandbox, BRIEF, Language::Python, code).await?;
            ensure!(matches!(crashed.outcome, Outcome::Crashed | Outcome::Error | Outcome::MemoryLimit | Outcome::Timeout), "{code}: {:?}", crashed.outcome);
            ensure!(shown(&python(&mut sandbox, "6*7").await?) == "42", "the sandbox does not go on after {code}");
            ensure!(shown(&python(&mut neighbour, "x+1").await?) == "42", "the neighbour does not go on after {code}");
        }
        neighbour.end().await?;
        goes_on(engine, sandbox).await?;
        let outside = Command::new("python3").args(["-I", "-c", "import resource,ctypes; resource.setrlimit(4,(0,0)); ctypes.string_at(0)"]).output()?;
        ensure!(outside.status.code().is_none(), "the control did not breach");
    }
}
