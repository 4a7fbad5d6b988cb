//! The output of executions: bounded, erasable, and a notebook in the end.

use super::*;
use atoll_core::execution::{
    CodeError, Execution, LeftOut, Provenance, Receipt as Walls, RichResult, Truncated, Usage,
};
use atoll_core::form::Form;
use atoll_core::{ExecutionId, Language, Outcome, Tier};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Map, Value, json};

fn execution(stdout: &str, stderr: &str) -> Execution {
    let id = ExecutionId::from_random([7; 16]);
    Execution {
        provenance: Provenance::of(&id, Tier::Jail),
        execution_id: id,
        sandbox_id: None,
        context_id: None,
        language: Language::Python,
        tier: Tier::Jail,
        outcome: Outcome::Ok,
        exit_code: None,
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
        truncated: Truncated::default(),
        results: Vec::new(),
        error: None,
        hint: None,
        files: Vec::new(),
        left_out: LeftOut::default(),
        findings: Vec::new(),
        usage: Usage::default(),
        receipt: Walls {
            tier: Tier::Jail,
            layers: Map::new(),
            template: None,
            policy: None,
            egress: None,
        },
        dry_run: None,
        tier_choice: None,
    }
}

fn result(main: bool, forms: &[(&str, &str)]) -> RichResult {
    let forms = forms.iter().map(|(name, text)| ((*name).to_owned(), Form::from(*text)));
    RichResult {
        main,
        data: forms.collect(),
        ..RichResult::default()
    }
}

fn closing(execution: &Execution) -> Closing {
    Closing {
        output: Some(Box::new(RecordedOutput::of(execution))),
        ..Closing::of(Ending::Ok)
    }
}

fn opened(log: &Arc<AuditLog>, code: &str) -> Entry {
    let who = actor();
    let opening = Opening {
        code: Some(code),
        ..Opening::new(Action::Execute, &who)
    };
    log.begin(opening).unwrap()
}

fn roomy(dir: &Path) -> Arc<AuditLog> {
    let options = AuditOptions {
        segment_bytes: 1 << 30,
        ..small(dir)
    };
    AuditLog::open(options).unwrap()
}

fn entries(dir: &Path) -> Vec<View> {
    let mut index = Index::open(dir).unwrap();
    index.update().unwrap();
    index.list(&Query::default(), 100).unwrap()
}

#[test]
fn the_longest_output_fits_a_line_and_says_that_it_was_cut() {
    let dir = tempfile::tempdir().unwrap();
    let log = roomy(dir.path());
    let long = "\u{1}".repeat(1 << 20);
    let mut execution = execution(&long, &long);
    let forms = [("image/png", "A".repeat(400 << 10)), ("text/plain", long.clone())];
    let forms = forms.each_ref().map(|(name, text)| (*name, text.as_str()));
    execution.results = vec![result(true, &forms); 3];
    execution
        .results
        .extend(vec![result(false, &[("text/plain", "x")]); 20_000]);
    execution.error = Some(CodeError {
        name: long.clone(),
        value: long.clone(),
        traceback: vec![long.clone(); 100],
    });
    opened(&log, "1").close(closing(&execution));
    let view = entries(dir.path()).remove(0);
    assert_eq!(view.outcome, Some(Ending::Ok));
    let output = view.output.unwrap();
    assert!(output.truncated && output.stdout.len() == 64 << 10);
    assert_eq!(output.results[0].data["image/png"].len(), 400 << 10);
    assert!(!output.results[0].data.contains_key("text/plain"));
    drop(log);
    assert_eq!(check(dir.path()).problems, []);
}

#[test]
fn output_is_erased_with_its_entry() {
    let dir = tempfile::tempdir().unwrap();
    let log = roomy(dir.path());
    opened(&log, "1").close(closing(&execution("personal words", "")));
    let view = entries(dir.path()).remove(0);
    assert_eq!(view.output.unwrap().stdout, "personal words");
    log.redact(&[view.id].into(), "").unwrap();
    drop(log);
    assert_eq!(entries(dir.path())[0].output, None);
    for number in segment::list(dir.path()).unwrap() {
        let text = std::fs::read_to_string(segment::path(dir.path(), number)).unwrap();
        assert!(!text.contains("personal words"));
    }
    assert_eq!(check(dir.path()).problems, []);
}

#[test]
fn output_is_not_kept_while_many_ends_wait() {
    let dir = tempfile::tempdir().unwrap();
    let log = roomy(dir.path());
    let open: Vec<Entry> = (0..70).map(|_| opened(&log, "1")).collect();
    let lock = std::fs::File::open(dir.path().join("lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let execution = execution("words", "");
    for entry in open {
        entry.close_soon(closing(&execution));
    }
    assert_eq!(log.late(), 70);
    drop(lock);
    log.catch_up().unwrap();
    let all = entries(dir.path());
    assert!(all.iter().all(|view| view.outcome == Some(Ending::Ok)));
    let kept: Vec<bool> = all.iter().map(|view| view.output.is_some()).collect();
    assert_eq!(kept, [vec![true; 64], vec![false; 6]].concat());
}

/// The rules of nbformat 4.5 for what Atoll writes: these fields and no others.
fn assert_fields(value: &Value, fields: &[&str]) {
    let mut known: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let mut fields = fields.to_vec();
    known.sort_unstable();
    fields.sort_unstable();
    assert_eq!(known, fields, "{value}");
}

fn assert_bundle(data: &Value) {
    for (name, value) in data.as_object().unwrap() {
        let is_json = name.starts_with("application/") && name.ends_with("json");
        assert!(is_json || value.is_string(), "{name}: {value}");
    }
}

fn assert_output(output: &Value) {
    match output["output_type"].as_str().unwrap() {
        "stream" => {
            assert_fields(output, &["output_type", "name", "text"]);
            assert!(["stdout", "stderr"].contains(&output["name"].as_str().unwrap()) && output["text"].is_string());
        }
        "execute_result" => {
            assert_fields(output, &["output_type", "execution_count", "data", "metadata"]);
            assert!(output["execution_count"].is_u64() && output["metadata"].is_object());
            assert_bundle(&output["data"]);
        }
        "display_data" => {
            assert_fields(output, &["output_type", "data", "metadata"]);
            assert_bundle(&output["data"]);
        }
        "error" => {
            assert_fields(output, &["output_type", "ename", "evalue", "traceback"]);
            assert!(output["traceback"].as_array().unwrap().iter().all(Value::is_string));
        }
        other => panic!("{other}"),
    }
}

fn assert_notebook(notebook: &Value) {
    assert_fields(notebook, &["cells", "metadata", "nbformat", "nbformat_minor"]);
    assert_eq!(
        (&notebook["nbformat"], &notebook["nbformat_minor"]),
        (&json!(4), &json!(5))
    );
    assert!(notebook["metadata"]["kernelspec"]["display_name"].is_string());
    let mut ids = Vec::new();
    for cell in notebook["cells"].as_array().unwrap() {
        let id = cell["id"].as_str().unwrap();
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        assert!((1..=64).contains(&id.len()) && id.bytes().all(is_fine), "{id}");
        ids.push(id);
        assert!(cell["metadata"].is_object() && cell["source"].is_string());
        if cell["cell_type"] == "markdown" {
            assert_fields(cell, &["cell_type", "id", "metadata", "source"]);
            continue;
        }
        let fields = ["cell_type", "id", "metadata", "source", "outputs", "execution_count"];
        assert_fields(cell, &fields);
        assert!(cell["cell_type"] == "code" && cell["execution_count"].is_u64());
        cell["outputs"].as_array().unwrap().iter().for_each(assert_output);
    }
    ids.dedup();
    assert_eq!(ids.len(), notebook["cells"].as_array().unwrap().len());
}

#[test]
fn a_notebook_has_the_structure_of_nbformat_4() {
    let dir = tempfile::tempdir().unwrap();
    let log = roomy(dir.path());
    let mut rich = execution("out\n", "err\n");
    let forms = [("text/plain", "<x>"), ("application/json", "[1]")];
    rich.results = vec![result(true, &forms), result(false, &[("image/png", "AAAA")])];
    opened(&log, "x").close(closing(&rich));
    let mut failed = execution("", "");
    failed.language = Language::Bash;
    failed.error = Some(CodeError {
        name: "E".to_owned(),
        value: "v".to_owned(),
        traceback: vec!["line".to_owned()],
    });
    opened(&log, "false").close(closing(&failed));
    let who = actor();
    log.begin(Opening::new(Action::Execute, &who))
        .unwrap()
        .close(Closing::of(Ending::Ok));
    log.begin(Opening::new(Action::Command, &who))
        .unwrap()
        .close(Closing::of(Ending::Ok));
    let notebook = notebook(&entries(dir.path()));
    assert_notebook(&notebook);
    let cells = notebook["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3);
    let kinds: Vec<&Value> = cells[0]["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|output| &output["output_type"])
        .collect();
    assert_eq!(kinds, ["stream", "stream", "execute_result", "display_data"]);
    assert_eq!(cells[0]["outputs"][2]["data"]["application/json"], json!([1]));
    assert_eq!(cells[1]["source"], "%%bash\nfalse");
    assert_eq!(cells[1]["outputs"][0]["ename"], "E");
    assert_eq!(cells[2]["cell_type"], "markdown");
}
