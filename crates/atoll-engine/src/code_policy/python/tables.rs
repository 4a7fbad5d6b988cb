//! tidy: table, names of modules and functions and the rule that each meets
//!
//! A name that ends in a dot stands for all below it. What is not listed has no rule.

use super::super::rule::Rule;
use Rule::{
    DataUnpickle, EnvironmentDump, HiddenCode, ImportHidden, NetworkUse, ObjectClimb, PackageInstall, ProcessControl,
    ProcessShell,
};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Builtins that rules look at. Others are only names.
pub(super) const BUILTINS: &[&str] = &[
    "__import__",
    "breakpoint",
    "bytearray",
    "bytes",
    "chr",
    "compile",
    "delattr",
    "dir",
    "eval",
    "exec",
    "getattr",
    "get_ipython",
    "globals",
    "hasattr",
    "hex",
    "input",
    "list",
    "locals",
    "map",
    "open",
    "ord",
    "reversed",
    "setattr",
    "str",
    "tuple",
    "type",
    "vars",
    "object",
    "exit",
    "quit",
    "iter",
];

/// Builtins that open the interpreter: a strict policy has none of them.
pub(super) const FORBIDDEN_BUILTINS: &[&str] = &[
    "__import__",
    "breakpoint",
    "compile",
    "delattr",
    "eval",
    "exec",
    "globals",
    "locals",
    "setattr",
    "vars",
];

/// Dotted names and the rule of whoever mentions them.
pub(super) const NAMES: &[(&str, Rule)] = &[
    ("os.system", ProcessShell),
    ("os.popen", ProcessShell),
    ("os.startfile", ProcessShell),
    ("os.execl", ProcessShell),
    ("os.execle", ProcessShell),
    ("os.execlp", ProcessShell),
    ("os.execlpe", ProcessShell),
    ("os.execv", ProcessShell),
    ("os.execve", ProcessShell),
    ("os.execvp", ProcessShell),
    ("os.execvpe", ProcessShell),
    ("os.spawnl", ProcessShell),
    ("os.spawnle", ProcessShell),
    ("os.spawnlp", ProcessShell),
    ("os.spawnlpe", ProcessShell),
    ("os.spawnv", ProcessShell),
    ("os.spawnve", ProcessShell),
    ("os.spawnvp", ProcessShell),
    ("os.spawnvpe", ProcessShell),
    ("os.posix_spawn", ProcessShell),
    ("os.posix_spawnp", ProcessShell),
    ("posix.system", ProcessShell),
    ("posix.", ProcessControl),
    ("_posixsubprocess.", ProcessShell),
    ("nt.system", ProcessShell),
    ("subprocess.", ProcessShell),
    ("_winapi.", ProcessShell),
    ("pty.", ProcessShell),
    ("pexpect.", ProcessShell),
    ("plumbum.", ProcessShell),
    ("sh.", ProcessShell),
    ("fabric.", ProcessShell),
    ("invoke.", ProcessShell),
    ("commands.", ProcessShell),
    ("popen2.", ProcessShell),
    ("asyncio.create_subprocess_exec", ProcessShell),
    ("asyncio.create_subprocess_shell", ProcessShell),
    ("asyncio.subprocess.", ProcessShell),
    ("webbrowser.", ProcessShell),
    ("platform.popen", ProcessShell),
    ("builtins.get_ipython().system", ProcessShell),
    ("builtins.get_ipython().getoutput", ProcessShell),
    ("IPython.get_ipython().system", ProcessShell),
    ("IPython.get_ipython().getoutput", ProcessShell),
    ("os.kill", ProcessControl),
    ("os.killpg", ProcessControl),
    ("os.fork", ProcessControl),
    ("os.forkpty", ProcessControl),
    ("os._exit", ProcessControl),
    ("os.abort", ProcessControl),
    ("os.nice", ProcessControl),
    ("os.setpriority", ProcessControl),
    ("os.sched_setaffinity", ProcessControl),
    ("os.setsid", ProcessControl),
    ("os.setuid", ProcessControl),
    ("os.setgid", ProcessControl),
    ("os.setpgid", ProcessControl),
    ("os.pidfd_open", ProcessControl),
    ("os.unshare", ProcessControl),
    ("os.setns", ProcessControl),
    ("os.chroot", ProcessControl),
    ("os.memfd_create", ProcessControl),
    ("signal.", ProcessControl),
    ("_signal.", ProcessControl),
    ("multiprocessing.", ProcessControl),
    ("_multiprocessing.", ProcessControl),
    ("billiard.", ProcessControl),
    ("concurrent.futures.ProcessPoolExecutor", ProcessControl),
    ("concurrent.futures.process.", ProcessControl),
    ("ctypes.", ProcessControl),
    ("_ctypes.", ProcessControl),
    ("cffi.", ProcessControl),
    ("resource.setrlimit", ProcessControl),
    ("resource.prlimit", ProcessControl),
    ("faulthandler.", ProcessControl),
    ("psutil.Process().kill", ProcessControl),
    ("psutil.Process().terminate", ProcessControl),
    ("psutil.Process().suspend", ProcessControl),
    ("psutil.Process().send_signal", ProcessControl),
    ("psutil.Popen", ProcessShell),
    ("socket.", NetworkUse),
    ("_socket.", NetworkUse),
    ("socketserver.", NetworkUse),
    ("ssl.", NetworkUse),
    ("requests.", NetworkUse),
    ("urllib.request.", NetworkUse),
    ("urllib.urlopen", NetworkUse),
    ("urllib2.", NetworkUse),
    ("urllib3.", NetworkUse),
    ("httpx.", NetworkUse),
    ("httplib.", NetworkUse),
    ("httplib2.", NetworkUse),
    ("aiohttp.", NetworkUse),
    ("http.client.", NetworkUse),
    ("http.server.", NetworkUse),
    ("ftplib.", NetworkUse),
    ("smtplib.", NetworkUse),
    ("poplib.", NetworkUse),
    ("imaplib.", NetworkUse),
    ("nntplib.", NetworkUse),
    ("telnetlib.", NetworkUse),
    ("xmlrpc.client.", NetworkUse),
    ("xmlrpc.server.", NetworkUse),
    ("paramiko.", NetworkUse),
    ("asyncssh.", NetworkUse),
    ("websocket.", NetworkUse),
    ("websockets.", NetworkUse),
    ("pycurl.", NetworkUse),
    ("boto3.", NetworkUse),
    ("botocore.", NetworkUse),
    ("grpc.", NetworkUse),
    ("zmq.", NetworkUse),
    ("scapy.", NetworkUse),
    ("dns.", NetworkUse),
    ("redis.", NetworkUse),
    ("pymongo.", NetworkUse),
    ("psycopg2.", NetworkUse),
    ("psycopg.", NetworkUse),
    ("pymysql.", NetworkUse),
    ("wget.", NetworkUse),
    ("yfinance.", NetworkUse),
    ("asyncio.open_connection", NetworkUse),
    ("asyncio.start_server", NetworkUse),
    ("seaborn.load_dataset", NetworkUse),
    ("sklearn.datasets.fetch_openml", NetworkUse),
    ("sklearn.datasets.fetch_california_housing", NetworkUse),
    ("sklearn.datasets.fetch_20newsgroups", NetworkUse),
    ("statsmodels.api.datasets.get_rdataset", NetworkUse),
    ("pandas_datareader.", NetworkUse),
    ("pip.", PackageInstall),
    ("ensurepip.", PackageInstall),
    ("easy_install.", PackageInstall),
    ("setuptools.command.easy_install.", PackageInstall),
    ("micropip.", PackageInstall),
    ("conda.", PackageInstall),
    ("pickle.load", DataUnpickle),
    ("pickle.loads", DataUnpickle),
    ("pickle.Unpickler", DataUnpickle),
    ("_pickle.load", DataUnpickle),
    ("_pickle.loads", DataUnpickle),
    ("_pickle.Unpickler", DataUnpickle),
    ("cPickle.load", DataUnpickle),
    ("cPickle.loads", DataUnpickle),
    ("joblib.load", DataUnpickle),
    ("sklearn.externals.joblib.load", DataUnpickle),
    ("dill.load", DataUnpickle),
    ("dill.loads", DataUnpickle),
    ("dill.Unpickler", DataUnpickle),
    ("cloudpickle.load", DataUnpickle),
    ("cloudpickle.loads", DataUnpickle),
    ("pandas.read_pickle", DataUnpickle),
    ("pandas.io.pickle.read_pickle", DataUnpickle),
    ("torch.load", DataUnpickle),
    ("shelve.open", DataUnpickle),
    ("marshal.load", DataUnpickle),
    ("marshal.loads", DataUnpickle),
    ("jsonpickle.decode", DataUnpickle),
    ("yaml.unsafe_load", DataUnpickle),
    ("yaml.full_load", DataUnpickle),
    ("sys._getframe", ObjectClimb),
    ("sys._current_frames", ObjectClimb),
    ("sys.settrace", ObjectClimb),
    ("sys.setprofile", ObjectClimb),
    ("sys.addaudithook", ObjectClimb),
    ("sys.meta_path", ObjectClimb),
    ("sys.path_hooks", ObjectClimb),
    ("inspect.currentframe", ObjectClimb),
    ("inspect.stack", ObjectClimb),
    ("inspect.getclosurevars", ObjectClimb),
    ("gc.get_objects", ObjectClimb),
    ("gc.get_referrers", ObjectClimb),
    ("gc.get_referents", ObjectClimb),
    ("types.CodeType", ObjectClimb),
    ("types.FunctionType", ObjectClimb),
    ("types.LambdaType", ObjectClimb),
    ("code.", ObjectClimb),
    ("codeop.", ObjectClimb),
    ("bdb.", ObjectClimb),
    ("pdb.", ObjectClimb),
    ("_thread.interrupt_main", ProcessControl),
    ("threading.settrace", ObjectClimb),
    ("os.ptsname", ProcessControl),
    ("timeit.main", ObjectClimb),
    ("string.Formatter", ObjectClimb),
    ("os.environ.items", EnvironmentDump),
    ("os.environ.values", EnvironmentDump),
    ("os.environ.copy", EnvironmentDump),
    ("os.environb", EnvironmentDump),
    ("posix.environ", EnvironmentDump),
    ("typing.get_type_hints", HiddenCode),
    ("typing.ForwardRef", HiddenCode),
    ("typing_extensions.get_type_hints", HiddenCode),
    ("inspect.get_annotations", HiddenCode),
    ("annotationlib.", HiddenCode),
    ("numpy.testing.runstring", HiddenCode),
    ("numpy.testing.rundocs", HiddenCode),
    ("numpy.testing.measure", HiddenCode),
    ("numpy.testing.extbuild.", ProcessShell),
    ("numpy.ctypeslib.", ProcessControl),
    ("numpy.distutils.", ProcessShell),
    ("matplotlib.testing.", ProcessShell),
    ("plotly.optional_imports.", ImportHidden),
    ("pandas.compat.pickle_compat.", DataUnpickle),
    ("statsmodels.api.load", DataUnpickle),
    ("statsmodels.api.load_pickle", DataUnpickle),
    ("statsmodels.iolib.smpickle.", DataUnpickle),
    ("numpy.testing._private.utils.runstring", HiddenCode),
    ("numpy.f2py.", ProcessShell),
    ("pandas.compat._optional.", ImportHidden),
    ("logging.config.", HiddenCode),
    ("logging.handlers.SocketHandler", NetworkUse),
    ("logging.handlers.DatagramHandler", NetworkUse),
    ("logging.handlers.HTTPHandler", NetworkUse),
    ("logging.handlers.SMTPHandler", NetworkUse),
    ("logging.handlers.SysLogHandler", NetworkUse),
    ("PIL.ImageMath.", HiddenCode),
    ("PIL.ImageShow.", ProcessShell),
    ("PIL.ImageGrab.", ProcessShell),
    ("polars.Expr.deserialize", DataUnpickle),
    ("polars.LazyFrame.deserialize", DataUnpickle),
];

/// Parts of listed modules that start, reach and end nothing.
pub(super) const HARMLESS: &[&str] = &[
    "subprocess.PIPE",
    "subprocess.DEVNULL",
    "subprocess.STDOUT",
    "subprocess.CalledProcessError",
    "subprocess.CompletedProcess",
    "subprocess.TimeoutExpired",
    "multiprocessing.cpu_count",
    "requests.exceptions.",
    "requests.RequestException",
    "requests.HTTPError",
    "requests.ConnectionError",
    "requests.Timeout",
    "socket.timeout",
    "socket.error",
    "socket.gaierror",
    "ssl.SSLError",
    "urllib3.exceptions.",
    "urllib3.disable_warnings",
    "httpx.HTTPError",
    "pip.__version__",
    "requests.__version__",
];

/// Modules that no other module should be asked for.
pub(super) const RISKY_MODULES: &[&str] = &[
    "os",
    "sys",
    "subprocess",
    "builtins",
    "importlib",
    "socket",
    "shutil",
    "ctypes",
    "posix",
    "pty",
    "signal",
    "inspect",
    "gc",
    "types",
    "code",
    "runpy",
    "multiprocessing",
    "imp",
    "marshal",
    "pickle",
];

/// Modules that many others have imported for themselves.
const REACHED: &[&str] = &[
    "os",
    "sys",
    "subprocess",
    "builtins",
    "importlib",
    "socket",
    "shutil",
    "ctypes",
    "posix",
    "pty",
    "imp",
    "bltns",
    "marshal",
    "pickle",
    "runpy",
    "webbrowser",
];

pub(super) fn is_reached(part: &str) -> bool {
    REACHED.contains(&part.trim_start_matches('_'))
}

/// The same behind a name that only an earlier cell can have bound. That may be a table: `df.socket` is a column there.
pub(super) fn is_reached_of_unknown(part: &str) -> bool {
    is_reached(part) && part != "socket"
}

/// The module that a part of another one is: `_os` is `os`.
pub(super) fn reached_module(part: &str) -> &str {
    match part.trim_start_matches('_') {
        "bltns" => "builtins",
        module => module,
    }
}

/// Functions of listed packages that import what a text names.
pub(super) const IMPORTERS: &[&str] = &["import_optional", "import_optional_dependency"];

/// Attributes that lead from any object into the interpreter.
pub(super) const CLIMBING: &[&str] = &[
    "__base__",
    "__bases__",
    "__mro__",
    "__subclasses__",
    "__globals__",
    "__builtins__",
    "__code__",
    "__closure__",
    "__getattribute__",
    "__reduce__",
    "__reduce_ex__",
    "__loader__",
    "__spec__",
    "__import__",
    "__func__",
    "__self__",
    "__wrapped__",
    "__subclasshook__",
    "__init_subclass__",
    "mro",
    "gi_frame",
    "gi_code",
    "gi_yieldfrom",
    "cr_frame",
    "cr_code",
    "cr_await",
    "ag_frame",
    "ag_code",
    "tb_frame",
    "tb_next",
    "f_back",
    "f_globals",
    "f_locals",
    "f_builtins",
    "f_code",
    "func_globals",
    "func_code",
    "co_code",
    "co_consts",
    "im_func",
];

/// Attributes with underscores that ordinary code reads.
pub(super) const ORDINARY_DUNDERS: &[&str] = &[
    "__name__",
    "__qualname__",
    "__doc__",
    "__version__",
    "__file__",
    "__module__",
    "__init__",
    "__new__",
    "__post_init__",
    "__str__",
    "__repr__",
    "__len__",
    "__iter__",
    "__next__",
    "__enter__",
    "__exit__",
    "__eq__",
    "__lt__",
    "__hash__",
    "__call__",
    "__add__",
    "__mul__",
    "__sub__",
    "__getitem__",
    "__setitem__",
    "__contains__",
    "__array__",
    "__all__",
    "__slots__",
    "__annotations__",
    "__dataclass_fields__",
    "__members__",
];

/// Words that nobody puts together from pieces without a reason.
const RISKY_WORDS: &[&str] = &[
    "__import__",
    "import_module",
    "exec",
    "eval",
    "compile",
    "execfile",
    "system",
    "popen",
    "Popen",
    "check_output",
    "getoutput",
    "subprocess",
    "builtins",
    "importlib",
    "socket",
    "ctypes",
    "pty",
    "spawn",
    "fork",
    "getattr",
    "globals",
    "os",
    "sys",
    "shutil",
    "rmtree",
    "posix",
    "environ",
    "unlink",
    "open",
    "read",
    "input",
    "breakpoint",
    "setattr",
    "vars",
    "locals",
    "urllib",
    "requests",
    "pickle",
    "marshal",
    "loads",
    "gi_frame",
    "f_globals",
    "f_back",
    "tb_frame",
    "mro",
    "runpy",
];

/// `open` and `read` are risky as attributes of risky modules only; alone they are words.
pub(in super::super) fn is_risky_word(word: &str) -> bool {
    RISKY_WORDS.contains(&word) || is_dunder(word)
}

pub(super) fn is_dunder(word: &str) -> bool {
    word.len() > 4 && word.starts_with("__") && word.ends_with("__") && !word.contains(' ')
}

/// A text that is code or a risky name.
pub(super) fn is_risky_text(text: &str) -> bool {
    let text = text.trim();
    let word = is_risky_word(text) && !["open", "read", "input"].contains(&text);
    let dotted =
        text.split('.').count() > 1 && text.split('.').all(|part| !part.is_empty()) && text.split('.').any(is_dunder);
    word || dotted
        || [
            "__import__(",
            "import os",
            "exec(",
            "eval(",
            "os.system",
            "import subprocess",
            "import socket",
        ]
        .iter()
        .any(|code| text.contains(code))
}

/// The rule of a dotted name, by the longest entry.
pub(super) fn rule_of(path: &str) -> Option<Rule> {
    if path.rsplit_once('.').is_some_and(|(_, last)| IMPORTERS.contains(&last)) {
        return Some(ImportHidden);
    }
    let entries = by_root().get(root(path))?;
    if HARMLESS.iter().any(|entry| matches(path, entry)) {
        return None;
    }
    let entries = entries.iter().filter(|(entry, _)| matches(path, entry));
    entries.max_by_key(|(entry, _)| entry.len()).map(|(_, rule)| *rule)
}

fn root(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

/// Most names have a root that no entry has.
fn by_root() -> &'static HashMap<&'static str, Vec<(&'static str, Rule)>> {
    static BY_ROOT: LazyLock<HashMap<&'static str, Vec<(&'static str, Rule)>>> = LazyLock::new(|| {
        let mut all: HashMap<_, Vec<_>> = HashMap::new();
        for (entry, rule) in NAMES {
            all.entry(root(entry)).or_default().push((*entry, *rule));
        }
        all
    });
    &BY_ROOT
}

/// What a call gave is not mentioned again: the call was.
fn matches(path: &str, entry: &str) -> bool {
    let Some(rest) = path.strip_prefix(entry) else {
        return false;
    };
    let is_part = entry.ends_with('.') || rest.is_empty() || rest.starts_with('.');
    is_part && !rest.contains("()")
}

/// Where a call writes: the method's or function's name, the place of the path among its arguments, its keyword.
pub(super) const WRITERS: &[(&str, usize, &str)] = &[
    ("to_csv", 0, "path_or_buf"),
    ("to_excel", 0, "excel_writer"),
    ("to_json", 0, "path_or_buf"),
    ("to_parquet", 0, "path"),
    ("to_pickle", 0, "path"),
    ("to_feather", 0, "path"),
    ("to_hdf", 0, "path_or_buf"),
    ("to_html", 0, "buf"),
    ("to_stata", 0, "path"),
    ("to_xml", 0, "path_or_buffer"),
    ("to_latex", 0, "buf"),
    ("to_markdown", 0, "buf"),
    ("to_orc", 0, "path"),
    ("savefig", 0, "fname"),
    ("write_html", 0, "file"),
    ("write_image", 0, "file"),
    ("write_json", 0, "file"),
    ("write_csv", 0, "file"),
    ("write_parquet", 0, "file"),
    ("write_excel", 0, "workbook"),
    ("write_ipc", 0, "file"),
    ("sink_csv", 0, "path"),
    ("sink_parquet", 0, "path"),
    ("extractall", 0, "path"),
    ("save", 0, "fp"),
];

/// The same for functions with a module.
pub(super) const WRITING_FUNCTIONS: &[(&str, usize, &str)] = &[
    ("numpy.save", 0, "file"),
    ("numpy.savez", 0, "file"),
    ("numpy.savez_compressed", 0, "file"),
    ("numpy.savetxt", 0, "fname"),
    ("joblib.dump", 1, "filename"),
    ("pandas.ExcelWriter", 0, "path"),
    ("shutil.copy", 1, "dst"),
    ("shutil.copy2", 1, "dst"),
    ("shutil.copyfile", 1, "dst"),
    ("shutil.copytree", 1, "dst"),
    ("shutil.make_archive", 0, "base_name"),
    ("shutil.unpack_archive", 1, "extract_dir"),
    ("os.makedirs", 0, "name"),
    ("os.mkdir", 0, "path"),
    ("os.symlink", 1, "dst"),
    ("os.link", 1, "dst"),
    ("os.chmod", 0, "path"),
    ("os.chown", 0, "path"),
    ("os.truncate", 0, "path"),
    ("os.mknod", 0, "path"),
    ("os.mkfifo", 0, "path"),
    ("matplotlib.pyplot.imsave", 0, "fname"),
    ("imageio.imwrite", 0, "uri"),
    ("cv2.imwrite", 0, "filename"),
    ("logging.FileHandler", 0, "filename"),
    ("logging.handlers.RotatingFileHandler", 0, "filename"),
    ("logging.handlers.TimedRotatingFileHandler", 0, "filename"),
];

/// Functions that read what one of their arguments names, besides those with a name of [`READERS`].
pub(super) const READING_FUNCTIONS: &[(&str, usize, &str)] = &[
    ("os.listdir", 0, "path"),
    ("os.scandir", 0, "path"),
    ("os.walk", 0, "top"),
    ("glob.glob", 0, "pathname"),
    ("glob.iglob", 0, "pathname"),
    ("shutil.copy", 0, "src"),
    ("shutil.copy2", 0, "src"),
    ("shutil.copyfile", 0, "src"),
    ("shutil.copytree", 0, "src"),
    ("linecache.getline", 0, "filename"),
    ("linecache.getlines", 0, "filename"),
    ("fileinput.input", 0, "files"),
    ("sqlite3.connect", 0, "database"),
    ("duckdb.connect", 0, "database"),
    ("duckdb.table_function", 1, "parameters"),
    ("duckdb.connect().table_function", 1, "parameters"),
    ("numpy.fromfile", 0, "file"),
    ("numpy.memmap", 0, "filename"),
    ("numpy.fromregex", 0, "file"),
    ("pandas.ExcelFile", 0, "path_or_buffer"),
    ("pandas.HDFStore", 0, "path"),
    ("os.open", 0, "path"),
];

/// How names of functions and methods begin that read what their first argument names.
pub(super) const READERS: &[&str] = &[
    "read_",
    "scan_",
    "load",
    "imread",
    "genfromtxt",
    "from_csv",
    "from_parquet",
];

/// Functions and methods that take SQL, and parameters of it.
pub(super) const SQL_FUNCTIONS: &[&str] = &[
    "query_df",
    "extract_statements",
    "filter",
    "project",
    "aggregate",
    "sql",
    "query",
    "execute",
    "executemany",
    "executescript",
    "from_query",
    "read_sql",
    "read_sql_query",
    "read_database",
];

pub(super) const EXTENSION_METHODS: &[&str] = &["install_extension", "load_extension", "enable_load_extension"];

pub(super) const DELETING_FUNCTIONS: &[(&str, usize, &str)] = &[
    ("os.remove", 0, "path"),
    ("os.unlink", 0, "path"),
    ("os.rmdir", 0, "path"),
    ("os.removedirs", 0, "name"),
    ("os.rename", 0, "src"),
    ("os.renames", 0, "old"),
    ("os.replace", 0, "src"),
    ("shutil.move", 0, "src"),
];

/// Functions that open files: the place of the mode among the arguments.
pub(super) const OPENERS: &[(&str, usize)] = &[
    ("builtins.open", 1),
    ("io.open", 1),
    ("io.open_code", 1),
    ("io.FileIO", 1),
    ("codecs.open", 1),
    ("gzip.open", 1),
    ("bz2.open", 1),
    ("lzma.open", 1),
    ("tarfile.open", 1),
    ("zipfile.ZipFile", 1),
    ("h5py.File", 1),
];

pub(super) const PATH_WRITERS: &[&str] = &[
    "write_text",
    "write_bytes",
    "touch",
    "mkdir",
    "symlink_to",
    "hardlink_to",
    "chmod",
];
pub(super) const PATH_READERS: &[&str] = &["read_text", "read_bytes", "iterdir", "glob", "rglob", "walk"];
/// The method of a path that a function is: `pathlib.Path.read_text` takes the path as its first argument.
pub(super) fn method_of_path(function: &str) -> Option<&str> {
    let method = function.strip_prefix("pathlib.Path.");
    method.or_else(|| function.strip_prefix("pathlib.PosixPath."))
}

pub(super) const PATH_DELETERS: &[&str] = &["unlink", "rmdir", "rename", "replace"];

/// The rule of an attribute, whatever it is an attribute of.
pub(super) fn attribute_rule(name: &str) -> Option<Rule> {
    match name {
        name if !name.contains('_') && name != "mro" => None,
        name if CLIMBING.contains(&name) => Some(ObjectClimb),
        name if IMPORTERS.contains(&name) => Some(ImportHidden),
        name if is_dunder(name) && !ORDINARY_DUNDERS.contains(&name) => Some(Rule::ObjectDunder),
        _ => None,
    }
}

/// An attribute that nobody asks for by a text or a pattern without a reason.
pub(super) fn is_hidden_attribute(name: &str) -> bool {
    is_reached(name) || is_risky_text(name)
}

/// Functions that read attributes by name. Passed as values, they are called with names that no rule sees.
pub(super) const ATTRIBUTE_READERS: &[&str] = &["builtins.getattr", "operator.attrgetter", "operator.methodcaller"];

/// An attribute that climbs, in a text that is filled by `format`.
pub(super) fn climbing_word(text: &str) -> Option<&'static str> {
    let in_text = |word: &&&str| text.contains(&format!(".{word}")) || text.contains(&format!("[{word}]"));
    let dunders = ["__class__", "__dict__"];
    CLIMBING
        .iter()
        .find(in_text)
        .copied()
        .or_else(|| dunders.iter().find(in_text).copied())
}
