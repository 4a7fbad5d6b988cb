//! What names stand for: bound by `const`, `import` and `require`, followed through members.

use super::super::tree::{self, text};
use super::Script;
use tree_sitter::Node;

impl Script<'_, '_, '_> {
    pub(super) fn bind(&mut self, node: Node<'_>) {
        match node.kind() {
            "import_statement" => self.bind_import(node),
            "variable_declarator" => {
                let (Some(name), Some(value)) = (node.child_by_field_name("name"), node.child_by_field_name("value"))
                else {
                    return;
                };
                if let Some(path) = self.path(value) {
                    self.bind_pattern(name, &path);
                }
            }
            "assignment_expression" => {
                let (Some(name), Some(value)) = (node.child_by_field_name("left"), node.child_by_field_name("right"))
                else {
                    return;
                };
                if let Some(path) = self.path(value).filter(|_| name.kind() == "identifier") {
                    self.bind_pattern(name, &path);
                }
            }
            _ => {}
        }
    }

    fn bind_import(&mut self, node: Node<'_>) {
        let Some(module) = node.child_by_field_name("source").and_then(|source| self.fold(source)) else {
            return;
        };
        let module = bare(&module.0).to_owned();
        let mut found = Vec::new();
        tree::any_below(
            node,
            |part| {
                match part.kind() {
                    "import_specifier" => {
                        let name = part.child_by_field_name("name");
                        let alias = part.child_by_field_name("alias").or(name);
                        if let (Some(name), Some(alias)) = (name, alias) {
                            found.push((
                                text(alias, self.source).to_owned(),
                                format!("{module}.{}", text(name, self.source)),
                            ));
                        }
                    }
                    "identifier"
                        if part
                            .parent()
                            .is_some_and(|parent| ["import_clause", "namespace_import"].contains(&parent.kind())) =>
                    {
                        found.push((text(part, self.source).to_owned(), module.clone()));
                    }
                    _ => {}
                }
                false
            },
            |_| true,
        );
        self.names.extend(found);
    }

    fn bind_pattern(&mut self, pattern: Node<'_>, path: &str) {
        let source = self.source;
        match pattern.kind() {
            "identifier" => drop(self.names.insert(text(pattern, source).to_owned(), path.to_owned())),
            "object_pattern" => {
                let mut cursor = pattern.walk();
                for part in pattern.named_children(&mut cursor) {
                    let (key, name) = match part.kind() {
                        "pair_pattern" => (part.child_by_field_name("key"), part.child_by_field_name("value")),
                        _ => (Some(part), Some(part)),
                    };
                    if let (Some(key), Some(name)) = (key, name) {
                        self.names
                            .insert(text(name, source).to_owned(), format!("{path}.{}", text(key, source)));
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn path_of(&mut self, node: Node<'_>) -> Option<String> {
        match node.kind() {
            "identifier" => {
                let name = text(node, self.source);
                Some(self.names.get(name).cloned().unwrap_or_else(|| name.to_owned()))
            }
            "member_expression" => {
                let base = self.path(node.child_by_field_name("object")?)?;
                Some(joined(&base, text(node.child_by_field_name("property")?, self.source)))
            }
            "subscript_expression" => {
                let base = self.path(node.child_by_field_name("object")?)?;
                let (key, _) = self.fold(node.child_by_field_name("index")?)?;
                Some(joined(&base, &key))
            }
            "call_expression" => {
                let function = node.child_by_field_name("function")?;
                let argument = node.child_by_field_name("arguments")?.named_child(0);
                let is_import = function.kind() == "import"
                    || self
                        .path(function)
                        .is_some_and(|path| path == "require" || path.ends_with(".require"));
                match is_import {
                    true => Some(bare(&self.fold(argument?)?.0).to_owned()),
                    false => None,
                }
            }
            "await_expression" | "parenthesized_expression" | "non_null_expression" | "as_expression" => {
                self.path(node.named_child(0)?)
            }
            _ => None,
        }
    }
}

/// A module without `node:` and without `/promises` and the like.
pub(super) fn bare(module: &str) -> &str {
    module.strip_prefix("node:").unwrap_or(module)
}

/// A path with one more name; bounded, as chains may be long.
fn joined(base: &str, name: &str) -> String {
    match base.len() + name.len() < 200 {
        true => format!("{base}.{name}"),
        false => base.to_owned(),
    }
}
