//! What two ferries say to each other: frames on a byte stream. Whoever is on the other side may say anything, so every
//! length is looked at before it is believed.

use super::kind::Kind;
use crate::channel::{MAX_BYTES, MAX_FDS};

/// Bytes of one stream that may be under way or wait at the other side.
pub(super) const WINDOW: usize = 64 << 10;
/// Bytes of one `Data`.
pub(super) const PIECE: usize = 16 << 10;

const HEAD: usize = 9;
const MOST: usize = 1 + MAX_FDS * 5 + MAX_BYTES;

const MESSAGE: u8 = 1;
const DATA: u8 = 2;
const END: u8 = 3;
const GONE: u8 = 4;
const ROOM: u8 = 5;
const HOLD: u8 = 6;
const HELD: u8 = 7;
const GO: u8 = 8;

/// Streams that one `Go` can name.
const MOST_NAMED: usize = 4096;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A datagram of a channel, and what stood beside it: the number of each stream and what it is.
    Message {
        channel: u32,
        beside: Vec<(u32, Kind)>,
        body: Vec<u8>,
    },
    Data {
        stream: u32,
        bytes: Vec<u8>,
    },
    /// Nothing comes any more.
    End {
        stream: u32,
    },
    /// Nobody reads any more.
    Gone {
        stream: u32,
    },
    /// So many bytes were taken: as many more may come.
    Room {
        stream: u32,
        bytes: u32,
    },
    /// The guest is to say nothing more until it may go on, and to answer when this is so.
    Hold,
    /// Nothing is under way any more.
    Held,
    /// The guest may go on: with all of its streams, or with these only, whose windows are whole again.
    Go {
        only: Option<Vec<u32>>,
    },
}

/// The other side does not keep to the agreement. Nothing that it says later can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Frame {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Message { channel, beside, body } => {
                let count = u8::try_from(beside.len()).unwrap_or(u8::MAX);
                head(out, MESSAGE, *channel, 1 + beside.len() * 5 + body.len());
                out.push(count);
                for (stream, kind) in beside {
                    out.push(kind.byte());
                    out.extend(stream.to_le_bytes());
                }
                out.extend(body);
            }
            Self::Data { stream, bytes } => {
                head(out, DATA, *stream, bytes.len());
                out.extend(bytes);
            }
            Self::End { stream } => head(out, END, *stream, 0),
            Self::Gone { stream } => head(out, GONE, *stream, 0),
            Self::Room { stream, bytes } => {
                head(out, ROOM, *stream, 4);
                out.extend(bytes.to_le_bytes());
            }
            Self::Hold => head(out, HOLD, 0, 0),
            Self::Held => head(out, HELD, 0, 0),
            Self::Go { only: None } => head(out, GO, 0, 0),
            Self::Go { only: Some(streams) } => {
                head(out, GO, 1, streams.len() * 4);
                streams.iter().for_each(|stream| out.extend(stream.to_le_bytes()));
            }
        }
    }
}

fn head(out: &mut Vec<u8>, kind: u8, number: u32, length: usize) {
    out.push(kind);
    out.extend(number.to_le_bytes());
    out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

/// Bytes of the stream that are no whole frame yet.
#[derive(Debug, Default)]
pub(super) struct Unread(Vec<u8>);

impl Unread {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole frame; `None` if more bytes must come first.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, Broken> {
        let Some((kind, number, length)) = self.head() else {
            return Ok(None);
        };
        let most = match kind {
            MESSAGE => MOST,
            DATA => PIECE,
            END | GONE | HOLD | HELD => 0,
            GO => 4 * MOST_NAMED,
            ROOM => 4,
            _ => return Err(Broken),
        };
        if length > most {
            return Err(Broken);
        }
        if self.0.len() < HEAD + length {
            return Ok(None);
        }
        let frame = read(kind, number, &self.0[HEAD..HEAD + length]);
        self.0.drain(..HEAD + length);
        frame.map(Some)
    }

    fn head(&self) -> Option<(u8, u32, usize)> {
        let head = self.0.first_chunk::<HEAD>()?;
        let [kind, a, b, c, d, rest @ ..] = *head;
        let length = usize::try_from(u32::from_le_bytes(rest)).ok()?;
        Some((kind, u32::from_le_bytes([a, b, c, d]), length))
    }
}

fn read(kind: u8, number: u32, payload: &[u8]) -> Result<Frame, Broken> {
    let stream = number;
    match kind {
        MESSAGE => message(number, payload),
        DATA => Ok(Frame::Data {
            stream,
            bytes: payload.to_vec(),
        }),
        END => Ok(Frame::End { stream }),
        GONE => Ok(Frame::Gone { stream }),
        HOLD => Ok(Frame::Hold),
        HELD => Ok(Frame::Held),
        GO => go(number, payload),
        _ => {
            let bytes = payload.first_chunk().ok_or(Broken)?;
            let bytes = u32::from_le_bytes(*bytes);
            Ok(Frame::Room { stream, bytes })
        }
    }
}

fn go(some: u32, payload: &[u8]) -> Result<Frame, Broken> {
    let (streams, rest) = payload.as_chunks::<4>();
    let streams: Vec<u32> = streams.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    match (some, rest) {
        (0, []) if streams.is_empty() => Ok(Frame::Go { only: None }),
        (1, []) => Ok(Frame::Go { only: Some(streams) }),
        _ => Err(Broken),
    }
}

fn message(channel: u32, payload: &[u8]) -> Result<Frame, Broken> {
    let (count, mut rest) = payload.split_first().ok_or(Broken)?;
    if usize::from(*count) > MAX_FDS {
        return Err(Broken);
    }
    let mut beside = Vec::new();
    for _ in 0..*count {
        let (one, behind) = rest.split_first_chunk::<5>().ok_or(Broken)?;
        let [kind, number @ ..] = *one;
        beside.push((u32::from_le_bytes(number), Kind::of_byte(kind).ok_or(Broken)?));
        rest = behind;
    }
    match rest.len() {
        1..=MAX_BYTES => Ok(Frame::Message {
            channel,
            beside,
            body: rest.to_vec(),
        }),
        _ => Err(Broken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_went_in_any_pieces() {
        let frames = [
            Frame::Message {
                channel: 1,
                beside: vec![(3, Kind::Both), (5, Kind::Null)],
                body: b"{}".to_vec(),
            },
            Frame::Data {
                stream: 3,
                bytes: vec![7; PIECE],
            },
            Frame::End { stream: 3 },
            Frame::Gone { stream: 5 },
            Frame::Room { stream: 3, bytes: 9 },
            Frame::Hold,
            Frame::Held,
            Frame::Go { only: None },
            Frame::Go { only: Some(Vec::new()) },
            Frame::Go { only: Some(vec![1, 7]) },
        ];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut bytes));
        for size in [1, 7, bytes.len()] {
            let mut unread = Unread::default();
            let mut read = Vec::new();
            for piece in bytes.chunks(size) {
                unread.add(piece);
                while let Some(frame) = unread.next().unwrap() {
                    read.push(frame);
                }
            }
            assert_eq!(read, frames);
        }
    }

    #[test]
    fn a_length_above_its_bound_is_refused_before_its_bytes_come() {
        let longest = |kind: u8, length: u32| {
            let mut unread = Unread::default();
            unread.add(&[&[kind, 1, 0, 0, 0][..], &length.to_le_bytes()].concat());
            unread.next()
        };
        assert_eq!(longest(DATA, u32::MAX), Err(Broken));
        assert_eq!(longest(MESSAGE, u32::MAX), Err(Broken));
        assert_eq!(longest(END, 1), Err(Broken));
        assert_eq!(longest(77, 0), Err(Broken));
        assert_eq!(longest(HOLD, 1), Err(Broken));
        assert_eq!(longest(GO, u32::MAX), Err(Broken));
        assert_eq!(longest(DATA, 1), Ok(None));
        assert_eq!(longest(END, 0), Ok(Some(Frame::End { stream: 1 })));
    }

    #[test]
    fn a_message_that_lies_about_its_parts_is_refused() {
        for payload in [&[][..], &[200, 1], &[1, 9, 0, 0, 0, 0, 1], &[2, 1, 0, 0, 0, 0], &[0]] {
            assert_eq!(message(0, payload), Err(Broken), "{payload:?}");
        }
    }
}
