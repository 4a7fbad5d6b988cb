//! Log lines: text for people or JSON for machines, to stderr. What never gets there: code, bodies, queries, keys.
//!
//! With the feature `otlp` the same spans go to a collector, if the setting `otlp.endpoint` names one.

#[cfg(feature = "otlp")]
mod otlp;

use crate::config::Settings;
use atoll_core::service::{LogFormat, LogLevel};
use std::panic::PanicHookInfo;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    #[error("logging is already set up")]
    AlreadySetUp,
    #[error("this build of Atoll cannot export traces; rebuild with --features otlp, or unset otlp.endpoint")]
    NoOtlp,
    #[error("cannot export traces to otlp.endpoint: {0}")]
    Endpoint(String),
}

/// What is written and sent; dropping it sends what still waits.
#[derive(Debug)]
pub struct Logs {
    #[cfg(feature = "otlp")]
    _traces: Option<otlp::Traces>,
}

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// For the whole process, once.
pub fn set_up(settings: &Settings) -> Result<Logs, LogsError> {
    let (logs, traces) = traces(settings.otlp_endpoint.as_deref())?;
    let mut layers = vec![
        lines(settings.log.format)
            .with_filter(filter(settings.log.level))
            .boxed(),
    ];
    layers.extend(traces.map(|layer| layer.with_filter(filter(LogLevel::Info)).boxed()));
    let done = tracing_subscriber::registry().with(layers).try_init();
    done.map_err(|_| LogsError::AlreadySetUp)?;
    std::panic::set_hook(Box::new(note_panic));
    Ok(logs)
}

fn lines(format: LogFormat) -> BoxedLayer {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(false).with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    }
}

#[cfg(feature = "otlp")]
fn traces(endpoint: Option<&str>) -> Result<(Logs, Option<BoxedLayer>), LogsError> {
    let traces = endpoint.map(otlp::Traces::to).transpose()?;
    let layer = traces.as_ref().map(otlp::Traces::layer);
    Ok((Logs { _traces: traces }, layer))
}

#[cfg(not(feature = "otlp"))]
fn traces(endpoint: Option<&str>) -> Result<(Logs, Option<BoxedLayer>), LogsError> {
    match endpoint {
        Some(_) => Err(LogsError::NoOtlp),
        None => Ok((Logs {}, None)),
    }
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
    let said = info.payload().downcast_ref::<&'static str>().copied();
    tracing::error!(
        place,
        said = said.unwrap_or("not shown: may contain request data"),
        "panic"
    );
}
