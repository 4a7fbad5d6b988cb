//! A small reckoner: which dotted name an expression stands for, and which text or number it gives. Nothing is run; what is not
//! known stays unknown. Shared by all rules.

use super::names::Names;
use super::texts;
use super::value::{Const, MOST_TEXT, Value};
use ruff_python_ast::{Expr, ExprCall, ExprSubscript, InterpolatedStringElement, Number, Operator, UnaryOp};
use ruff_text_size::{Ranged, TextRange};
use std::collections::HashMap;

/// Longer lists are not put together.
const MOST_ITEMS: usize = 4096;
const MOST_ARGUMENTS: usize = 64;

#[derive(Debug)]
pub(super) struct Folder<'s> {
    pub(super) source: &'s str,
    pub(super) names: Names,
    /// Values of expressions that were looked at, by their place. Off while names are still being collected.
    pub(super) memo: Option<HashMap<TextRange, Value>>,
    /// How much may still be reckoned. Then everything is unknown.
    pub(super) budget: usize,
}

/// Enough for a mebibyte of ordinary code; bounds what comprehensions and long texts can cost.
pub(super) const BUDGET: usize = 1_000_000;

impl Folder<'_> {
    pub(super) fn value(&mut self, expr: &Expr) -> Value {
        let kept = match expr {
            Expr::Attribute(_) | Expr::Call(_) | Expr::BinOp(_) | Expr::Subscript(_) | Expr::FString(_) => {
                self.memo.is_some().then(|| expr.range())
            }
            _ => None,
        };
        if let Some(value) = kept.and_then(|range| self.memo.as_ref()?.get(&range)) {
            return value.clone();
        }
        if self.budget == 0 {
            return Value::default();
        }
        let value = self.fold(expr);
        self.budget = self.budget.saturating_sub(1 + value.size() / 256);
        if let (Some(range), Some(memo)) = (kept, &mut self.memo) {
            memo.insert(range, value.clone());
        }
        value
    }

    fn fold(&mut self, expr: &Expr) -> Value {
        match expr {
            Expr::Name(name) => self.names.find(name.id.as_str()),
            Expr::Attribute(attribute) => {
                let base = self.value(&attribute.value);
                self.attribute(&base, attribute.attr.as_str())
            }
            Expr::StringLiteral(literal) => {
                let raw = self.source.get(expr.range().to_std_range()).unwrap_or_default();
                let pieces = literal.value.as_slice().len() > 1 && literal.value.len() <= 32;
                let built = pieces || has_coded_escape(raw);
                Value::text(literal.value.to_str().to_owned(), built)
            }
            Expr::BytesLiteral(literal) => Value::bytes(literal.value.bytes().take(MOST_TEXT + 1).collect()),
            Expr::NumberLiteral(number) => match &number.value {
                Number::Int(int) => int
                    .as_i64()
                    .map_or_else(Value::default, |int| Value::constant(Const::Int(int), false)),
                Number::Float(_) | Number::Complex { .. } => Value::default(),
            },
            Expr::UnaryOp(unary) => match (unary.op, self.value(&unary.operand).int()) {
                (UnaryOp::USub, Some(int)) => Value::constant(Const::Int(int.wrapping_neg()), false),
                (UnaryOp::Invert, Some(int)) => Value::constant(Const::Int(!int), false),
                _ => Value::default(),
            },
            Expr::BinOp(binary) => {
                let left = self.value(&binary.left);
                match binary.op {
                    Operator::Mod => self.percent(&left, &binary.right),
                    operator => texts::operate(&left, operator, &self.value(&binary.right)),
                }
            }
            Expr::FString(_) => self.f_string(expr),
            Expr::List(list) => self.list(&list.elts),
            Expr::Tuple(tuple) => self.list(&tuple.elts),
            Expr::ListComp(comprehension) => self.comprehension(&comprehension.elt, &comprehension.generators),
            Expr::Generator(generator) => self.comprehension(&generator.elt, &generator.generators),
            Expr::Subscript(subscript) => self.subscript(subscript),
            Expr::Call(call) => self.call(call),
            Expr::Named(named) => self.value(&named.value),
            Expr::If(choice) => {
                let (mut one, other) = (self.value(&choice.body), self.value(&choice.orelse));
                other.paths.into_iter().for_each(|path| one.add_path(path));
                one.constant = None;
                one
            }
            Expr::BoolOp(either) => {
                let mut all = Value::default();
                for one in either.values.iter().take(4) {
                    self.value(one).paths.into_iter().for_each(|path| all.add_path(path));
                }
                all
            }
            Expr::Await(waited) => self.value(&waited.value),
            Expr::Starred(starred) => self.value(&starred.value),
            _ => Value::default(),
        }
    }

    pub(super) fn attribute(&self, base: &Value, name: &str) -> Value {
        let mut value = base.then(&format!(".{name}"));
        if base.paths.is_empty() {
            value = self.names.attribute(name);
        }
        let reached: Vec<String> = value.paths.iter().filter_map(|path| texts::reached(path)).collect();
        reached.into_iter().for_each(|path| value.add_path(path));
        value
    }

    fn list(&mut self, items: &[Expr]) -> Value {
        if items.len() > MOST_ITEMS {
            return Value::default();
        }
        let known: Option<Vec<Const>> = items.iter().map(|item| self.value(item).constant).collect();
        known.map_or_else(Value::default, |items| Value::constant(Const::List(items), true))
    }

    fn f_string(&mut self, expr: &Expr) -> Value {
        let Expr::FString(string) = expr else {
            return Value::default();
        };
        let (mut text, mut whole, mut parts) = (String::new(), true, 0);
        for part in string.value.elements() {
            parts += 1;
            match part {
                InterpolatedStringElement::Literal(literal) if whole => text.push_str(&literal.value),
                InterpolatedStringElement::Interpolation(inner) if whole && inner.format_spec.is_none() => {
                    match self.value(&inner.expression).constant {
                        Some(Const::Text { text: more, whole: all }) => {
                            text.push_str(&more);
                            whole = all;
                        }
                        Some(Const::Int(int)) => text.push_str(&int.to_string()),
                        _ => whole = false,
                    }
                }
                _ => whole = false,
            }
            if text.len() > MOST_TEXT {
                return Value::default();
            }
        }
        Value::constant(Const::Text { text, whole }, parts > 1)
    }

    /// `"%s%s" % (a, b)`.
    fn percent(&mut self, left: &Value, right: &Expr) -> Value {
        let Some(pattern) = left.whole_text() else {
            return Value::default();
        };
        let items = match right {
            Expr::Tuple(tuple) => tuple.elts.iter().map(|item| self.value(item)).collect(),
            single => vec![self.value(single)],
        };
        let texts: Option<Vec<String>> = items.iter().map(texts::plain).collect();
        texts
            .and_then(|items| texts::fill(pattern, &["%s", "%d", "%c"], &items))
            .map_or_else(Value::default, |text| Value::text(text, true))
    }

    /// Each element of a short known list, one after the other.
    fn comprehension(&mut self, element: &Expr, generators: &[ruff_python_ast::Comprehension]) -> Value {
        let [generator] = generators else {
            return Value::default();
        };
        let Expr::Name(target) = &generator.target else {
            return Value::default();
        };
        let Some(items) = self.value(&generator.iter).constant.and_then(|list| list.items()) else {
            return Value::default();
        };
        if items.len() > MOST_ITEMS || !generator.ifs.is_empty() {
            return Value::default();
        }
        // The same expression has another value in each round.
        let memo = self.memo.take();
        let name = target.id.as_str();
        let mut made = Vec::with_capacity(items.len());
        for item in items {
            let before = self.names.put(name, Value::constant(item, true));
            let one = self.value(element).constant;
            self.names.restore(name, before);
            match one {
                Some(one) => made.push(one),
                None => {
                    self.memo = memo;
                    return Value::default();
                }
            }
        }
        self.memo = memo;
        Value::constant(Const::List(made), true)
    }

    fn subscript(&mut self, subscript: &ExprSubscript) -> Value {
        let base = self.value(&subscript.value);
        if let Expr::Slice(slice) = &*subscript.slice {
            let mut part = |expr: &Option<Box<Expr>>| expr.as_ref().map(|expr| self.value(expr).int());
            let (lower, upper, step) = (part(&slice.lower), part(&slice.upper), part(&slice.step));
            return texts::slice(&base, lower, upper, step);
        }
        let key = self.value(&subscript.slice);
        if let Some(name) = key.whole_text() {
            return self.entry(&base, name);
        }
        match (&base.constant, key.int()) {
            (Some(list), Some(at)) => {
                texts::item(list, at).map_or_else(Value::default, |one| Value::constant(one, true))
            }
            _ => Value::default(),
        }
    }

    /// `table["name"]` of the interpreter's own tables.
    fn entry(&self, base: &Value, name: &str) -> Value {
        let mut value = Value::default();
        for path in &base.paths {
            match path.as_str() {
                "sys.modules" => value.add_path(name.to_owned()),
                "builtins.globals()" | "builtins.locals()" | "builtins.vars()" => {
                    let found = self.names.find(name);
                    found.paths.into_iter().for_each(|path| value.add_path(path));
                }
                "builtins" => value.add_path(format!("builtins.{name}")),
                table => {
                    let owner = table.strip_suffix(".__dict__").or_else(|| table.strip_prefix("vars:"));
                    owner
                        .into_iter()
                        .for_each(|owner| value.add_path(format!("{owner}.{name}")));
                }
            }
        }
        value
    }

    fn call(&mut self, call: &ExprCall) -> Value {
        // Once each: who looks at a part twice looks at its parts four times.
        let (owner, function) = match &*call.func {
            Expr::Attribute(method) => {
                let owner = self.value(&method.value);
                let function = self.attribute(&owner, method.attr.as_str());
                (Some((owner, method.attr.as_str())), function)
            }
            other => (None, self.value(other)),
        };
        let has_text = owner.as_ref().is_some_and(|(owner, _)| owner.constant.is_some());
        if function.paths.is_empty() && !has_text {
            return Value::default();
        }
        let arguments: Vec<Value> = call
            .arguments
            .args
            .iter()
            .take(MOST_ARGUMENTS)
            .map(|expr| self.value(expr))
            .collect();
        let first = arguments.first();
        let mut value = function.then("()");
        for path in &function.paths {
            match (path.as_str(), first) {
                ("builtins.__import__", Some(name)) => {
                    let root = name.whole_text().and_then(|name| name.split('.').next());
                    root.into_iter().for_each(|root| value.add_path(root.to_owned()));
                }
                ("importlib.import_module" | "importlib.__import__", Some(name)) => {
                    name.whole_text()
                        .into_iter()
                        .for_each(|name| value.add_path(name.to_owned()));
                }
                ("builtins.getattr", Some(object)) => {
                    let name = arguments.get(1).and_then(Value::whole_text);
                    if let Some(name) = name {
                        let found = self.attribute(object, name);
                        found.paths.into_iter().for_each(|path| value.add_path(path));
                    }
                }
                ("builtins.vars", Some(object)) => {
                    object
                        .paths
                        .iter()
                        .for_each(|path| value.add_path(format!("vars:{path}")));
                }
                ("pathlib.Path" | "pathlib.PosixPath" | "pathlib.PurePath", Some(place)) => {
                    let rest = arguments.get(1..).unwrap_or_default();
                    value.add_path("pathlib.Path()".to_owned());
                    value.constant = texts::method(place, "joinpath", rest).or_else(|| place.constant.clone());
                }
                ("pathlib.Path.home" | "pathlib.Path.cwd", None) => {
                    value.add_path("pathlib.Path()".to_owned());
                    value.constant = Value::text("~".to_owned(), false).constant;
                }
                (path, _) if is_path_of_path(path) => value.add_path("pathlib.Path()".to_owned()),
                ("sys.modules.get", Some(name)) => {
                    name.whole_text()
                        .into_iter()
                        .for_each(|name| value.add_path(name.to_owned()));
                }
                _ => {}
            }
        }
        if let Some(folded) = texts::call(&function, &arguments, call.arguments.args.len()) {
            value.constant = folded.constant;
            value.built = true;
        } else if let Some((owner, method)) = &owner {
            let folded = texts::method(owner, method, &arguments);
            value.built |= folded.is_some();
            value.constant = folded.or(value.constant);
        }
        value
    }
}

/// Escapes by which a letter is written as a number or a name.
fn has_coded_escape(raw: &str) -> bool {
    let coded = |c: char| c.is_ascii_digit() || "xuUN".contains(c);
    raw.match_indices('\\').any(|(at, _)| raw[at + 1..].starts_with(coded))
}

/// Methods of a path that give a path.
fn is_path_of_path(function: &str) -> bool {
    let method = function.strip_prefix("pathlib.Path().");
    let methods = [
        "joinpath",
        "with_suffix",
        "with_name",
        "with_stem",
        "resolve",
        "expanduser",
        "absolute",
    ];
    method.is_some_and(|method| methods.contains(&method))
}
