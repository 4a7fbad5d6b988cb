//! A form with files, sent piece by piece: no file is in memory as a whole.

use http_body::{Frame, SizeHint};
use hyper::body::Bytes;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

const PIECE: usize = 256 << 10;

#[derive(Debug)]
enum Part {
    Words(Vec<u8>),
    /// So many bytes of it: what was told in the head of the request.
    File(File, u64),
}

#[derive(Debug)]
pub(crate) struct Form {
    boundary: String,
    parts: VecDeque<Part>,
}

impl Form {
    /// The boundary must not be in any file; this many random letters are not.
    pub(crate) fn new(boundary: String) -> Self {
        Self {
            boundary,
            parts: VecDeque::new(),
        }
    }

    pub(crate) fn kind(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    pub(crate) fn text(&mut self, name: &str, text: &str) {
        let head = format!(
            "--{}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n",
            self.boundary
        );
        self.words(head + text + "\r\n");
    }

    /// Control characters and backslashes are in no name of an input.
    pub(crate) fn file(&mut self, name: &str, file: File) -> io::Result<()> {
        let name = name.replace('"', "\\\"");
        let head = format!(
            "--{}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n",
            self.boundary
        );
        self.words(head);
        let size = file.metadata()?.len();
        self.parts.push_back(Part::File(file, size));
        self.words("\r\n".to_owned());
        Ok(())
    }

    pub(crate) fn end(&mut self) {
        self.words(format!("--{}--\r\n", self.boundary));
    }

    fn words(&mut self, words: String) {
        self.parts.push_back(Part::Words(words.into_bytes()));
    }

    fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            match self.parts.pop_front() {
                None => return Ok(None),
                Some(Part::Words(words)) => return Ok(Some(words.into())),
                Some(Part::File(_, 0)) => {}
                Some(Part::File(mut file, left)) => {
                    let mut piece = Vec::with_capacity(PIECE);
                    let count = (&mut file).take(left.min(PIECE as u64)).read_to_end(&mut piece)? as u64;
                    if count == 0 {
                        return Err(io::Error::other("an input file shrank during the upload"));
                    }
                    self.parts.push_front(Part::File(file, left - count));
                    return Ok(Some(piece.into()));
                }
            }
        }
    }
}

impl http_body::Body for Form {
    type Data = Bytes;
    type Error = io::Error;

    /// Files of this machine are read at once: there is nothing to wait for.
    fn poll_frame(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = self.get_mut().next().transpose();
        Poll::Ready(next.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let size = |part: &Part| match part {
            Part::Words(words) => words.len() as u64,
            Part::File(_, left) => *left,
        };
        SizeHint::with_exact(self.parts.iter().map(size).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body;

    #[test]
    fn a_form_is_as_long_as_it_says() {
        let path = std::env::temp_dir().join(format!("atoll-form-{}", std::process::id()));
        std::fs::write(&path, vec![b'x'; PIECE + 5]).unwrap();
        let mut form = Form::new("B".to_owned());
        form.text("code", "1");
        form.file("a\"b", File::open(&path).unwrap()).unwrap();
        form.end();
        std::fs::remove_file(&path).unwrap();
        let promised = form.size_hint().exact().unwrap();
        let mut whole = Vec::new();
        while let Some(piece) = form.next().unwrap() {
            whole.extend_from_slice(&piece);
        }
        assert_eq!(whole.len() as u64, promised);
        let text = String::from_utf8(whole).unwrap();
        assert!(text.contains("filename=\"a\\\"b\"") && text.ends_with("x\r\n--B--\r\n"));
    }
}
