//! Floods and strange values: what comes out is bounded and valid JSON.

use crate::lab::{engine_without, shown};
use crate::probe::cases;
use anyhow::{Result, ensure};
use atoll_attack::bench::{patient, sandbox_with};
use atoll_core::quantity::{MIB, OutputBytes, WallMillis};
use atoll_core::{Execution, Language, Limits, Outcome};
use atoll_engine::Engine;
use atoll_tests::{PATIENT, execute_within, python};

/// In a sandbox that has time to spare before and after the code.
async fn run_with(engine: &Engine, limits: Limits, code: &str) -> Result<Execution> {
    let mut sandbox = sandbox_with(engine, patient(limits)).await?;
    let execution = execute_within(&mut sandbox, limits, Language::Python, code).await?;
    ensure!(
        shown(&python(&mut sandbox, "6*7").await?) == "42",
        "the twin is dead: the sandbox does not go on"
    );
    sandbox.end().await?;
    Ok(execution)
}

/// The whole answer as text that a strict parser reads back to the same value.
fn strict(execution: &Execution) -> Result<String> {
    let text = serde_json::to_string(execution)?;
    ensure!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "not JSON");
    ensure!(!text.contains("NaN") || text.contains("\"NaN"), "a bare NaN");
    Ok(text)
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

const FLOOD: &str = "import os\nb=b'x'*65536\nfor _ in range(800):\n    n=0\n    while n<len(b): n+=os.write(1,b[n:])\nfor _ in range(80): os.write(2,b)";

const DRIP: &str = "import os\nw=os.write\nfor _ in range(1_200_000): w(1,b'x')";
/// Deep nesting, NaN, a lone surrogate, and an ordinary value, as Python's own encoder writes them.
const RAW_VALUES: &str = "import json,sys\nx='['*20000+']'*20000\nprint(x)\nprint(json.dumps({'a': float('nan')}))\n\
    print(json.dumps('\\ud800'))\nprint(json.dumps({'a': [1, 2.5]}))";
/// An exception of 40 MB (its text and its traceback) whose sender has thrown its own bounds away.
const UNBOUNDED: &str = "from atoll_kernel import errors\nerrors.cut=lambda text,limit: text\nerrors._bounded=lambda text: text\n\
    class E(Exception):\n    def __str__(self): return 'x'*20_000_000\nraise E()";

cases! { CASES:
    r14_flood {
        id: "R14",
        claim: "A flood of output is cut at its limit while the engine's memory stays flat",
        expected: "50 MB written, 1 MiB kept, the flags set, less than 30 MB more memory",
        oracle: "peak memory of the engine's own process",
        twin: "the same sandbox computes afterwards",
        control: "with a higher limit the same flood comes back whole (50 MB)",
    } {
        let engine = engine_without(&[]).await?;
        run_with(&engine, PATIENT, "1").await?;
        let before = peak_kib();
        let cut = run_with(&engine, PATIENT, FLOOD).await?;
        ensure!(cut.truncated.stdout && cut.truncated.stderr && cut.stdout.len() <= 2 << 20, "{:?} {}", cut.truncated, cut.stdout.len());
        ensure!(peak_kib() - before < 30_000, "grew by {} KiB", peak_kib() - before);
        let whole = run_with(&engine, Limits { text_output: OutputBytes::known(100 * MIB), ..PATIENT }, FLOOD).await?;
        ensure!(whole.stdout.len() == 800 * 65536 && !whole.truncated.stdout, "the control did not breach: {}", whole.stdout.len());
        atoll_tests::stop(engine).await?;
    }
    r14_single_bytes {
        id: "R14c",
        claim: "A flood of single bytes is cut like any other, and costs the engine no memory",
        expected: "1.2 million writes of one byte: 1 MiB kept, the flag set, less than 30 MB more memory",
        oracle: "peak memory of the engine's own process",
        twin: "the same sandbox computes afterwards",
        control: "with a higher limit every single byte comes back",
    } {
        let engine = engine_without(&[]).await?;
        run_with(&engine, PATIENT, "1").await?;
        let before = peak_kib();
        let cut = run_with(&engine, PATIENT, DRIP).await?;
        ensure!(cut.truncated.stdout && cut.stdout.len() <= 2 << 20 && cut.stdout.len() >= 1 << 20, "{:?} {}", cut.truncated, cut.stdout.len());
        ensure!(peak_kib() - before < 30_000, "grew by {} KiB", peak_kib() - before);
        let whole = run_with(&engine, Limits { text_output: OutputBytes::known(10 * MIB), ..PATIENT }, DRIP).await?;
        ensure!(whole.stdout.len() == 1_200_000 && !whole.truncated.stdout, "the control did not breach: {}", whole.stdout.len());
        atoll_tests::stop(engine).await?;
    }
    r14_closed {
        id: "R14b",
        claim: "Closing the streams or writing after the result holds nobody up",
        expected: "ok, and the next execution prints again",
        oracle: "the next execution's output",
        twin: "the same sandbox computes afterwards",
        control: "within the execution the stream really is closed: the write fails (own sandbox)",
    } {
        let engine = engine_without(&[]).await?;
        let mut sandbox = atoll_tests::sandbox(&engine).await?;
        let closed = python(&mut sandbox, "import os\nos.close(1); os.close(2)\ntry: os.write(1,b'x'); r='wrote'\nexcept OSError: r='closed'\nr").await?;
        ensure!(shown(&closed) == "'closed'", "the control did not breach: {closed:?}");
        ensure!(python(&mut sandbox, "print('again')").await?.stdout == "again\n");
        sandbox.end().await?;
        atoll_tests::stop(engine).await?;
    }
    r15_rich {
        id: "R15",
        claim: "Giant and countless results are cut at their limit",
        expected: "a text of 30 MB is left out with the flag; of 20,000 results only what fits the limit is kept",
        oracle: "the size of the answer as JSON",
        twin: "the same sandbox computes afterwards",
        control: "with a higher limit the same text comes back (30 MB)",
    } {
        let engine = engine_without(&[]).await?;
        let page = "from IPython.display import display\ndisplay({'text/plain': 'x'*30_000_000}, raw=True)";
        let cut = run_with(&engine, PATIENT, page).await?;
        ensure!(cut.truncated.results && strict(&cut)?.len() < 12 << 20, "{:?}", cut.truncated);
        let many = run_with(&engine, Limits { rich_output: OutputBytes::known(MIB), ..PATIENT }, "from IPython.display import HTML, display\nfor _ in range(3000): display(HTML('y'*1000))").await?;
        ensure!(many.truncated.results && strict(&many)?.len() < 4 << 20, "{:?}", many.truncated);
        let whole = run_with(&engine, Limits { rich_output: OutputBytes::known(50 * MIB), ..PATIENT }, page).await?;
        ensure!(!whole.truncated.results && strict(&whole)?.len() > 30_000_000, "the control did not breach");
        atoll_tests::stop(engine).await?;
    }
    r15_tiny {
        id: "R15b",
        claim: "A result of countless tiny objects costs the engine the memory of its text, not of a tree",
        expected: "1.3 million empty keys (9 MB of JSON) come back whole with less than 60 MB more memory",
        oracle: "peak memory of the engine's own process",
        twin: "the same sandbox computes afterwards",
        control: "the same text read into a tree by this process takes more than 300 MB",
    } {
        let engine = engine_without(&[]).await?;
        run_with(&engine, PATIENT, "1").await?;
        let before = peak_kib();
        let tiny = run_with(&engine, PATIENT, "from IPython.display import display\ndisplay({'application/json': [{'': 0}] * 1_300_000}, raw=True)").await?;
        let length = tiny.results.first().map_or(0, |result| result.data["application/json"].json_length());
        ensure!(length == 1_300_000 * 7 + 1, "{length} bytes, {:?}", tiny.truncated);
        ensure!(peak_kib() - before < 60_000, "grew by {} KiB", peak_kib() - before);
        let before = peak_kib();
        let tree: serde_json::Value = serde_json::from_str(&format!("[{}0]", "{\"\":0},".repeat(1_300_000)))?;
        ensure!(peak_kib() - before > 300_000, "the control did not breach: {} KiB", peak_kib() - before);
        drop(tree);
        atoll_tests::stop(engine).await?;
    }
    r18_reprs {
        id: "R18",
        claim: "Exceptions with giant, endless or failing texts are bounded",
        expected: "an error with a bounded text, or the deadline; never more than the limits",
        oracle: "the size of the answer as JSON",
        twin: "an exception with a small text comes back whole; the same sandbox computes afterwards",
        control: "with a higher limit of the engine, a text whose sender dropped its own bounds comes back whole (40 MB)",
    } {
        let engine = engine_without(&[]).await?;
        let limits = Limits { rich_output: OutputBytes::known(MIB), ..PATIENT };
        let brief = Limits { wall: WallMillis::known(2_000), ..limits };
        let endless = run_with(&engine, brief, "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E()").await?;
        ensure!(endless.outcome == Outcome::Timeout && strict(&endless)?.len() < 8 << 20, "{:?}", endless.outcome);
        for code in [
            "class E(Exception):\n    def __str__(self): return 'x'*50_000_000\nraise E()",
            "class E(Exception):\n    def __repr__(self): raise ValueError\n    __str__=__repr__\nraise E()",
            "class D:\n    def __del__(self): raise ValueError('in del')\nd=D(); del d\n1/0",
            "raise ValueError('\\ud800\\udfff \\x00 \\x1b[31m')",
            "raise BaseException('x'*10_000_000)",
        ] {
            let execution = run_with(&engine, limits, code).await?;
            ensure!(execution.outcome != Outcome::Ok, "{code}");
            ensure!(strict(&execution)?.len() < 8 << 20, "{code}: {} bytes", strict(&execution)?.len());
        }
        // Here only oneself is lied about: the engine throws away what is too long.
        let unbounded = run_with(&engine, limits, UNBOUNDED).await?;
        ensure!(unbounded.truncated.results && strict(&unbounded)?.len() < 2 << 20, "{:?}", unbounded.outcome);
        let small = run_with(&engine, limits, "raise ValueError('small text')").await?;
        ensure!(small.error.is_some_and(|error| error.value == "small text"), "the twin is dead");
        let roomy = Limits { rich_output: OutputBytes::known(50 * MIB), ..PATIENT };
        let whole = run_with(&engine, roomy, UNBOUNDED).await?;
        ensure!(strict(&whole)?.len() > 40_000_000, "the control did not breach: {} bytes", strict(&whole)?.len());
        atoll_tests::stop(engine).await?;
    }
    d05_pickles {
        id: "D05",
        claim: "The host never loads what a sandbox wrote: pickles come back as bytes",
        expected: "a file that would run code when unpickled is collected unread; nothing runs on the host",
        oracle: "the marker file on the host does not appear",
        twin: "the collected bytes are the pickle",
        control: "a reader that unpickles it does make the marker (own Python process of the test, own marker)",
    } {
        let dir = tempfile::tempdir()?;
        let marker = dir.path().join("marker");
        let code = format!("import pickle,os\nclass P:\n    def __reduce__(self): return (os.mkdir, ({marker:?},))\npickle.dump(P(), open('/data/output/model.pkl','wb'))");
        let engine = engine_without(&[]).await?;
        let mut sandbox = atoll_tests::sandbox(&engine).await?;
        python(&mut sandbox, &code).await?;
        let saved = sandbox.collect(Some(&dir.path().join("out"))).await?;
        sandbox.end().await?;
        atoll_tests::stop(engine).await?;
        ensure!(saved.files.len() == 1 && !marker.exists(), "{:?}", saved.files);
        let load = format!("import pickle; pickle.load(open({:?},'rb'))", saved.saved[0]);
        std::process::Command::new("python3").args(["-I", "-c", &load]).output()?;
        ensure!(marker.exists(), "the control did not breach");
    }
    d06_values {
        id: "D06",
        claim: "Deep, endless and impossible values become valid JSON",
        expected: "nesting of 100,000, NaN, infinities, giant integers, lone surrogates, duplicate keys: a strict parser reads the answer",
        oracle: "the answer is parsed again",
        twin: "an ordinary value of the same kind arrives unchanged",
        control: "the same values, written by Python's own encoder and passed on unread, are refused by the same parser",
    } {
        let engine = engine_without(&[]).await?;
        let show = "from IPython.display import JSON, display\n";
        for code in [
            "x=[]\nfor _ in range(100000): x=[x]\ndisplay({'application/json': x, 'text/plain': 'deep'}, raw=True)",
            "display({'application/json': {'a': float('nan'), 'b': [float('inf'), -float('inf')]}, 'text/plain': 'x'}, raw=True)",
            "display({'application/json': 10**5000, 'text/plain': 'big'}, raw=True)",
            "display({'text/plain': '\\ud800 lone', 'text/html': '\\udcff'}, raw=True)",
            "import os; os.write(1, b'\\xff\\xfe\\x00\\xc3(')",
            "display({'application/json': {1: 2, '1': 3, None: 4, (1,2): 5}, 'text/plain': 'keys'}, raw=True)",
            "x={}; x['x']=x\ndisplay({'application/json': x, 'text/plain': 'loop'}, raw=True)",
            "display({object(): 1, 'text/plain': 5, 'image/png': b'\\x00\\xff'}, raw=True)",
        ] {
            let execution = run_with(&engine, PATIENT, &format!("{show}{code}")).await?;
            ensure!(matches!(execution.outcome, Outcome::Ok | Outcome::Error), "{code}: {:?}", execution.outcome);
            strict(&execution)?;
        }
        let plain = run_with(&engine, PATIENT, &format!("{show}display({{'application/json': {{'a': [1, 2.5]}}, 'text/plain': 'x'}}, raw=True)")).await?;
        ensure!(strict(&plain)?.contains("{\"a\":[1,2.5]}"), "the twin is dead: {:?}", plain.results);
        let raw = run_with(&engine, PATIENT, RAW_VALUES).await?;
        let refused: Vec<bool> = raw.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).is_err()).collect();
        ensure!(refused == [true, true, true, false], "the control did not breach: {refused:?} {:?}", raw.error);
        atoll_tests::stop(engine).await?;
    }
}
