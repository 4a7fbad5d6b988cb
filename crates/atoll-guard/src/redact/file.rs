//! Files on their way out. A file is read twice: the first pass learns whether it is text, how long it is without secrets and
//! which secrets are in it; the second takes them out of text. Neither holds more than a piece and the longest spelling.

use super::automaton::Redactor;
use super::stream::Stream;
use std::borrow::Cow;
use std::sync::Arc;

/// The first pass.
#[derive(Debug)]
pub struct FileScan {
    redactor: Arc<Redactor>,
    stream: Stream,
    utf8: Utf8,
    bytes: u64,
    redacted_bytes: u64,
}

/// The second pass: text loses its secrets, other bytes stay as they are.
#[derive(Debug)]
pub struct FileRedaction {
    text: Option<Stream>,
    bytes: u64,
    unredacted: Vec<String>,
}

impl FileScan {
    pub fn new(redactor: &Arc<Redactor>) -> Self {
        Self {
            redactor: Arc::clone(redactor),
            stream: Stream::new(Arc::clone(redactor)),
            utf8: Utf8::default(),
            bytes: 0,
            redacted_bytes: 0,
        }
    }

    pub fn push(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.redacted_bytes += self.stream.push(piece).len() as u64;
        self.utf8.push(piece);
    }

    pub fn finish(mut self) -> FileRedaction {
        self.redacted_bytes += self.stream.finish().len() as u64;
        if self.utf8.is_whole() {
            return FileRedaction {
                text: Some(Stream::new(self.redactor)),
                bytes: self.redacted_bytes,
                unredacted: Vec::new(),
            };
        }
        FileRedaction {
            text: None,
            bytes: self.bytes,
            unredacted: self.stream.found(),
        }
    }
}

impl FileRedaction {
    pub fn is_text(&self) -> bool {
        self.text.is_some()
    }

    /// How many bytes come out, unless the file was changed since the first pass.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Names of the secrets that stay in it, because it is not text.
    pub fn unredacted(&self) -> &[String] {
        &self.unredacted
    }

    pub fn pass<'a>(&mut self, piece: &'a [u8]) -> Cow<'a, [u8]> {
        match &mut self.text {
            Some(text) => Cow::Owned(text.push(piece)),
            None => Cow::Borrowed(piece),
        }
    }

    /// The file is over: what was held back.
    pub fn finish(&mut self) -> Vec<u8> {
        self.text.as_mut().map(Stream::finish).unwrap_or_default()
    }
}

/// Whether bytes are UTF-8 without NUL, wherever they are cut.
#[derive(Debug, Default)]
struct Utf8 {
    is_broken: bool,
    /// A character without its end.
    cut: Vec<u8>,
}

impl Utf8 {
    fn push(&mut self, piece: &[u8]) {
        if self.is_broken {
            return;
        }
        let bytes = [self.cut.as_slice(), piece].concat();
        self.is_broken = bytes.contains(&0);
        let whole = match std::str::from_utf8(&bytes) {
            Ok(_) => bytes.len(),
            Err(error) => {
                self.is_broken |= error.error_len().is_some();
                error.valid_up_to()
            }
        };
        // At most three bytes, unless it is broken.
        self.cut = bytes.into_iter().skip(whole).take(3).collect();
    }

    fn is_whole(&self) -> bool {
        !self.is_broken && self.cut.is_empty()
    }
}
