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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use tracing_subscriber::layer::SubscriberExt;

    /// Answers one request and gives back what it was.
    fn collector(listener: std::net::TcpListener) -> Vec<u8> {
        let (mut connection, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        let mut part = [0; 4096];
        while !String::from_utf8_lossy(&got).contains("service.name") {
            let length = connection.read(&mut part).unwrap();
            assert_ne!(length, 0, "{}", String::from_utf8_lossy(&got));
            got.extend_from_slice(&part[..length]);
        }
        connection
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .unwrap();
        got
    }

    #[test]
    fn a_span_reaches_the_collector() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let traces = Traces::to(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let collector = std::thread::spawn(|| collector(listener));
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        tracing::subscriber::with_default(subscriber, || {
            drop(tracing::error_span!("request", id = "req_1").entered())
        });
        drop(traces);
        let got = collector.join().unwrap();
        let got = String::from_utf8_lossy(&got);
        assert!(got.starts_with("POST /v1/traces ") && got.contains("req_1"), "{got}");
    }
}
