//! Which programs the contexts of a template run in: the machine's own, those that its image has, or the one of the tier wasm.

use atoll_core::Language;
use serde::{Deserialize, Serialize};

/// What a template lacks, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{who} does not support `{language}`: {reason}")]
pub struct NoProgram {
    pub who: &'static str,
    pub language: Language,
    pub reason: String,
}

/// The programs of an image, as seen inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImagePrograms {
    /// Absent: there is a Python, and the template's `interpreter` starts it.
    pub(super) no_python: Option<String>,
    pub(super) bash: Option<String>,
    pub(super) node: Option<String>,
}

/// Asked by whoever starts a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs(Of);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    Host { interpreter: String },
    Image { interpreter: String, image: ImagePrograms },
    Wasm,
}

/// Templates with the base `host` see the host's programs.
pub(crate) const NODE: &str = "/usr/bin/node";
const BASH: &str = "/bin/bash";

impl Programs {
    pub(crate) fn new(interpreter: &str, image: Option<&ImagePrograms>) -> Self {
        let interpreter = interpreter.to_owned();
        Self(match image {
            Some(image) => Of::Image {
                interpreter,
                image: image.clone(),
            },
            None => Of::Host { interpreter },
        })
    }

    /// Those of a tier without a template.
    pub(crate) fn of_wasm() -> Self {
        Self(Of::Wasm)
    }

    pub(crate) fn is_of_the_host(&self) -> bool {
        matches!(self.0, Of::Host { .. })
    }

    /// The program that contexts of a language are started with, as seen inside. A program of the host is not looked for.
    pub fn of(&self, language: Language) -> Result<&str, NoProgram> {
        let who = match self.0 {
            Of::Host { .. } | Of::Image { .. } => "this template",
            Of::Wasm => "tier `wasm`",
        };
        let lacks = |reason: &str| NoProgram {
            who,
            language,
            reason: reason.to_owned(),
        };
        match (&self.0, language) {
            (_, Language::R) => Err(lacks("R is planned but not available yet")),
            (Of::Wasm, Language::Python) => Ok("python"),
            (Of::Wasm, _) => Err(lacks("it runs Python only; use tier `jail` or above")),
            (Of::Host { interpreter }, Language::Python) => Ok(interpreter),
            (Of::Host { .. }, Language::Bash) => Ok(BASH),
            (Of::Host { .. }, Language::Javascript | Language::Typescript) => Ok(NODE),
            (Of::Image { interpreter, image }, Language::Python) => match &image.no_python {
                None => Ok(interpreter),
                Some(reason) => Err(lacks(reason)),
            },
            (Of::Image { image, .. }, Language::Bash) => image
                .bash
                .as_deref()
                .ok_or_else(|| lacks("the image has no `/bin/bash`")),
            (Of::Image { image, .. }, Language::Javascript | Language::Typescript) => image
                .node
                .as_deref()
                .ok_or_else(|| lacks("the image has no `node` on its PATH")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wasm_has_python_and_names_the_tier_that_has_the_rest() {
        let programs = Programs::of_wasm();
        assert_eq!(programs.of(Language::Python), Ok("python"));
        for language in [Language::Bash, Language::Javascript, Language::Typescript] {
            let text = programs.of(language).unwrap_err().to_string();
            assert!(text.contains("tier `wasm`") && text.contains("jail"), "{text}");
        }
    }

    #[test]
    fn an_image_has_what_it_has_and_says_what_it_lacks() {
        let image = ImagePrograms {
            no_python: Some("the image has no `python3` on its PATH".into()),
            bash: Some("/usr/bin/bash".into()),
            node: None,
        };
        let programs = Programs::new("/opt/atoll/venv/bin/python", Some(&image));
        assert_eq!(programs.of(Language::Bash), Ok("/usr/bin/bash"));
        for (language, word) in [
            (Language::Python, "python3"),
            (Language::Typescript, "node"),
            (Language::R, "planned"),
        ] {
            let text = programs.of(language).unwrap_err().to_string();
            assert!(text.contains(word) && text.contains(language.as_str()), "{text}");
        }
        let host = Programs::new("/p", None);
        assert!(Language::THERE.iter().all(|language| host.of(*language).is_ok()));
    }
}
