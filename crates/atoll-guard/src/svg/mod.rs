//! SVG as a drawing and nothing else: shapes, words, colours, and references to its own parts. Read by a parser of XML that
//! knows no document types and no entities but XML's own five; written anew, so that what is left is what was understood.

mod references;
mod tables;

use crate::image::is_inline;
use crate::{Cleaned, Refused, css};
use quick_xml::XmlVersion;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;
use references::References;
use tables::{ELEMENTS, IDLE, LINK, SVG, WORDS, XLINK};

pub const MOST_BYTES: usize = 8 << 20;
const MOST_DEEP: usize = 200;
const MOST_ATTRIBUTES: usize = 300;

pub fn clean(text: &str) -> Result<Cleaned, Refused> {
    if text.len() > MOST_BYTES {
        return Err(Refused::too_long(text.len(), MOST_BYTES));
    }
    let mut drawing = Drawing::new();
    let mut reader = Reader::from_str(text);
    while !drawing.is_over {
        let event = reader.read_event();
        drawing.take(event.map_err(|error| broken(&error))?)?;
    }
    match drawing.references.are_few() {
        true if drawing.is_begun => Ok(Cleaned {
            text: drawing.out,
            changed: drawing.removed,
        }),
        true => Err(Refused::because("not an SVG image")),
        false => Err(Refused::because(
            "references in the image form a cycle or expand to more than 1000000 elements",
        )),
    }
}

fn broken(error: &dyn std::fmt::Display) -> Refused {
    Refused::because(format!("not well-formed XML: {error}"))
}

struct Open {
    name: &'static str,
    is_part: bool,
}

struct Drawing {
    out: String,
    open: Vec<Open>,
    /// How deep the present place is in something that is left out.
    skipped: usize,
    /// The text of a style element.
    style: String,
    references: References,
    removed: bool,
    is_begun: bool,
    is_over: bool,
}

impl Drawing {
    fn new() -> Self {
        Self {
            out: String::new(),
            open: Vec::new(),
            skipped: 0,
            style: String::new(),
            references: References::new(),
            removed: false,
            is_begun: false,
            is_over: false,
        }
    }

    fn take(&mut self, event: Event<'_>) -> Result<(), Refused> {
        match event {
            Event::Start(start) => self.start(&start, false)?,
            Event::Empty(start) => self.start(&start, true)?,
            Event::End(_) => self.end(),
            Event::Text(text) => self.text(&text.xml10_content()),
            Event::CData(text) => self.text(&text.xml10_content()),
            Event::GeneralRef(reference) => self.reference(&reference),
            Event::DocType(_) | Event::Decl(_) | Event::Comment(_) => {}
            Event::PI(_) => self.removed = true,
            Event::Eof if self.open.is_empty() => self.is_over = true,
            Event::Eof => return Err(Refused::because("the document is truncated")),
        }
        Ok(())
    }

    fn start(&mut self, start: &BytesStart<'_>, is_empty: bool) -> Result<(), Refused> {
        let name = start.name();
        let name: &str = name.as_ref();
        let Some(known) = self.known(name) else {
            self.removed |= self.skipped == 0 && !IDLE.contains(&name);
            self.skipped += usize::from(!is_empty);
            return Ok(());
        };
        if self.open.len() >= MOST_DEEP {
            return Err(Refused::because("nested more than 200 levels deep"));
        }
        if known != "style" {
            self.out.push('<');
            self.out.push_str(known);
        }
        self.is_begun = true;
        let is_part = self.attributes(known, start)?;
        self.open.push(Open { name: known, is_part });
        if known != "style" {
            self.out.push('>');
        }
        if is_empty {
            self.end();
        }
        Ok(())
    }

    /// As what an element is written, if it is.
    fn known(&self, name: &str) -> Option<&'static str> {
        let is_in_words = self.open.last().is_some_and(|open| WORDS.contains(&open.name));
        if self.skipped > 0 || is_in_words || (self.open.is_empty() && (self.is_begun || name != "svg")) {
            return None;
        }
        match name {
            LINK => Some("g"),
            _ => ELEMENTS.iter().find(|known| **known == name).copied(),
        }
    }

    /// Writes those that stay; true if the element has a name by which others can show it.
    fn attributes(&mut self, element: &'static str, start: &BytesStart<'_>) -> Result<bool, Refused> {
        let (mut id, mut kept) = (None, Vec::new());
        // Each would be compared with all before it.
        for (number, attribute) in start.attributes().enumerate() {
            if number >= MOST_ATTRIBUTES {
                return Err(Refused::because("an element has more than 300 attributes"));
            }
            let attribute = attribute.map_err(|error| broken(&error))?;
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|error| broken(&error))?;
            let key: &str = attribute.key.as_ref();
            match stays(element, key, &value) {
                true if key == "id" => {
                    id = Some(value.to_string());
                    kept.push((key.to_owned(), value));
                }
                true => kept.push((key.to_owned(), value)),
                false => self.removed |= !is_idle(key) || start.name().as_ref() == LINK,
            }
        }
        let is_part = self.references.enter(id);
        for (key, value) in kept {
            named(&value).into_iter().for_each(|name| self.references.shows(name));
            if element != "style" {
                self.out
                    .push_str(&format!(" {key}=\"{}\"", quick_xml::escape::escape(&*value)));
            }
        }
        Ok(is_part)
    }

    fn end(&mut self) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        let Some(open) = self.open.pop() else { return };
        if open.is_part {
            self.references.leave();
        }
        match open.name {
            "style" => self.end_style(),
            name => self.out.push_str(&format!("</{name}>")),
        }
    }

    fn end_style(&mut self) {
        let style = std::mem::take(&mut self.style);
        match css::is_local(&style) {
            true => {
                let style = quick_xml::escape::escape(style.as_str());
                self.out.push_str(&format!("<style type=\"text/css\">{style}</style>"));
            }
            false => self.removed = true,
        }
    }

    fn text(&mut self, text: &str) {
        match self.open.last() {
            Some(_) if self.skipped > 0 => {}
            Some(open) if open.name == "style" => self.style.push_str(text),
            Some(_) => self.out.push_str(&quick_xml::escape::escape(text)),
            None => {}
        }
    }

    /// Of XML's own five or of a character. Others would be the document's, which has none here.
    fn reference(&mut self, reference: &BytesRef<'_>) {
        let own = || quick_xml::escape::resolve_predefined_entity(reference);
        match reference.resolve_char_ref() {
            Ok(Some(c)) if !c.is_control() || c.is_whitespace() => self.text(c.encode_utf8(&mut [0; 4])),
            Ok(None) if own().is_some() => self.text(own().unwrap_or_default()),
            _ => self.removed = true,
        }
    }
}

fn stays(element: &str, key: &str, value: &str) -> bool {
    match key {
        "xmlns" => value == SVG,
        "xmlns:xlink" => value == XLINK,
        "href" | "xlink:href" => is_own(value) || (element == "image" && is_inline(value)),
        "xml:space" | "xml:lang" => true,
        _ => is_plain(key) && css::is_local(value),
    }
}

fn is_own(address: &str) -> bool {
    address.starts_with('#')
}

/// No handler, no address, no name of another vocabulary.
fn is_plain(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    plain
        && !lower.starts_with("on")
        && !["action", "base", "formaction", "ping", "poster", "src", "srcset"].contains(&&*lower)
}

/// Of a tool that drew it, or of a vocabulary that nothing left is written in.
fn is_idle(key: &str) -> bool {
    key.starts_with("xmlns") || (key.contains(':') && !key.starts_with("xlink:") && !key.starts_with("xml:"))
}

/// Names of parts that a value shows: `#a`, `url(#a)`.
fn named(value: &str) -> Vec<String> {
    let direct = value.strip_prefix('#').map(str::to_owned);
    let by_address = value.split("url(").skip(1).filter_map(|rest| {
        let rest = rest.trim_start().trim_start_matches(['"', '\'']).strip_prefix('#')?;
        let end = rest.find(['"', '\'', ')', ' '])?;
        Some(rest.get(..end)?.to_owned())
    });
    by_address.chain(direct).collect()
}
