//! Parts of listed modules that lead out of them: private parts, and modules that a listed module has imported for itself.
//! They are findings only where a policy lists modules.

use super::super::rule::Rule;
use super::stdlib::{ORDINARY_PARTS, ORDINARY_PATHS, OTHER_MODULES};
use super::tables;
use super::value::Value;
use super::walk::Walker;
use atoll_core::Language;
use ruff_python_ast::Expr;
use ruff_text_size::Ranged;

/// Methods of named tuples: their underscores are no sign of a private part.
const NAMED_TUPLE: [&str; 5] = ["_asdict", "_fields", "_field_defaults", "_make", "_replace"];
/// How far the name at the beginning of `a.b.c` is looked for.
const FAR: usize = 8;

impl Walker<'_, '_, '_> {
    pub(super) fn lists_modules(&self) -> bool {
        self.report.policy.modules.contains_key("python")
    }

    /// What an expression stands for, or a part of a name that only an earlier cell can have bound.
    pub(super) fn leaving(&mut self, expr: &Expr, value: &Value) {
        if !self.lists_modules() {
            return;
        }
        let path = value.paths.iter().find(|path| self.leaves(path)).cloned();
        let shown = path.or_else(|| self.leaves_unknown(expr, value).then(|| self.source(expr).to_owned()));
        if let Some(shown) = shown {
            self.add(Rule::ImportReach, expr, &shown);
        }
    }

    /// The same for a module, or a part of it, that is imported.
    pub(super) fn leaving_import(&mut self, path: &str, node: &impl Ranged) {
        let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
        let mut beginnings = ends.filter_map(|end| path.get(..end));
        if self.lists_modules() && beginnings.any(|beginning| self.leaves(beginning)) {
            self.add(Rule::ImportReach, node, path);
        }
    }

    /// An attribute whose name is a text, a pattern or an argument: what it belongs to is not known.
    pub(super) fn is_leaving_name(&self, name: &str) -> bool {
        self.lists_modules() && (is_private(name) || tables::is_reached(name))
    }

    /// Whether the last part of a path leads out of a listed module. What a call gives is an object, no module.
    fn leaves(&self, path: &str) -> bool {
        let Some((base, part)) = path.rsplit_once('.') else {
            return false;
        };
        let is_other = || is_other_module(path, part) && !self.report.policy.allows_module(Language::Python, part);
        !path.contains("()")
            && (is_private(part) || is_other())
            && self.report.policy.allows_module(Language::Python, base)
    }

    fn leaves_unknown(&self, expr: &Expr, value: &Value) -> bool {
        let Expr::Attribute(attribute) = expr else { return false };
        let name = attribute.attr.as_str();
        value.paths.is_empty()
            && (is_private(name) || tables::is_reached_of_unknown(name))
            && beginning(expr).is_some_and(|root| !self.folder.names.is_bound(root))
    }
}

/// A name that begins with an underscore, other than `__version__` and the like: those have their own rules.
fn is_private(part: &str) -> bool {
    part.starts_with('_') && !tables::is_dunder(part) && !NAMED_TUPLE.contains(&part)
}

fn is_other_module(path: &str, part: &str) -> bool {
    OTHER_MODULES.binary_search(&part).is_ok()
        && !ORDINARY_PARTS.contains(&part)
        && !ORDINARY_PATHS
            .iter()
            .any(|ordinary| path == *ordinary || (ordinary.ends_with('.') && path.starts_with(*ordinary)))
}

/// `a` of `a.b.c`.
fn beginning(expr: &Expr) -> Option<&str> {
    let mut expr = expr;
    for _ in 0..FAR {
        match expr {
            Expr::Attribute(attribute) => expr = &attribute.value,
            Expr::Name(name) => return Some(name.id.as_str()),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_modules_are_sorted_and_ordinary_parts_are_not_taken_for_them() {
        assert!(OTHER_MODULES.is_sorted());
        for path in [
            "scipy.signal",
            "polars.selectors",
            "numpy.linalg.trace",
            "collections.abc",
        ] {
            let (_, part) = path.rsplit_once('.').unwrap();
            assert!(!is_other_module(path, part), "{path}");
        }
        assert!(is_other_module("contextlib.sys", "sys") && is_other_module("matplotlib.inspect", "inspect"));
        assert!(!is_private("__version__") && !is_private("_replace") && is_private("_getcategory"));
    }
}
