//! The closed choices a request can make: language, tier, profile. Unknown words are refused with the list.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} `{asked}`; expected one of: {known}")]
pub struct UnknownChoice {
    pub kind: &'static str,
    pub asked: String,
    pub known: String,
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $kind:literal, { $($variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($variant),+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = UnknownChoice;

            fn from_str(asked: &str) -> Result<Self, UnknownChoice> {
                Self::ALL.iter().copied().find(|one| one.as_str() == asked).ok_or_else(|| UnknownChoice {
                    kind: $kind,
                    asked: asked.to_owned(),
                    known: Self::ALL.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}
pub(crate) use choice;

choice!(
    /// What a context speaks.
    Language, "language",
    { Python = "python", Javascript = "javascript", Typescript = "typescript", Bash = "bash", R = "r" }
);

impl Language {
    /// Those that there are. The others are planned.
    pub const THERE: &'static [Self] = &[Self::Python, Self::Javascript, Self::Typescript, Self::Bash];

    /// As people write it: its name, or a short one.
    pub fn read(asked: &str) -> Result<Self, UnknownChoice> {
        match asked.to_ascii_lowercase().as_str() {
            "py" | "python3" => Ok(Self::Python),
            "js" | "node" => Ok(Self::Javascript),
            "ts" => Ok(Self::Typescript),
            "sh" | "shell" => Ok(Self::Bash),
            name => name.parse().map_err(|_| UnknownChoice {
                kind: "language",
                asked: asked.to_owned(),
                known: Self::THERE
                    .iter()
                    .map(|one| one.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
        }
    }
}

choice!(
    /// Which wall surrounds a sandbox. `Auto` is a wish, never the tier of a running sandbox.
    Tier, "tier",
    { Auto = "auto", Wasm = "wasm", Jail = "jail", Container = "container", Gvisor = "gvisor", Microvm = "microvm" }
);

impl Default for Tier {
    /// The usual one.
    fn default() -> Self {
        Self::Jail
    }
}

choice!(
    /// A named set of limits.
    ProfileName, "profile",
    { Small = "small", Data = "data" }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_refused_with_the_list() {
        let refused = "tiny".parse::<ProfileName>().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "unknown profile `tiny`; expected one of: small, data"
        );
    }

    #[test]
    fn languages_have_short_names_and_what_is_planned_is_not_listed() {
        let read = ["py", "JS", "ts", "sh", "Python", "typescript", "r"].map(|word| Language::read(word).unwrap());
        let names = read.map(Language::as_str);
        assert_eq!(
            names,
            [
                "python",
                "javascript",
                "typescript",
                "bash",
                "python",
                "typescript",
                "r"
            ]
        );
        assert_eq!(
            Language::read("Perl").unwrap_err().to_string(),
            "unknown language `Perl`; expected one of: python, javascript, typescript, bash"
        );
    }

    #[test]
    fn serde_words_equal_spoken_words() {
        for tier in Tier::ALL {
            assert_eq!(serde_json::to_string(tier).unwrap(), format!("\"{tier}\""));
        }
    }
}
