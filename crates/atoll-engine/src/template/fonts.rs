//! The list of fonts that matplotlib would otherwise make in every new home, which takes seconds.
//!
//! It is made once at the build, with the paths that fonts have inside, and linked into each home.

use super::INSIDE;
use super::tool::{self, ToolError};
use super::venv::Layout;
use super::workspace::Workspace;
use fs_err as fs;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Below the home and below `skel`.
const CACHE: &str = ".cache/matplotlib";

const SCRIPT: &str = "
import site, sys
site.addsitedir(sys.argv[1])
import matplotlib.font_manager
";

#[derive(Debug, thiserror::Error)]
pub enum FontsError {
    #[error("cannot generate the font list")]
    Make {
        #[source]
        source: ToolError,
    },
    #[error("matplotlib did not write a font list")]
    Missing,
    #[error("cannot move the font list")]
    Move {
        #[source]
        source: std::io::Error,
    },
    #[error("the font list has an unknown format")]
    Unknown {
        #[source]
        source: Option<serde_json::Error>,
    },
    #[error("the recipe lists a font that no installed package contains: `{path}`")]
    NoFont { path: PathBuf },
}

/// The paths inside of the recipe's own fonts.
pub(super) fn inside(layout: &Layout, fonts: &[String]) -> Result<Vec<String>, FontsError> {
    let packages = layout.site_packages();
    let place = |font: &String| {
        let path = packages.join(font);
        if !path.is_file() {
            return Err(FontsError::NoFont { path });
        }
        Ok(moved(&path.display().to_string(), &layout.tree).unwrap_or_default())
    };
    fonts.iter().map(place).collect()
}

/// Makes the list, if there is a matplotlib, and says which link a home needs.
pub(super) fn make_list(workspace: &Workspace, layout: &Layout) -> Result<Vec<(String, String)>, FontsError> {
    if !layout.site_packages().join("matplotlib/font_manager.py").is_file() {
        return Ok(Vec::new());
    }
    let cache = workspace.scratch().join("fonts");
    let mut command = layout.python(workspace.scratch());
    command
        .args(["-c", SCRIPT])
        .arg(layout.site_packages())
        .env("MPLCONFIGDIR", &cache);
    workspace.hold(&mut command);
    tool::run(command, workspace.patience(), &mut |_: &str| {}).map_err(|source| FontsError::Make { source })?;
    let made = find(&cache)?;
    let name = made.file_name().unwrap_or_default().to_string_lossy().into_owned();
    place(&made, &layout.tree, &name).map_err(|error| match error {
        PlaceError::Io(source) => FontsError::Move { source },
        PlaceError::Json(source) => FontsError::Unknown { source },
    })?;
    Ok(vec![(
        format!("{CACHE}/{name}"),
        format!("{INSIDE}/skel/{CACHE}/{name}"),
    )])
}

fn find(cache: &Path) -> Result<PathBuf, FontsError> {
    let entries = fs::read_dir(cache).map_err(|source| FontsError::Move { source })?;
    let is_list = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("fontlist-") && name.ends_with(".json")
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(is_list)
        .ok_or(FontsError::Missing)
}

enum PlaceError {
    Io(std::io::Error),
    Json(Option<serde_json::Error>),
}

fn place(made: &Path, tree: &Path, name: &str) -> Result<(), PlaceError> {
    let text = fs::read_to_string(made).map_err(PlaceError::Io)?;
    let mut list: Value = serde_json::from_str(&text).map_err(|error| PlaceError::Json(Some(error)))?;
    if !rewrite(&mut list, tree) {
        return Err(PlaceError::Json(None));
    }
    let to = tree.join("skel").join(CACHE);
    fs::create_dir_all(&to).map_err(PlaceError::Io)?;
    fs::write(to.join(name), list.to_string()).map_err(PlaceError::Io)
}

/// Gives every font its path inside, and drops fonts that are not visible there. False if there are no fonts.
fn rewrite(list: &mut Value, tree: &Path) -> bool {
    let mut kept = 0;
    for key in ["ttflist", "afmlist"] {
        let Some(fonts) = list.get_mut(key).and_then(Value::as_array_mut) else {
            return false;
        };
        fonts.retain_mut(|font| {
            let path = font
                .get("fname")
                .and_then(Value::as_str)
                .and_then(|path| moved(path, tree));
            match (path, font.get_mut("fname")) {
                (Some(path), Some(field)) => *field = Value::String(path),
                (_, _) => return false,
            }
            true
        });
        fonts.sort_by_key(place_in_list);
        kept += fonts.len();
    }
    kept > 0
}

/// The list is in no order, but of two equal fonts the first is taken: matplotlib's own before those of the host.
fn place_in_list(font: &Value) -> (bool, String, String) {
    let path = font.get("fname").and_then(Value::as_str).unwrap_or_default();
    (path.starts_with('/'), path.to_owned(), font.to_string())
}

/// matplotlib names its own fonts by paths below its data; those stay.
fn moved(path: &str, tree: &Path) -> Option<String> {
    if let Ok(below) = Path::new(path).strip_prefix(tree) {
        return Some(format!("{INSIDE}/{}", below.display()));
    }
    (!path.starts_with('/') || path.starts_with("/usr/")).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::python::tests::paper;
    use super::super::workspace::tests::workspace;
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_become_those_of_the_inside_and_others_go() {
        let mut list = json!({
            "ttflist": [
                {"fname": "/t/tree/venv/f.otf"},
                {"fname": "/usr/share/fonts/a.ttf"},
                {"fname": "fonts/ttf/DejaVuSans.ttf"},
                {"fname": "/home/someone/.fonts/b.ttf"},
            ],
            "afmlist": [],
        });
        assert!(rewrite(&mut list, Path::new("/t/tree")));
        let names: Vec<&str> = list["ttflist"]
            .as_array()
            .unwrap()
            .iter()
            .map(|font| font["fname"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "fonts/ttf/DejaVuSans.ttf",
                "/opt/atoll/venv/f.otf",
                "/usr/share/fonts/a.ttf"
            ]
        );
    }

    #[test]
    fn another_kind_of_list_is_refused() {
        assert!(!rewrite(&mut json!({"fonts": []}), Path::new("/t")));
        assert!(!rewrite(&mut json!({"ttflist": [], "afmlist": []}), Path::new("/t")));
    }

    #[test]
    fn fonts_of_the_recipe_must_be_there() {
        let (_home, workspace) = workspace("x");
        let layout = Layout::new(&workspace.tree(), &paper("3.12.1", "/usr"));
        layout.lay_out().unwrap();
        fs::write(layout.site_packages().join("f.otf"), "").unwrap();
        let paths = inside(&layout, &["f.otf".to_owned()]).unwrap();
        assert_eq!(paths, ["/opt/atoll/venv/lib/python3.12/site-packages/f.otf"]);
        assert!(matches!(
            inside(&layout, &["g.otf".to_owned()]),
            Err(FontsError::NoFont { .. })
        ));
        assert!(make_list(&workspace, &layout).unwrap().is_empty());
    }
}
