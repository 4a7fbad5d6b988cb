//! What a cell of Python needs besides plain computation. See [`crate::code_policy::Needs`].

use super::bounds::{Depth, measure};
use super::cell::{Kind, kind, prepare};
use crate::code_policy::needs::{Needs, PLAIN_MODULES};
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, Stmt};

/// Ways to code and modules that nobody can see here.
const HIDING: &[&str] = &[
    "__import__",
    "exec",
    "eval",
    "compile",
    "globals",
    "breakpoint",
    "get_ipython",
];

pub(in crate::code_policy) fn needs(source: &str) -> Needs {
    let source = &*prepare(source);
    let unreadable = || Needs::More("the code cannot be parsed".to_owned());
    let Depth::Fine(depth) = measure(source) else {
        return unreadable();
    };
    if source.contains('\0') {
        return unreadable();
    }
    if matches!(kind(source), Kind::Magic { .. }) {
        return magic();
    }
    super::with_stack(depth, || match super::parse(source) {
        Some(parsed) if parsed.errors().is_empty() => {
            let mut looker = Looker(Needs::Plain);
            looker.visit_body(&parsed.syntax().body);
            looker.0
        }
        _ => unreadable(),
    })
}

fn magic() -> Needs {
    Needs::More("the code contains a shell command or an IPython magic command".to_owned())
}

/// Keeps the first thing that is more than plain.
struct Looker(Needs);

impl Looker {
    fn more(&mut self, why: impl Into<String>) {
        if self.0 == Needs::Plain {
            self.0 = Needs::More(why.into());
        }
    }

    fn import(&mut self, module: &str) {
        let top = module.split('.').next().unwrap_or_default();
        if !PLAIN_MODULES.contains(&top) {
            self.more(format!("the code imports {top}"));
        }
    }
}

impl<'a> Visitor<'a> for Looker {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => import.names.iter().for_each(|name| self.import(&name.name)),
            Stmt::ImportFrom(from) if from.level > 0 => self.more("the code uses a relative import"),
            Stmt::ImportFrom(from) => from.module.iter().for_each(|module| self.import(module)),
            Stmt::IpyEscapeCommand(_) => self.0 = magic(),
            _ => walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if HIDING.contains(&name.id.as_str()) => self.more(format!("the code uses {}", name.id)),
            Expr::IpyEscapeCommand(_) => self.0 = magic(),
            _ => walk_expr(self, expr),
        }
    }
}
