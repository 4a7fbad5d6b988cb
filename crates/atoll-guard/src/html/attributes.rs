//! How many attributes a tag has, before anything reads them: a parser compares each with all before it, so that a megabyte of
//! them in one tag takes minutes. Reads tags as browsers do, wherever a tag could begin.

/// No tag of a table or a figure has a tenth of it.
const MOST: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Text,
    /// Behind `<` or `</`.
    Open,
    TagName,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Quoted(u8),
    Plain,
}

/// Whether no tag has more than are read.
pub(super) fn are_few(text: &str) -> bool {
    let (mut state, mut count) = (State::Text, 0);
    for byte in text.bytes() {
        let before = state;
        state = next(state, byte);
        match (before, state) {
            (State::Open, State::TagName) => count = 0,
            (State::BeforeName | State::AfterName, State::Name) => count += 1,
            _ => {}
        }
        if count > MOST {
            return false;
        }
    }
    true
}

fn next(state: State, byte: u8) -> State {
    let is_space = matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ');
    match (state, byte) {
        (State::Text, b'<') => State::Open,
        (State::Text, _) => State::Text,
        (State::Open, b'/' | b'<') => State::Open,
        (State::Open, byte) if byte.is_ascii_alphabetic() => State::TagName,
        (State::Open, _) => State::Text,
        (State::Quoted(quote), byte) if byte == quote => State::BeforeName,
        (State::Quoted(quote), _) => State::Quoted(quote),
        (_, b'>') => State::Text,
        (State::TagName, byte) if is_space || byte == b'/' => State::BeforeName,
        (State::TagName, _) => State::TagName,
        (State::BeforeName, byte) if is_space || byte == b'/' => State::BeforeName,
        (State::BeforeName, _) => State::Name,
        (State::Name, b'=') => State::BeforeValue,
        (State::Name, b'/') => State::BeforeName,
        (State::Name, _) if is_space => State::AfterName,
        (State::Name, _) => State::Name,
        (State::AfterName, b'=') => State::BeforeValue,
        (State::AfterName, b'/') => State::BeforeName,
        (State::AfterName, _) if is_space => State::AfterName,
        (State::AfterName, _) => State::Name,
        (State::BeforeValue, b'"' | b'\'') => State::Quoted(byte),
        (State::BeforeValue, _) if is_space => State::BeforeValue,
        (State::BeforeValue, _) => State::Plain,
        (State::Plain, _) if is_space => State::BeforeName,
        (State::Plain, _) => State::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_counted_however_they_are_written() {
        let names = |write: fn(usize) -> String, count: usize| -> String { (0..count).map(write).collect() };
        let ways: [fn(usize) -> String; 6] = [
            |n| format!(" a{n}"),
            |n| format!("/a{n}"),
            |n| format!(" a{n}=b"),
            |n| format!("a{n}=\"b\""),
            |n| format!("a{n} = 'b>' "),
            |n| format!(" =\"a{n}/"),
        ];
        for write in ways {
            assert!(are_few(&format!("<p {}>", names(write, MOST - 1))), "{}", write(1));
            assert!(!are_few(&format!("<p {}>", names(write, MOST + 2))), "{}", write(1));
        }
        let picture = format!("<img src=\"data:image/png;base64,{}\">", "A/ b=".repeat(10_000));
        assert!(are_few(&picture) && are_few(&"<td a b>".repeat(1_000)));
    }
}
