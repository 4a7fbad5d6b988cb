//! A stream that is cut anywhere gives what the whole text gives, which a second way to search has told as well.

use super::super::spellings;
use super::*;

/// All places of all spellings, joined where they overlap: slow and plain.
fn plainly(secrets: &[(&str, &str)], text: &[u8]) -> Vec<u8> {
    let mut places = Vec::new();
    for (name, value) in secrets {
        for spelling in spellings::of(value) {
            let matches = text.windows(spelling.len()).enumerate();
            let found = matches.filter(|(_, window)| window.eq_ignore_ascii_case(spelling.as_bytes()));
            places.extend(found.map(|(at, _)| (at, at + spelling.len(), *name)));
        }
    }
    places.sort_by_key(|(start, end, _)| (*start, std::cmp::Reverse(*end)));
    let mut joined: Vec<(usize, usize, &str)> = Vec::new();
    for (start, end, name) in places {
        match joined.last_mut() {
            Some(last) if start < last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end, name)),
        }
    }
    let (mut shown, mut at) = (Vec::new(), 0);
    for (start, end, name) in joined {
        shown.extend_from_slice(&text[at..start]);
        shown.extend_from_slice(format!("[redacted: {name}]").as_bytes());
        at = end;
    }
    shown.extend_from_slice(&text[at..]);
    shown
}

fn in_pieces<'a>(redactor: &Arc<Redactor>, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut stream = Stream::new(Arc::clone(redactor));
    let mut shown: Vec<u8> = pieces.into_iter().flat_map(|piece| stream.push(piece)).collect();
    shown.extend(stream.finish());
    assert!(!stream.holds());
    shown
}

fn shown(all: &[(&str, &str)], text: &str) -> String {
    redactor(all).text(text).into_owned()
}

#[test]
fn every_way_to_cut_a_stream_in_three_gives_the_same() {
    let all = [("KEY", "hunter22 hunter22"), ("OTHER", "hunter22 hunter22 more")];
    let redactor = redactor(&all);
    let text = b"a hunter22 hunter22 hunter22 hunter22 mor! aHVudGVyMjIgaHVudGVyMjI= 22retnuh hunter22 hunter22 more";
    let whole = plainly(&all, text);
    assert!(String::from_utf8_lossy(&whole).matches("[redacted: ").count() >= 3);
    for first in 0..=text.len() {
        for second in first..=text.len() {
            let pieces = [&text[..first], &text[first..second], &text[second..]];
            assert_eq!(in_pieces(&redactor, pieces), whole, "{first} {second}");
        }
    }
    assert_eq!(in_pieces(&redactor, text.chunks(1)), whole);
}

#[test]
fn only_what_can_become_a_secret_is_held_back() {
    let mut stream = Stream::new(redactor(&[("KEY", "hunter22")]));
    assert_eq!(
        (stream.push(b"a line\n"), stream.holds()),
        (b"a line\n".to_vec(), false)
    );
    assert_eq!((stream.push(b"a hunter"), stream.holds()), (b"a ".to_vec(), true));
    assert_eq!(stream.push(b"2"), b"");
    assert_eq!(stream.push(b"3"), b"hunter23");
    // Who cannot wait sees the beginning, and no more of it.
    stream.push(b"hunter");
    assert_eq!((stream.release(), stream.holds()), (b"hunter".to_vec(), false));
    assert_eq!(stream.push(b"22."), format!("{MARKER}.").into_bytes());
}

#[test]
fn memory_stays_flat_however_long_a_place_is() {
    let mut stream = Stream::new(redactor(&[("KEY", "aaaaaaaa")]));
    let mut all = Vec::new();
    for _ in 0..1000 {
        all.extend(stream.push(&[b'a'; 1000]));
        assert!(stream.held.len() < 64 && stream.spans.len() < 2);
    }
    all.extend(stream.push(b"b"));
    assert_eq!(all, format!("{MARKER}b").into_bytes());
}

#[test]
fn secrets_that_overlap_leave_nothing_of_each_other() {
    let all = [("ONE", "abcdefgh"), ("TWO", "efghijkl"), ("LONG", "abcdefghijklmnop")];
    assert_eq!(shown(&all[..2], "-abcdefghijkl-"), "-[redacted: ONE]-");
    assert_eq!(shown(&all[..2], "abcdefghefghijkl"), "[redacted: ONE][redacted: TWO]");
    assert_eq!(shown(&all, "abcdefghijklmnop"), "[redacted: LONG]");
    assert_eq!(shown(&all, "abcdefghijklmno"), "[redacted: ONE]mno");
    assert_eq!(
        shown(&[("A", "the same value"), ("B", "the same value")], "the same value"),
        "[redacted: A]"
    );
}

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }

    fn text(&mut self, length: usize) -> String {
        (0..length)
            .map(|_| ["a", "b", "A", "=", "\"", "é", "\n", "%"][self.below(8)])
            .collect()
    }
}

#[test]
fn random_texts_in_random_pieces_give_what_the_whole_gives() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for round in 0..60 {
        let values: Vec<String> = (0..1 + dice.below(3))
            .map(|_| 6 + dice.below(8))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|length| format!("a{}b", dice.text(length)))
            .collect();
        let all: Vec<(&str, &str)> = ["X", "Y", "Z"]
            .into_iter()
            .zip(values.iter().map(String::as_str))
            .collect();
        let redactor = redactor(&all);
        let known: Vec<String> = values.iter().flat_map(|value| spellings::of(value)).collect();
        let mut text = String::new();
        for _ in 0..40 {
            let spelling = &known[dice.below(known.len())];
            let cut = (0..=dice.below(spelling.len() + 1))
                .rev()
                .find(|cut| spelling.is_char_boundary(*cut))
                .unwrap();
            match dice.below(4) {
                0 => text.push_str(spelling),
                1 => text.push_str(&spelling[..cut]),
                2 => text.push_str(&spelling[cut..]),
                _ => text += &dice.text(3),
            }
        }
        let whole = plainly(&all, text.as_bytes());
        assert_eq!(redactor.text(&text).as_bytes(), whole, "round {round}");
        for _ in 0..20 {
            let (mut left, mut pieces) = (text.as_bytes(), Vec::new());
            while !left.is_empty() {
                let (piece, rest) = left.split_at(1 + dice.below(left.len().min(40)));
                pieces.push(piece);
                left = rest;
            }
            assert_eq!(in_pieces(&redactor, pieces), whole, "round {round}");
        }
    }
}
