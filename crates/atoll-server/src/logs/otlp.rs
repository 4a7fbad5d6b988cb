//! Spans to a collector, by OTLP over HTTP. They hold what the log lines hold.

use super::{BoxedLayer, LogsError};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::Layer;

/// The way to the collector, with a thread of its own that sends in batches.
#[derive(Debug)]
pub(super) struct Traces(SdkTracerProvider);

impl Traces {
    /// `endpoint` as `OTEL_EXPORTER_OTLP_ENDPOINT` means it: the path of traces is put behind.
    pub(super) fn to(endpoint: &str) -> Result<Self, LogsError> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .build()
            .map_err(|error| LogsError::Endpoint(error.to_string()))?;
        let resource = Resource::builder().with_service_name("atoll").build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        Ok(Self(provider))
    }

    pub(super) fn layer(&self) -> BoxedLayer {
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("atoll"))
            .boxed()
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // A collector that does not answer must not hold the end of the server.
        self.0.shutdown_with_timeout(std::time::Duration::from_secs(5)).ok();
    }
}
