//! The first pass: what every name of the code is bound to, anywhere in it.

use super::fold::Folder;
use super::value::Value;
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Comprehension, Expr, Parameters, Stmt, WithItem};

#[derive(Debug)]
pub(super) struct Binder<'f, 's>(pub(super) &'f mut Folder<'s>);

impl Binder<'_, '_> {
    fn assign(&mut self, target: &Expr, value: &Expr) {
        match (target, value) {
            (Expr::Tuple(targets), Expr::Tuple(values)) if targets.elts.len() == values.elts.len() => {
                targets
                    .elts
                    .iter()
                    .zip(&values.elts)
                    .for_each(|(target, value)| self.assign(target, value));
            }
            (target, value) => {
                let value = self.0.value(value);
                self.bind(target, value);
            }
        }
    }

    fn bind(&mut self, target: &Expr, value: Value) {
        match target {
            Expr::Name(name) => self.0.names.bind(name.id.as_str(), value),
            Expr::Attribute(attribute) => self.0.names.bind_attribute(attribute.attr.as_str(), &value),
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|one| self.bind(one, Value::default())),
            Expr::List(list) => list.elts.iter().for_each(|one| self.bind(one, Value::default())),
            Expr::Starred(starred) => self.bind(&starred.value, Value::default()),
            _ => {}
        }
    }

    /// Each item of what is gone through, as far as it is known.
    fn go_through(&mut self, target: &Expr, iter: &Expr) {
        if let Expr::List(_) | Expr::Tuple(_) = iter {
            let items = match iter {
                Expr::List(list) => &list.elts,
                Expr::Tuple(tuple) => &tuple.elts,
                _ => return,
            };
            items.iter().take(64).for_each(|item| self.assign(target, item));
        }
        self.bind(target, Value::default());
    }

    fn parameters(&mut self, parameters: &Parameters) {
        for parameter in parameters.iter_non_variadic_params() {
            let value = parameter.default().map(|value| self.0.value(value)).unwrap_or_default();
            self.0.names.bind(parameter.name().as_str(), value);
            // Whoever calls may give another one.
            self.0.names.bind(parameter.name().as_str(), Value::default());
        }
    }

    fn import(&mut self, path: &str, name: &str) {
        let mut value = Value::path(path.to_owned());
        super::texts::reached(path)
            .into_iter()
            .for_each(|path| value.add_path(path));
        self.0.names.bind(name, value);
    }
}

impl<'a> Visitor<'a> for Binder<'_, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Assign(assign) => assign
                .targets
                .iter()
                .for_each(|target| self.assign(target, &assign.value)),
            Stmt::AnnAssign(assign) => assign.value.iter().for_each(|value| self.assign(&assign.target, value)),
            Stmt::AugAssign(assign) => self.bind(&assign.target, Value::default()),
            Stmt::For(each) => self.go_through(&each.target, &each.iter),
            Stmt::FunctionDef(function) => {
                self.0.names.define(function.name.as_str());
                self.parameters(&function.parameters);
            }
            Stmt::ClassDef(class) => self.0.names.define(class.name.as_str()),
            Stmt::Delete(delete) => {
                for target in &delete.targets {
                    if let Expr::Name(name) = target {
                        self.0.names.forget(name.id.as_str());
                    }
                }
            }
            Stmt::Import(import) => {
                for alias in &import.names {
                    let path = alias.name.as_str();
                    match &alias.asname {
                        Some(name) => self.import(path, name.as_str()),
                        None => {
                            let root = path.split('.').next().unwrap_or(path);
                            self.import(root, root);
                        }
                    }
                }
            }
            Stmt::ImportFrom(import) if import.level == 0 => {
                let module = import.module.as_ref().map_or("", |module| module.as_str());
                for alias in &import.names {
                    match alias.name.as_str() {
                        "*" => self.0.names.star(module),
                        name => self.import(
                            &format!("{module}.{name}"),
                            alias.asname.as_ref().map_or(name, |name| name.as_str()),
                        ),
                    }
                }
            }
            _ => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Named(named) => self.assign(&named.target, &named.value),
            Expr::Lambda(lambda) => lambda
                .parameters
                .iter()
                .for_each(|parameters| self.parameters(parameters)),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_with_item(&mut self, item: &'a WithItem) {
        if let Some(target) = &item.optional_vars {
            self.assign(target, &item.context_expr);
        }
        ruff_python_ast::visitor::walk_with_item(self, item);
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        self.go_through(&comprehension.target, &comprehension.iter);
        ruff_python_ast::visitor::walk_comprehension(self, comprehension);
    }
}
