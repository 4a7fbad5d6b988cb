//! Markdown whose pictures and links are words. The text is changed where a parser finds them, and stays as it is elsewhere.
//!
//! Renderers differ in what they take for Markdown, so the text is read as each of three dialects, until no
//! reading finds anything. For renderers that keep to CommonMark or GitHub's dialect nothing that is left makes a request.

use crate::image::is_inline;
use crate::{Cleaned, Refused};
use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};
use std::ops::Range;

pub const MOST_BYTES: usize = 2 << 20;
/// Readings after which the rest is taken out by force.
const MOST_ROUNDS: usize = 8;
const LONGEST_ADDRESS: usize = 2_000;

/// Between the plain dialect and one with every extension, whose footnotes are of an older kind.
const GITHUB: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS)
    .union(Options::ENABLE_GFM);

/// HTML that is left as it is: words only, without attributes.
const PLAIN_TAGS: &[&str] = &[
    "b", "br", "code", "del", "em", "hr", "i", "ins", "kbd", "mark", "p", "s", "small", "strong", "sub", "sup", "u",
];

pub fn clean(text: &str) -> Result<Cleaned, Refused> {
    if text.len() > MOST_BYTES {
        return Err(Refused::too_long(text.len(), MOST_BYTES));
    }
    let (mut now, mut changed) = (text.to_owned(), false);
    for _ in 0..MOST_ROUNDS {
        let mut found = false;
        for options in [Options::empty(), GITHUB, Options::all()] {
            let edits = Reading::of(&now, options);
            changed |= edits.takes_out;
            if !edits.list.is_empty() {
                now = edits.apply(&now);
                found = true;
            }
        }
        if !found {
            return Ok(Cleaned { text: now, changed });
        }
    }
    Ok(Cleaned {
        text: as_words(&now, false),
        changed: true,
    })
}

/// Nothing in it means anything to a renderer.
fn as_words(text: &str, as_line: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '[' => out.push_str("&#91;"),
            ']' => out.push_str("&#93;"),
            '!' => out.push_str("&#33;"),
            '\n' | '\r' if as_line => out.push(' '),
            '`' | '~' | '\\' | '*' | '_' | '$' | '|' => out.push_str(&format!("&#{};", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// A link or an image that is open.
struct Open {
    whole: Range<usize>,
    /// Its words in the text, as far as they were seen.
    inner: Option<Range<usize>>,
    words: String,
    address: String,
    is_image: bool,
    kind: LinkType,
}

/// What one reading of the text finds.
struct Reading<'a> {
    text: &'a str,
    list: Vec<(Range<usize>, String)>,
    open: Vec<Open>,
    code: usize,
    /// Something goes that a renderer would have followed or drawn; an escape more is not.
    takes_out: bool,
}

impl<'a> Reading<'a> {
    fn of(text: &'a str, options: Options) -> Self {
        let mut reading = Self {
            text,
            list: Vec::new(),
            open: Vec::new(),
            code: 0,
            takes_out: false,
        };
        let mut events = Parser::new_ext(text, options).into_offset_iter();
        for (event, range) in events.by_ref() {
            reading.take(event, range);
        }
        for (_, definition) in events.reference_definitions().iter() {
            reading.list.push((definition.span.clone(), String::new()));
            reading.takes_out = true;
        }
        reading
    }

    fn take(&mut self, event: Event<'a>, range: Range<usize>) {
        if let Some(open) = self.open.last_mut()
            && !matches!(event, Event::End(TagEnd::Link | TagEnd::Image))
        {
            let inner = open.inner.get_or_insert_with(|| range.clone());
            inner.end = inner.end.max(range.end);
            if let Event::Text(words) | Event::Code(words) = &event {
                open.words.push_str(words);
            }
        }
        match event {
            Event::Start(Tag::Link {
                link_type, dest_url, ..
            }) => self.begin(range, &dest_url, link_type, false),
            Event::Start(Tag::Image {
                link_type, dest_url, ..
            }) => self.begin(range, &dest_url, link_type, true),
            Event::End(TagEnd::Link | TagEnd::Image) => self.finish(),
            Event::Start(Tag::CodeBlock(_)) => self.code += 1,
            Event::End(TagEnd::CodeBlock) => self.code = self.code.saturating_sub(1),
            Event::Html(_) | Event::InlineHtml(_) => self.html(range),
            Event::Code(words) => self.code_span(&words, range),
            Event::Text(_) if self.code == 0 => self.words(range),
            _ => {}
        }
    }

    fn begin(&mut self, whole: Range<usize>, address: &CowStr<'_>, kind: LinkType, is_image: bool) {
        self.open.push(Open {
            whole,
            inner: None,
            words: String::new(),
            address: address.trim().to_owned(),
            is_image,
            kind,
        });
    }

    fn finish(&mut self) {
        let Some(open) = self.open.pop() else { return };
        let stays = match open.is_image {
            true => is_inline(&open.address),
            false => open.address.starts_with('#'),
        };
        if stays && matches!(open.kind, LinkType::Inline) {
            return;
        }
        self.takes_out = true;
        let address = code(&open.address);
        match (open.is_image, open.inner) {
            (true, _) => {
                let words = plain(&open.words);
                self.replace(open.whole, format!("\\[image: {words}\\] {address}"));
                // What lay in it is gone with it.
            }
            (false, Some(inner)) if !matches!(open.kind, LinkType::Autolink | LinkType::Email) => {
                self.list.push((open.whole.start..inner.start, String::new()));
                self.list.push((inner.end..open.whole.end, format!(" ({address})")));
            }
            (false, _) => self.replace(open.whole, address),
        }
    }

    /// In place of everything in the range, and of changes that were wanted in it.
    fn replace(&mut self, range: Range<usize>, by: String) {
        self.list
            .retain(|(other, _)| other.end <= range.start || other.start >= range.end);
        self.list.push((range, by));
    }

    /// Tags become words, but for a few without attributes.
    fn html(&mut self, range: Range<usize>) {
        let piece = self.text.get(range.clone()).unwrap_or_default();
        for (at, _) in piece.match_indices('<') {
            if !is_plain_tag(piece.get(at + 1..).unwrap_or_default()) {
                let place = range.start + at;
                self.list.push((place..place + 1, "&lt;".to_owned()));
                self.takes_out = true;
            }
        }
    }

    /// Code in a line that a renderer with other tables would cut, so that what is in it comes out: said in another way.
    fn code_span(&mut self, words: &str, range: Range<usize>) {
        let source = self.text.get(range.clone()).unwrap_or_default();
        let can_be_cut = source.contains(['\n', '|']);
        let can_act = words.contains("](") || words.contains("][") || words.contains("![") || words.contains('<');
        if can_be_cut && can_act {
            self.list
                .push((range, format!("<code>{}</code>", as_words(words, true))));
        }
    }

    /// Words that another renderer could take for a tag or an image.
    fn words(&mut self, range: Range<usize>) {
        let piece = self.text.get(range.clone()).unwrap_or_default();
        for (at, c) in piece.char_indices() {
            let place = range.start + at;
            let rest = piece.get(at + 1..).filter(|_| c.is_ascii()).unwrap_or_default();
            let is_tag = c == '<' && rest.starts_with(|next: char| next.is_ascii_alphabetic() || "/!?".contains(next));
            if is_tag && !is_plain_tag(rest) {
                self.list.push((place..place + 1, "&lt;".to_owned()));
            }
            if c == '[' && self.text.get(..place).is_some_and(|before| before.ends_with('!')) {
                self.list.push((place..place, "\\".to_owned()));
            }
        }
    }
}

impl Reading<'_> {
    fn apply(mut self, text: &str) -> String {
        self.list.sort_by_key(|(range, _)| (range.start, range.end));
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        for (range, by) in self.list {
            if range.start < at {
                continue;
            }
            out.push_str(text.get(at..range.start).unwrap_or_default());
            out.push_str(&by);
            at = range.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        out
    }
}

/// Behind a `<`: a tag of the list with nothing else in it.
fn is_plain_tag(rest: &str) -> bool {
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let Some((inside, _)) = rest.split_once('>') else {
        return false;
    };
    let name = inside.strip_suffix('/').unwrap_or(inside).trim_end();
    PLAIN_TAGS.iter().any(|tag| tag.eq_ignore_ascii_case(name))
}

/// An address as code: shown as it is, and no renderer makes a link of it.
fn code(address: &str) -> String {
    let shown: String = address
        .chars()
        .filter(|c| !c.is_control())
        .take(LONGEST_ADDRESS)
        .collect();
    match shown.is_empty() {
        true => String::new(),
        false => format!("`{}`", shown.replace('`', "%60").replace('|', "%7C")),
    }
}

/// Words that mean nothing but themselves.
fn plain(words: &str) -> String {
    let mut out = String::new();
    for c in words.chars().filter(|c| !c.is_control()) {
        if c.is_ascii_punctuation() {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
