//! The name in a question to a name server: the first one of a DNS message, which is hostile.

const HEADER: usize = 12;
const MAX_NAME: usize = 253;

pub(super) fn name(message: &[u8]) -> Option<String> {
    let is_question = message.get(2)? & 0x80 == 0;
    let asks = message.get(4..6)? != [0, 0];
    let mut rest = message.get(HEADER..)?;
    let mut labels = Vec::new();
    while let Some((&length, after)) = rest.split_first().filter(|(length, _)| **length != 0) {
        // A longer label is a pointer, which no question has.
        let label = after.get(..usize::from(length)).filter(|_| length < 64)?;
        labels.push(String::from_utf8_lossy(label).into_owned());
        rest = after.get(usize::from(length)..)?;
    }
    let name = labels.join(".");
    (is_question && asks && !name.is_empty() && name.len() <= MAX_NAME).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(flags: u8, body: &[u8]) -> Vec<u8> {
        [&[7, 7, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0], body].concat()
    }

    #[test]
    fn a_question_has_a_name_and_other_bytes_have_none() {
        let asked = b"\x07example\x03com\0\0\x01\0\x01";
        assert_eq!(name(&question(1, asked)).as_deref(), Some("example.com"));
        assert_eq!(name(&question(0x81, asked)), None, "an answer");
        for broken in [&b"\0\0\x01"[..], b"\x3fshort", b"\xc0\x0c", b""] {
            assert_eq!(name(&question(1, broken)), None, "{broken:?}");
        }
        assert_eq!(name(b"GET / HTTP/1.1\r\n"), None);
        let long = [&b"\x3f"[..], &[b'a'; 63]].concat().repeat(5);
        assert_eq!(name(&question(1, &long)), None, "too long");
    }
}
