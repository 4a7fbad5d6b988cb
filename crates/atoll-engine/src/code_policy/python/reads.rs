//! Rules about what code reads: files outside the data directories, by functions or by SQL, and extensions of databases.

use super::super::rule::Rule;
use super::calls::{ADDRESSES, is_writing};
use super::value::{Const, Value};
use super::walk::Walker;
use super::{sql, tables};
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
                if let Const::Text { text, .. } = item {
                    self.reads_from(text, call);
                }
            }),
            Some(Const::Bytes(_) | Const::Int(_)) | None => {}
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

    fn sql(&mut self, call: &ExprCall) {
        let query = self.argument(call, 0, "query").unwrap_or_default();
        let Some((query, _)) = query.beginning() else { return };
        if let Some(statement) = sql::extension(query) {
            self.add(Rule::DataExtension, call, statement);
        }
        for file in sql::files(query) {
            let is_address = ADDRESSES.iter().any(|scheme| file.name.starts_with(scheme));
            if is_address {
                self.add(Rule::NetworkUse, call, file.name);
            } else if file.is_written {
                let place = Value::text(file.name.to_owned(), false);
                self.place(Rule::FileWrite, call, &place);
            } else {
                self.reads_from(file.name, call);
            }
        }
    }
}
