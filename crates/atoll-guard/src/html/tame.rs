//! The first of two passes over HTML: reads tags, never a tree, and writes tags that are few, not deep and closed in order.
//!
//! A tree of hostile HTML can be far larger than its text, because a parser opens formatting elements again wherever
//! they were left open. What is written here cannot make it so. This pass also says links and images in words, because
//! it sees them before they are gone.

use super::tags::{self, FORMATTING, FRAME, TAGS, VOID, WITH_CONTENT};
use crate::image::is_inline;
use crate::{Refused, css};
use html5ever::interface::Attribute;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use std::cell::RefCell;

/// A table of 5,000 rows and 18 columns.
const MOST_TAGS: usize = 100_000;
const MOST_DEEP: usize = 100;
const MOST_FORMATTING: usize = 4;
/// Of an address that is shown.
const LONGEST_ADDRESS: usize = 2_000;

#[derive(Debug)]
pub(super) struct Tame {
    pub(super) body: String,
    pub(super) sheet: String,
    pub(super) removed: bool,
}

pub(super) fn tame(text: &str) -> Result<Tame, Refused> {
    let input = BufferQueue::default();
    input.push_back(text.into());
    let tokenizer = Tokenizer::new(Sink::default(), TokenizerOpts::default());
    // It stops at the end of each script, to let it run.
    while !input.is_empty() {
        drop(tokenizer.feed(&input));
    }
    tokenizer.end();
    let mut writer = tokenizer.sink.0.into_inner();
    writer.close_to(0);
    match writer.refused {
        Some(why) => Err(Refused::because(why)),
        None => Ok(Tame {
            body: writer.out,
            sheet: writer.sheet,
            removed: writer.removed,
        }),
    }
}

#[derive(Default)]
struct Sink(RefCell<Writer>);

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        self.0.borrow_mut().take(token)
    }
}

/// An element that is open.
struct Open {
    name: &'static str,
    /// Its tag was written; else it is only known here, so that its end tag ends nothing else.
    shown: bool,
    /// Where a link leads.
    address: Option<String>,
}

#[derive(Default)]
struct Writer {
    out: String,
    sheet: String,
    open: Vec<Open>,
    /// Inside of this nothing is taken, with how often it lies in itself.
    skipped: Option<(&'static str, usize)>,
    style: Option<String>,
    tags: usize,
    removed: bool,
    refused: Option<&'static str>,
}

impl Writer {
    fn take(&mut self, token: Token) -> TokenSinkResult<()> {
        match token {
            Token::TagToken(tag) if self.refused.is_none() => match tag.kind {
                TagKind::StartTag => return self.start(&tag),
                TagKind::EndTag => self.end(&tag.name),
            },
            Token::CharacterTokens(text) if self.refused.is_none() => match (&mut self.style, self.skipped) {
                (Some(style), _) => style.push_str(&text),
                (None, None) => escape(&mut self.out, &text),
                (None, Some(_)) => {}
            },
            _ => {}
        }
        TokenSinkResult::Continue
    }

    fn start(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        self.tags += 1;
        if self.tags > MOST_TAGS {
            self.refused = Some("more than 100000 tags");
            return TokenSinkResult::Continue;
        }
        if let Some((skipped, depth)) = &mut self.skipped {
            *depth += usize::from(*skipped == name && !tag.self_closing);
            return TokenSinkResult::Continue;
        }
        if name == "style" {
            self.style = Some(String::new());
            return TokenSinkResult::RawData(RawKind::Rawtext);
        }
        if let Some(known) = find(WITH_CONTENT, name) {
            self.removed = true;
            self.skipped = Some((known, 1));
            return raw(name);
        }
        match (name, find(TAGS, name)) {
            ("a", _) => self.open_link(&tag.attrs),
            ("img", Some(_)) => self.image(&tag.attrs),
            (_, Some(known)) => self.open(known, &tag.attrs),
            (_, None) => self.removed |= !FRAME.contains(&name) || !tag.attrs.is_empty(),
        }
        TokenSinkResult::Continue
    }

    fn open(&mut self, name: &'static str, attributes: &[Attribute]) {
        if self.open.last().is_some_and(|open| tags::ends(name, open.name)) {
            self.close_to(self.open.len() - 1);
        }
        let is_formatting = FORMATTING.contains(&name);
        let formatting = self
            .open
            .iter()
            .filter(|one| one.shown && FORMATTING.contains(&one.name));
        let shown = !is_formatting || formatting.count() < MOST_FORMATTING;
        if shown {
            self.write(name, attributes);
        }
        if !VOID.contains(&name) {
            self.push(name, shown, None);
        }
    }

    fn push(&mut self, name: &'static str, shown: bool, address: Option<String>) {
        match self.open.len() < MOST_DEEP {
            true => self.open.push(Open { name, shown, address }),
            false => self.refused = Some("nested more than 100 levels deep"),
        }
    }

    /// The words of a link stay, with its address behind them.
    fn open_link(&mut self, attributes: &[Attribute]) {
        let address = attributes.iter().find(|one| &*one.name.local == "href");
        let address = address.map(|one| one.value.trim().to_owned());
        self.removed |= address.is_some();
        self.push("a", false, address.filter(|address| !address.starts_with('#')));
    }

    fn image(&mut self, attributes: &[Attribute]) {
        let value = |name: &str| {
            attributes
                .iter()
                .find(|one| &*one.name.local == name)
                .map(|one| &*one.value)
        };
        let source = value("src").unwrap_or_default();
        if is_inline(source) {
            return self.write("img", attributes);
        }
        self.removed = true;
        let words = format!("[image: {}]", shown(value("alt").unwrap_or_default()));
        escape(&mut self.out, &words);
        self.say_address(source);
    }

    fn say_address(&mut self, address: &str) {
        if !address.is_empty() {
            escape(&mut self.out, &format!(" ({})", shown(address)));
        }
    }

    fn write(&mut self, name: &'static str, attributes: &[Attribute]) {
        self.out.push('<');
        self.out.push_str(name);
        for attribute in attributes {
            let key: &str = &attribute.name.local;
            let style = (key == "style").then(|| css::declarations(&attribute.value));
            self.removed |= style.as_ref().is_some_and(|style| style.removed);
            match style.map_or_else(|| kept(name, key, &attribute.value), |style| Some(style.text)) {
                Some(value) if value.is_empty() && key == "style" => {}
                Some(value) => {
                    self.out.push_str(&format!(" {key}=\""));
                    escape(&mut self.out, &value);
                    self.out.push('"');
                }
                None => self.removed |= !tags::is_idle(key),
            }
        }
        self.out.push('>');
    }

    fn end(&mut self, name: &str) {
        if let Some(style) = self.style.take() {
            let kept = css::sheet(&style);
            self.removed |= kept.removed;
            return self.sheet.push_str(&kept.text);
        }
        if let Some((skipped, depth)) = &mut self.skipped {
            *depth -= usize::from(*skipped == name);
            if *depth == 0 {
                self.skipped = None;
            }
            return;
        }
        let reaches = |open: &&Open| open.name == name || tags::is_of_a_table(name) || !tags::is_cell(open.name);
        let from_top = self
            .open
            .iter()
            .rev()
            .take_while(reaches)
            .position(|open| open.name == name);
        if let Some(up) = from_top {
            self.close_to(self.open.len() - 1 - up);
        }
    }

    fn close_to(&mut self, depth: usize) {
        while self.open.len() > depth {
            let Some(open) = self.open.pop() else { return };
            if open.shown {
                self.out.push_str(&format!("</{}>", open.name));
            }
            if let Some(address) = &open.address {
                let told = self.out.ends_with(&*escaped(&shown(address)));
                if !told {
                    self.say_address(address);
                }
            }
        }
    }
}

/// How the tokenizer reads on behind a tag whose content is no tags.
fn raw(name: &str) -> TokenSinkResult<()> {
    match name {
        "script" => TokenSinkResult::RawData(RawKind::ScriptData),
        "textarea" | "title" => TokenSinkResult::RawData(RawKind::Rcdata),
        "iframe" | "noembed" | "noframes" | "noscript" | "xmp" => TokenSinkResult::RawData(RawKind::Rawtext),
        "plaintext" => TokenSinkResult::Plaintext,
        _ => TokenSinkResult::Continue,
    }
}

/// The value of an attribute that stays as it is.
fn kept(tag: &str, key: &str, value: &str) -> Option<String> {
    if !tags::has(tag, key) {
        return None;
    }
    match key {
        // A table of pandas has rules for its cells by these.
        "id" | "headers" => value
            .starts_with("T_")
            .then(|| value.to_owned())
            .filter(|id| is_word(id)),
        "class" => is_word(value).then(|| value.to_owned()),
        _ => Some(value.to_owned()),
    }
}

fn is_word(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "_- ".contains(c))
}

fn find(list: &'static [&'static str], name: &str) -> Option<&'static str> {
    list.iter().find(|known| **known == name).copied()
}

/// Words of the code in words of ours.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(LONGEST_ADDRESS).collect()
}

fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    escape(&mut out, text);
    out
}
