//! The image of a sandbox that many are restored from, laid down again without its compression.
//!
//! `runsc` packs what it writes and has no option against it, and every restore would unpack it once more. The format has
//! room for bytes as they are: a chunk of DEFLATE may consist of stored blocks. What is not understood stays as it is.

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use fs_err::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

const MAGIC: &[u8; 8] = b"gVisorSF";
/// Behind the image's own words.
const DIGEST_BYTES: u64 = 32;
/// Of one chunk, before and after: `runsc` takes one mebibyte.
const MOST_CHUNK: u32 = 16 << 20;
/// Of the image's own words.
const MOST_WORDS: u64 = 1 << 20;

/// Writes `to`, or says why `from` has to stay what it is.
pub(super) fn unpack(from: &Path, to: &Path) -> io::Result<()> {
    let mut image = io::BufReader::new(File::open(from)?);
    let mut out = io::BufWriter::new(File::create(to)?);
    copy_head(&mut image, &mut out)?;
    let chunk = number(&mut image)?;
    out.write_all(&chunk.to_be_bytes())?;
    let end = image.get_ref().metadata()?.len();
    while image.stream_position()? < end {
        let packed = taken(&mut image)?;
        let bytes = inflated(&packed, chunk)?;
        let stored = DeflateEncoder::new(Vec::new(), Compression::none());
        let stored = whole(stored, &bytes)?;
        let length = u32::try_from(stored.len()).map_err(|_| unknown("chunk too large"))?;
        out.write_all(&length.to_be_bytes())?;
        out.write_all(&stored)?;
    }
    out.flush()
}

/// The mark, the image's own words behind their length, and their digest.
fn copy_head(image: &mut impl Read, out: &mut impl Write) -> io::Result<()> {
    let mut head = [0; 16];
    image.read_exact(&mut head)?;
    let (mark, length) = head.split_at(8);
    let words = u64::from_be_bytes(length.try_into().unwrap_or_default());
    if mark != MAGIC || words > MOST_WORDS {
        return Err(unknown("unexpected header"));
    }
    out.write_all(&head)?;
    io::copy(&mut image.take(words + DIGEST_BYTES), out).map(drop)
}

fn number(image: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    image.read_exact(&mut bytes)?;
    let number = u32::from_be_bytes(bytes);
    (number <= MOST_CHUNK)
        .then_some(number)
        .ok_or_else(|| unknown("chunk too large"))
}

/// One chunk as it is packed.
fn taken(image: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut packed = vec![0; number(image)? as usize];
    image.read_exact(&mut packed)?;
    Ok(packed)
}

/// Nothing may be left over: else these are no chunks.
fn inflated(packed: &[u8], most: u32) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(most as usize);
    let mut decoder = DeflateDecoder::new(packed);
    (&mut decoder).take(u64::from(most) + 1).read_to_end(&mut bytes)?;
    let all = decoder.total_in() == packed.len() as u64 && bytes.len() <= most as usize;
    all.then_some(bytes).ok_or_else(|| unknown("invalid chunk"))
}

fn whole(mut encoder: DeflateEncoder<Vec<u8>>, bytes: &[u8]) -> io::Result<Vec<u8>> {
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn unknown(why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("unknown checkpoint image format: {why}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(chunks: &[&[u8]], level: Compression) -> Vec<u8> {
        let words = br#"{"timestamp":"now"}"#;
        let mut image = [MAGIC.as_slice(), &(words.len() as u64).to_be_bytes(), words, &[7; 32]].concat();
        image.extend(1024_u32.to_be_bytes());
        for chunk in chunks {
            let packed = whole(DeflateEncoder::new(Vec::new(), level), chunk).unwrap();
            image.extend(u32::try_from(packed.len()).unwrap().to_be_bytes());
            image.extend(packed);
        }
        image
    }

    fn unpacked(image: &[u8]) -> io::Result<Vec<u8>> {
        let dir = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
        fs_err::write(&from, image).unwrap();
        unpack(&from, &to)?;
        fs_err::read(to)
    }

    #[test]
    fn the_same_bytes_are_stored_behind_the_same_head() {
        let chunks: [&[u8]; 3] = [&[1; 1024], &[2; 1024], b"the rest"];
        let stored = unpacked(&image(&chunks, Compression::fast())).unwrap();
        assert_eq!(stored, image(&chunks, Compression::none()));
        assert!(stored.windows(1024).any(|window| window == [2; 1024]));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let good = image(&[&[1; 1024]], Compression::fast());
        let another = [b"gVisorXX".as_slice(), &good[8..]].concat();
        let cut = &good[..good.len() - 3];
        let longer = [good.as_slice(), &[0, 0]].concat();
        let beyond = image(&[&[1; 1025]], Compression::fast());
        for wrong in [another.as_slice(), cut, &longer, &beyond, b""] {
            unpacked(wrong).unwrap_err();
        }
    }
}
