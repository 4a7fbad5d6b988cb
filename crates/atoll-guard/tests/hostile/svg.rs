//! Hostile SVG: as a document of its own and inside of a page.

use crate::checker::{in_html, in_xml};
use crate::pixel;
use atoll_guard::svg::clean;

/// What is between the first tag and the last.
pub(crate) const INSIDE: &[&str] = &[
    "<script>fetch('//leak.example')</script>",
    "<script xlink:href='//leak.example'/>",
    "<foreignObject><img xmlns='http://www.w3.org/1999/xhtml' src='//leak.example'/></foreignObject>",
    "<image href='//leak.example/a.png'/>",
    "<image xlink:href='https://leak.example/a.png'/>",
    "<image href='data:image/svg+xml;base64,PHN2Zy8+' onload='x()'/>",
    "<use href='//leak.example/a.svg#b'/>",
    "<use xlink:href='data:image/svg+xml;base64,PHN2Zy8+#a'/>",
    "<a xlink:href='javascript:alert(1)'><text>x</text></a>",
    "<a href='//leak.example'><rect/></a>",
    "<rect fill='url(//leak.example#a)'/>",
    "<rect style='fill:url(\"//leak.example#a\")'/>",
    "<rect style='fill:u\\72l(//leak.example)'/>",
    "<rect filter='url( https://leak.example#f )'/>",
    "<style>@import '//leak.example';</style>",
    "<style>rect{fill:url(//leak.example)}</style>",
    "<style><![CDATA[@import url(//leak.example);]]></style>",
    "<rect onclick='alert(1)'/>",
    "<rect ONCLICK='alert(1)'/>",
    "<animate attributeName='href' values='//leak.example'/>",
    "<set attributeName='onmouseover' to='alert(1)'/>",
    "<a><animate attributeName='href' values='javascript:alert(1)'/></a>",
    "<filter><feImage href='//leak.example'/></filter>",
    "<g xml:base='//leak.example/'><use href='#a'/></g>",
    "<iframe xmlns='http://www.w3.org/1999/xhtml' src='//leak.example'/>",
    "<handler xmlns:ev='http://www.w3.org/2001/xml-events' ev:event='load'>x</handler><image href='//leak.example'/>",
    "<title><script>x</script></title><image href='//leak.example'/>",
    "<text><tspan onfocus='x' tabindex='1'>t</tspan></text>",
    "<video src='//leak.example'/>",
    "<linearGradient href='//leak.example#a'/>",
    "<text cursor='url(//leak.example), auto'>x</text>",
];

pub(crate) fn drawing(inside: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\"><path id=\"a\" d=\"M0 0\"/>{inside}</svg>"
    )
}

#[test]
fn only_drawing_is_left() {
    for inside in INSIDE {
        let text = drawing(inside);
        assert!(!in_xml(&text).is_empty(), "the checker is blind: {inside}");
        let once = clean(&text).unwrap();
        assert_eq!(in_xml(&once.text), [""; 0], "{inside} -> {}", once.text);
        assert_eq!(
            in_html(&once.text),
            [""; 0],
            "inside of a page: {inside} -> {}",
            once.text
        );
        assert!(once.changed && once.text.contains("<path id=\"a\""), "{inside}");
        let twice = clean(&once.text).unwrap();
        assert_eq!((&twice.text, twice.changed), (&once.text, false), "{inside}");
    }
}

#[test]
fn a_drawing_of_matplotlib_draws_the_same() {
    let text = include_str!("matplotlib.svg");
    let cleaned = clean(text).unwrap();
    assert!(!cleaned.changed, "{}", cleaned.text);
    let (before, after) = (shapes(text), shapes(&cleaned.text));
    assert!(before.len() > 20);
    assert_eq!(before, after);
}

/// Elements that draw, with all that says how.
fn shapes(text: &str) -> Vec<String> {
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    let document = roxmltree::Document::parse_with_options(text, options).expect("XML");
    let outside = |node: &roxmltree::Node<'_, '_>| node.ancestors().all(|one| one.tag_name().name() != "metadata");
    let elements = document.descendants().filter(|node| node.is_element() && outside(node));
    elements
        .map(|node| {
            let mut how: Vec<String> = node
                .attributes()
                .map(|one| format!("{}={}", one.name(), one.value()))
                .collect();
            how.retain(|one| one != "type=text/css");
            how.sort();
            let words = node.text().unwrap_or_default().trim();
            format!("{} {how:?} {words}", node.tag_name().name())
        })
        .collect()
}

#[test]
fn entities_are_never_followed() {
    let laughs: String = (1..10)
        .map(|level| format!("<!ENTITY l{level} \"{}\">", format!("&l{};", level - 1).repeat(10)))
        .collect();
    let head = format!("<!DOCTYPE svg [<!ENTITY l0 \"ha\">{laughs}<!ENTITY x SYSTEM \"file:///etc/hostname\">]>");
    let text = format!("{head}<svg xmlns=\"http://www.w3.org/2000/svg\"><text>a&l9;&x;b &amp; &#65;</text></svg>");
    let cleaned = clean(&text).unwrap();
    assert!(
        cleaned.changed && cleaned.text.ends_with("<text>ab &amp; A</text></svg>"),
        "{}",
        cleaned.text
    );
    let in_value = format!("{head}<svg xmlns=\"http://www.w3.org/2000/svg\"><rect id=\"&l9;\"/></svg>");
    assert!(clean(&in_value).is_err());
}

#[test]
fn parts_that_show_each_other_are_counted() {
    let tower: String = (0..12)
        .map(|level| {
            format!(
                "<g id=\"g{level}\">{}</g>",
                format!("<use href=\"#g{}\"/>", level + 1).repeat(10)
            )
        })
        .collect();
    let refused = clean(&drawing(&tower)).unwrap_err();
    assert!(refused.0.contains("form a cycle or expand"), "{refused:?}");
    let patterns: String = (0..12)
        .map(|level| {
            format!(
                "<pattern id=\"p{level}\">{}</pattern>",
                format!("<rect fill=\"url(#p{})\"/>", level + 1).repeat(10)
            )
        })
        .collect();
    assert!(clean(&drawing(&patterns)).is_err());
    let many = "<use href=\"#a\"/>".repeat(50_000);
    assert!(clean(&drawing(&many)).is_ok(), "a scatter plot");
}

#[test]
fn what_is_no_svg_is_refused_and_said() {
    let deep = format!("{}{}", "<g>".repeat(300), "</g>".repeat(300));
    let many = format!(
        "<rect {}/>",
        (0..200_000).map(|n| format!("a{n}='' ")).collect::<String>()
    );
    let cases = [
        ("<svg", "well-formed"),
        ("<svg><g></svg>", "well-formed"),
        ("<svg><g>", "truncated"),
        ("<html/>", "not an SVG image"),
        ("", "not an SVG image"),
        (&drawing(&many), "more than 300 attributes"),
        (&drawing(&deep), "nested more than 200 levels"),
        (&"x".repeat(atoll_guard::svg::MOST_BYTES + 1), "bytes"),
    ];
    for (text, why) in cases {
        let refused = clean(text).unwrap_err();
        assert!(refused.0.contains(why), "{refused:?}");
    }
    let image = format!("<image href=\"data:image/png;base64,{}\"/>", pixel());
    assert!(!clean(&drawing(&image)).unwrap().changed);
}
