//! Rules about calls: what they run, import, open, write, read and ask for by name.

use super::super::places;
use super::super::rule::Rule;
use super::value::{Const, Value};
use super::walk::{DEEPEST_CODE, Walker};
use super::{Inner, magic, tables};
use ruff_python_ast::{Expr, ExprCall};

pub(super) const ADDRESSES: [&str; 7] = ["http://", "https://", "ftp://", "s3://", "gs://", "sftp://", "ws://"];

impl Walker<'_, '_, '_> {
    pub(super) fn call(&mut self, call: &ExprCall) {
        let function = self.folder.value(&call.func);
        for path in &function.paths {
            self.named_call(path, call);
        }
        if let Expr::Attribute(method) = &*call.func {
            let owner = self.folder.value(&method.value);
            self.method_call(method.attr.as_str(), &owner, call);
        }
        self.address(&function, call);
        self.reading_call(&function, call);
    }

    pub(super) fn argument(&mut self, call: &ExprCall, at: usize, keyword: &str) -> Option<Value> {
        let found = call.arguments.find_argument_value(keyword, at)?;
        Some(self.folder.value(found))
    }

    fn named_call(&mut self, path: &str, call: &ExprCall) {
        match path {
            "builtins.exec" | "builtins.eval" | "builtins.compile" => self.code(path, call),
            "builtins.__import__"
            | "importlib.import_module"
            | "importlib.__import__"
            | "imp.load_module"
            | "pydoc.locate"
            | "pkgutil.resolve_name" => {
                self.import(call);
            }
            "runpy.run_path" | "runpy.run_module" | "builtins.execfile" => {
                self.add(Rule::HiddenCode, call, &format!("`{path}`"))
            }
            "timeit.timeit" | "timeit.repeat" | "timeit.Timer" | "cProfile.run" | "profile.run" => {
                self.code_of_text(call)
            }
            "pandas.eval" => self.frame_code(call),
            "pandas.set_option" | "pandas.option_context" => self.backend(call),
            "shutil.rmtree" => self.writes(Rule::FileDeleteTree, call, 0, "path"),
            "importlib.util.spec_from_file_location" | "importlib.machinery.SourceFileLoader" => {
                self.add(Rule::ImportHidden, call, &format!("`{path}`"));
            }
            "builtins.getattr" | "builtins.setattr" | "builtins.delattr" => self.attribute_call(call),
            "operator.attrgetter" | "operator.methodcaller" => self.names_of_attributes(path, call),
            "numpy.load" => {
                let allows = call.arguments.find_keyword("allow_pickle");
                if allows
                    .is_some_and(|keyword| !matches!(&keyword.value, Expr::BooleanLiteral(literal) if !literal.value))
                {
                    self.add(Rule::DataUnpickle, call, "numpy.load(allow_pickle=True)");
                }
            }
            "yaml.load" | "yaml.load_all" => {
                let loader = self.argument(call, 1, "Loader").unwrap_or_default();
                let is_safe = loader
                    .paths
                    .iter()
                    .any(|path| ["yaml.SafeLoader", "yaml.CSafeLoader", "yaml.BaseLoader"].contains(&path.as_str()));
                if !is_safe {
                    self.add(Rule::DataUnpickle, call, path);
                }
            }
            _ if loads_results(path) => self.add(Rule::DataUnpickle, call, path),
            _ => self.io_call(path, call),
        }
    }

    fn io_call(&mut self, path: &str, call: &ExprCall) {
        if let Some((_, mode)) = tables::OPENERS.iter().find(|(name, _)| *name == path) {
            let mode = self.argument(call, *mode, "mode");
            if mode.as_ref().and_then(Value::whole_text).is_some_and(is_writing) {
                self.writes(Rule::FileWrite, call, 0, "file");
            }
        }
        let listed =
            |table: &[(&'static str, usize, &'static str)]| table.iter().find(|(name, ..)| *name == path).copied();
        if let Some((_, at, keyword)) = listed(tables::WRITING_FUNCTIONS) {
            self.writes(Rule::FileWrite, call, at, keyword);
        }
        if let Some((_, at, keyword)) = listed(tables::DELETING_FUNCTIONS) {
            self.writes(Rule::FileDelete, call, at, keyword);
            if ["os.rename", "os.replace", "shutil.move"].contains(&path) {
                self.writes(Rule::FileWrite, call, at + 1, "dst");
            }
        }
        if let Some(method) = tables::method_of_path(path) {
            if tables::PATH_WRITERS.contains(&method) {
                self.writes(Rule::FileWrite, call, 0, "self");
            } else if tables::PATH_DELETERS.contains(&method) {
                self.writes(Rule::FileDelete, call, 0, "self");
            }
        }
        let in_shell = path
            .strip_prefix("builtins.get_ipython()")
            .or_else(|| path.strip_prefix("IPython.get_ipython()"));
        match in_shell {
            Some(method) => magic::of_call(self, method, call),
            None if tables::rule_of(path) == Some(Rule::ProcessShell) => self.command(call),
            None => {}
        }
    }

    /// The words of a command that is started, as far as they are known.
    fn command(&mut self, call: &ExprCall) {
        let Some(first) = call.arguments.args.first() else {
            return;
        };
        let text = match self.folder.value(first).constant {
            Some(Const::Text { text, .. }) => text,
            Some(Const::List(items)) => items.iter().filter_map(word).collect::<Vec<_>>().join(" "),
            // Some of the words may be known.
            _ => match first {
                Expr::List(list) => {
                    let words: Vec<Value> = list.elts.iter().take(64).map(|item| self.folder.value(item)).collect();
                    words
                        .iter()
                        .map(|one| {
                            one.constant
                                .as_ref()
                                .and_then(word)
                                .unwrap_or_else(|| "python".to_owned())
                        })
                        .collect::<Vec<_>>()
                        .join(" ")
                }
                _ => return,
            },
        };
        let at = call.range_start.to_usize();
        self.report.shell(&text, at);
    }

    fn import(&mut self, call: &ExprCall) {
        let name = self.argument(call, 0, "name").unwrap_or_default();
        match name.whole_text() {
            Some(text) if !name.built => {
                self.add(Rule::ImportDynamic, call, text);
                self.module(text, call);
            }
            text => {
                let shown = text.map_or_else(|| format!("`{}`", self.source(call)), |text| format!("`{text}`"));
                self.add(Rule::ImportHidden, call, &shown);
                text.into_iter().for_each(|text| self.module(text, call));
            }
        }
    }

    /// `plotting.backend` names a module that pandas imports.
    fn backend(&mut self, call: &ExprCall) {
        let is_backend = |option: &Value| option.whole_text().is_some_and(|text| text.contains("backend"));
        let options: Vec<Value> = call.arguments.args.iter().map(|expr| self.folder.value(expr)).collect();
        for pair in options.chunks(2) {
            if let [option, module] = pair
                && is_backend(option)
                && let Some(name) = module.whole_text()
            {
                if !self.report.policy.allows_module(self.report.language, name) {
                    self.add(Rule::ImportDynamic, call, name);
                }
                self.module(name, call);
            }
        }
    }

    fn code(&mut self, path: &str, call: &ExprCall) {
        let function = path.trim_start_matches("builtins.");
        let code = self.argument(call, 0, "source").unwrap_or_default();
        let text = match &code.constant {
            Some(Const::Text { text, whole: true }) => Some(text.clone()),
            Some(Const::Bytes(bytes)) => String::from_utf8(bytes.clone()).ok(),
            _ => None,
        };
        // What `compile` gave is looked at where it was compiled.
        let compiled = code.is("builtins.compile()");
        let written = matches!(code.constant, Some(Const::Text { .. })) && !code.built;
        let literal = call
            .arguments
            .args
            .first()
            .is_some_and(|expr| matches!(expr, Expr::BytesLiteral(_)));
        if !compiled && (text.is_none() || !(written || literal)) {
            let shown = format!(
                "`{function}` called with `{}`",
                call.arguments.args.first().map_or("", |expr| self.source(expr))
            );
            self.add(Rule::HiddenCode, call, &shown);
        }
        text.into_iter().for_each(|text| self.inner(&text, call));
    }

    fn code_of_text(&mut self, call: &ExprCall) {
        for (at, keyword) in [(0, "stmt"), (1, "setup")] {
            let code = self.argument(call, at, keyword).unwrap_or_default();
            if code.built {
                let shown = format!("`{}`", self.source(call));
                self.add(Rule::HiddenCode, call, &shown);
            }
            let text = code.whole_text().map(str::to_owned);
            text.into_iter().for_each(|text| self.inner(&text, call));
        }
    }

    /// `pandas.eval`: the text must be known.
    fn frame_code(&mut self, call: &ExprCall) {
        let code = self.argument(call, 0, "expr").unwrap_or_default();
        match code.whole_text() {
            Some(text) => self.inner(&text.replace('@', ""), call),
            None => {
                let shown = format!("`{}`", self.source(call));
                self.add(Rule::HiddenCode, call, &shown);
            }
        }
    }

    /// `df.query` and `df.eval`: names behind `@` are those of the code.
    fn frame_text(&mut self, name: &str, call: &ExprCall) {
        let code = self.argument(call, 0, "expr").unwrap_or_default();
        if let Some(text) = code.whole_text().filter(|text| name == "eval" || text.contains('@')) {
            self.inner(&text.replace('@', ""), call);
        }
    }

    /// Code that is a text in this code.
    pub(super) fn inner(&mut self, text: &str, node: &impl ruff_text_size::Ranged) {
        let cost = text.len().max(1024);
        if self.level >= DEEPEST_CODE || self.inner_bytes < cost {
            self.add(Rule::HiddenCode, node, "code nested too deeply in strings");
            return;
        }
        self.inner_bytes -= cost;
        let inner = Inner {
            names: self.folder.names.clone(),
            level: self.level + 1,
            bytes: self.inner_bytes,
            budget: self.folder.budget,
        };
        let mut left = (self.inner_bytes, self.folder.budget);
        self.report.within(node.start().to_usize(), |report| {
            left = super::inner(text, report, inner)
        });
        (self.inner_bytes, self.folder.budget) = left;
    }

    fn attribute_call(&mut self, call: &ExprCall) {
        let object = self.argument(call, 0, "").unwrap_or_default();
        let name = self.argument(call, 1, "").unwrap_or_default();
        let shown = format!("`{}`", self.source(call));
        match name.whole_text() {
            Some(text) => {
                if let Some(rule) = tables::attribute_rule(text) {
                    self.add(rule, call, text);
                }
                if name.built && !matches!(call.arguments.args.get(1), Some(Expr::Name(_))) {
                    self.add(Rule::HiddenName, call, &shown);
                }
            }
            None => {
                let root = |path: &String| {
                    path.split('.')
                        .next()
                        .is_some_and(|root| tables::RISKY_MODULES.contains(&root))
                };
                match object.paths.iter().any(root) {
                    true => self.add(Rule::HiddenName, call, &shown),
                    false => self.add(Rule::BuiltinGetattr, call, self.source(call)),
                }
            }
        }
    }

    fn names_of_attributes(&mut self, path: &str, call: &ExprCall) {
        // What follows the name of a method are the method's arguments.
        let names = if path == "operator.methodcaller" { 1 } else { usize::MAX };
        for expr in call.arguments.args.iter().take(names) {
            let name = self.folder.value(expr);
            let Some(text) = name.whole_text() else {
                self.add(Rule::BuiltinGetattr, call, self.source(call));
                continue;
            };
            if let Some(rule) = text
                .split('.')
                .filter_map(tables::attribute_rule)
                .max_by_key(|rule| rule.severity())
            {
                self.add(rule, call, text);
            } else if text
                .split('.')
                .any(|part| tables::is_hidden_attribute(part) || self.is_leaving_name(part))
            {
                self.add(Rule::HiddenName, call, &format!("`{text}`"));
            }
        }
    }

    fn method_call(&mut self, name: &str, owner: &Value, call: &ExprCall) {
        if owner.is("pathlib.Path()") {
            let rule = match name {
                _ if tables::PATH_WRITERS.contains(&name) => Some(Rule::FileWrite),
                _ if tables::PATH_DELETERS.contains(&name) => Some(Rule::FileDelete),
                "open" => {
                    let mode = self.argument(call, 0, "mode");
                    mode.as_ref()
                        .and_then(Value::whole_text)
                        .is_some_and(is_writing)
                        .then_some(Rule::FileWrite)
                }
                _ => None,
            };
            if let Some(rule) = rule {
                self.place(rule, call, owner);
            }
        } else if let Some((_, at, keyword)) = tables::WRITERS.iter().find(|(method, ..)| *method == name) {
            self.writes(Rule::FileWrite, call, *at, keyword);
        }
        if ["query", "eval"].contains(&name) {
            self.frame_text(name, call);
        }
        if ["format", "format_map"].contains(&name)
            && let Some(text) = owner.whole_text()
            && text.contains('{')
            && let Some(word) = tables::climbing_word(text)
        {
            self.add(Rule::ObjectClimb, call, word);
        }
    }

    fn writes(&mut self, rule: Rule, call: &ExprCall, at: usize, keyword: &str) {
        if let Some(place) = self.argument(call, at, keyword) {
            self.place(rule, call, &place);
        }
    }

    pub(super) fn place(&mut self, rule: Rule, call: &ExprCall, place: &Value) {
        let Some((path, whole)) = place.beginning() else { return };
        if rule == Rule::FileWrite && whole {
            self.writes_module(path, call);
        }
        if ADDRESSES.iter().any(|scheme| path.starts_with(scheme)) {
            let path = path.to_owned();
            self.add(Rule::NetworkUse, call, &path);
        } else if rule == Rule::FileWrite && places::is_startup(path) {
            let shown = format!("{}({path})", self.source(&*call.func));
            self.add(Rule::FileProfile, call, &shown);
        } else if (whole || path.starts_with('/') || path.starts_with('.'))
            && !path.is_empty()
            && !self.allows_change(rule, path, whole)
        {
            let shown = format!("{}({path})", self.source(&*call.func));
            self.add(rule, call, &shown);
        }
    }

    /// A path of which only the beginning is known lies below it.
    fn allows_change(&self, rule: Rule, path: &str, whole: bool) -> bool {
        if rule == Rule::FileDeleteTree && whole {
            self.report.policy.allows_delete_tree(path)
        } else {
            self.report.policy.allows_write(path)
        }
    }

    /// Readers that take an address as well as a file.
    fn address(&mut self, function: &Value, call: &ExprCall) {
        let name = match &*call.func {
            Expr::Attribute(method) => method.attr.as_str(),
            Expr::Name(name) => name.id.as_str(),
            _ => return,
        };
        let reads = [
            "read_",
            "scan_",
            "load",
            "open",
            "imread",
            "genfromtxt",
            "fetch",
            "download",
            "urlopen",
            "get_file",
            "from_url",
            "clone",
        ];
        let known = function
            .paths
            .iter()
            .any(|path| tables::rule_of(path) == Some(Rule::NetworkUse));
        if known || !reads.iter().any(|word| name.starts_with(word)) {
            return;
        }
        let first = call
            .arguments
            .args
            .first()
            .map(|expr| self.folder.value(expr))
            .unwrap_or_default();
        if let Some((text, _)) = first.beginning()
            && ADDRESSES.iter().any(|scheme| text.starts_with(scheme))
        {
            let shown = format!("{}({text})", self.source(&*call.func));
            self.add(Rule::NetworkUse, call, &shown);
        }
    }
}

/// Results of statsmodels are pickled; its datasets are not.
fn loads_results(path: &str) -> bool {
    path.starts_with("statsmodels.") && path.ends_with(".load") && !path.contains(".datasets.")
}

pub(super) fn is_writing(mode: &str) -> bool {
    mode.contains(['w', 'a', 'x', '+'])
}

fn word(item: &Const) -> Option<String> {
    match item {
        Const::Text { text, .. } => Some(text.clone()),
        _ => None,
    }
}
