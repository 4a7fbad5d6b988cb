//! Length-prefixed frames read from a hostile peer: the length is bounded before a byte is stored.
//!
//! A frame is four bytes of little-endian length, then that many bytes of JSON. A frame above the bound is
//! skipped as it streams by, and reported as such; memory never grows past the bound.

/// The longest frame that either side sends.
pub const MAX_FRAME_BYTES: usize = 64 << 20;

#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole frame.
    Whole(Vec<u8>),
    /// A frame longer than the bound went by; nothing of it was kept.
    Skipped { bytes: usize },
}

/// Turns a stream of bytes into frames.
#[derive(Debug)]
pub struct FrameReader {
    bound: usize,
    header: Vec<u8>,
    state: State,
}

#[derive(Debug)]
enum State {
    Header,
    Body { wanted: usize, body: Vec<u8> },
    Skip { wanted: usize, left: usize },
}

impl FrameReader {
    pub fn new(bound: usize) -> Self {
        Self {
            bound,
            header: Vec::with_capacity(4),
            state: State::Header,
        }
    }

    /// Lowers or raises the bound for frames that begin from now on.
    pub fn set_bound(&mut self, bound: usize) {
        self.bound = bound;
    }

    /// Bytes of a frame that is not whole yet.
    pub fn held(&self) -> usize {
        match &self.state {
            State::Body { body, .. } => body.len(),
            State::Header | State::Skip { .. } => 0,
        }
    }

    /// Gives up the frame that is not whole yet: the rest of it is skipped.
    pub fn give_up(&mut self) {
        if let State::Body { wanted, body } = &self.state {
            self.state = State::Skip {
                wanted: *wanted,
                left: *wanted - body.len(),
            };
        }
    }

    /// Takes in `bytes` and returns every frame that they complete.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Vec<Frame> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            bytes = self.step(bytes, &mut frames);
        }
        frames
    }

    fn step<'a>(&mut self, bytes: &'a [u8], frames: &mut Vec<Frame>) -> &'a [u8] {
        match &mut self.state {
            State::Header => {
                let (take, rest) = bytes.split_at(bytes.len().min(4 - self.header.len()));
                self.header.extend_from_slice(take);
                if let Ok(header) = <[u8; 4]>::try_from(self.header.as_slice()) {
                    self.header.clear();
                    self.begin(u32::from_le_bytes(header) as usize, frames);
                }
                rest
            }
            State::Body { wanted, body } => {
                let (take, rest) = bytes.split_at(bytes.len().min(*wanted - body.len()));
                body.extend_from_slice(take);
                if body.len() == *wanted {
                    frames.push(Frame::Whole(std::mem::take(body)));
                    self.state = State::Header;
                }
                rest
            }
            State::Skip { wanted, left } => {
                let take = bytes.len().min(*left);
                *left -= take;
                if *left == 0 {
                    frames.push(Frame::Skipped { bytes: *wanted });
                    self.state = State::Header;
                }
                &bytes[take..]
            }
        }
    }

    fn begin(&mut self, wanted: usize, frames: &mut Vec<Frame>) {
        self.state = match wanted {
            0 => {
                frames.push(Frame::Whole(Vec::new()));
                State::Header
            }
            n if n > self.bound => State::Skip { wanted: n, left: n },
            n => State::Body {
                wanted: n,
                body: Vec::with_capacity(n.min(1 << 16)),
            },
        };
    }
}

/// Puts the length in front of a message that we send.
pub fn encode(body: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(body.len())
        .ok()
        .filter(|_| body.len() <= MAX_FRAME_BYTES)?;
    let mut frame = Vec::with_capacity(body.len() + 4);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(body);
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_cut() {
        let mut stream = encode(b"{\"a\":1}").unwrap();
        stream.extend(encode(b"").unwrap());
        stream.extend(encode(b"xyz").unwrap());
        for cut in 0..=stream.len() {
            let mut reader = FrameReader::new(100);
            let mut got = reader.feed(&stream[..cut]);
            got.extend(reader.feed(&stream[cut..]));
            let want = [&b"{\"a\":1}"[..], b"", b"xyz"].map(|b| Frame::Whole(b.to_vec()));
            assert_eq!(got, want, "cut at {cut}");
        }
    }

    #[test]
    fn a_giant_length_stores_nothing_and_the_stream_goes_on() {
        let mut reader = FrameReader::new(10);
        let mut stream = 1_000_000u32.to_le_bytes().to_vec();
        stream.extend(vec![b'x'; 1_000_000]);
        stream.extend(encode(b"ok").unwrap());
        let mut got = Vec::new();
        for piece in stream.chunks(4096) {
            got.extend(reader.feed(piece));
        }
        assert_eq!(got, [Frame::Skipped { bytes: 1_000_000 }, Frame::Whole(b"ok".to_vec())]);
    }

    #[test]
    fn a_frame_that_is_given_up_is_skipped_and_the_stream_goes_on() {
        let mut reader = FrameReader::new(100);
        let stream = [encode(b"0123456789").unwrap(), encode(b"ok").unwrap()].concat();
        assert_eq!((reader.feed(&stream[..9]), reader.held()), (Vec::new(), 5));
        reader.give_up();
        assert_eq!(reader.held(), 0);
        let rest = reader.feed(&stream[9..]);
        assert_eq!(rest, [Frame::Skipped { bytes: 10 }, Frame::Whole(b"ok".to_vec())]);
        reader.give_up();
        assert_eq!(reader.feed(&encode(b"x").unwrap()), [Frame::Whole(b"x".to_vec())]);
    }

    #[test]
    fn too_long_a_message_is_not_sent() {
        assert!(encode(&vec![0; MAX_FRAME_BYTES + 1]).is_none());
    }
}
