//! Where in a cell we are, as RFC 4180 reads the file with its own delimiter.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cell {
    /// Before its first byte.
    #[default]
    Start,
    /// `blank`: nothing but spaces so far.
    Plain { blank: bool },
    /// Behind a quote that began it.
    Quoted { blank: bool },
    /// Behind a quote that ends it, or is the first of two.
    QuoteInside,
}

impl Cell {
    /// Whether the next byte is the first that counts.
    pub(super) fn is_blank(self) -> bool {
        matches!(
            self,
            Self::Start | Self::Plain { blank: true } | Self::Quoted { blank: true }
        )
    }

    pub(super) fn ends_at(self, byte: u8, delimiter: Option<u8>) -> bool {
        let ends = byte == b'\n' || byte == b'\r' || Some(byte) == delimiter;
        ends && !matches!(self, Self::Quoted { .. })
    }

    pub(super) fn after(self, byte: u8, delimiter: Option<u8>) -> Self {
        let is_space = byte == b' ';
        match self {
            ended if ended.ends_at(byte, delimiter) => Self::Start,
            Self::Start if byte == b'"' => Self::Quoted { blank: true },
            Self::Start => Self::Plain { blank: is_space },
            // Behind a space a quote is a letter.
            Self::Plain { blank } => Self::Plain {
                blank: blank && is_space,
            },
            Self::Quoted { .. } if byte == b'"' => Self::QuoteInside,
            Self::Quoted { blank } => Self::Quoted {
                blank: blank && is_space,
            },
            Self::QuoteInside if byte == b'"' => Self::Quoted { blank: false },
            Self::QuoteInside => Self::Plain { blank: false },
        }
    }
}
