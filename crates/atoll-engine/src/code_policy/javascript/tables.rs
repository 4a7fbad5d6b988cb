//! tidy: table, names of Node and of the language, and the rule that each meets

use super::super::rule::Rule;

/// Modules of Node and the rule of whoever uses them.
pub(super) const MODULES: &[(&str, Rule)] = &[
    ("child_process", Rule::ProcessShell),
    ("cluster", Rule::ProcessControl),
    ("worker_threads", Rule::ProcessControl),
    ("inspector", Rule::ObjectClimb),
    ("vm", Rule::HiddenCode),
    ("v8", Rule::ObjectClimb),
    ("net", Rule::NetworkUse),
    ("http", Rule::NetworkUse),
    ("https", Rule::NetworkUse),
    ("http2", Rule::NetworkUse),
    ("tls", Rule::NetworkUse),
    ("dns", Rule::NetworkUse),
    ("dgram", Rule::NetworkUse),
    ("axios", Rule::NetworkUse),
    ("node-fetch", Rule::NetworkUse),
    ("got", Rule::NetworkUse),
    ("ws", Rule::NetworkUse),
    ("undici", Rule::NetworkUse),
];
/// Names that are there without an import.
pub(super) const GLOBALS: &[(&str, Rule)] = &[
    ("fetch", Rule::NetworkUse),
    ("XMLHttpRequest", Rule::NetworkUse),
    ("WebSocket", Rule::NetworkUse),
    ("EventSource", Rule::NetworkUse),
    ("process.kill", Rule::ProcessControl),
    ("process.abort", Rule::ProcessControl),
    ("process.setuid", Rule::ProcessControl),
    ("process.binding", Rule::ObjectClimb),
    ("process.dlopen", Rule::ProcessControl),
    ("process.mainModule", Rule::ObjectClimb),
    ("Worker", Rule::ProcessControl),
];
pub(super) const WRITERS: &[(&str, Rule)] = &[
    ("writeFile", Rule::FileWrite),
    ("writeFileSync", Rule::FileWrite),
    ("appendFile", Rule::FileWrite),
    ("appendFileSync", Rule::FileWrite),
    ("createWriteStream", Rule::FileWrite),
    ("mkdirSync", Rule::FileWrite),
    ("mkdir", Rule::FileWrite),
    ("rm", Rule::FileDelete),
    ("rmSync", Rule::FileDelete),
    ("unlink", Rule::FileDelete),
    ("unlinkSync", Rule::FileDelete),
    ("rmdirSync", Rule::FileDelete),
    ("renameSync", Rule::FileDelete),
];
pub(super) const CLIMBING: [&str; 6] = [
    "__proto__",
    "__defineGetter__",
    "__lookupGetter__",
    "__defineSetter__",
    "caller",
    "callee",
];
pub(super) const RISKY: [&str; 11] = [
    "eval",
    "Function",
    "require",
    "process",
    "child_process",
    "constructor",
    "exec",
    "execSync",
    "spawn",
    "fetch",
    "__proto__",
];
