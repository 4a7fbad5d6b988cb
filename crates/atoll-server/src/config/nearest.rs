//! The known word that is nearest to a mistyped one.

/// The nearest of `known`, if it is near enough to be meant.
pub(super) fn nearest<'a>(asked: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = (asked.len() / 3).max(2);
    let best = known.map(|word| (distance(asked, word), word)).min();
    best.filter(|(distance, _)| *distance <= far).map(|(_, word)| word)
}

/// How many letters must be put in, left out or changed to make one word of the other.
pub(super) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_nonsense_finds_none() {
        let known = ["listen", "pool.min", "pool.max"];
        assert_eq!(nearest("lisen", known.into_iter()), Some("listen"));
        assert_eq!(nearest("pool.mni", known.into_iter()), Some("pool.min"));
        assert_eq!(nearest("colour", known.into_iter()), None);
        assert_eq!((distance("", "abc"), distance("kitten", "sitting")), (3, 3));
    }
}
