//! The agent outside of any sandbox: a process of its own, asked over a real channel, on a file system of its own.
//!
//! No harness, because the agent forks and must be alone in its process. The binary lists and runs its tests by name,
//! as test runners ask for it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops when it does not get what it expects"
)]
#![expect(clippy::print_stdout, reason = "test runners read the list and the results there")]

mod client;
mod files;
mod ports;
mod processes;
mod uploads;
mod watches;

type Test = (&'static str, fn());

fn main() -> std::process::ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == client::AGENT) {
        return client::run_agent(&words[1..]);
    }
    let tests = [
        files::TESTS,
        ports::TESTS,
        processes::TESTS,
        uploads::TESTS,
        watches::TESTS,
    ]
    .concat();
    if words.iter().any(|word| word == "--list") {
        let ignored = words.iter().any(|word| word == "--ignored");
        print!("{}", if ignored { String::new() } else { list(&tests) });
        return std::process::ExitCode::SUCCESS;
    }
    run(&tests, &words)
}

fn list(tests: &[Test]) -> String {
    tests.iter().map(|(name, _)| format!("{name}: test\n")).collect()
}

/// Runs the tests whose name is given exactly, or holds a given word; all if none is given.
fn run(tests: &[Test], words: &[String]) -> std::process::ExitCode {
    let is_exact = words.iter().any(|word| word == "--exact");
    let wanted: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let fits = |name: &str| match is_exact {
        true => wanted.iter().any(|word| *word == name),
        false => wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())),
    };
    let mut failed = 0;
    for (name, test) in tests.iter().filter(|(name, _)| fits(name)) {
        let is_ok = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if is_ok { "ok" } else { "FAILED" });
        failed += u8::from(!is_ok);
    }
    std::process::ExitCode::from(failed)
}
