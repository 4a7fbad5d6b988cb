//! Why the component could not be built, and what a user can do about it.

use super::ready_made::{self, ReadyMadeError};
use crate::template::{InstallError, RoomError, SearchError, ToolError, TreeError, WorkspaceError};
use atoll_wasm::component::ComponentError;

#[derive(Debug, thiserror::Error)]
pub enum ComponentBuildError {
    #[error("{}", both_ways(.reason))]
    NoSource { reason: String },
    #[error("cannot use the ready-made files of Python for tier `wasm`")]
    ReadyMade {
        #[from]
        source: ReadyMadeError,
    },
    #[error("cannot install `componentize-py`")]
    Install {
        #[source]
        source: InstallError,
    },
    #[error("cannot write the input of `componentize-py`")]
    WriteApp {
        #[source]
        source: std::io::Error,
    },
    #[error("cannot build Python for tier `wasm`")]
    Componentize {
        #[source]
        source: ToolError,
    },
    #[error("cannot compile Python for tier `wasm`")]
    Compile {
        #[source]
        source: ToolError,
    },
    #[error("cannot make the standard library readable in sandboxes")]
    Open {
        #[from]
        source: TreeError,
    },
    #[error("cannot store Python for tier `wasm`")]
    Store {
        #[from]
        source: WorkspaceError,
    },
    #[error("cannot build Python for tier `wasm`")]
    Room {
        #[from]
        source: RoomError,
    },
    #[error(transparent)]
    Component(#[from] ComponentError),
    #[error("the build of Python for tier `wasm` was interrupted; its partial files were removed")]
    Stopped,
    #[error("Python for tier `wasm` was built but cannot be opened; it may have been removed meanwhile")]
    Vanished,
}

impl ComponentBuildError {
    /// No Python, no installer, or no index: the ready-made files are the other way.
    pub(super) fn of_search(error: &SearchError) -> Self {
        Self::NoSource {
            reason: atoll_jail::chain(error),
        }
    }

    pub(super) fn of_install(source: InstallError) -> Self {
        match source {
            InstallError::NoInstaller => Self::NoSource {
                reason: source.to_string(),
            },
            InstallError::Install { source: tool } if let Some(reason) = tool.missing_index() => Self::NoSource {
                reason: reason.to_owned(),
            },
            source => Self::Install { source },
        }
    }

    /// What the user can do about it, if that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Install { source } => source.hint(),
            Self::Componentize { source } | Self::Compile { source } => ToolError::hint(source),
            Self::Room { source } => source.hint(),
            Self::ReadyMade { .. } => Some("install the files of this version of Atoll again"),
            Self::NoSource { .. }
            | Self::WriteApp { .. }
            | Self::Open { .. }
            | Self::Store { .. }
            | Self::Component(_)
            | Self::Stopped
            | Self::Vanished => None,
        }
    }
}

fn both_ways(reason: &str) -> String {
    format!(
        "cannot build Python for tier `wasm` ({reason}): connect this host to a package index (`PIP_INDEX_URL` selects a \
         mirror), or install the ready-made files of `cargo xtask dist` in `{}` beside the directory of the `atoll` binary",
        ready_made::PLACE
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentence_names_the_index_and_the_ready_made_files() {
        let text = ComponentBuildError::of_install(InstallError::NoInstaller).to_string();
        for word in ["pip", "PIP_INDEX_URL", "cargo xtask dist", "share/atoll/wasm"] {
            assert!(text.contains(word), "{text}");
        }
        assert!(!text.contains('\n') && !text.contains(". "), "{text}");
    }
}
