//! Server-Sent Events as a server of ours sends them: a name and one line of JSON each.

use crate::output::Failure;
use atoll_server::outgoing::root_cause;
use reqwest::Response;
use serde::de::DeserializeOwned;

/// A line is one event; the last one is a whole answer.
const MAX_LINE: usize = 512 << 20;

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    /// JSON that was not looked at yet.
    data: Vec<u8>,
}

impl Event {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.data)
            .map_err(|error| Failure::ours_in_words(format!("unexpected response from the server: {error}")))
    }
}

#[derive(Debug)]
pub(crate) struct Events {
    answer: Response,
    reader: Reader,
}

impl Events {
    pub(crate) fn new(answer: Response) -> Self {
        Self {
            answer,
            reader: Reader::default(),
        }
    }

    /// The next event; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(event) = self.reader.next() {
                return Ok(Some(event));
            }
            let closed =
                |error| Failure::ours_in_words(format!("the server closed the connection: {}", root_cause(&error)));
            match self.answer.chunk().await.map_err(closed)? {
                Some(piece) => self.reader.feed(&piece)?,
                None => return Ok(None),
            }
        }
    }
}

/// Cuts bytes into events.
#[derive(Debug, Default)]
struct Reader {
    bytes: Vec<u8>,
    /// Up to here there is no line end.
    looked: usize,
    name: String,
}

impl Reader {
    fn feed(&mut self, piece: &[u8]) -> Result<(), Failure> {
        self.bytes.extend_from_slice(piece);
        match self.bytes.len() <= MAX_LINE {
            true => Ok(()),
            false => Err(Failure::ours_in_words("the server sent an event larger than 512 MiB")),
        }
    }

    fn next(&mut self) -> Option<Event> {
        while let Some(line) = self.line() {
            if let Some(name) = line.strip_prefix(b"event: ") {
                self.name = String::from_utf8_lossy(name).into_owned();
            } else if let Some(data) = line.strip_prefix(b"data: ") {
                let name = std::mem::take(&mut self.name);
                let data = data.to_vec();
                return Some(Event { name, data });
            }
        }
        None
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes.iter().skip(self.looked).position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| end + self.looked) else {
            self.looked = self.bytes.len();
            return None;
        };
        self.looked = 0;
        let rest = self.bytes.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        line.pop();
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_wherever_the_network_cuts() {
        let text = b": still here\n\nevent: a\ndata: {\"x\":1}\n\nid: 4\nevent: b\ndata: 2\n\n";
        let mut reader = Reader::default();
        let mut seen = Vec::new();
        for byte in text {
            reader.feed(&[*byte]).unwrap();
            while let Some(event) = reader.next() {
                let value: serde_json::Value = event.read().unwrap();
                seen.push((event.name, value.to_string()));
            }
        }
        assert_eq!(
            seen,
            [("a".into(), "{\"x\":1}".into()), ("b".to_owned(), "2".to_owned())]
        );
    }
}
