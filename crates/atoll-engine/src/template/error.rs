//! What can go wrong with a template, and what a user can do about it.

use super::add::AddError;
use super::build::BuildError;
use super::image::ImageError;
use super::kernel::KernelError;
use super::manifest::ManifestError;
use super::recipe::RecipeError;
use super::room::RoomError;
use super::search::SearchError;
use super::workspace::WorkspaceError;

#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error(transparent)]
    Recipe { source: RecipeError },
    #[error("cannot find a Python interpreter for template `{name}`")]
    Search {
        name: String,
        #[source]
        source: SearchError,
    },
    #[error("cannot build template `{name}`")]
    Build {
        name: String,
        #[source]
        source: BuildError,
    },
    #[error("cannot build template `{name}` from the image")]
    Image {
        name: String,
        #[source]
        source: Box<ImageError>,
    },
    #[error("cannot create template `{name}`")]
    Add {
        name: String,
        #[source]
        source: Box<AddError>,
    },
    #[error("template `{name}`, built from {source_name}, was built by another version of Atoll and must be rebuilt")]
    OldImage { name: String, source_name: String },
    #[error("cannot store template `{name}`")]
    Store {
        name: String,
        #[source]
        source: WorkspaceError,
    },
    #[error("cannot refresh template `{name}`")]
    Refresh {
        name: String,
        #[source]
        source: ManifestError,
    },
    #[error("cannot prepare the interpreter support files for template `{name}`")]
    Kernel {
        name: String,
        #[source]
        source: KernelError,
    },
    #[error("template `{name}` is being built by another process")]
    Busy { name: String },
    #[error("template `{name}` is in use by a running Atoll process")]
    InUse { name: String },
    #[error("cannot build template `{name}`")]
    Room {
        name: String,
        #[source]
        source: RoomError,
    },
    #[error("the build of template `{name}` was interrupted; its partial files were removed")]
    Stopped { name: String },
    #[error("template `{name}` was built but cannot be opened; it may have been removed meanwhile")]
    Vanished { name: String },
    #[error("cannot list the templates")]
    List {
        #[source]
        source: std::io::Error,
    },
}

impl TemplateError {
    /// Whether the machine lacks something that a template needs: a Python, an installer, room, a library of a package.
    pub fn is_of_the_host(&self) -> bool {
        match self {
            TemplateError::Search { .. } | TemplateError::Room { .. } => true,
            TemplateError::Build { source, .. } => source.is_of_the_host(),
            TemplateError::Image { source, .. } => source.is_of_the_host(),
            TemplateError::Add { source, .. } => {
                matches!(**source, AddError::Resolve { .. }) && !source.is_of_the_request()
            }
            _ => false,
        }
    }

    /// Whether what was asked for is wrong: no such template, an image that cannot be used, or packages that the package
    /// index does not have or that conflict.
    pub fn is_of_the_request(&self) -> bool {
        match self {
            TemplateError::Recipe { .. } => true,
            TemplateError::Image { source, .. } => source.is_of_the_image(),
            TemplateError::Add { source, .. } => source.is_of_the_request(),
            _ => false,
        }
    }

    /// What the user can do about it, if that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            TemplateError::Search { source, .. } => Some(source.hint()),
            TemplateError::Build { source, .. } => source.hint(),
            TemplateError::Room { source, .. } => source.hint(),
            TemplateError::Image { source, .. } => source.hint(),
            TemplateError::Add { source, .. } => source.hint(),
            TemplateError::OldImage { .. } => Some("rebuild it: atoll template build NAME --from SOURCE"),
            TemplateError::Busy { .. } => Some("wait for that build to finish, then retry"),
            TemplateError::InUse { .. } => Some("stop that process, then retry"),
            TemplateError::Recipe { .. }
            | TemplateError::Store { .. }
            | TemplateError::Refresh { .. }
            | TemplateError::Kernel { .. }
            | TemplateError::Stopped { .. }
            | TemplateError::Vanished { .. }
            | TemplateError::List { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::install::InstallError;
    use super::super::patience::Patience;
    use super::super::tool;
    use super::*;
    use std::process::Command;

    #[test]
    fn hints_come_through_from_below() {
        let source = SearchError::None {
            range: ">=3.10".into(),
            found: "none".into(),
        };
        let error = TemplateError::Search {
            name: "x".into(),
            source,
        };
        assert!(
            error
                .hint()
                .is_some_and(|hint| hint.contains("apt-get install python3"))
        );
        assert_eq!(TemplateError::Vanished { name: "x".into() }.hint(), None);
    }

    #[test]
    fn packages_that_the_index_does_not_have_or_that_conflict_are_a_wrong_request() {
        for (output, is_of_the_request) in [
            ("ERROR: No matching distribution found for x", true),
            ("ERROR: ResolutionImpossible", true),
            ("Network is unreachable", false),
            ("No space left on device", false),
        ] {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "echo \"$0\"; exit 1", output]);
            let source = tool::run(command, &Patience::default(), &mut |_: &str| {}).unwrap_err();
            let source = InstallError::Install { source };
            let error = TemplateError::Add {
                name: "x".into(),
                source: Box::new(AddError::Resolve { source }),
            };
            let causes = (error.is_of_the_request(), error.is_of_the_host());
            assert_eq!(causes, (is_of_the_request, !is_of_the_request), "{output}");
            assert!(error.hint().is_some(), "{output}");
        }
    }

    #[test]
    fn a_chain_says_each_thing_once() {
        let source = RecipeError::Unknown {
            name: "y".into(),
            known: "a, b".into(),
        };
        let text = atoll_jail::chain(&TemplateError::Recipe { source });
        assert_eq!(text, "unknown template `y`; known templates: a, b");
    }
}
