//! A result in the forms that a viewer may be given. What is on no list is left out and told.

use crate::image::Kind;
use crate::{Cleaned, Refused, html, image, latex, markdown, plotly, svg};
use atoll_core::execution::{LeftOutForm, RichResult};
use atoll_core::form::{Form, Forms};

/// Data, which no viewer runs or follows.
const DATA: &[&str] = &[
    "application/geo+json",
    "application/json",
    "application/vnd.dataresource+json",
    "e2b/data",
    "text/plain",
];
const PLOTLY: &str = "application/vnd.plotly.v1+json";
/// Of a name that code has made up.
const LONGEST_NAME: usize = 100;
/// Above this many bytes cleaning is work for another thread.
const LONG_MARKUP: u64 = 32 << 10;
const LONG_IMAGE: u64 = 1 << 20;

/// Each form cleaned or left out, with what was done in `cleaned` and `left_out`.
pub fn clean(mut result: RichResult) -> RichResult {
    for (name, form) in std::mem::take(&mut result.data) {
        match one(&name, form) {
            Ok((form, changed)) => {
                if changed {
                    result.cleaned.push(name.clone());
                }
                result.data.insert(name, form);
            }
            Err(Refused(why)) => {
                let form = name.chars().take(LONGEST_NAME).collect();
                result.left_out.push(LeftOutForm { form, why });
            }
        }
    }
    result
}

/// Whether cleaning it takes longer than a caller should wait on a thread that others share.
pub fn is_long(data: &Forms) -> bool {
    let is_long = |(name, form): (&str, &Form)| match name {
        "text/html" | "text/markdown" | "image/svg+xml" => form.json_length() > LONG_MARKUP,
        PLOTLY => form.json_length() > LONG_IMAGE,
        name => name.starts_with("image/") && form.json_length() > LONG_IMAGE,
    };
    data.iter().any(is_long)
}

fn one(name: &str, form: Form) -> Result<(Form, bool), Refused> {
    if DATA.contains(&name) {
        return Ok((form, false));
    }
    let text = match form {
        Form::Json(json) if name == PLOTLY => {
            plotly::check(json.get())?;
            return Ok((Form::Json(json), false));
        }
        Form::Json(_) => return Err(unknown()),
        Form::Text(text) => text,
    };
    let (text, changed) = match (name, Kind::of_mime(name)) {
        (_, Some(kind)) => match image::check_base64(&text, kind)? {
            Some(shorter) => (shorter, true),
            None => (text, false),
        },
        ("text/html", None) => parts(html::clean(&text)?),
        ("text/markdown", None) => parts(markdown::clean(&text)?),
        ("image/svg+xml", None) => parts(svg::clean(&text)?),
        ("text/latex", None) => latex::check(&text).map(|()| (text, false))?,
        ("application/pdf", None) => pdf(&text).map(|()| (text, false))?,
        (_, None) => return Err(unknown()),
    };
    Ok((Form::Text(text), changed))
}

fn parts(cleaned: Cleaned) -> (String, bool) {
    (cleaned.text, cleaned.changed)
}

fn unknown() -> Refused {
    Refused::because("media type not allowed in sanitized results; request raw results to get it")
}

/// What a PDF does is up to its reader; that it is one is not.
fn pdf(text: &str) -> Result<(), Refused> {
    let bytes = image::decoded(text).ok_or_else(|| Refused::because("not valid base64"))?;
    match bytes.starts_with(b"%PDF-") {
        true => Ok(()),
        false => Err(Refused::because("content is not a PDF")),
    }
}
