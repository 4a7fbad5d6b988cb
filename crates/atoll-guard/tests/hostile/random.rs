//! Texts made of the pieces that parsers care about, in any order: nothing panics, nothing acts, and a second time finds
//! nothing more.

use crate::checker::{in_html, in_markdown, in_xml};
use atoll_guard::{html, markdown, svg};

const ROUNDS: usize = 3_000;
const LONGEST: usize = 24;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("less than the bound")
    }

    fn text(&mut self, pieces: &[&str]) -> String {
        (0..=self.below(LONGEST))
            .map(|_| pieces[self.below(pieces.len())])
            .collect()
    }
}

const HTML: &[&str] = &[
    "<b>",
    "</b>",
    "<p>",
    "</p>",
    "<table>",
    "</table>",
    "<tr>",
    "<td>",
    "</td>",
    "<caption>",
    "<a href=//h>",
    "</a>",
    "<img src=//h>",
    "<svg>",
    "</svg>",
    "<math>",
    "<style>",
    "</style>",
    "<script>",
    "</script>",
    "<!--",
    "-->",
    "<title>",
    "</title>",
    "<textarea>",
    "<noscript>",
    "</noscript>",
    "<template>",
    "<select>",
    "<option>",
    "<form>",
    "<pre>\n",
    "<li>",
    "<div style='color:red'>",
    "</div>",
    "<details open>",
    "<",
    ">",
    "\"",
    "'",
    "=",
    "x",
    " ",
    "&lt;",
    "&#60;",
    "<mtext>",
    "<foreignObject>",
    "<frameset>",
    "<body onload=x>",
    "<i class=a>",
    "<h1>",
    "</h2>",
    "<col>",
    "<plaintext>",
    "\0",
    "]]>",
    "<![CDATA[",
];

const MARKDOWN: &[&str] = &[
    "![",
    "]",
    "(",
    ")",
    "[",
    "<",
    ">",
    "//h",
    "a",
    " ",
    "\n",
    "\n\n",
    "`",
    "```",
    "~~~\n",
    "    ",
    "\t",
    "- ",
    "1. ",
    "> ",
    "# ",
    "|",
    "\n|-|\n",
    "$",
    "$$",
    "[a]: //h\n",
    "[a]",
    "[^a]",
    "[^a]: ",
    "\\",
    "*",
    "**",
    "_",
    "~~",
    "<img src=//h>",
    "<div>",
    "</div>",
    "<!--",
    "-->",
    "<https://h>",
    "&lt;",
    "&#91;",
    "---\n",
    "+++\n",
    "<br>",
    "![a](//h)",
    "[[",
    "]]",
    "!",
    ":",
    "{",
    "}",
];

const SVG: &[&str] = &[
    "<g>",
    "</g>",
    "<g id=\"a\">",
    "<use href=\"#a\"/>",
    "<use href=\"//h\"/>",
    "<style>",
    "</style>",
    "@import '//h'",
    "<title>",
    "</title>",
    "<script>",
    "</script>",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "&amp;",
    "&#60;",
    "&x;",
    "x",
    "<a href=\"//h\">",
    "</a>",
    "<text>",
    "</text>",
    "<rect fill=\"url(//h)\"/>",
    "<rect onclick=\"x\"/>",
    "<?x y?>",
    "<image href=\"//h\"/>",
    "<animate/>",
    "<foreignObject>",
    "</foreignObject>",
    "url(#a)",
    "\\",
    "<",
    "\"",
];

#[test]
fn html_of_random_pieces() {
    let mut random = Random(0x5eed);
    for _ in 0..ROUNDS {
        let text = random.text(HTML);
        let Ok(cleaned) = html::clean(&text) else { continue };
        assert_eq!(in_html(&cleaned.text), [""; 0], "{text:?} -> {:?}", cleaned.text);
        let again = html::clean(&cleaned.text).unwrap();
        assert!(!again.changed, "{text:?} -> {:?} -> {:?}", cleaned.text, again.text);
        assert!(cleaned.text.len() < 40 * text.len() + 100, "{text:?}");
    }
}

#[test]
fn markdown_of_random_pieces() {
    let mut random = Random(0x5eed);
    for _ in 0..ROUNDS {
        let text = random.text(MARKDOWN);
        let Ok(cleaned) = markdown::clean(&text) else { continue };
        assert_eq!(in_markdown(&cleaned.text), [""; 0], "{text:?} -> {:?}", cleaned.text);
        assert!(cleaned.text.len() < 20 * text.len() + 100, "{text:?}");
    }
}

#[test]
fn svg_of_random_pieces() {
    let mut random = Random(0x5eed);
    let mut read = 0;
    for _ in 0..ROUNDS * 4 {
        let text = format!("<svg xmlns=\"http://www.w3.org/2000/svg\">{}</svg>", random.text(SVG));
        let Ok(cleaned) = svg::clean(&text) else { continue };
        read += 1;
        assert_eq!(in_xml(&cleaned.text), [""; 0], "{text:?} -> {:?}", cleaned.text);
        assert_eq!(in_html(&cleaned.text), [""; 0], "{text:?} -> {:?}", cleaned.text);
        let again = svg::clean(&cleaned.text).unwrap();
        assert_eq!((again.text, again.changed), (cleaned.text, false), "{text:?}");
    }
    assert!(read > 100, "most were not well-formed: {read}");
}
