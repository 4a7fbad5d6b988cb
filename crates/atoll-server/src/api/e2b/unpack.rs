//! Uploads that were packed by gzip, unpacked piece by piece. What comes out is bounded by the sandbox's own room, and at
//! any time only a few megabytes of it are here, however well it was packed.

use super::connect::invalid;
use crate::api::ApiError;
use axum::BoxError;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use flate2::write::MultiGzDecoder;
use futures_util::StreamExt;
use std::io::Write;

/// Packed bytes that are unpacked at once. Gzip makes at most some thousand bytes of one.
const STEP: usize = 4 << 10;
/// Unpacked bytes that are passed on at once, if the client sends fast enough.
const PIECE: usize = 256 << 10;

/// The request as if its body had never been packed.
pub(super) fn unpacked(request: Request) -> Result<Request, ApiError> {
    let coding = request.headers().get(CONTENT_ENCODING).map(|value| value.as_bytes());
    match coding.map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"" | b"identity") => return Ok(request),
        Some(b"gzip" | b"x-gzip") => {}
        Some(_) => return Err(invalid("unsupported Content-Encoding; use gzip or none")),
    }
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(CONTENT_ENCODING);
    parts.headers.remove(CONTENT_LENGTH);
    let unpacker = Unpacker {
        packed: body.into_data_stream(),
        waiting: Bytes::new(),
        decoder: MultiGzDecoder::new(Vec::new()),
        over: false,
    };
    let pieces = futures_util::stream::try_unfold(unpacker, |mut unpacker| async move {
        let piece = unpacker.next().await?;
        Ok::<_, BoxError>(piece.map(|piece| (piece, unpacker)))
    });
    Ok(Request::from_parts(parts, Body::from_stream(pieces)))
}

struct Unpacker {
    packed: BodyDataStream,
    waiting: Bytes,
    decoder: MultiGzDecoder<Vec<u8>>,
    over: bool,
}

impl Unpacker {
    async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        while !self.over && self.decoder.get_ref().len() < PIECE {
            if self.waiting.is_empty() {
                match self.packed.next().await {
                    Some(piece) => self.waiting = piece?,
                    None => {
                        self.decoder.try_finish().map_err(unreadable)?;
                        self.over = true;
                    }
                }
            }
            let step = self.waiting.split_to(self.waiting.len().min(STEP));
            self.decoder.write_all(&step).map_err(unreadable)?;
        }
        let piece = std::mem::take(self.decoder.get_mut());
        Ok((!piece.is_empty()).then(|| piece.into()))
    }
}

fn unreadable(error: std::io::Error) -> BoxError {
    format!("the body is not valid gzip data ({error})").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http_body_util::BodyExt;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn request(coding: &str, body: Vec<u8>) -> Request {
        let pieces: Vec<Result<Bytes, BoxError>> = body.chunks(7).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
        let body = Body::from_stream(futures_util::stream::iter(pieces));
        Request::builder().header(CONTENT_ENCODING, coding).body(body).unwrap()
    }

    async fn read(coding: &str, body: Vec<u8>) -> Result<Vec<u8>, String> {
        let request = unpacked(request(coding, body)).map_err(|error| error.message().to_owned())?;
        assert!(!request.headers().contains_key(CONTENT_ENCODING) || coding == "identity");
        let whole = request.into_body().collect().await.map_err(|error| error.to_string())?;
        Ok(whole.to_bytes().to_vec())
    }

    #[tokio::test]
    async fn what_was_packed_comes_out_whole() {
        let plain: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(read("gzip", packed(&plain)).await.unwrap(), plain);
        assert_eq!(read("GZIP", packed(b"")).await.unwrap(), b"");
        let two = [packed(b"one "), packed(b"two")].concat();
        assert_eq!(read("x-gzip", two).await.unwrap(), b"one two");
        assert_eq!(read("identity", b"plain".to_vec()).await.unwrap(), b"plain");
    }

    #[tokio::test]
    async fn what_is_broken_or_unknown_is_an_error() {
        let whole = packed(b"hello, hello, hello");
        for cut in [0, 5, whole.len() - 9, whole.len() - 1] {
            assert!(read("gzip", whole[..cut].to_vec()).await.is_err(), "cut at {cut}");
        }
        assert!(read("gzip", b"not packed".to_vec()).await.is_err());
        assert!(
            read("br", b"x".to_vec())
                .await
                .unwrap_err()
                .contains("Content-Encoding")
        );
    }

    /// A bomb comes out in bounded pieces; who reads may stop at any time.
    #[tokio::test]
    async fn a_bomb_is_unpacked_in_bounded_pieces() {
        let bomb = packed(&vec![0; 64 << 20]);
        let request = unpacked(request("gzip", bomb)).unwrap();
        let mut pieces = request.into_body().into_data_stream();
        let (mut most, mut all) = (0, 0);
        while let Some(piece) = pieces.next().await {
            let length = piece.unwrap().len();
            (most, all) = (most.max(length), all + length);
        }
        assert_eq!(all, 64 << 20);
        assert!(most <= PIECE + STEP * 1100, "{most}");
    }
}
