//! Formulas and what only looks like them; then texts of the bytes that matter, in any order, against a second reading.

use super::*;

fn whole(text: &[u8]) -> Vec<u8> {
    let mut sheet = Spreadsheet::default();
    let mut out = sheet.pass(text);
    out.extend(sheet.end());
    out
}

fn safe(text: &str) -> String {
    String::from_utf8(whole(text.as_bytes())).unwrap()
}

const CASES: &[(&str, &str)] = &[
    ("a,b\n=1+1,x\n", "a,b\n'=1+1,x\n"),
    ("a,b\nx,=cmd|' /C calc'!A0\n", "a,b\nx,'=cmd|' /C calc'!A0\n"),
    ("@SUM(A1),+A1,-A1\n", "'@SUM(A1),'+A1,'-A1\n"),
    // Bytes that a spreadsheet may leave out.
    ("a,b\n\tx,\"\tx\"\n", "a,b\n'\tx,\"'\tx\"\n"),
    ("a\n\"\r=1\"\n", "a\n\"'\r'=1\"\n"),
    ("a,b\n\0=1,\u{b}=1\n", "a,b\n'\0=1,'\u{b}=1\n"),
    ("a,b\n  =1,\"  =1\"\n", "a,b\n  '=1,\"  '=1\"\n"),
    ("\u{feff}=1,2\n", "\u{feff}'=1,2\n"),
    ("\u{feff}\"=1\",2\n", "\u{feff}\"'=1\",2\n"),
    // Quotes.
    (
        "a,b\n\"=HYPERLINK(\"\"http://h\"\",\"\"x\"\")\",\"=1\"\n",
        "a,b\n\"'=HYPERLINK(\"\"http://h\"\",\"\"x\"\")\",\"'=1\"\n",
    ),
    ("a,b\n \"x,=1\"\n", "a,b\n \"x,'=1\"\n"),
    ("a,b\n\"\"=1,\"\"\"=1\"\n", "a,b\n\"\"'=1,\"\"\"'=1\"\n"),
    // Delimiters: the file's own, and those of other countries.
    ("a;b\n1;=1\n", "a;b\n1;'=1\n"),
    ("a\tb\n1\t=1\n", "a\tb\n1\t'=1\n"),
    ("a\tb\tc\n1\t\t2\n", "a\tb\tc\n1\t\t2\n"),
    ("a|b\n1|=1\n", "a|b\n1|'=1\n"),
    ("a,b\nx;=1,y\n", "a,b\nx;'=1,y\n"),
    ("a,b\nx,\"y;=1;z\"\n", "a,b\nx,\"y;'=1;z\"\n"),
    ("a,b\nx,\"y\n=1;z\"\n", "a,b\nx,\"y\n'=1;z\"\n"),
    ("a|b|c|d,e\nx,=1\n", "a|b|c|d,e\nx,'=1\n"),
    ("a;b\n\"-1,=1\";2\n", "a;b\n\"-1,'=1\";2\n"),
    // Wide signs.
    ("a,b\n＝1,＋x\n", "a,b\n'＝1,'＋x\n"),
    ("a,b\n－1,\"＠x\"\n", "a,b\n'－1,\"'＠x\"\n"),
    // Ends of the file and of lines.
    ("=1", "'=1"),
    ("-A1", "'-A1"),
    ("a,b\r\n=1,\r\n", "a,b\r\n'=1,\r\n"),
    ("a,b\r=1,2\r", "a,b\r'=1,2\r"),
    // No numbers.
    ("-1e5+cmd\n", "'-1e5+cmd\n"),
    (
        "-E5,-1+1,+1-800-555,--5,-1e,-1:9\n",
        "'-E5,'-1+1,'+1-800-555,'--5,'-1e,'-1:9\n",
    ),
    ("a\n\"-1\"\"+A1\"\n", "a\n\"'-1\"\"+A1\"\n"),
];

#[test]
fn formulas_become_text() {
    for (text, wanted) in CASES {
        assert_eq!(safe(text), *wanted);
    }
}

#[test]
fn numbers_and_words_stay_as_they_are() {
    let plain = "id,name,n\n1,\"a, \"\"b\"\" = c\",-1.5\n2,x-y,+4.2e-10\n3,a@b.c,\"-1,234.50\"\n4,'=1,-12%\n\
                 5,Ünï ﬁ,+49 170 1234\n6,,-\n7,--,- 5 %\n8,\"-7\",-.5\n9,\"Thanks, @you =)\",-1E5\n10,-7\r\n11,\"x\ny\",-0";
    assert_eq!(safe(plain), plain);
    let continental = "id;n\r\n1;-1.234,50\r\n2;\"-1,5\"\r\n";
    assert_eq!(safe(continental), continental);
    assert_eq!(safe(""), "");
    // Latin-1.
    assert_eq!(whole(b"na\xefve,\xef\n\xefx,-1\n"), b"na\xefve,\xef\n\xefx,-1\n");
}

#[test]
fn a_cell_without_an_end_is_not_held() {
    let mut sheet = Spreadsheet::default();
    sheet.pass(b"a\n-");
    for _ in 0..100 {
        sheet.pass(&[b'1'; 1024]);
        assert!(sheet.held.len() <= LONGEST_NUMBER);
    }
    let mut sheet = Spreadsheet::default();
    let written: usize = (0..100).map(|_| sheet.pass(&[b'x'; 1024]).len()).sum();
    assert_eq!(
        (written, sheet.head.len()),
        (100 << 10, 0),
        "a first line without an end"
    );
}

#[test]
fn the_delimiter_does_not_depend_on_the_pieces() {
    // More semicolons than commas, but only behind what is looked at.
    let text = [
        "a,".repeat(LONGEST_HEAD / 2),
        ";".repeat(LONGEST_HEAD),
        "\n x;  =1, =2\n".to_owned(),
    ]
    .concat();
    let mut sheet = Spreadsheet::default();
    let mut in_pieces: Vec<u8> = text.as_bytes().chunks(7).flat_map(|piece| sheet.pass(piece)).collect();
    in_pieces.extend(sheet.end());
    assert!(in_pieces == whole(text.as_bytes()));
    assert!(in_pieces.ends_with(b"\n x;  =1, '=2\n"));
}

#[test]
fn tables_are_text_with_a_name_that_says_so() {
    for name in ["a.csv", "/data/output/A.CSV", "x.y.tsv"] {
        assert!(is_table(name), "{name}");
    }
    for name in ["csv", "a.csv.gz", "a.xlsx", "a", "a.csv/b", ""] {
        assert!(!is_table(name), "{name}");
    }
    assert!(is_text(b"") && is_text("\u{feff}a,ü\n".as_bytes()) && is_text(b"na\xefve"));
    for other in [
        &b"\xff\xfe=\0"[..],
        b"\xfe\xff\0=",
        b"=\0",
        b"PK\x03\x04\x14\0",
        b"\x89PNG\r\n\x1a\n\0",
    ] {
        assert!(!is_text(other), "{other:?}");
    }
}

/// Whether something behind a byte at which anybody may cut, quotes left out, would be computed.
fn has_formula(text: &str) -> bool {
    text.split([',', ';', '\t', '|', '\r', '\n']).any(|cell| {
        let cell = cell.trim_start_matches(['"', '\u{feff}']);
        let number = cell.trim_end_matches([' ', '"']);
        let is_number = number.parse::<f64>().is_ok() || number.trim_matches(['+', '-']).is_empty();
        cell.starts_with(['=', '@', '＝', '＠', '＋', '－']) || (cell.starts_with(['+', '-']) && !is_number)
    })
}

#[test]
fn whatever_the_text_no_cut_of_it_begins_a_formula() {
    let pieces = [
        "=", "+", "-", "@", "＝", "－", "\u{feff}", "\"", ",", ";", "\t", "|", "\r", "\n", "1", "e", "x", "'",
    ];
    let mut random = 1_u64;
    let mut below = |bound: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).unwrap() % bound
    };
    let mut found = 0;
    for _ in 0..20_000 {
        let text: String = (0..below(14)).map(|_| pieces[below(pieces.len())]).collect();
        let once = safe(&text);
        found += usize::from(has_formula(&text));
        assert!(!has_formula(&once), "{text:?} became {once:?}");
        assert_eq!(safe(&once), once, "a second time finds nothing: {text:?}");
        let mut sheet = Spreadsheet::default();
        let mut bytewise: Vec<u8> = text.bytes().flat_map(|byte| sheet.pass(&[byte])).collect();
        bytewise.extend(sheet.end());
        assert_eq!(bytewise, once.as_bytes(), "cut anywhere: {text:?}");
        let (mut left, mut rest) = (once.chars().filter(|c| *c != '\''), text.chars().filter(|c| *c != '\''));
        assert!(left.by_ref().eq(rest.by_ref()), "nothing else is changed: {text:?}");
    }
    assert!(found > 10_000, "{found} texts had something to find");
}
