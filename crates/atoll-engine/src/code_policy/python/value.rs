//! What is known about a value without running anything: which dotted name it stands for, and what text or number it is.

/// Longer texts are not put together.
pub(super) const MOST_TEXT: usize = 64 << 10;
const MOST_PATHS: usize = 4;
const MOST_PATH_BYTES: usize = 200;

/// A value that is known, as far as rules need it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Const {
    /// `whole`: the end is known as well.
    Text {
        text: String,
        whole: bool,
    },
    Bytes(Vec<u8>),
    Int(i64),
    List(Vec<Const>),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Value {
    /// What it may be: `os.system`, `builtins.eval`, `pathlib.Path()` for what a call gave.
    pub(super) paths: Vec<String>,
    pub(super) constant: Option<Const>,
    /// Its text was not simply written down.
    pub(super) built: bool,
}

impl Value {
    pub(super) fn path(path: String) -> Self {
        let mut value = Self::default();
        value.add_path(path);
        value
    }

    pub(super) fn constant(constant: Const, built: bool) -> Self {
        Self {
            constant: Some(constant),
            built,
            paths: Vec::new(),
        }
    }

    pub(super) fn text(text: String, built: bool) -> Self {
        match text.len() <= MOST_TEXT {
            true => Self::constant(Const::Text { text, whole: true }, built),
            false => Self::default(),
        }
    }

    pub(super) fn bytes(bytes: Vec<u8>) -> Self {
        match bytes.len() <= MOST_TEXT {
            true => Self::constant(Const::Bytes(bytes), true),
            false => Self::default(),
        }
    }

    pub(super) fn add_path(&mut self, path: String) {
        let fits = self.paths.len() < MOST_PATHS && path.len() <= MOST_PATH_BYTES;
        if fits && !self.paths.contains(&path) {
            self.paths.push(path);
        }
    }

    /// Each of its names with more at the end.
    pub(super) fn then(&self, more: &str) -> Self {
        let mut value = Self::default();
        for path in &self.paths {
            value.add_path(format!("{path}{more}"));
        }
        value
    }

    /// The text, if all of it is known.
    pub(super) fn whole_text(&self) -> Option<&str> {
        match &self.constant {
            Some(Const::Text { text, whole: true }) => Some(text),
            _ => None,
        }
    }

    /// The text as far as it is known from its beginning.
    pub(super) fn beginning(&self) -> Option<(&str, bool)> {
        match &self.constant {
            Some(Const::Text { text, whole }) => Some((text, *whole)),
            _ => None,
        }
    }

    pub(super) fn int(&self) -> Option<i64> {
        match self.constant {
            Some(Const::Int(number)) => Some(number),
            _ => None,
        }
    }

    pub(super) fn is(&self, path: &str) -> bool {
        self.paths.iter().any(|one| one == path)
    }

    /// About how many bytes it takes.
    pub(super) fn size(&self) -> usize {
        match &self.constant {
            Some(Const::Text { text, .. }) => text.len(),
            Some(Const::Bytes(bytes)) => bytes.len(),
            Some(Const::List(items)) => items.len() * 64,
            Some(Const::Int(_)) | None => 0,
        }
    }
}

impl Const {
    /// Its parts, if it is something that can be gone through.
    pub(super) fn items(&self) -> Option<Vec<Const>> {
        match self {
            Self::List(items) => Some(items.clone()),
            Self::Text { text, whole: true } => Some(text.chars().map(Self::of_char).collect()),
            Self::Bytes(bytes) => Some(bytes.iter().map(|byte| Self::Int(i64::from(*byte))).collect()),
            Self::Text { .. } | Self::Int(_) => None,
        }
    }

    pub(super) fn of_char(c: char) -> Self {
        Self::Text {
            text: c.to_string(),
            whole: true,
        }
    }
}
