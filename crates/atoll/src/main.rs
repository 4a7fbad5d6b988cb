//! The binary `atoll`. The same file is started again as jailer, spawner and agent; those never reach the argument parser.

mod args;
mod bar;
mod client;
mod commands;
mod output;
mod printer;
mod status_line;

use args::{Cli, Command};
use atoll_core::outcome::ExitStatus;
use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The first process of a guest that runs Atoll's own virtual machine.
    if std::process::id() == 1 && std::env::args_os().next().is_some_and(|name| name == "/init") {
        return ExitCode::from(u8::from(atoll_jail::vm::init_main() != 0));
    }
    let mut words = std::env::args_os().skip(1);
    match words.next().as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("__jailer") => return ExitCode::from(u8::from(atoll_jail::jailer::main() != 0)),
        Some("__spawner") => return ExitCode::from(u8::from(atoll_jail::spawner::main(atoll_guest::main) != 0)),
        Some("__agent") => return ExitCode::from(u8::from(atoll_jail::oci::agent_main(atoll_guest::main) != 0)),
        Some("__gvisor_agent") => {
            let plan = words.next().unwrap_or_default();
            let ended = atoll_jail::gvisor::agent_main(atoll_guest::main, &plan.to_string_lossy());
            return ExitCode::from(u8::from(ended != 0));
        }
        Some("__kvm-probe") => return ExitCode::from(u8::from(atoll_jail::kvm::probe_main() != 0)),
        Some("__guest") => return ExitCode::from(u8::from(atoll_jail::vm::guest_main(atoll_guest::main) != 0)),
        #[cfg(feature = "wasm")]
        Some("__wasm") => return ExitCode::from(u8::from(atoll_wasm::main() != 0)),
        #[cfg(feature = "wasm")]
        Some("__wasm-build") => return ExitCode::from(u8::from(atoll_wasm::build_main(words) != 0)),
        #[cfg(feature = "wasm")]
        Some("__wasm-pack") => {
            let packed = commands::component::pack(words);
            return ExitCode::from(packed.unwrap_or_else(|failure| output::report(&failure, false)) as u8);
        }
        _ => {}
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            if !error.use_stderr() {
                error.print().ok();
                return ExitCode::SUCCESS;
            }
            if std::env::args_os().any(|word| word == "--json") {
                let failure = output::Failure::usage(error.to_string().trim_end());
                std::io::stdout().write_all(failure.json().as_bytes()).ok();
            }
            error.print().ok();
            return ExitCode::from(ExitStatus::Usage as u8);
        }
    };
    let json = cli.command.wants_json();
    let done = match cli.command {
        Command::Run(args) => commands::run::run(*args),
        Command::Template(args) => commands::template::run(args),
        Command::Doctor(args) => commands::doctor::run(args),
        Command::Serve(args) => commands::serve::run(args),
        Command::Keys(args) => commands::keys::run(args),
        Command::Audit(args) => commands::audit::run(args),
        Command::Approvals(args) => commands::approvals::run(args),
        Command::Sandbox(args) => commands::sandbox::run(args),
        Command::Policy(args) => commands::policy::run(args),
    };
    ExitCode::from(done.unwrap_or_else(|failure| output::report(&failure, json)) as u8)
}
