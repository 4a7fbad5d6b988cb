//! What a viewer would do with a text: every request, script and way out that another parser finds in it. It stands in for a
//! browser, and is wider than one: what only might load counts.

use comrak::nodes::NodeValue;
use html5ever_of_the_checker::tendril::TendrilSink;
use html5ever_of_the_checker::{ParseOpts, QualName, local_name, ns, parse_document, parse_fragment};
use markup5ever_rcdom::{Handle, NodeData, RcDom};

const ELEMENTS: &[&str] = &[
    "animate",
    "applet",
    "audio",
    "base",
    "embed",
    "feimage",
    "foreignobject",
    "form",
    "frame",
    "iframe",
    "input",
    "link",
    "math",
    "meta",
    "object",
    "script",
    "set",
    "video",
];
const ADDRESSES: &[&str] = &[
    "action",
    "archive",
    "background",
    "cite",
    "code",
    "codebase",
    "data",
    "formaction",
    "href",
    "icon",
    "imagesrcset",
    "longdesc",
    "lowsrc",
    "manifest",
    "ping",
    "poster",
    "profile",
    "src",
    "srcdoc",
    "srcset",
    "usemap",
];

/// As a page and as a piece of one.
pub(crate) fn in_html(text: &str) -> Vec<String> {
    let context = QualName::new(None, ns!(html), local_name!("body"));
    let piece = parse_fragment(RcDom::default(), ParseOpts::default(), context, Vec::new(), false).one(text);
    let page = parse_document(RcDom::default(), ParseOpts::default()).one(text);
    let mut found = Vec::new();
    let mut stack = vec![piece.document.clone(), page.document.clone()];
    while let Some(node) = stack.pop() {
        look(&node, &mut found);
        stack.extend(node.children.borrow().iter().cloned());
        if let NodeData::Element { template_contents, .. } = &node.data {
            stack.extend(template_contents.borrow().iter().cloned());
        }
    }
    found
}

fn look(node: &Handle, found: &mut Vec<String>) {
    let NodeData::Element { name, attrs, .. } = &node.data else {
        return;
    };
    let element = name.local.to_lowercase();
    if ELEMENTS.contains(&&*element) {
        found.push(format!("<{element}>"));
    }
    if element == "style" {
        let words = node.children.borrow();
        let text: String = words
            .iter()
            .filter_map(|child| match &child.data {
                NodeData::Text { contents } => Some(contents.borrow().to_string()),
                _ => None,
            })
            .collect();
        style(&text, found);
    }
    for attribute in attrs.borrow().iter() {
        let key = attribute.name.local.to_lowercase();
        attribute_of(&element, &key, &attribute.value, found);
    }
}

fn attribute_of(element: &str, key: &str, value: &str, found: &mut Vec<String>) {
    let key = key.rsplit(':').next().unwrap_or(key);
    let is_image = matches!(element, "img" | "image") && value.starts_with("data:image/");
    if key.starts_with("on") {
        found.push(format!("{element} {key}"));
    }
    if key == "base" || (ADDRESSES.contains(&key) && !value.starts_with('#') && !is_image) {
        found.push(format!("{element} {key}={value}"));
    }
    style(value, found);
}

/// In a sheet or in any value: presentation attributes of SVG are styles as well.
fn style(text: &str, found: &mut Vec<String>) {
    let text = text.to_lowercase();
    let mut addresses = text.split("url(").skip(1);
    let is_own = |rest: &str| rest.trim_start().trim_start_matches(['"', '\'']).starts_with('#');
    if addresses.any(|rest| !is_own(rest))
        || ["@import", "image-set(", "expression("]
            .iter()
            .any(|word| text.contains(word))
    {
        found.push(format!("style: {text}"));
    }
    if text.contains('\\') && text.contains('(') {
        found.push(format!("escape in a style: {text}"));
    }
}

/// As a document of its own, by a parser of XML that follows no entity.
pub(crate) fn in_xml(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    let Ok(document) = roxmltree::Document::parse_with_options(text, options) else {
        return vec!["not well-formed".to_owned()];
    };
    if text.contains("<!") {
        found.push("a document type".to_owned());
    }
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let element = node.tag_name().name().to_lowercase();
        if ELEMENTS.contains(&&*element) {
            found.push(format!("<{element}>"));
        }
        if element == "style" {
            style(node.text().unwrap_or_default(), &mut found);
        }
        for attribute in node.attributes() {
            attribute_of(
                &element,
                &attribute.name().to_lowercase(),
                attribute.value(),
                &mut found,
            );
        }
    }
    found
}

/// As GitHub's dialect reads it: images, links, and what its raw HTML does.
pub(crate) fn in_markdown(text: &str) -> Vec<String> {
    let mut options = comrak::Options::default();
    options.extension.table = true;
    options.extension.strikethrough = true;
    options.extension.footnotes = true;
    let arena = comrak::Arena::new();
    let (mut found, mut html) = (Vec::new(), String::new());
    for node in comrak::parse_document(&arena, text, &options).descendants() {
        match &node.data().value {
            NodeValue::Image(image) => attribute_of("img", "src", &image.url, &mut found),
            NodeValue::Link(link) => attribute_of("a", "href", &link.url, &mut found),
            NodeValue::HtmlInline(tag) => html.push_str(tag),
            NodeValue::HtmlBlock(block) => html.push_str(&block.literal),
            _ => {}
        }
    }
    found.extend(in_html(&html));
    found
}
