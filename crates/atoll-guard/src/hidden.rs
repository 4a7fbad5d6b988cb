//! Characters that a reader does not see, or that turn the order of others. Some of them belong to how people write: then
//! they stand between the characters that need them.

/// What stands before and behind a character.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    pub(crate) before: char,
    pub(crate) behind: &'a str,
}

const BLACK_FLAG: char = '\u{1f3f4}';

pub(crate) fn is_hidden(c: char, around: Around<'_>) -> bool {
    match c {
        // Joiners, between letters of scripts that have them and between the parts of an emoji.
        '\u{200c}' | '\u{200d}' => !(joins(around.before) && around.behind.starts_with(joins)),
        // How a character is drawn, once behind it.
        '\u{fe0e}' | '\u{fe0f}' => !(is_drawn(around.before)),
        // The name of a region behind a flag.
        '\u{e0020}'..='\u{e007f}' => !(around.before == BLACK_FLAG || is_tag(around.before)) || !names_a_region(around),
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}' | '\u{200f}' => true,
        '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' => true,
        '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' => true,
        '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

/// Letters of scripts beyond Latin, marks on them, and pictures.
fn joins(c: char) -> bool {
    c > '\u{2ff}' && !c.is_whitespace() && !('\u{2000}'..='\u{20ff}').contains(&c) && !is_tag(c)
        || matches!(c, '\u{fe0f}')
}

fn is_drawn(c: char) -> bool {
    c.is_ascii_digit()
        || matches!(c, '#' | '*' | '©' | '®')
        || (c > '\u{2000}' && !('\u{fe00}'..='\u{fe0f}').contains(&c) && !is_tag(c))
}

fn is_tag(c: char) -> bool {
    ('\u{e0000}'..='\u{e0fff}').contains(&c)
}

/// A region's name is short, and ends.
fn names_a_region(around: Around<'_>) -> bool {
    const LONGEST: usize = 7;
    let tags = around.behind.chars().take_while(|c| is_tag(*c)).count();
    tags < LONGEST
}
