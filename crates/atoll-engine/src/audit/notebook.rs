//! Executions as a Jupyter notebook (nbformat 4.5): the code, and the output that it gave then.
//!
//! Reads entries only. What the log does not keep is not made up: code that is missing is a note.

use super::action::Action;
use super::output::{RecordedOutput, RecordedResult};
use super::view::View;
use atoll_core::Language;
use serde_json::{Map, Value, json};

/// A code cell for each execution among these entries, in their order.
pub fn notebook(entries: &[View]) -> Value {
    let executions = entries.iter().filter(|view| view.action == Action::Execute);
    let cells: Vec<Value> = (1..).zip(executions).map(cell).collect();
    json!({
        "cells": cells,
        "metadata": {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    })
}

fn cell((count, view): (u64, &View)) -> Value {
    let output = view.output.as_deref();
    let Some(code) = &view.code else {
        return note(view);
    };
    json!({
        "cell_type": "code",
        "id": format!("entry-{}", view.id),
        "execution_count": count,
        "metadata": facts(view),
        "source": source(code, language(view)),
        "outputs": output.map(|output| outputs(count, output)).unwrap_or_default(),
    })
}

fn note(view: &View) -> Value {
    let digest = view
        .code_sha256
        .map_or(String::new(), |digest| format!(" SHA-256: `{digest}`."));
    json!({
        "cell_type": "markdown",
        "id": format!("entry-{}", view.id),
        "metadata": facts(view),
        "source": format!("The audit log has no code for this execution.{digest}"),
    })
}

fn facts(view: &View) -> Value {
    json!({"atoll": {
        "entry": view.id,
        "time": view.time,
        "outcome": view.outcome,
        "output_recorded": view.output.is_some(),
        "output_truncated": view.output.as_ref().is_some_and(|output| output.truncated),
    }})
}

fn language(view: &View) -> Option<Language> {
    let asked = view
        .language
        .as_deref()
        .and_then(|language| language.parse::<Language>().ok());
    view.output.as_ref().map(|output| output.language).or(asked)
}

/// A Python notebook runs other languages by a magic.
fn source(code: &str, language: Option<Language>) -> String {
    match language {
        Some(Language::Bash) => format!("%%bash\n{code}"),
        Some(Language::Javascript | Language::Typescript) => format!("%%script node\n{code}"),
        Some(Language::R) => format!("%%script Rscript -\n{code}"),
        Some(Language::Python) | None => code.to_owned(),
    }
}

fn outputs(count: u64, output: &RecordedOutput) -> Vec<Value> {
    let streams = [("stdout", &output.stdout), ("stderr", &output.stderr)];
    let streams = streams.into_iter().filter(|(_, text)| !text.is_empty());
    let streams = streams.map(|(name, text)| json!({"output_type": "stream", "name": name, "text": text}));
    let results = output.results.iter().map(|result| shown(count, result));
    let error = output.error.as_ref().map(|error| {
        json!({
            "output_type": "error",
            "ename": error.name,
            "evalue": error.value,
            "traceback": error.traceback,
        })
    });
    streams.chain(results).chain(error).collect()
}

fn shown(count: u64, result: &RecordedResult) -> Value {
    let data: Map<String, Value> = result
        .data
        .iter()
        .map(|(name, text)| (name.clone(), form(name, text)))
        .collect();
    if result.main {
        json!({"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}})
    } else {
        json!({"output_type": "display_data", "data": data, "metadata": {}})
    }
}

/// JSON types are values in a notebook, all others are texts.
fn form(name: &str, text: &str) -> Value {
    let is_json = name == "application/json" || (name.starts_with("application/") && name.ends_with("+json"));
    let value = is_json.then(|| serde_json::from_str(text).ok()).flatten();
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}
