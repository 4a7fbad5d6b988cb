//! What begins with a sign and is a number all the same, or nothing but signs.

/// Whether a spreadsheet has nothing to compute in a cell: `-1.5`, `+4e-10`, `-12 %`, `+49 170 1234`, `-1,234.50`, `-`, `--`.
/// `None` if that depends on what follows.
pub(super) fn is_harmless(cell: &[u8], is_whole: bool) -> Option<bool> {
    if !cell.iter().all(may_have) {
        return Some(false);
    }
    is_whole.then(|| is_signs_or_number(cell))
}

/// Bytes of numbers, and quotes, which may end one.
fn may_have(byte: &u8) -> bool {
    byte.is_ascii_digit() || b".,%eE+- \"".contains(byte)
}

fn is_signs_or_number(cell: &[u8]) -> bool {
    let text = cell.trim_ascii_end();
    let quotes = text.iter().rev().take_while(|byte| **byte == b'"').count();
    let text = text.get(..text.len() - quotes).unwrap_or_default().trim_ascii_end();
    let signs = text.iter().take_while(|byte| b"+-".contains(byte)).count();
    let rest = text.get(signs..).unwrap_or_default().trim_ascii_start();
    rest.is_empty() || (signs == 1 && is_number(rest))
}

/// Digits with points, commas and spaces between them, an exponent, a percent sign.
fn is_number(text: &[u8]) -> bool {
    let text = text.strip_suffix(b"%").unwrap_or(text).trim_ascii_end();
    let mut parts = text.splitn(2, |byte| byte.eq_ignore_ascii_case(&b'e'));
    let mantissa = parts.next().unwrap_or_default();
    let is_fine = |byte: &u8| byte.is_ascii_digit() || b"., ".contains(byte);
    mantissa.iter().all(is_fine) && mantissa.iter().any(u8::is_ascii_digit) && parts.next().is_none_or(is_exponent)
}

fn is_exponent(text: &[u8]) -> bool {
    let digits = match text {
        [b'+' | b'-', digits @ ..] => digits,
        digits => digits,
    };
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}
