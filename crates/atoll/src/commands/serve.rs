//! `atoll serve`: the server in the foreground, until SIGTERM or SIGINT.

use super::template::print;
use super::{home, usable_home};
use crate::args::ServeArgs;
use crate::output::Failure;
use atoll_core::outcome::ExitStatus;
use atoll_server::config::{self, ConfigError, Environment, Resolved, Sources};
use atoll_server::{Hurry, Server, ServerError, logs};
use std::path::Path;

pub(crate) fn run(args: ServeArgs) -> Result<ExitStatus, Failure> {
    let home = home()?;
    let resolved = resolve(args.config, args.settings.0, &home)?;
    if args.print_config {
        return print(&config::print(&resolved));
    }
    usable_home()?;
    // Bodies are read whole: what a burst of large ones used must not stay.
    atoll_jail::return_freed_memory();
    let _logs = logs::set_up(&resolved.settings).map_err(|error| Failure::bad(&error))?;
    raise_descriptors();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::ours(&error))?;
    let served = runtime.block_on(serve(resolved, &home));
    // A build was told to end; a thread that still copies files is not waited for.
    runtime.shutdown_background();
    served
}

fn resolve(
    file: Option<std::path::PathBuf>,
    flags: Vec<(&'static str, String)>,
    home: &Path,
) -> Result<Resolved, Failure> {
    let sources = Sources {
        flags,
        environment: environment(),
        file,
        usual_file: Some(home.join("atoll.toml")),
    };
    config::resolve(&sources).map_err(|error| match error {
        ConfigError::Together(_) | ConfigError::Unknown { .. } | ConfigError::Value { .. } => Failure {
            hint: Some("list the settings with `atoll serve --help`".to_owned()),
            ..Failure::bad(&error)
        },
        ConfigError::Read { .. } | ConfigError::Syntax { .. } => Failure::bad(&error),
    })
}

pub(super) fn environment() -> Environment {
    let text = |name: std::ffi::OsString| name.into_string().ok();
    let all = std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?)));
    all.filter(|(name, _)| name.starts_with("ATOLL_")).collect()
}

/// Each connection is a descriptor; the usual soft limit is far below what the kernel allows this process.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(errno) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(error = %errno, "could not raise the open file limit");
    }
}

async fn serve(resolved: Resolved, home: &Path) -> Result<ExitStatus, Failure> {
    // Before anything is said: who hears of the server may end it at once.
    let stop = stop_signal().map_err(|error| Failure::ours(&error))?;
    let program = std::env::current_exe().map_err(|error| Failure::ours(&error))?;
    let server = Server::start(resolved.settings, home, &program)
        .await
        .map_err(|error| fail(&error))?;
    print(&greeting(&server))?;
    server.run(stop).await;
    Ok(ExitStatus::Ok)
}

fn greeting(server: &Server) -> String {
    let mut text = String::new();
    if let Some(first) = &server.first_key {
        let path = first.path.display();
        text.push_str(&match is_journal() {
            true => format!("created the first key; it is stored in `{path}` (readable only by its owner)\n"),
            false => format!(
                "first key: {} (not shown again; stored in `{path}`)\n",
                first.key.reveal()
            ),
        });
    }
    if server.state.settings.insecure_no_auth {
        text.push_str("authentication is disabled: every user on this host can use this server\n");
    }
    text.push_str(&format!("listening on {}://{}\n", server.scheme(), server.address()));
    if let Some(authority) = server.authority() {
        text.push_str(&exports(&server.state.domain.to_string(), &authority));
    }
    text.push_str(&format!("metrics on http://{}/metrics\n", server.admin_address()));
    text
}

/// What clients on this host need besides a key. Others need a copy of the file.
fn exports(domain: &str, authority: &Path) -> String {
    let file = authority.display();
    format!(
        "clients use the domain `{domain}` and trust the CA in `{file}`; set E2B_API_KEY or ATOLL_API_KEY to a key, and:\n\
         export E2B_DOMAIN='{domain}'\n\
         export SSL_CERT_FILE='{file}'         # E2B for Python\n\
         export NODE_EXTRA_CA_CERTS='{file}'   # E2B for JavaScript\n\
         export ATOLL_CACERT='{file}'          # atoll --server https://…\n"
    )
}

/// Whether standard output goes to the log of the system, which keeps it and shows it to others: no place for a key.
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    rustix::fs::fstat(rustix::stdio::stdout()).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// The first signal, which gives the second.
fn stop_signal() -> std::io::Result<impl Future<Output = Hurry<impl Future<Output = ()>>>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut next = async move || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Ok(async move {
        next().await;
        Hurry(async move { next().await })
    })
}

fn fail(error: &ServerError) -> Failure {
    match error {
        ServerError::Listen { setting, .. } => Failure {
            hint: Some(listen_hint(setting)),
            ..Failure::bad(error)
        },
        ServerError::Running { .. }
        | ServerError::Descriptors(_)
        | ServerError::Template(_)
        | ServerError::Policies(_)
        | ServerError::Webhook(_)
        | ServerError::Tls(_) => Failure::bad(error),
        ServerError::Lock { .. } | ServerError::Audit(_) | ServerError::Store(_) | ServerError::FirstKey(_) => {
            Failure::ours(error)
        }
    }
}

fn listen_hint(setting: &str) -> String {
    let flag = setting.replace('_', "-");
    let variable = setting.to_uppercase();
    format!("set `{setting}` (flag --{flag}, variable ATOLL_{variable}) to a free address; port 0 selects a free port")
}
