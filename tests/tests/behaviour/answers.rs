//! What `atoll run` hands back beside the printed text: the JSON object, charts, files.

use anyhow::{Context, Result};
use atoll_tests::{atoll, run, run_command, run_json};
use serde_json::Value;
use std::fs;

#[test]
fn json_has_every_field_of_the_contract_and_null_for_what_is_absent() -> Result<()> {
    let ran = run(&["run", "--json", "--template", "python-min", "-c", "print('a'); 6*7"])?;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let answer: Value = serde_json::from_str(&ran.stdout)?;
    let keys = |value: &Value| {
        value
            .as_object()
            .map(|map| map.keys().cloned().collect::<Vec<_>>().join(" "))
    };
    let sorted = |text: Option<String>| {
        let mut words: Vec<String> = text.unwrap_or_default().split(' ').map(str::to_owned).collect();
        words.sort();
        words.join(" ")
    };
    assert_eq!(
        sorted(keys(&answer)),
        "context_id dry_run error execution_id exit_code files findings hint language left_out outcome provenance receipt results \
         sandbox_id stderr stdout tier tier_choice truncated usage"
    );
    assert_eq!(
        sorted(keys(&answer["usage"])),
        "cpu_ms net_in_bytes net_out_bytes output_bytes peak_memory_bytes wall_ms"
    );
    assert_eq!(sorted(keys(&answer["receipt"])), "egress layers policy template tier");
    assert_eq!(
        answer["truncated"],
        serde_json::json!({"stdout": false, "stderr": false, "results": false})
    );
    assert_eq!(
        (&answer["error"], &answer["hint"], &answer["exit_code"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(
        answer["results"][0],
        serde_json::json!({"main": true, "data": {"text/plain": "42"}, "chart": null, "cleaned": [], "left_out": []})
    );
    assert_eq!(
        (&answer["stdout"], &answer["outcome"], &answer["language"]),
        (&"a\n".into(), &"ok".into(), &"python".into())
    );
    assert!(
        answer["execution_id"]
            .as_str()
            .is_some_and(|id| id.starts_with("exec_"))
    );
    assert!(
        answer["receipt"]["template"]
            .as_str()
            .is_some_and(|digest| digest.starts_with("sha256:"))
    );
    assert!(
        answer["usage"]["peak_memory_bytes"]
            .as_u64()
            .is_some_and(|bytes| bytes > 1 << 20),
        "{}",
        answer["usage"]
    );
    Ok(())
}

#[test]
fn output_files_come_back_with_size_digest_and_media_type() -> Result<()> {
    let code = "import os; os.makedirs('/data/output/deep')\n\
                open('/data/output/t.csv', 'w').write('a,b\\n1,2\\n')\n\
                open('/data/output/deep/p.txt', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n')\n\
                os.symlink('/etc/passwd', '/data/output/link'); os.mkfifo('/data/output/pipe')";
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("made/here");
    let execution = run_json(&[
        "--template",
        "python-min",
        "--out",
        out.to_str().context("path")?,
        "-c",
        code,
    ])?;
    let facts: Vec<_> = execution
        .files
        .iter()
        .map(|f| (f.path.as_str(), f.size, f.media_type.as_str()))
        .collect();
    assert_eq!(
        facts,
        [
            ("/data/output/deep/p.txt", 8, "image/png"),
            ("/data/output/t.csv", 8, "text/csv")
        ]
    );
    assert_eq!(
        execution.files[1].sha256,
        "492d5ea496056f1a6a6592241032fab764c321596317930b4fa0e1e8bc3b7470"
    );
    assert_eq!(fs::read_to_string(out.join("t.csv"))?, "a,b\n1,2\n");
    assert_eq!(fs::read(out.join("deep/p.txt"))?, b"\x89PNG\r\n\x1a\n");
    assert_eq!(fs::read_dir(&out)?.count(), 2);
    Ok(())
}

#[test]
fn without_json_charts_and_files_are_saved_and_named_on_stderr() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let code =
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nopen('/data/output/n.txt', 'w').write('x')\nprint('done')";
    let ran = run_command(atoll().args(["run", "-c", code]).current_dir(&dir))?;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "done\n"), "{ran:?}");
    assert_eq!(ran.stderr, "saved: atoll-out/chart-1.png\nsaved: atoll-out/n.txt\n");
    assert!(fs::read(dir.path().join("atoll-out/chart-1.png"))?.starts_with(b"\x89PNG\r\n\x1a\n"));
    assert_eq!(fs::read_to_string(dir.path().join("atoll-out/n.txt"))?, "x");
    Ok(())
}

#[test]
fn nothing_to_save_makes_no_directory() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ran = run_command(
        atoll()
            .args(["run", "--template", "python-min", "-c", "print(1)"])
            .current_dir(&dir),
    )?;
    assert_eq!(ran.code, Some(0));
    assert_eq!(fs::read_dir(&dir)?.count(), 0);
    Ok(())
}
