//! HTML for a viewer: words, tables and pictures that are in the text itself. Nothing that is left can make a request, run
//! or leave its place. Two passes: [`tame`] bounds and says what goes, then `ammonia` decides by its own list.

mod attributes;
mod tags;
mod tame;

use crate::image::is_inline;
use crate::{Cleaned, Refused, css};
use ammonia::{Builder, UrlRelative};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Longer ones are not cleaned. A page with all of plotly in it has 5 MB.
pub const MOST_BYTES: usize = 8 << 20;

pub fn clean(text: &str) -> Result<Cleaned, Refused> {
    if text.len() > MOST_BYTES {
        return Err(Refused::too_long(text.len(), MOST_BYTES));
    }
    if !attributes::are_few(text) {
        return Err(Refused::because("a tag has more than 300 attributes"));
    }
    let tame = tame::tame(text)?;
    let body = WALL.clean(&tame.body).to_string();
    let text = match tame.sheet.is_empty() {
        true => body,
        false => format!("<style>\n{}</style>{body}", tame.sheet),
    };
    Ok(Cleaned {
        text,
        changed: tame.removed,
    })
}

static WALL: LazyLock<Builder<'static>> = LazyLock::new(wall);

fn wall() -> Builder<'static> {
    let attributes = tags::OF_ONE.iter().map(|(tag, names)| (*tag, set(names)));
    let mut wall = Builder::empty();
    wall.tags(set(tags::TAGS))
        .clean_content_tags(HashSet::from(["script", "style"]))
        .generic_attributes(set(tags::EVERYWHERE))
        .tag_attributes(attributes.collect::<HashMap<_, _>>())
        .url_schemes(HashSet::from(["data"]))
        .url_relative(UrlRelative::Deny)
        .link_rel(None)
        .strip_comments(true)
        .filter_style_properties(set(css::PROPERTIES))
        .attribute_filter(|tag, name, value| match (tag, name) {
            ("img", "src") => is_inline(value).then(|| value.into()),
            _ => Some(value.into()),
        });
    wall
}

fn set(names: &'static [&'static str]) -> HashSet<&'static str> {
    names.iter().copied().collect()
}
