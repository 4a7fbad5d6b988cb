//! JavaScript and TypeScript: a tree by `tree-sitter`. Names are followed through `const`, `import` and `require`.

mod fold;
mod names;
mod tables;

use super::report::Report;
use super::rule::Rule;
use super::text::is_lookalike;
use super::tree::{self, text};
use atoll_core::Language;
use names::bare;
use std::collections::HashMap;
use tables::{CLIMBING, GLOBALS, MODULES, RISKY, WRITERS};
use tree_sitter::Node;

#[derive(Debug)]
struct Script<'s, 'w, 'r> {
    source: &'s str,
    report: &'w mut Report<'r>,
    /// What names stand for: `child_process`, `child_process.exec`.
    names: HashMap<String, String>,
    budget: usize,
    /// How deep an expression is being followed.
    depth: usize,
}

/// Longer chains and sums stand for nothing.
const DEEPEST: usize = 200;

pub(super) fn review(source: &str, language: Language, report: &mut Report<'_>) {
    let grammar = match language {
        Language::Typescript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
        _ => tree_sitter_javascript::LANGUAGE.into(),
    };
    let Some(tree) = tree::parse(source, &grammar) else {
        report.add(Rule::SourceTooDeep, 0, "parser limit exceeded");
        return;
    };
    if tree.root_node().has_error() {
        let mut first = None;
        tree::each(&tree, |node| {
            first = first.or((node.is_error() || node.is_missing()).then(|| node.start_byte()))
        });
        report.add(Rule::SourceUnreadable, first.unwrap_or(0), "syntax error");
    }
    let mut script = Script {
        source,
        report,
        names: HashMap::new(),
        budget: 200_000,
        depth: 0,
    };
    tree::each(&tree, |node| script.bind(node));
    tree::each(&tree, |node| script.look(node));
}

impl<'s> Script<'s, '_, '_> {
    /// The dotted name that an expression stands for.
    fn path(&mut self, node: Node<'_>) -> Option<String> {
        self.follow(node, Self::path_of)
    }

    /// A text that can be told, and whether it was put together.
    fn fold(&mut self, node: Node<'_>) -> Option<(String, bool)> {
        self.follow(node, Self::text_of)
    }

    /// Bounded in depth and in all.
    fn follow<T>(&mut self, node: Node<'_>, work: fn(&mut Self, Node<'_>) -> Option<T>) -> Option<T> {
        self.budget = self.budget.checked_sub(1)?;
        if self.depth >= DEEPEST {
            return None;
        }
        self.depth += 1;
        let done = work(self, node);
        self.depth -= 1;
        done
    }

    fn look(&mut self, node: Node<'_>) {
        let at = node.start_byte();
        match node.kind() {
            "import_statement" | "export_statement" => {
                if let Some((module, _)) = node.child_by_field_name("source").and_then(|source| self.fold(source)) {
                    self.module(&module, at);
                }
            }
            "call_expression" | "new_expression" => self.call(node),
            "member_expression" => {
                let property = node
                    .child_by_field_name("property")
                    .map_or("", |property| text(property, self.source));
                if CLIMBING.contains(&property) {
                    self.report.add(Rule::ObjectClimb, at, property);
                }
                self.mention(node);
            }
            "subscript_expression" => self.subscript(node),
            "identifier" | "shorthand_property_identifier" => {
                let name = text(node, self.source);
                if is_lookalike(name) {
                    self.report.add(Rule::HiddenLookalike, at, name);
                }
                let is_object = node.parent().is_some_and(|parent| {
                    parent.kind() == "member_expression" && parent.child_by_field_name("object") == Some(node)
                });
                let declares = node.parent().is_some_and(|parent| {
                    parent.kind().contains("import")
                        || (parent.kind() == "variable_declarator" && parent.child_by_field_name("name") == Some(node))
                });
                if !is_object && !declares {
                    self.mention(node);
                }
            }
            "binary_expression" => self.hidden(node),
            "string" | "template_string" | "array" | "object" => self.large(node),
            "while_statement" | "for_statement" | "do_statement" => self.endless(node),
            _ => {}
        }
    }

    fn module(&mut self, module: &str, at: usize) {
        if !self.report.policy.allows_module(Language::Javascript, bare(module)) {
            self.report.add(Rule::ImportModule, at, module);
        }
        if ["https:", "http:", "npm:", "data:"]
            .iter()
            .any(|scheme| module.starts_with(scheme))
        {
            self.report.add(Rule::NetworkUse, at, module);
        }
    }

    /// Names that rules know.
    fn mention(&mut self, node: Node<'_>) {
        let Some(path) = self.path(node) else { return };
        let root = path.split('.').next().unwrap_or_default();
        let of_module = MODULES.iter().find(|(module, _)| {
            *module == root && self.names.values().any(|value| value.starts_with(root)) && path != root
        });
        let named = GLOBALS
            .iter()
            .find(|(name, _)| *name == path || path.strip_prefix("globalThis.").is_some_and(|path| path == *name));
        if let Some((_, rule)) = of_module.or(named) {
            self.report.add(*rule, node.start_byte(), &path);
        }
    }

    fn call(&mut self, node: Node<'_>) {
        let at = node.start_byte();
        let Some(function) = node
            .child_by_field_name("function")
            .or_else(|| node.child_by_field_name("constructor"))
        else {
            return;
        };
        let path = if function.kind() == "import" {
            "import".to_owned()
        } else {
            self.path(function).unwrap_or_default()
        };
        let path = path.strip_prefix("globalThis.").unwrap_or(&path).to_owned();
        let argument = node
            .child_by_field_name("arguments")
            .and_then(|arguments| arguments.named_child(0));
        let known = argument.and_then(|argument| self.fold(argument));
        let last = path.rsplit('.').next().unwrap_or_default();
        match (path.as_str(), &known) {
            ("require" | "import" | "process.getBuiltinModule", Some((module, built))) => {
                let rule = if *built {
                    Rule::ImportHidden
                } else {
                    Rule::ImportDynamic
                };
                if *built || path != "require" {
                    self.report.add(rule, at, module);
                }
                self.module(&module.clone(), at);
                self.direct_use(node, &module.clone());
            }
            ("require" | "import" | "process.getBuiltinModule", None) => {
                self.report
                    .add(Rule::ImportHidden, at, &format!("`{}`", text(node, self.source)))
            }
            ("eval" | "Function" | "setTimeout" | "setInterval", Some((code, built))) => {
                let timer = path.starts_with("set");
                if !timer {
                    self.report.add(Rule::BuiltinUse, at, &path);
                }
                if *built && !timer {
                    self.report.add(Rule::HiddenCode, at, &format!("`{path}`"));
                }
                if self.report.begin_inner() {
                    let code = code.clone();
                    self.report
                        .within(at, |report| review(&code, Language::Javascript, report));
                    self.report.end_inner();
                }
            }
            ("eval" | "Function", None) => {
                self.report.add(Rule::BuiltinUse, at, &path);
                self.report
                    .add(Rule::HiddenCode, at, &format!("`{}`", text(node, self.source)));
            }
            _ if last == "constructor" => self.report.add(Rule::ObjectClimb, at, &path),
            (_, Some((place, _))) if path.starts_with("fs.") || path.starts_with("fs/promises.") => {
                let rule = WRITERS.iter().find(|(name, _)| *name == last).map(|(_, rule)| *rule);
                if let Some(rule) = rule.filter(|_| !self.report.policy.allows_write(place)) {
                    self.report.add(rule, at, &format!("{path}({place})"));
                }
            }
            (_, Some((command, _))) if path.starts_with("child_process.") => {
                let command = command.clone();
                self.report.shell(&command, at);
            }
            _ if function.kind() == "member_expression" && text(function, self.source).ends_with(".constructor") => {
                self.report.add(Rule::ObjectClimb, at, "constructor");
            }
            _ => {}
        }
        self.hidden(node);
    }

    /// `require("child_process").exec(…)`: the module has no name.
    fn direct_use(&mut self, node: Node<'_>, module: &str) {
        let rule = MODULES
            .iter()
            .find(|(name, _)| *name == bare(module))
            .map(|(_, rule)| *rule);
        let used = node.parent().is_some_and(|parent| {
            ["member_expression", "await_expression", "parenthesized_expression"].contains(&parent.kind())
        });
        if let Some(rule) = rule.filter(|_| used) {
            self.report.add(rule, node.start_byte(), module);
        }
    }

    fn subscript(&mut self, node: Node<'_>) {
        let Some(key) = node.child_by_field_name("index").and_then(|index| self.fold(index)) else {
            return;
        };
        let at = node.start_byte();
        if key.1 && (RISKY.contains(&key.0.as_str()) || CLIMBING.contains(&key.0.as_str())) {
            self.report.add(Rule::HiddenName, at, &format!("`{}`", key.0));
        } else if CLIMBING.contains(&key.0.as_str()) || key.0 == "constructor" {
            self.report.add(Rule::ObjectClimb, at, &key.0);
        }
        self.mention(node);
    }

    fn hidden(&mut self, node: Node<'_>) {
        let outer = node
            .parent()
            .is_some_and(|parent| ["binary_expression", "subscript_expression"].contains(&parent.kind()));
        if outer {
            return;
        }
        if let Some((text, true)) = self.fold(node)
            && RISKY.contains(&text.trim())
        {
            self.report
                .add(Rule::HiddenName, node.start_byte(), &format!("`{}`", text.trim()));
        }
    }

    fn large(&mut self, node: Node<'_>) {
        let bytes = node.byte_range().len() as u64;
        if bytes > self.report.policy.limits.literal_bytes {
            self.report
                .add(Rule::LiteralLarge, node.start_byte(), &format!("{bytes} bytes"));
        }
    }

    fn endless(&mut self, node: Node<'_>) {
        let condition = node
            .child_by_field_name("condition")
            .map_or("", |node| text(node, self.source));
        let always = ["(true)", "(1)", "true", "1", "(!0)", "(!false)", ";", ""].contains(&condition);
        let ends = |part: Node<'_>| {
            [
                "break_statement",
                "return_statement",
                "throw_statement",
                "await_expression",
                "yield_expression",
            ]
            .contains(&part.kind())
                || (part.kind() == "call_expression" && text(part, self.source).starts_with("process.exit"))
        };
        let own = |part: Node<'_>| !part.kind().contains("function");
        let exit = node
            .child_by_field_name("body")
            .is_some_and(|body| tree::any_below(body, ends, own));
        if always && !exit {
            self.report.add(
                Rule::LoopEndless,
                node.start_byte(),
                &format!("{} {condition}", node.kind().trim_end_matches("_statement")),
            );
        }
    }
}
