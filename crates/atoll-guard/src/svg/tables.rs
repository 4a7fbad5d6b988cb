//! Which elements of SVG draw and nothing else.

/// Elements that are not here go with all that is in them: scripts, foreign content, animations (which can set an address
/// later), fonts, metadata.
pub(super) const ELEMENTS: &[&str] = &[
    "circle",
    "clipPath",
    "defs",
    "desc",
    "ellipse",
    "feBlend",
    "feColorMatrix",
    "feComponentTransfer",
    "feComposite",
    "feFlood",
    "feFuncA",
    "feFuncB",
    "feFuncG",
    "feFuncR",
    "feGaussianBlur",
    "feMerge",
    "feMergeNode",
    "feMorphology",
    "feOffset",
    "filter",
    "g",
    "image",
    "line",
    "linearGradient",
    "marker",
    "mask",
    "path",
    "pattern",
    "polygon",
    "polyline",
    "radialGradient",
    "rect",
    "stop",
    "style",
    "svg",
    "switch",
    "symbol",
    "text",
    "textPath",
    "title",
    "tspan",
    "use",
];

/// Gone without a word: who drew it and how.
pub(super) const IDLE: &[&str] = &["metadata", "sodipodi:namedview", "inkscape:perspective"];

/// A link is a group of what it shows.
pub(super) const LINK: &str = "a";

/// In these there are words only.
pub(super) const WORDS: &[&str] = &["desc", "style", "title"];

pub(super) const SVG: &str = "http://www.w3.org/2000/svg";
pub(super) const XLINK: &str = "http://www.w3.org/1999/xlink";
