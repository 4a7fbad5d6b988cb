//! Loops that nothing ends but a limit.

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, Number, Stmt, UnaryOp};

/// Whether a loop that goes on by itself has no way out: no break of its own, no return, raise, yield, await or exit.
pub(super) fn has_no_exit(body: &[Stmt]) -> bool {
    let mut search = Exits::default();
    search.visit_body(body);
    !search.found
}

/// Whether a condition is always true, as it is written.
pub(super) fn is_always_true(test: &Expr) -> bool {
    match test {
        Expr::BooleanLiteral(literal) => literal.value,
        Expr::NumberLiteral(number) => match &number.value {
            Number::Int(int) => *int != 0,
            Number::Float(float) => *float != 0.0,
            Number::Complex { .. } => false,
        },
        Expr::StringLiteral(text) => !text.value.is_empty(),
        Expr::UnaryOp(unary) if unary.op == UnaryOp::Not => match &*unary.operand {
            Expr::BooleanLiteral(literal) => !literal.value,
            Expr::NoneLiteral(_) => true,
            Expr::NumberLiteral(number) => matches!(&number.value, Number::Int(int) if *int == 0),
            _ => false,
        },
        _ => false,
    }
}

#[derive(Debug, Default)]
struct Exits {
    found: bool,
    /// Loops inside: a break there ends only them.
    inner: usize,
}

const EXITS: [&str; 6] = ["exit", "quit", "_exit", "abort", "kill", "interrupt_main"];

impl<'a> Visitor<'a> for Exits {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Break(_) => self.found |= self.inner == 0,
            Stmt::Return(_) | Stmt::Raise(_) | Stmt::Assert(_) => self.found = true,
            // They run elsewhere.
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {}
            Stmt::For(each) => self.inside(&each.body, &each.orelse, stmt),
            Stmt::While(round) => self.inside(&round.body, &round.orelse, stmt),
            _ => walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Yield(_) | Expr::YieldFrom(_) | Expr::Await(_) => self.found = true,
            Expr::Call(call) => {
                let name = match &*call.func {
                    Expr::Name(name) => name.id.as_str(),
                    Expr::Attribute(attribute) => attribute.attr.as_str(),
                    _ => "",
                };
                self.found |= EXITS.contains(&name) || name == "next";
                walk_expr(self, expr);
            }
            Expr::Lambda(_) => {}
            _ => walk_expr(self, expr),
        }
    }
}

impl Exits {
    fn inside<'a>(&mut self, body: &'a [Stmt], orelse: &'a [Stmt], stmt: &'a Stmt) {
        match stmt {
            Stmt::For(each) => self.visit_expr(&each.iter),
            Stmt::While(round) => self.visit_expr(&round.test),
            _ => {}
        }
        self.inner += 1;
        self.visit_body(body);
        self.inner -= 1;
        // A break in the `else` of an inner loop is the outer one's.
        self.visit_body(orelse);
    }
}
