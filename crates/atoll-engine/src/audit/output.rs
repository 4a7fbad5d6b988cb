//! What an execution gave, as far as the log keeps it: by setting, bounded, and private, so that it can be erased.

use super::entry::{bounded, cut};
use atoll_core::Language;
use atoll_core::execution::{CodeError, Execution, RichResult};
use atoll_core::form::{Form, length_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Kept of each of stdout and stderr. In JSON a byte takes up to six; all bounds together fit a line of the log.
const MAX_STREAM: usize = 64 << 10;
/// Kept of all results, as JSON.
const MAX_RESULTS: u64 = 512 << 10;
/// What a result takes in JSON besides its forms, and more.
const RESULT_BYTES: u64 = 64;
/// Kept of the words of an error, and of a line of its traceback.
const MAX_ERROR: usize = 4 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedOutput {
    pub language: Language,
    pub stdout: String,
    pub stderr: String,
    pub results: Vec<RecordedResult>,
    pub error: Option<CodeError>,
    /// There was more, of which the caller may have got some.
    pub truncated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedResult {
    pub main: bool,
    /// By MIME type. A form of JSON is kept as its text.
    pub data: BTreeMap<String, String>,
}

impl RecordedOutput {
    /// Of an execution that has lost its secrets.
    pub(crate) fn of(execution: &Execution) -> Self {
        let (stdout, stderr) = (&execution.stdout, &execution.stderr);
        let told = execution.truncated;
        let mut output = Self {
            language: execution.language,
            stdout: cut(stdout, MAX_STREAM),
            stderr: cut(stderr, MAX_STREAM),
            results: Vec::new(),
            error: execution.error.as_ref().map(short),
            truncated: told.stdout || told.stderr || told.results,
        };
        output.truncated |= output.stdout.len() < stdout.len() || output.stderr.len() < stderr.len();
        let mut left = MAX_RESULTS;
        for result in &execution.results {
            output.add(result, &mut left);
        }
        output
    }

    /// Keeps those forms of a result that fit.
    fn add(&mut self, result: &RichResult, left: &mut u64) {
        if *left < RESULT_BYTES {
            self.truncated = true;
            return;
        }
        *left -= RESULT_BYTES;
        let mut data = BTreeMap::new();
        for (name, form) in result.data.iter() {
            let text = text_of(form);
            let length = length_of(name) + length_of(text);
            if length > *left {
                self.truncated = true;
                continue;
            }
            *left -= length;
            data.insert(name.to_owned(), text.to_owned());
        }
        let main = result.main;
        self.results.push(RecordedResult { main, data });
    }
}

fn text_of(form: &Form) -> &str {
    match form {
        Form::Text(text) => text,
        Form::Json(json) => json.get(),
    }
}

fn short(error: &CodeError) -> CodeError {
    CodeError {
        name: cut(&error.name, MAX_ERROR),
        value: cut(&error.value, MAX_ERROR),
        traceback: bounded(error.traceback.clone(), |line| cut(line, MAX_ERROR)),
    }
}
