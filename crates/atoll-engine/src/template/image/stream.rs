//! The bytes of one layer: as they are stored, unpacked by whatever packed them, with the digest of both.

use super::super::patience::Stop;
use super::documents::Digest;
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use sha2::{Digest as _, Sha256};
use std::io::{self, BufReader, Cursor, Read};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The last three bytes of a frame that holds no data; the first is any of sixteen.
const SKIPPED: &[u8] = &[0x2a, 0x4d, 0x18];

/// Packed bytes that unpack to more than the bound allows.
#[derive(Debug, thiserror::Error)]
#[error("the unpacked image is larger than {most} bytes")]
pub(super) struct TooLarge {
    pub(super) most: u64,
}

/// Counts and hashes what passes, and ends when it is too much or when nobody wants it any more.
pub(super) struct Tee<'a, R> {
    inner: R,
    hash: Sha256,
    left: u64,
    most: u64,
    stop: &'a Stop,
    passed: &'a mut dyn FnMut(u64),
}

impl<'a, R: Read> Tee<'a, R> {
    pub(super) fn new(inner: R, left: u64, most: u64, stop: &'a Stop, passed: &'a mut dyn FnMut(u64)) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            left,
            most,
            stop,
            passed,
        }
    }

    /// Reads the rest; then the digest of all, and how much more could have passed.
    pub(super) fn finish(mut self) -> io::Result<(Digest, u64)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((Digest::of(&self.hash.finalize()), self.left))
    }
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_stopped() {
            return Err(io::Error::other("stopped"));
        }
        let count = self.inner.read(buffer)?;
        let bytes = count as u64;
        self.left = match self.left.checked_sub(bytes) {
            Some(left) => left,
            None => return Err(io::Error::other(TooLarge { most: self.most })),
        };
        self.hash.update(buffer.get(..count).unwrap_or_default());
        (self.passed)(bytes);
        Ok(count)
    }
}

/// Unpacks by the first bytes, not by what a document says about them.
pub(super) fn unpacked<'a>(packed: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut packed = BufReader::with_capacity(1 << 16, packed);
    let first = up_to::<4>(&mut packed)?;
    let whole = Cursor::new(first.clone()).chain(packed);
    if first.starts_with(GZIP) {
        return Ok(Box::new(MultiGzDecoder::new(whole)));
    }
    if first == ZSTD || first.get(1..) == Some(SKIPPED) {
        return Ok(Box::new(Frames::Between(Some(Box::new(whole)))));
    }
    Ok(Box::new(whole))
}

/// At most `N` bytes; fewer only at the end.
fn up_to<const N: usize>(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(N);
    from.take(N as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

type Source<'a> = Box<dyn Read + 'a>;
type Frame<'a> = StreamingDecoder<io::Chain<Cursor<Vec<u8>>, Source<'a>>, FrameDecoder>;

/// All frames of a zstd stream, one after the other.
enum Frames<'a> {
    Between(Option<Source<'a>>),
    In(Option<Box<Frame<'a>>>),
}

impl Frames<'_> {
    /// Opens the next frame with data. False at the end.
    fn open(&mut self) -> io::Result<bool> {
        let source = match self {
            Self::Between(source) => source.take(),
            Self::In(frame) => frame.take().map(|frame| frame.into_inner().into_inner().1),
        };
        let mut source = source.ok_or_else(|| io::Error::other("the preceding zstd frame is invalid"))?;
        loop {
            let magic = up_to::<4>(&mut source)?;
            if magic.is_empty() {
                *self = Self::Between(Some(Box::new(io::empty())));
                return Ok(false);
            }
            if magic.get(1..) != Some(SKIPPED) {
                let frame = StreamingDecoder::new(Cursor::new(magic).chain(source)).map_err(io::Error::other)?;
                *self = Self::In(Some(Box::new(frame)));
                return Ok(true);
            }
            let length = <[u8; 4]>::try_from(up_to::<4>(&mut source)?)
                .map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            let length = u64::from(u32::from_le_bytes(length));
            if io::copy(&mut (&mut source).take(length), &mut io::sink())? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl Read for Frames<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Self::In(Some(frame)) = self {
                match frame.read(buffer)? {
                    0 if !buffer.is_empty() => {}
                    count => return Ok(count),
                }
            }
            if !self.open()? {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn text_of(packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        unpacked(packed)?.read_to_end(&mut text)?;
        Ok(text)
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn each_way_of_packing_is_known_by_its_bytes() {
        let text = b"layer".repeat(5000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        assert_eq!(text_of(&gzip.finish().unwrap()).unwrap(), text);
        assert_eq!(text_of(&zstd(&text)).unwrap(), text);
        assert_eq!(text_of(&text).unwrap(), text);
        assert_eq!(text_of(b"x").unwrap(), b"x");
    }

    #[test]
    fn frames_follow_each_other_and_some_are_skipped() {
        let skipped = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0], b"abc".as_slice()].concat();
        let whole = [zstd(b"one "), skipped.clone(), zstd(b"two"), skipped.clone()].concat();
        assert_eq!(text_of(&whole).unwrap(), b"one two");
        assert_eq!(text_of(&[skipped, zstd(b"two")].concat()).unwrap(), b"two");
        assert!(text_of(&whole[..whole.len() - 1]).is_err());
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_an_error() {
        let packed = zstd(&b"layer".repeat(5000));
        assert!(text_of(&packed[..packed.len() - 5]).is_err());
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"text").unwrap();
        let gzip = gzip.finish().unwrap();
        assert!(text_of(&gzip[..gzip.len() - 2]).is_err());
    }

    #[test]
    fn too_much_is_an_error_with_the_bound() {
        let (stop, mut count) = (Stop::default(), 0);
        let mut passed = |bytes| count += bytes;
        let text = vec![0; 100];
        let exact = Tee::new(text.as_slice(), 100, 100, &stop, &mut passed);
        let (digest, left) = exact.finish().unwrap();
        assert_eq!((digest, left), (Digest::of(&Sha256::digest(&text)), 0));
        let over = Tee::new(text.as_slice(), 99, 500, &stop, &mut passed).finish();
        assert!(over.unwrap_err().to_string().contains("larger than 500 bytes"));
        stop.stop();
        assert!(
            Tee::new(text.as_slice(), 100, 100, &stop, &mut passed)
                .finish()
                .is_err()
        );
        assert_eq!(count, 100);
    }
}
