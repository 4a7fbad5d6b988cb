//! Which elements and attributes of HTML a viewer may be given, and what becomes of the others.

/// What stays. No element here loads, runs, asks or leaves the text.
pub(super) const TAGS: &[&str] = &[
    "abbr",
    "article",
    "aside",
    "b",
    "bdi",
    "big",
    "blockquote",
    "br",
    "caption",
    "center",
    "cite",
    "code",
    "col",
    "colgroup",
    "dd",
    "del",
    "details",
    "dfn",
    "div",
    "dl",
    "dt",
    "em",
    "figcaption",
    "figure",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "i",
    "img",
    "ins",
    "kbd",
    "li",
    "main",
    "mark",
    "ol",
    "p",
    "pre",
    "q",
    "rp",
    "rt",
    "ruby",
    "s",
    "samp",
    "section",
    "small",
    "span",
    "strike",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "time",
    "tr",
    "tt",
    "u",
    "ul",
    "var",
    "wbr",
];

/// They have no end tag.
pub(super) const VOID: &[&str] = &["br", "col", "hr", "img", "wbr"];

/// A parser opens these again wherever they were left open, however often: not many of them may lie in each other.
pub(super) const FORMATTING: &[&str] = &[
    "b", "big", "code", "em", "i", "s", "small", "strike", "strong", "tt", "u",
];

/// Go with all that is in them. The words inside are not for readers.
pub(super) const WITH_CONTENT: &[&str] = &[
    "applet",
    "audio",
    "canvas",
    "iframe",
    "math",
    "noembed",
    "noframes",
    "noscript",
    "object",
    "plaintext",
    "script",
    "select",
    "svg",
    "template",
    "textarea",
    "title",
    "video",
    "xmp",
];

/// The frame of a document: gone, and nobody misses it.
pub(super) const FRAME: &[&str] = &["body", "head", "html"];

/// What a tag of this name ends by itself if it is the innermost open one.
pub(super) fn ends(name: &str, open: &str) -> bool {
    match name {
        "td" | "th" => matches!(open, "td" | "th"),
        "dd" | "dt" => matches!(open, "dd" | "dt"),
        "tbody" | "tfoot" | "thead" => matches!(open, "tbody" | "tfoot" | "thead"),
        "li" | "p" | "tr" => name == open,
        _ => false,
    }
}

/// An end tag of something inside does not reach past these.
pub(super) fn is_cell(name: &str) -> bool {
    matches!(name, "caption" | "td" | "th")
}

pub(super) fn is_of_a_table(name: &str) -> bool {
    matches!(
        name,
        "caption" | "table" | "tbody" | "td" | "tfoot" | "th" | "thead" | "tr"
    )
}

/// Of every element.
pub(super) const EVERYWHERE: &[&str] = &["align", "class", "dir", "id", "lang", "style", "title", "valign"];

pub(super) const OF_ONE: &[(&str, &[&str])] = &[
    ("col", &["span", "width"]),
    ("colgroup", &["span", "width"]),
    ("details", &["open"]),
    ("img", &["alt", "height", "src", "width"]),
    ("li", &["value"]),
    ("ol", &["start", "type"]),
    ("table", &["border", "cellpadding", "cellspacing", "width"]),
    ("td", &["colspan", "headers", "rowspan", "width"]),
    ("th", &["colspan", "headers", "rowspan", "scope", "width"]),
    ("time", &["datetime"]),
];

pub(super) fn has(tag: &str, attribute: &str) -> bool {
    let own = OF_ONE.iter().find(|(name, _)| *name == tag);
    EVERYWHERE.contains(&attribute) || own.is_some_and(|(_, names)| names.contains(&attribute))
}

/// Left out without a word: they do nothing in what is left.
pub(super) fn is_idle(attribute: &str) -> bool {
    let names = ["hidden", "name", "rel", "role", "scoped", "tabindex", "target", "type"];
    names.contains(&attribute) || attribute.starts_with("data-") || attribute.starts_with("aria-")
}
