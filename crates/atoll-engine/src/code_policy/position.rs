//! From a byte of the source to its line and column, both from one.

#[derive(Debug)]
pub(super) struct Lines<'a> {
    source: &'a str,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(source: &'a str) -> Self {
        let ends = source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { source, starts }
    }

    pub(super) fn place(&self, offset: usize) -> (u32, u32) {
        let offset = self.source.floor_char_boundary(offset.min(self.source.len()));
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        // Only so far: a line may be as long as the source, and findings may be many.
        const ENOUGH: usize = 10_000;
        let before = self.source.get(start..offset).unwrap_or_default();
        let column = match before.len() > ENOUGH {
            true => before.len(),
            false => before.chars().count(),
        };
        let short = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        (short(line), short(column + 1))
    }

    /// A line without its end.
    pub(super) fn text(&self, line: u32) -> &'a str {
        let at = (line as usize).saturating_sub(1);
        let start = self.starts.get(at).copied().unwrap_or(self.source.len());
        let end = self.starts.get(at + 1).map_or(self.source.len(), |next| next - 1);
        self.source.get(start..end).unwrap_or_default().trim_end_matches('\r')
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.starts.len()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_in_characters() {
        let lines = Lines::of("aé\nbc\n");
        assert_eq!(lines.place(0), (1, 1));
        assert_eq!(lines.place(3), (1, 3));
        assert_eq!(lines.place(4), (2, 1));
        assert_eq!(lines.place(99), (3, 1));
        assert_eq!(
            (lines.text(1), lines.text(2), lines.text(3), lines.text(9)),
            ("aé", "bc", "", "")
        );
    }
}
