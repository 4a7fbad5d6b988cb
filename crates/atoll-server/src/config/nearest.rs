//! The known word that is nearest to a mistyped one.

/// The nearest of `known`, if it is near enough to be meant.
pub(super) fn nearest<'a>(asked: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = (asked.len() / 3).max(2);
    let best = known.map(|word| (distance(asked, word), word)).min();
    best.filter(|(distance, _)| *distance <= far).map(|(_, word)| word)
}

/// How many letters must be put in, left out, changed or swapped with their neighbour to make one word of the other.
pub(super) fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = match (i, j) {
                (0, n) | (n, 0) => n,
                _ => {
                    let changed = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let moved = table[i - 1][j].min(table[i][j - 1]) + 1;
                    let swaps = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    let swapped = if swaps { table[i - 2][j - 2] + 1 } else { usize::MAX };
                    changed.min(moved).min(swapped)
                }
            };
        }
    }
    table[a.len()][b.len()]
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
