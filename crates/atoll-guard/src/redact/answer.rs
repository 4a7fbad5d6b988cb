//! Secrets taken out of what an execution answers: results in all their forms, and the words around them.

use super::automaton::Redactor;
use crate::image::{self, Kind};
use crate::result::clean;
use atoll_core::Finding;
use atoll_core::execution::{CodeError, Hint, LeftOutForm, RichResult};
use atoll_core::form::{Form, Forms};

/// A result as a caller is given it: without secrets, and cleaned for a viewer unless raw ones are wanted.
pub fn present(mut result: RichResult, raw: bool, redactor: Option<&Redactor>) -> RichResult {
    let hide = |result: &mut RichResult| redactor.is_some_and(|redactor| redactor.result(result));
    // Before cleaning: what stands in place of a value begins a link of Markdown if there is an address behind it.
    hide(&mut result);
    if raw {
        return result;
    }
    result = clean(result);
    // After it as well: to clean is to read and to write anew, and a value can be spelled so that only then it is one.
    if hide(&mut result) {
        result = clean(result);
        result.cleaned.sort();
        result.cleaned.dedup();
    }
    result
}

impl Redactor {
    /// Whether something was taken out.
    fn result(&self, result: &mut RichResult) -> bool {
        let mut changed = false;
        let mut left_out = Vec::new();
        let mut take = |mut name: String, form: Form| {
            let shown = self.form(&name, form);
            changed |= self.hide(&mut name);
            match shown {
                Shown::Same(form) => return Some((name, form)),
                Shown::Changed(form) => {
                    changed = true;
                    return Some((name, form));
                }
                Shown::Lost(secret) => {
                    changed = true;
                    let why = format!("contains the secret `{secret}`, which cannot be redacted in this format");
                    left_out.push(LeftOutForm { form: name, why });
                }
            }
            None
        };
        let data = std::mem::take(&mut result.data).into_iter();
        result.data = data.filter_map(|(name, form)| take(name, form)).collect::<Forms>();
        result.chart = result
            .chart
            .take()
            .and_then(|chart| take("chart".to_owned(), chart))
            .map(|(_, chart)| chart);
        result.left_out.append(&mut left_out);
        for left_out in &mut result.left_out {
            self.hide(&mut left_out.form);
            self.hide(&mut left_out.why);
        }
        changed
    }

    fn form(&self, name: &str, form: Form) -> Shown {
        match form {
            Form::Text(text) => match encoded(name, &text) {
                Some(bytes) => match self.find(&bytes) {
                    Some(secret) => Shown::Lost(secret.to_owned()),
                    None => Shown::Same(Form::Text(text)),
                },
                None => {
                    let mut text = text;
                    match self.hide(&mut text) {
                        true => Shown::Changed(Form::Text(text)),
                        false => Shown::Same(Form::Text(text)),
                    }
                }
            },
            Form::Json(json) => {
                let mut text = json.get().to_owned();
                match self.find(text.as_bytes()).map(str::to_owned) {
                    None => Shown::Same(Form::Json(json)),
                    // A value can be a number, or a part of an escape: then what is left is no JSON.
                    Some(secret) => {
                        self.hide(&mut text);
                        Form::of_json(text).map_or(Shown::Lost(secret), Shown::Changed)
                    }
                }
            }
        }
    }

    pub fn error(&self, error: &mut CodeError) {
        self.hide(&mut error.name);
        self.hide(&mut error.value);
        self.lines(&mut error.traceback);
    }

    pub fn hint(&self, hint: &mut Hint) {
        let Hint { refused, rule, instead } = hint;
        for text in [refused, rule, instead] {
            self.hide(text);
        }
    }

    pub fn findings(&self, findings: &mut [Finding]) {
        for finding in findings {
            self.hide(&mut finding.message);
            self.hide(&mut finding.instead);
        }
    }

    pub fn lines(&self, lines: &mut [String]) {
        for line in lines {
            self.hide(line);
        }
    }
}

enum Shown {
    Same(Form),
    Changed(Form),
    /// It cannot be given without the secret of this name.
    Lost(String),
}

/// What is behind the text of a form that is bytes in base64.
fn encoded(name: &str, text: &str) -> Option<Vec<u8>> {
    let is_encoded = Kind::of_mime(name).is_some() || name == "application/pdf";
    is_encoded.then(|| image::decoded(text)).flatten()
}
