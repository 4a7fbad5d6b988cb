//! The second pass: every statement and expression, once, against the rules.

use super::super::places;
use super::super::report::Report;
use super::super::rule::Rule;
use super::fold::Folder;
use super::value::{Const, Value};
use super::{loops, magic, tables, texts};
use ruff_python_ast::visitor::{self, Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Alias, Decorator, Expr, ExprContext, Operator, PatternKeyword, Stmt};
use ruff_text_size::{Ranged, TextRange};
use std::collections::HashSet;

/// How deep code may lie in texts of code.
pub(super) const DEEPEST_CODE: usize = 4;

#[derive(Debug)]
pub(super) struct Walker<'w, 's, 'r> {
    pub(super) folder: Folder<'s>,
    pub(super) report: &'w mut Report<'r>,
    /// How many texts of code this one lies in.
    pub(super) level: usize,
    /// Bytes of such texts that may still be read.
    pub(super) inner_bytes: usize,
    /// The function of the call that is being looked at.
    pub(super) callee: Option<TextRange>,
    /// Said already: names, texts and literals inside of these are parts of it.
    mentioned: (TextRange, Option<Rule>),
    hidden: TextRange,
    large: TextRange,
    /// An attribute that is only there to ask for its name.
    passing: TextRange,
    /// What the attribute that is being looked at is an attribute of.
    owner: TextRange,
    /// Modules that the code imports, and those that it writes as files.
    imported: HashSet<String>,
    written: HashSet<String>,
}

impl<'w, 's, 'r> Walker<'w, 's, 'r> {
    pub(super) fn new(folder: Folder<'s>, report: &'w mut Report<'r>, level: usize, inner_bytes: usize) -> Self {
        Self {
            folder,
            report,
            level,
            inner_bytes,
            callee: None,
            mentioned: (TextRange::default(), None),
            hidden: TextRange::default(),
            large: TextRange::default(),
            passing: TextRange::default(),
            owner: TextRange::default(),
            imported: HashSet::new(),
            written: HashSet::new(),
        }
    }

    pub(super) fn add(&mut self, rule: Rule, node: &impl Ranged, what: &str) {
        self.report.add(rule, node.start().to_usize(), what);
    }

    /// The code as it is written.
    pub(super) fn source(&self, node: &impl Ranged) -> &'s str {
        self.folder.source.get(node.range().to_std_range()).unwrap_or_default()
    }

    pub(super) fn module(&mut self, name: &str, node: &impl Ranged) {
        if !self.report.policy.allows_module(self.report.language, name) {
            self.add(Rule::ImportModule, node, name);
        }
        let root = name.split('.').next().unwrap_or(name);
        if self.written.contains(root) {
            self.add(
                Rule::HiddenCode,
                node,
                &format!("`{root}` is written as a file and imported"),
            );
        }
        self.imported.insert(root.to_owned());
    }

    /// A file that the code writes, and imports, or a module that a policy with a list of modules does not know.
    pub(super) fn writes_module(&mut self, path: &str, node: &impl Ranged) {
        if places::is_unlisted_code(self.report.policy, path) {
            self.add(Rule::HiddenCode, node, &format!("`{path}` is written as a module"));
        }
        let Some(module) = places::module_of(path) else { return };
        if self.imported.contains(module) {
            self.add(
                Rule::HiddenCode,
                node,
                &format!("`{module}` is written as a file and imported"),
            );
        }
        self.written.insert(module.to_owned());
    }

    /// A module of which only parts are listed passes if the code uses one of them; each use is looked at.
    fn imported(&mut self, alias: &Alias) {
        let name = alias.name.as_str();
        let (policy, source) = (self.report.policy, self.folder.source);
        let mut parts = policy.listed_parts(self.report.language, name);
        if alias.asname.is_some() || !parts.any(|part| source.contains(part)) {
            self.module(name, alias);
        }
    }

    /// A use of a module of which only parts are listed.
    fn part(&mut self, expr: &Expr, value: &Value) {
        let (policy, language) = (self.report.policy, self.report.language);
        for path in value.paths.iter().filter(|path| !path.contains("()")) {
            let root = path.split('.').next().unwrap_or(path);
            let has_parts = policy.listed_parts(language, root).next().is_some();
            let is_owner = path == root && self.owner == expr.range();
            if has_parts && !is_owner && !policy.allows_module(language, path) {
                self.add(Rule::ImportModule, expr, path);
            }
        }
    }

    fn imports(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.imported(alias);
                    self.leaving_import(alias.name.as_str(), alias);
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |module| module.as_str());
                if import.level > 0 {
                    self.add(
                        Rule::ImportRelative,
                        import,
                        &format!("{}{module}", ".".repeat(import.level.min(8) as usize)),
                    );
                    return;
                }
                let (policy, language) = (self.report.policy, self.report.language);
                let is_part = |alias: &Alias| {
                    let name = format!("{module}.{}", alias.name.as_str());
                    policy.listed_parts(language, module).any(|part| part == name)
                };
                if !import.names.iter().all(is_part) {
                    self.module(module, import);
                }
                for alias in &import.names {
                    let name = alias.name.as_str();
                    self.leaving_import(&format!("{module}.{name}"), alias);
                    if name == "*" {
                        self.add(Rule::ImportStar, import, module);
                    } else if tables::is_reached(name) && !tables::is_reached(module) {
                        self.add(Rule::ImportReach, alias, &format!("{module}.{name}"));
                    } else if let Some(rule) = tables::attribute_rule(name) {
                        self.add(rule, alias, name);
                    }
                }
            }
            _ => {}
        }
    }

    fn endless(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::While(round) if loops::is_always_true(&round.test) && loops::has_no_exit(&round.body) => {
                let shown = format!("while {}", self.source(&*round.test));
                self.add(Rule::LoopEndless, round, &shown);
            }
            Stmt::For(each) => {
                let value = self.folder.value(&each.iter);
                let goes_on = ["itertools.count()", "itertools.cycle()"]
                    .iter()
                    .any(|path| value.is(path));
                if goes_on && loops::has_no_exit(&each.body) {
                    let shown = format!("for … in {}", self.source(&*each.iter));
                    self.add(Rule::LoopEndless, each, &shown);
                }
            }
            _ => {}
        }
    }

    /// Names that rules know, wherever they are mentioned.
    fn mention(&mut self, expr: &Expr, value: &Value) {
        for path in &value.paths {
            if let Some(rule) = tables::rule_of(path)
                && self.is_new(rule, expr)
            {
                self.add(rule, expr, path);
            }
            let is_called = self.callee == Some(expr.range());
            if tables::ATTRIBUTE_READERS.contains(&path.as_str()) && !is_called && self.is_new(Rule::HiddenName, expr) {
                self.add(Rule::HiddenName, expr, &format!("`{path}` is passed as a value"));
            }
            let name = path
                .strip_prefix("builtins.")
                .filter(|name| tables::FORBIDDEN_BUILTINS.contains(name));
            if let Some(name) = name.filter(|_| self.is_new(Rule::BuiltinUse, expr)) {
                self.builtin(expr, name);
            }
        }
    }

    /// `a.b` in `a.b.c` is not told again.
    fn is_new(&mut self, rule: Rule, expr: &Expr) -> bool {
        let (range, told) = self.mentioned;
        let is_part = told == Some(rule)
            && range.contains_range(expr.range())
            && range.start() == expr.start()
            && range != expr.range();
        if !is_part {
            self.mentioned = (expr.range(), Some(rule));
        }
        !is_part
    }

    fn builtin(&mut self, expr: &Expr, name: &str) {
        self.add(Rule::BuiltinUse, expr, name);
        let is_called = self.callee == Some(expr.range());
        match name {
            "exec" | "eval" | "compile" if !is_called => {
                self.add(Rule::HiddenCode, expr, &format!("`{name}` is passed as a value"))
            }
            "__import__" if !is_called => self.add(Rule::ImportHidden, expr, "`__import__` is passed as a value"),
            _ => {}
        }
    }

    fn attribute(&mut self, expr: &Expr, value: &Value) {
        let Expr::Attribute(attribute) = expr else { return };
        let name = attribute.attr.as_str();
        if ["__name__", "__qualname__", "__doc__"].contains(&name) {
            self.passing = attribute.value.range();
        }
        if let Some(rule) = tables::attribute_rule(name)
            && !(name == "__class__" && self.passing == expr.range())
        {
            self.report.add(rule, attribute.attr.start().to_usize(), name);
        }
        // `x._os.system` of a module that an earlier cell has imported.
        if let Expr::Attribute(base) = &*attribute.value
            && value.paths.is_empty()
            && tables::is_reached_of_unknown(base.attr.as_str())
        {
            let path = format!("{}.{name}", tables::reached_module(base.attr.as_str()));
            if tables::rule_of(&path).is_some() {
                self.add(Rule::ImportReach, expr, &path);
            }
        }
        let reached = value.paths.iter().find(|path| {
            let (base, last) = path.rsplit_once('.').unwrap_or(("", path));
            !base.is_empty() && tables::is_reached(last) && texts::reached(path).is_some()
        });
        if let Some(path) = reached.cloned() {
            self.add(Rule::ImportReach, expr, &path);
        }
    }

    /// Texts that are put together and come out as a name of the interpreter.
    fn hidden_text(&mut self, expr: &Expr, value: &Value) {
        let Some(text) = value.whole_text().filter(|_| value.built) else {
            return;
        };
        let risky = match expr {
            Expr::StringLiteral(_) => tables::is_risky_word(text.trim()),
            _ => tables::is_risky_text(text),
        };
        if risky && !self.hidden.contains_range(expr.range()) {
            self.hidden = expr.range();
            let shown = format!("`{}`", text.trim());
            self.add(Rule::HiddenName, expr, &shown);
        }
    }

    fn large(&mut self, expr: &Expr) {
        let bytes = u64::from(expr.range().len().to_u32());
        if bytes > self.report.policy.limits.literal_bytes && !self.large.contains_range(expr.range()) {
            self.large = expr.range();
            self.add(Rule::LiteralLarge, expr, &format!("{bytes} bytes"));
        }
    }

    /// `9**9**9`, `[0] * 10**12`: small to write, large to have.
    fn blown_up(&mut self, expr: &Expr) {
        const MOST: i64 = 1_000_000_000;
        let Expr::BinOp(binary) = expr else { return };
        let (left, right) = (self.folder.value(&binary.left), self.folder.value(&binary.right));
        let large = match binary.op {
            Operator::Pow => {
                let towers = matches!(&*binary.right, Expr::BinOp(right) if right.op == Operator::Pow);
                let exponent = right.int().unwrap_or(if towers { MOST } else { 0 });
                left.int().is_some_and(|base| base.abs() > 1) && exponent > 100_000
            }
            Operator::Mult => {
                let is_list = |value: &Value, expr: &Expr| {
                    matches!(value.constant, Some(Const::Text { .. } | Const::Bytes(_)))
                        || matches!(expr, Expr::List(_))
                };
                (is_list(&left, &binary.left) && right.int().is_some_and(|times| times > MOST))
                    || (is_list(&right, &binary.right) && left.int().is_some_and(|times| times > MOST))
            }
            _ => false,
        };
        if large {
            let shown = self.source(expr);
            self.add(Rule::LiteralLarge, expr, shown);
        }
    }

    /// `sys.modules[name]` and tables of the interpreter.
    fn table(&mut self, expr: &Expr) {
        let Expr::Subscript(subscript) = expr else { return };
        let (base, key) = (self.folder.value(&subscript.value), self.folder.value(&subscript.slice));
        let is_modules = base.is("sys.modules");
        let is_table = base.paths.iter().any(|path| {
            ["builtins.globals()", "builtins.locals()", "builtins.vars()", "builtins"].contains(&path.as_str())
                || path.ends_with(".__dict__")
                || path.starts_with("vars:")
        });
        match key.whole_text() {
            Some(name) if is_modules && !key.built => {
                self.add(Rule::ImportDynamic, expr, name);
                self.module(name, expr);
            }
            Some(_) if !(is_modules || is_table && key.built) => {}
            None if !is_table && !is_modules => {}
            // The code makes a variable of its own.
            None if is_table && subscript.ctx == ExprContext::Store => {}
            _ => {
                let shown = format!("`{}`", self.source(expr));
                self.add(
                    if is_modules {
                        Rule::ImportHidden
                    } else {
                        Rule::HiddenName
                    },
                    expr,
                    &shown,
                );
            }
        }
    }
}

impl<'a> Visitor<'a> for Walker<'_, '_, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        self.imports(stmt);
        self.endless(stmt);
        if let Stmt::IpyEscapeCommand(command) = stmt {
            magic::escape(self, command.kind, &command.value, stmt.range());
        }
        if let Stmt::Expr(shown) = stmt {
            self.environment(&shown.value);
        }
        walk_stmt(self, stmt);
    }

    fn visit_decorator(&mut self, decorator: &'a Decorator) {
        visitor::walk_decorator(self, decorator);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.id.as_str() == "__match_args__" => {
                self.add(Rule::HiddenName, expr, "`__match_args__`");
            }
            Expr::Name(name) if name.ctx == ExprContext::Load => {
                if ["__builtins__", "__loader__", "__spec__"].contains(&name.id.as_str()) {
                    self.add(Rule::ObjectClimb, expr, name.id.as_str());
                }
                let value = self.folder.value(expr);
                self.part(expr, &value);
                self.leaving(expr, &value);
                self.mention(expr, &value);
            }
            Expr::Attribute(attribute) => {
                let value = self.folder.value(expr);
                self.part(expr, &value);
                self.owner = attribute.value.range();
                self.attribute(expr, &value);
                self.leaving(expr, &value);
                self.mention(expr, &value);
            }
            Expr::Call(call) => {
                let value = self.folder.value(expr);
                self.hidden_text(expr, &value);
                self.leaving(expr, &value);
                self.mention(expr, &value);
                self.call(call);
                self.callee = Some(call.func.range());
            }
            Expr::Subscript(_) => {
                let value = self.folder.value(expr);
                self.hidden_text(expr, &value);
                self.leaving(expr, &value);
                self.mention(expr, &value);
                self.table(expr);
            }
            Expr::BinOp(_) | Expr::FString(_) => {
                let value = self.folder.value(expr);
                self.hidden_text(expr, &value);
                self.blown_up(expr);
                self.large(expr);
            }
            Expr::StringLiteral(_) => {
                let value = self.folder.value(expr);
                self.hidden_text(expr, &value);
                self.large(expr);
            }
            Expr::Dict(dict) => {
                self.large(expr);
                let spread = dict.items.iter().filter(|item| item.key.is_none());
                spread.for_each(|item| self.environment(&item.value));
            }
            Expr::BytesLiteral(_) | Expr::NumberLiteral(_) | Expr::List(_) | Expr::Tuple(_) | Expr::Set(_) => {
                self.large(expr);
            }
            Expr::IpyEscapeCommand(command) => magic::escape(self, command.kind, &command.value, expr.range()),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_pattern_keyword(&mut self, keyword: &'a PatternKeyword) {
        let name = keyword.attr.as_str();
        if let Some(rule) = tables::attribute_rule(name) {
            self.add(rule, keyword, name);
        } else if tables::is_hidden_attribute(name) || self.is_leaving_name(name) {
            self.add(
                Rule::HiddenName,
                keyword,
                &format!("`{name}` is read through a class pattern"),
            );
        }
        visitor::walk_pattern_keyword(self, keyword);
    }
}
