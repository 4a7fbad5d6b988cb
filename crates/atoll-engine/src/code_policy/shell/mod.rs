//! Shell: scripts of a bash context, and commands that other languages start. Words of commands are looked at, not what they do.

mod tables;
mod word;

use super::places;
use super::report::Report;
use super::rule::Rule;
use super::tree;
use std::collections::HashMap;
use tables::*;
use tree_sitter::Node;
use word::{Word, after};

struct Script<'s, 'w, 'r> {
    source: &'s str,
    report: &'w mut Report<'r>,
    variables: HashMap<String, Word>,
    /// Functions of the script.
    functions: Vec<String>,
}

pub(super) fn review(source: &str, report: &mut Report<'_>) {
    if source.contains('\0') {
        report.add(Rule::SourceUnreadable, source.find('\0').unwrap_or(0), "a NUL byte");
        return;
    }
    let Some(tree) = tree::parse(source, &tree_sitter_bash::LANGUAGE.into()) else {
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
        variables: HashMap::new(),
        functions: Vec::new(),
    };
    tree::each(&tree, |node| script.look(node));
}

/// An option of `rm` by which directories are deleted with all below them.
fn is_recursive(word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    word == "--recursive" || letters.is_some_and(|letters| letters.contains(['r', 'R']))
}

impl Script<'_, '_, '_> {
    fn look(&mut self, node: Node<'_>) {
        match node.kind() {
            "variable_assignment" => self.assign(node),
            "function_definition" => self.function(node),
            "command" => self.command(node),
            "declaration_command" => self.declaration(node),
            "file_redirect" => self.redirect(node),
            "pipeline" => self.pipeline(node),
            "while_statement" => self.endless(node),
            _ => {}
        }
    }

    fn text(&self, node: Node<'_>) -> String {
        tree::text(node, self.source).to_owned()
    }

    fn assign(&mut self, node: Node<'_>) {
        let (Some(name), Some(value)) = (node.child_by_field_name("name"), node.child_by_field_name("value")) else {
            return;
        };
        let mut word = self.word(value);
        word.built = true;
        let name = self.text(name);
        self.variables.insert(name, word);
    }

    /// A function that starts itself, twice and beside itself, is a fork bomb.
    fn function(&mut self, node: Node<'_>) {
        let (Some(name), Some(body)) = (node.child_by_field_name("name"), node.child_by_field_name("body")) else {
            return;
        };
        let name = self.text(name);
        let source = self.source;
        let mut calls = 0;
        tree::any_below(
            body,
            |part| {
                calls += usize::from(part.kind() == "command_name" && tree::text(part, source) == name);
                false
            },
            |_| true,
        );
        if calls > 0 && self.text(body).contains('&') {
            self.report.add(
                Rule::ProcessControl,
                node.start_byte(),
                &format!("{name}() calling itself"),
            );
        }
        self.functions.push(name);
    }

    fn command(&mut self, node: Node<'_>) {
        let at = node.start_byte();
        let all = self.words(node);
        let mut words = &all[..];
        loop {
            let Some((first, rest)) = words.split_first() else {
                return;
            };
            let Some(name) = first.text.clone() else {
                self.report
                    .add(Rule::HiddenName, at, &format!("`{}`", tree::text(node, self.source)));
                return;
            };
            let name = name.rsplit('/').next().unwrap_or_default().to_owned();
            if first.built && (is_listed(&name) || name == "eval") {
                self.report.add(Rule::HiddenName, at, &format!("`{name}`"));
            }
            self.program(&name, rest, at);
            if !WRAPPERS.contains(&name.as_str()) {
                return;
            }
            // Options and numbers of the wrapper.
            let skipped = rest.iter().take_while(|word| {
                word.text.as_deref().is_some_and(|text| {
                    text.starts_with('-')
                        || text.contains('=')
                        || text.trim_end_matches(['s', 'm', 'h']).parse::<f64>().is_ok()
                })
            });
            words = &rest[skipped.count()..];
        }
    }

    fn program(&mut self, name: &str, rest: &[Word], at: usize) {
        let texts: Vec<&str> = rest
            .iter()
            .map(|word| word.text.as_deref().unwrap_or_default())
            .collect();
        let shown = format!("{name} {}", texts.join(" "));
        let has = |word: &str| texts.contains(&word);
        self.reads(name, &texts, at, &shown);
        match name {
            _ if self.functions.iter().any(|own| own == name) => {}
            _ if INSTALLERS.contains(&name) && texts.iter().any(|word| INSTALLING.contains(word)) => {
                self.report.add(Rule::PackageInstall, at, &shown);
            }
            _ if name.starts_with("python") => self.python(&texts, rest, at, &shown),
            "openssl" if !has("s_client") => {}
            "git"
                if ["clone", "fetch", "pull", "push", "ls-remote", "submodule"]
                    .iter()
                    .any(|word| has(word)) =>
            {
                self.report.add(Rule::NetworkUse, at, &shown);
            }
            "eval" | "source" | "." => {
                self.report.add(Rule::HiddenCode, at, &format!("`{shown}`"));
                let code = texts.join(" ");
                if name == "eval" && rest.iter().all(|word| word.text.is_some()) && self.report.begin_inner() {
                    self.report.within(at, |report| review(&code, report));
                    self.report.end_inner();
                }
            }
            _ if SHELLS.contains(&name) && has("-c") => self.shell(&texts, rest, at, &shown),
            "env" | "printenv" if texts.iter().all(|word| word.starts_with('-') || word.contains('=')) => {
                self.report.add(Rule::EnvironmentDump, at, &shown);
            }
            "set" if rest.is_empty() => self.report.add(Rule::EnvironmentDump, at, "set"),
            _ if NETWORK.contains(&name) => self.report.add(Rule::NetworkUse, at, &shown),
            _ if PROCESS.contains(&name) => self.report.add(Rule::ProcessControl, at, &shown),
            "dd" => {
                let to = texts.iter().find_map(|word| word.strip_prefix("of="));
                to.into_iter()
                    .for_each(|to| self.place(Rule::FileWrite, to, at, &shown));
            }
            _ if DELETERS.contains(&name) => {
                let recursive = texts.iter().any(|word| is_recursive(word));
                let rule = if recursive {
                    Rule::FileDeleteTree
                } else {
                    Rule::FileDelete
                };
                texts
                    .iter()
                    .filter(|word| !word.starts_with('-'))
                    .for_each(|path| self.place(rule, path, at, &shown));
            }
            _ if WRITERS.contains(&name) => {
                let mut paths = texts.iter().filter(|word| !word.starts_with('-') && !word.is_empty());
                let last = paths.next_back().copied().unwrap_or_default();
                self.place(Rule::FileWrite, last, at, &shown);
            }
            _ => {}
        }
    }

    fn python(&mut self, texts: &[&str], rest: &[Word], at: usize, shown: &str) {
        let module = texts.windows(2).find(|pair| pair[0] == "-m").map(|pair| pair[1]);
        if module.is_some_and(|module| INSTALLERS.contains(&module))
            && texts.iter().any(|word| INSTALLING.contains(word))
        {
            self.report.add(Rule::PackageInstall, at, shown);
        }
        if module.is_some_and(|module| module.starts_with("http.server")) {
            self.report.add(Rule::NetworkUse, at, shown);
        }
        if let Some(code) = after(rest, "-c")
            && self.report.begin_inner()
        {
            self.report
                .within(at, |report| drop(super::python::review(&code, report)));
            self.report.end_inner();
        }
    }

    fn shell(&mut self, texts: &[&str], rest: &[Word], at: usize, shown: &str) {
        match after(rest, "-c") {
            Some(code) if self.report.begin_inner() => {
                self.report.within(at, |report| review(&code, report));
                self.report.end_inner();
            }
            _ if texts.contains(&"-c") => self.report.add(Rule::HiddenCode, at, &format!("`{shown}`")),
            _ => {}
        }
    }

    /// Programs that show or copy the files that their words name.
    fn reads(&mut self, name: &str, texts: &[&str], at: usize, shown: &str) {
        if self.functions.iter().any(|own| own == name) {
            return;
        }
        let words = texts.iter().filter(|word| !word.starts_with('-') && !word.is_empty());
        let words: Vec<&str> = words.copied().collect();
        let has_script = texts.iter().any(|word| ["-e", "-f"].contains(word));
        let files: Vec<&str> = match name {
            "dd" => texts.iter().filter_map(|word| word.strip_prefix("if=")).collect(),
            _ if READERS.contains(&name) || (SEARCHERS.contains(&name) && has_script) => words,
            _ if SEARCHERS.contains(&name) => words.into_iter().skip(1).collect(),
            _ if COPIERS.contains(&name) => words.split_last().map(|(_, files)| files.to_vec()).unwrap_or_default(),
            _ => Vec::new(),
        };
        files.iter().for_each(|file| self.read(file, at, shown));
    }

    fn read(&mut self, path: &str, at: usize, shown: &str) {
        let leaves = path.starts_with(['/', '~']) || path.contains("../");
        if leaves && !DEVICES.contains(&path) && !self.report.policy.allows_read(path) {
            self.report.add(Rule::FileRead, at, shown);
        }
    }

    /// `export -p` and `declare -x` show all variables; with a name they show or set one.
    fn declaration(&mut self, node: Node<'_>) {
        let text = self.text(node);
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let shows = words.all(|word| word.starts_with('-') && !word.contains(['f', 'F']));
        if shows && ["declare", "export", "typeset"].contains(&name) {
            self.report.add(Rule::EnvironmentDump, node.start_byte(), &text);
        }
    }

    fn redirect(&mut self, node: Node<'_>) {
        let raw = tree::text(node, self.source);
        let Some(to) = node.child_by_field_name("destination") else {
            return;
        };
        let path = self.word(to).text;
        if let Some(path) = path.as_deref().filter(|_| raw.contains('<')) {
            self.read(path, node.start_byte(), raw);
        }
        if let Some(path) = path.filter(|_| raw.contains('>')) {
            if path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/") {
                self.report.add(Rule::NetworkUse, node.start_byte(), &path);
            } else if path.parse::<u32>().is_err() {
                self.place(Rule::FileWrite, &path, node.start_byte(), raw);
            }
        }
    }

    fn place(&mut self, rule: Rule, path: &str, at: usize, shown: &str) {
        let is_device = ["/dev/null", "/dev/stdout", "/dev/stderr", "-", ""].contains(&path);
        let is_allowed = if rule == Rule::FileDeleteTree {
            self.report.policy.allows_delete_tree(path)
        } else {
            self.report.policy.allows_write(path)
        };
        if rule == Rule::FileWrite && places::is_startup(path) {
            self.report.add(Rule::FileProfile, at, shown);
        } else if !is_device && !is_allowed {
            self.report.add(rule, at, shown);
        }
    }

    /// What is decoded on the way into a shell or an interpreter.
    fn pipeline(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let names: Vec<String> = node
            .named_children(&mut cursor)
            .filter_map(|part| self.words(part).first()?.text.clone())
            .collect();
        let Some((last, before)) = names.split_last() else {
            return;
        };
        let runs = SHELLS.contains(&last.as_str()) || last.starts_with("python") || last == "node" || last == "perl";
        if runs && !before.is_empty() {
            let decoded = before
                .iter()
                .any(|name| DECODERS.contains(&name.as_str()) || NETWORK.contains(&name.as_str()));
            let what = if decoded {
                "which is decoded or downloaded first"
            } else {
                "which is generated first"
            };
            self.report.add(
                Rule::HiddenCode,
                node.start_byte(),
                &format!("input piped into `{last}`, {what}"),
            );
        }
    }

    fn endless(&mut self, node: Node<'_>) {
        let Some(condition) = node.child_by_field_name("condition") else {
            return;
        };
        let condition = self.text(condition);
        let always = ["true", ":", "[ 1 ]", "[[ 1 ]]", "(( 1 ))", "((1))", "/bin/true"]
            .contains(&condition.trim_end_matches(';').trim());
        let source = self.source;
        let ends = |part: Node<'_>| {
            part.kind() == "command_name"
                && ["break", "exit", "return", "exec", "kill"].contains(&tree::text(part, source))
        };
        let exit = node
            .child_by_field_name("body")
            .is_some_and(|body| tree::any_below(body, ends, |_| true));
        if always && !exit {
            self.report
                .add(Rule::LoopEndless, node.start_byte(), &format!("while {condition}"));
        }
    }
}
