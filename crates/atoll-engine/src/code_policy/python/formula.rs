//! Formulas of statsmodels and patsy: texts that are evaluated as Python. A formula may call what formulas are made of, and
//! functions of the code itself; everything else is code that is hidden in a text.

use super::super::rule::Rule;
use super::bounds::{Depth, measure};
use super::names::Names;
use super::value::Value;
use super::walk::Walker;
use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{Expr, ExprCall};

/// Functions that take a formula, by whatever name their module goes.
const MODELS: &[&str] = &[
    "cloglog",
    "dmatrices",
    "dmatrix",
    "from_formula",
    "gee",
    "glm",
    "glmgam",
    "gls",
    "glsar",
    "logit",
    "mixedlm",
    "mnlogit",
    "negativebinomial",
    "nominal_gee",
    "ols",
    "ordinal_gee",
    "phreg",
    "poisson",
    "probit",
    "quantreg",
    "rlm",
    "wls",
];
/// Functions that formulas are made of.
const PARTS: &[&str] = &[
    "C",
    "I",
    "Q",
    "Treatment",
    "Sum",
    "Poly",
    "Diff",
    "Helmert",
    "abs",
    "bs",
    "cc",
    "center",
    "cr",
    "exp",
    "log",
    "log10",
    "log1p",
    "scale",
    "sqrt",
    "standardize",
    "te",
];
/// Functions of NumPy that a formula applies to columns.
const NUMPY_PARTS: &[&str] = &[
    "abs", "arcsinh", "clip", "cos", "exp", "expm1", "log", "log10", "log1p", "log2", "maximum", "minimum", "power",
    "round", "sign", "sin", "sqrt", "square", "where",
];

impl Walker<'_, '_, '_> {
    /// Texts of a call that are formulas. Where a policy lists modules, the first argument and those with `formula` in
    /// their names must be known.
    pub(super) fn formulas(&mut self, name: &str, function: &Value, call: &ExprCall) {
        // What a model gives takes no formulas.
        let mut paths = function.paths.iter().filter(|path| !path.contains("()"));
        let is_known = paths.any(|path| path.starts_with("statsmodels.formula.") || path.starts_with("patsy."));
        if !MODELS.contains(&name) && !is_known {
            return;
        }
        let must = is_known && self.lists_modules();
        for (at, expr) in call.arguments.args.iter().enumerate() {
            self.formula(expr, must && at == 0);
        }
        let named = call.arguments.keywords.iter();
        let named = named.filter(|keyword| keyword.arg.as_ref().is_some_and(|arg| arg.as_str().contains("formula")));
        named.for_each(|keyword| self.formula(&keyword.value, must));
    }

    fn formula(&mut self, expr: &Expr, must_be_known: bool) {
        if let Expr::Dict(dict) = expr {
            dict.items
                .iter()
                .for_each(|item| self.formula(&item.value, must_be_known));
            return;
        }
        let value = self.folder.value(expr);
        let (text, whole) = value.beginning().unwrap_or_default();
        // Brackets: lines of a formula are no statements.
        let code = format!("(\n{}\n)", text.replace(['~', ':'], "+"));
        if !is_plain(&code, &self.folder.names) || (must_be_known && !whole) {
            let shown = format!("the formula `{}`", self.source(expr));
            self.add(Rule::HiddenCode, expr, &shown);
        }
        if whole {
            self.inner(&code, expr);
        }
    }
}

/// Whether a formula does no more than formulas do.
fn is_plain(code: &str, names: &Names) -> bool {
    let is_simple = !code.contains("__") && !code.contains('{') && !code.contains("lambda");
    let Depth::Fine(depth) = measure(code) else {
        return false;
    };
    is_simple
        && super::with_stack(depth, || {
            super::parse(code).is_some_and(|parsed| {
                let mut looker = FormulaVisitor { names, is_plain: true };
                looker.visit_body(&parsed.syntax().body);
                looker.is_plain
            })
        })
}

/// Looks for calls and attributes that formulas do not have.
struct FormulaVisitor<'n> {
    names: &'n Names,
    is_plain: bool,
}

impl<'a> Visitor<'a> for FormulaVisitor<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Call(call) => self.is_plain &= is_part(&call.func, self.names),
            Expr::Attribute(_) => self.is_plain &= is_of_numpy(expr),
            _ => {}
        }
        walk_expr(self, expr);
    }
}

fn is_part(function: &Expr, names: &Names) -> bool {
    match function {
        Expr::Name(name) => PARTS.contains(&name.id.as_str()) || names.is_own(name.id.as_str()),
        other => is_of_numpy(other),
    }
}

fn is_of_numpy(expr: &Expr) -> bool {
    let Expr::Attribute(attribute) = expr else { return false };
    let is_numpy = matches!(&*attribute.value, Expr::Name(name) if ["np", "numpy"].contains(&name.id.as_str()));
    is_numpy && NUMPY_PARTS.contains(&attribute.attr.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_apply_functions_to_columns() {
        let names = Names::default();
        for plain in [
            "price + area + C(city)",
            "np.log(y) + bs(x, df=4) + I(x ** 2) + Q('a.b (c)') - 1",
            "y + C(g, Treatment(reference='a')) + a * b",
        ] {
            assert!(is_plain(plain, &names), "{plain}");
        }
        for other in [
            "y + I(__import__('os').system('id'))",
            "y + f(x)",
            "y + x.tofile('a')",
            "y + np.load('a')",
            "y + np.vectorize(f)('a')",
            "y + I((lambda: f)())",
        ] {
            assert!(!is_plain(other, &names), "{other}");
        }
    }
}
