//! Log lines: text for people or JSON for machines, to stderr. What never gets there: code, bodies, queries, keys.

use crate::config::LogSettings;
use atoll_core::service::{LogFormat, LogLevel};
use std::panic::PanicHookInfo;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[derive(Debug, thiserror::Error)]
#[error("logging was set up before")]
pub struct AlreadySetUp;

/// For the whole process, once.
pub fn set_up(settings: LogSettings) -> Result<(), AlreadySetUp> {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match settings.format {
        LogFormat::Text => lines.with_ansi(false).with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    let done = tracing_subscriber::registry()
        .with(lines.with_filter(filter(settings.level)))
        .try_init();
    done.map_err(|_| AlreadySetUp)?;
    std::panic::set_hook(Box::new(note_panic));
    Ok(())
}

/// Ours at the wanted level; what libraries say below a warning may hold bytes of requests and is left out.
fn filter(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let libraries = level.min(LevelFilter::WARN);
    Targets::new().with_default(libraries).with_target("atoll", level)
}

/// Where it was, and what was said if that was written in the source. Made-up text may hold data of a request.
fn note_panic(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let said = info
        .payload()
        .downcast_ref::<&'static str>()
        .copied()
        .unwrap_or("a text made at run time, not shown");
    tracing::error!(place, said, "a panic");
}
