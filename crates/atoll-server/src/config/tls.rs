//! Settings of HTTPS: a CA of the server's own, or files of the operator.

use super::ConfigError;
use std::str::FromStr;

/// All `None`: plain HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    pub mode: Option<TlsMode>,
    pub cert: Option<String>,
    pub key: Option<String>,
}

impl TlsSettings {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let why = match (self.mode, &self.cert, &self.key) {
            (Some(TlsMode::Local), Some(_), _) | (Some(TlsMode::Local), _, Some(_)) => {
                "tls.mode is `local`, which creates a certificate; remove tls.cert and tls.key, or tls.mode"
            }
            (None, Some(_), None) => "tls.cert requires tls.key",
            (None, None, Some(_)) => "tls.key requires tls.cert",
            (Some(TlsMode::Local), None, None) | (None, None, None) | (None, Some(_), Some(_)) => return Ok(()),
        };
        Err(ConfigError::Together(why.to_owned()))
    }
}

/// How the server gets its certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// From a CA in the data directory.
    Local,
}

impl std::fmt::Display for TlsMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
        }
    }
}

impl FromStr for TlsMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "local" => Ok(Self::Local),
            other => Err(format!("expected one of: none, local; found `{other}`")),
        }
    }
}
