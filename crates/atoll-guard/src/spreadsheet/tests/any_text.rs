//! Texts of the bytes that matter, in any order, against two other readings.

use super::{super::*, safe};

/// Whether something behind a byte at which anybody may cut, quotes left out, would be computed.
fn has_formula(text: &str) -> bool {
    text.split([',', ';', '\t', '|', '\r', '\n'])
        .any(|cell| is_formula(cell.trim_start_matches(['"', '\u{feff}'])))
}

fn is_formula(cell: &str) -> bool {
    let number = cell.trim_end_matches([' ', '"']).replace([',', ' '], "");
    let is_number = number.parse::<f64>().is_ok() || number.trim_matches(['+', '-']).is_empty();
    cell.starts_with(['=', '@', '＝', '＠', '＋', '－']) || (cell.starts_with(['+', '-']) && !is_number)
}

/// Whether a whole cell would be computed, as RFC 4180 cuts them with any delimiter.
fn has_formula_cell(text: &str) -> bool {
    let first = text.split('\n').next().unwrap_or_default();
    let count = |delimiter: &char| first.matches(*delimiter).count();
    let own = [',', ';', '\t', '|'].into_iter().rev().max_by_key(count).unwrap();
    [',', ';', '\t', '|'].into_iter().any(|delimiter| {
        let is_bad = |cell: &String| {
            let cell = cell.trim_start_matches(|c: char| c <= ' ');
            let is_sum = cell.starts_with(['+', '-']) && delimiter != own;
            if is_sum {
                is_sum_with_name(cell)
            } else {
                is_formula(cell)
            }
        };
        cells(text, delimiter).iter().any(is_bad)
    })
}

/// The values of the cells. The mark at the beginning of a file belongs to none.
fn cells(text: &str, delimiter: char) -> Vec<String> {
    let (mut cells, mut cell, mut is_start, mut is_quoted) = (Vec::new(), String::new(), true, false);
    let text = text.replace('\u{feff}', "");
    let mut left = text.chars().peekable();
    while let Some(c) = left.next() {
        let was_start = std::mem::take(&mut is_start);
        if is_quoted {
            match c {
                '"' if left.next_if_eq(&'"').is_none() => is_quoted = false,
                _ => cell.push(c),
            }
        } else if c == '"' && was_start {
            is_quoted = true;
        } else if c == delimiter || c == '\r' || c == '\n' {
            cells.push(std::mem::take(&mut cell));
            is_start = true;
        } else {
            cell.push(c);
        }
    }
    cells.push(cell);
    cells
}

/// Signs and numbers with operators between them, then an operator with something else behind it.
fn is_sum_with_name(cell: &str) -> bool {
    let is_blank = |c: char| c <= ' ';
    let operand = cell.trim_start_matches(|c| is_blank(c) || c == '+' || c == '-');
    let longest = operand.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
    let is_number = |text: &str| !text.contains(['+', '-']) && text.replacen(',', ".", 1).parse::<f64>().is_ok();
    let length = longest.into_iter().find(|length| is_number(&operand[..*length]));
    match length {
        None => operand.starts_with(char::is_alphabetic),
        Some(length) => {
            let rest = operand[length..].trim_start_matches(is_blank);
            let next = rest.strip_prefix(['+', '-', '*', '|']);
            next.is_some_and(|next| is_sum_with_name(&format!("-{next}")))
        }
    }
}

#[test]
fn the_readings_find_formulas() {
    for bad in [
        "\"+\nx|y\"",
        "+\tx,",
        "\"-1\n*x\"",
        "\"-1,x\"",
        "x,-1|x",
        "-1,1*x",
        "a,b\n-1\t-1\t*x",
    ] {
        assert!(has_formula_cell(bad), "{bad:?}");
    }
    for fine in ["-1,x", "\"-1,1\",x", "-1", "-", "-1\tx,y\tz", "'-x", "x-1"] {
        assert!(!has_formula_cell(fine), "{fine:?}");
    }
}

#[test]
fn whatever_the_text_no_cut_of_it_begins_a_formula() {
    let pieces = [
        "=", "+", "-", "-1", "@", "＝", "－", "\u{feff}", "\"", "\"", ",", ";", "\t", "|", "\r", "\n", "1", "e", "x",
        "'", "*", " ",
    ];
    let mut random = 1_u64;
    let mut below = |bound: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).unwrap() % bound
    };
    let (mut found, mut found_in_cells_only) = (0, 0);
    for _ in 0..20_000 {
        let text: String = (0..below(16)).map(|_| pieces[below(pieces.len())]).collect();
        let once = safe(&text);
        found += usize::from(has_formula(&text));
        found_in_cells_only += usize::from(!has_formula(&text) && has_formula_cell(&text));
        assert!(!has_formula(&once), "{text:?} became {once:?}");
        assert!(!has_formula_cell(&once), "{text:?} became {once:?}");
        assert_eq!(safe(&once), once, "a second time finds nothing: {text:?}");
        let mut sheet = Spreadsheet::default();
        let mut bytewise: Vec<u8> = text.bytes().flat_map(|byte| sheet.pass(&[byte])).collect();
        bytewise.extend(sheet.end());
        assert_eq!(bytewise, once.as_bytes(), "cut anywhere: {text:?}");
        let (mut left, mut rest) = (once.chars().filter(|c| *c != '\''), text.chars().filter(|c| *c != '\''));
        assert!(left.by_ref().eq(rest.by_ref()), "nothing else is changed: {text:?}");
    }
    assert!(found > 10_000, "{found} texts had something to find");
    assert!(
        found_in_cells_only > 500,
        "{found_in_cells_only} had it in whole cells only"
    );
}
