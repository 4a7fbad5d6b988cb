//! Images by content: what they say they are, what they are, how large, and what lies behind them.

use crate::pixel_bytes;
use atoll_guard::image::{Kind, MOST_PIXELS, check};

fn sized_png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = pixel_bytes();
    bytes[16..20].copy_from_slice(&width.to_be_bytes());
    bytes[20..24].copy_from_slice(&height.to_be_bytes());
    bytes
}

fn jpeg(width: u16, height: u16) -> Vec<u8> {
    let ([w1, w0], [h1, h0]) = (width.to_be_bytes(), height.to_be_bytes());
    let head = [0xff, 0xd8, 0xff, 0xe0, 0, 4, 0xff, 0xd9];
    let frame = [0xff, 0xc0, 0, 11, 8, h1, h0, w1, w0, 1, 1, 0x11, 0];
    let scan = [
        0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 1, 2, 0xff, 0, 3, 0xff, 0xd0, 4, 0xff, 0xd9,
    ];
    [&head[..], &frame, &scan].concat()
}

fn gif(width: u16, height: u16) -> Vec<u8> {
    let ([w0, w1], [h0, h1]) = (width.to_le_bytes(), height.to_le_bytes());
    let screen = [w0, w1, h0, h1, 0x80, 0, 0, 0, 0, 0, 255, 255, 255];
    let note = [0x21, 0xfe, 2, b'h', b'i', 0];
    let picture = [0x2c, 0, 0, 0, 0, w0, w1, h0, h1, 0, 2, 2, 0x44, 1, 0, 0x3b];
    [&b"GIF89a"[..], &screen, &note, &picture].concat()
}

fn webp(width: u32, height: u32) -> Vec<u8> {
    let packed = (width - 1) | (height - 1) << 14;
    let body = [&b"WEBPVP8L\x06\0\0\0\x2f"[..], &packed.to_le_bytes(), &[0]].concat();
    let length = u32::try_from(body.len()).expect("a short body").to_le_bytes();
    [&b"RIFF"[..], &length, &body].concat()
}

#[test]
fn images_are_found_with_their_size_and_their_end() {
    let images = [
        (Kind::Png, pixel_bytes()),
        (Kind::Jpeg, jpeg(3, 2)),
        (Kind::Gif, gif(3, 2)),
        (Kind::Webp, webp(3, 2)),
    ];
    for (kind, bytes) in &images {
        assert_eq!(check(bytes, *kind), Ok(bytes.len()), "{kind:?}");
        let with_page = [bytes, b"<html><script>alert(1)</script>".as_slice()].concat();
        assert_eq!(check(&with_page, *kind), Ok(bytes.len()), "{kind:?} and a page");
        for cut in 0..bytes.len() {
            assert!(check(&bytes[..cut], *kind).is_err(), "{kind:?} of {cut} bytes");
        }
        for (other, _) in images.iter().filter(|(other, _)| other != kind) {
            assert!(
                check(bytes, *other).unwrap_err().0.starts_with("content is not a"),
                "{kind:?} as {other:?}"
            );
        }
    }
}

#[test]
fn an_image_that_no_viewer_could_hold_is_refused() {
    let side = u32::try_from(MOST_PIXELS.isqrt()).unwrap();
    assert!(check(&sized_png(side, side), Kind::Png).is_ok());
    let large = [
        (Kind::Png, sized_png(side + 1, side)),
        (Kind::Png, sized_png(50_000, 50_000)),
        (Kind::Png, sized_png(u32::MAX, u32::MAX)),
        (Kind::Jpeg, jpeg(65_500, 65_500)),
        (Kind::Gif, gif(65_535, 65_535)),
        (Kind::Webp, webp(16_384, 16_384)),
    ];
    for (kind, bytes) in large {
        assert!(
            check(&bytes, kind).unwrap_err().0.contains("pixels, at most"),
            "{kind:?}"
        );
    }
    assert!(check(&sized_png(0, 5), Kind::Png).is_err());
}

#[test]
fn lengths_that_lie_are_no_way_out() {
    let mut png = pixel_bytes();
    png[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(check(&png, Kind::Png).is_err());
    let mut webp = webp(1, 1);
    webp[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(check(&webp, Kind::Webp).is_err());
}
