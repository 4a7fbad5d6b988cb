//! Rules about what code reads: files outside the data directories, by functions or by SQL, and extensions of databases.

use super::super::rule::Rule;
use super::calls::{ADDRESSES, is_writing};
use super::sql::{self, SqlFile};
use super::tables;
use super::value::{Const, Value};
use super::walk::Walker;
use ruff_python_ast::{Expr, ExprCall};

/// Names of the argument that names a file.
const SOURCES: [&str; 9] = [
    "file",
    "filepath_or_buffer",
    "path_or_buf",
    "io",
    "path",
    "source",
    "filename",
    "fname",
    "fp",
];

impl Walker<'_, '_, '_> {
    pub(super) fn reading_call(&mut self, function: &Value, call: &ExprCall) {
        let name = match &*call.func {
            Expr::Attribute(method) => method.attr.as_str(),
            Expr::Name(name) => name.id.as_str(),
            _ => return,
        };
        if function.is("logging.basicConfig")
            && let Some(keyword) = call.arguments.find_keyword("filename")
        {
            let place = self.folder.value(&keyword.value);
            self.place(Rule::FileWrite, call, &place);
        }
        self.formulas(name, function, call);
        call.arguments.args.iter().for_each(|expr| self.environment(expr));
        let spread = call.arguments.keywords.iter().filter(|keyword| keyword.arg.is_none());
        spread.for_each(|keyword| self.environment(&keyword.value));
        if tables::SQL_FUNCTIONS.contains(&name) {
            self.sql(call);
        }
        self.passed_openers(call);
        if tables::EXTENSION_METHODS.contains(&name) {
            self.add(Rule::DataExtension, call, name);
        }
        if let Some(place) = self.source_of(name, function, call) {
            self.reads(&place, call);
        }
    }

    /// `os.environ` as a whole, where it is passed on or shown.
    pub(super) fn environment(&mut self, expr: &Expr) {
        let is_name = matches!(expr, Expr::Name(_) | Expr::Attribute(_));
        if is_name && self.folder.value(expr).is("os.environ") {
            self.add(Rule::EnvironmentDump, expr, "os.environ");
        }
    }

    /// The argument, or the path, that names what a call reads.
    fn source_of(&mut self, name: &str, function: &Value, call: &ExprCall) -> Option<Value> {
        if let Expr::Attribute(method) = &*call.func {
            let owner = self.folder.value(&method.value);
            if owner.is("pathlib.Path()") {
                let reads = tables::PATH_READERS.contains(&name) || (name == "open" && !self.is_for_writing(call, 0));
                return reads.then_some(owner);
            }
        }
        if let Some((_, at, keyword)) = tables::READING_FUNCTIONS.iter().find(|(path, ..)| function.is(path)) {
            return self.argument(call, *at, keyword);
        }
        let method = function.paths.iter().find_map(|path| tables::method_of_path(path));
        if let Some(method) = method.filter(|method| *method == "open" || tables::PATH_READERS.contains(method)) {
            let writes = method == "open" && self.is_for_writing(call, 1);
            return self.argument(call, 0, "self").filter(|_| !writes);
        }
        let opener = tables::OPENERS.iter().find(|(path, _)| function.is(path));
        let mode = opener.map(|(_, mode)| *mode);
        let mode = mode.or((name == "open").then_some(1));
        let reads = match mode {
            Some(mode) => !self.is_for_writing(call, mode),
            None => name != "loads" && tables::READERS.iter().any(|word| name.starts_with(word)),
        };
        if !reads {
            return None;
        }
        SOURCES.iter().find_map(|keyword| self.argument(call, 0, keyword))
    }

    fn is_for_writing(&mut self, call: &ExprCall, at: usize) -> bool {
        let mode = self.argument(call, at, "mode");
        mode.as_ref().and_then(Value::whole_text).is_some_and(is_writing)
    }

    fn reads(&mut self, place: &Value, call: &ExprCall) {
        match &place.constant {
            Some(Const::Text { text, .. }) => self.reads_from(text, call),
            Some(Const::List(items)) => items.iter().for_each(|item| {
                let one = Value::constant(item.clone(), false);
                self.reads(&one, call);
            }),
            Some(Const::Bytes(_) | Const::Int(_)) | None => {}
        }
    }

    /// `map(open, […])`, `partial(open, …)`: a function that opens files, passed as a value, with what it will open.
    fn passed_openers(&mut self, call: &ExprCall) {
        let passed = call.arguments.args.iter().find_map(|expr| {
            let value = self.passed(expr)?;
            opens(&value).then_some((expr, value))
        });
        let Some((expr, opener)) = passed else { return };
        let values = call.arguments.args.iter().map(|expr| self.folder.value(expr));
        let known: Vec<Value> = values.filter(|value| value.constant.is_some()).collect();
        if known.is_empty() && opener.paths.iter().any(|path| is_opener(path)) {
            let shown = format!("{} as a value", self.source(expr));
            self.add(Rule::FileRead, expr, &shown);
        }
        known.iter().for_each(|value| self.reads(value, call));
    }

    /// A function that is an argument. A variable may have the name of a builtin.
    fn passed(&mut self, expr: &Expr) -> Option<Value> {
        match expr {
            Expr::Name(name) => {
                let own = self.folder.names.bound_to(name.id.as_str()).cloned();
                Some(own.unwrap_or_else(|| self.folder.value(expr)))
            }
            Expr::Attribute(_) => Some(self.folder.value(expr)),
            _ => None,
        }
    }

    fn reads_from(&mut self, path: &str, call: &ExprCall) {
        let path = path.strip_prefix("file://").unwrap_or(path);
        let leaves = path.starts_with(['/', '.', '~']) || path.contains("../");
        if leaves && !self.report.policy.allows_read(path) {
            let shown = format!("{}({path})", self.source(&*call.func));
            self.add(Rule::FileRead, call, &shown);
        }
    }

    /// Any text among the arguments may be SQL, and any other one its parameters.
    fn sql(&mut self, call: &ExprCall) {
        let named = call.arguments.keywords.iter().map(|keyword| &keyword.value);
        let all = call.arguments.args.iter().chain(named);
        let values: Vec<Value> = all.map(|expr| self.values(expr)).collect();
        for query in values.iter().filter_map(Value::beginning) {
            self.query(query.0, &values, call);
        }
    }

    /// Of a dictionary, the values.
    fn values(&mut self, expr: &Expr) -> Value {
        let Expr::Dict(dict) = expr else {
            return self.folder.value(expr);
        };
        let items = dict.items.iter();
        let known = items.filter_map(|item| self.folder.value(&item.value).constant);
        Value::constant(Const::List(known.collect()), false)
    }

    fn query(&mut self, query: &str, values: &[Value], call: &ExprCall) {
        if let Some(statement) = sql::extension(query) {
            self.add(Rule::DataExtension, call, &statement);
        }
        for file in sql::files(query) {
            match file {
                SqlFile::Read(name) | SqlFile::Written(name)
                    if ADDRESSES.iter().any(|scheme| name.starts_with(scheme)) =>
                {
                    self.add(Rule::NetworkUse, call, name);
                }
                SqlFile::Read(name) => self.reads_from(name, call),
                SqlFile::Written(name) => {
                    let place = Value::text(name.to_owned(), false);
                    self.place(Rule::FileWrite, call, &place);
                }
                SqlFile::Computed(shown) => self.add(Rule::FileRead, call, &shown),
                SqlFile::Parameter => {
                    let lists = values.iter().filter(|value| value.whole_text().is_none());
                    lists.for_each(|value| self.reads(value, call));
                }
            }
        }
    }
}

/// A function that opens or reads the file it is called with.
fn opens(value: &Value) -> bool {
    let reads = |path: &String| {
        let last = path.rsplit('.').next().unwrap_or(path);
        is_opener(path)
            || (path.contains('.')
                && !path.contains("()")
                && last != "loads"
                && tables::READERS.iter().any(|word| last.starts_with(word)))
    };
    value.paths.iter().any(reads)
}

fn is_opener(path: &str) -> bool {
    let method = tables::method_of_path(path);
    tables::OPENERS.iter().any(|(opener, _)| *opener == path)
        || method.is_some_and(|method| ["open", "read_text", "read_bytes"].contains(&method))
}
