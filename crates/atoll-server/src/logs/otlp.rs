//! Spans to a collector, by OTLP over HTTP. They hold what the log lines hold.

use super::{BoxedLayer, LogsError};
use crate::outgoing::{Trust, blocking_client};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::time::Duration;
use tracing_subscriber::Layer;

/// How long one batch may take, as in the OTLP specification.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The way to the collector, with a thread of its own that sends in batches.
#[derive(Debug)]
pub(super) struct Traces(SdkTracerProvider);

impl Traces {
    /// `endpoint` as `OTEL_EXPORTER_OTLP_ENDPOINT` means it: the path of traces is put behind.
    pub(super) fn to(endpoint: &str) -> Result<Self, LogsError> {
        let is_https = endpoint.starts_with("https:");
        let trust = if is_https { Trust::Host } else { Trust::Nobody };
        // The exporter's own client needs a process-wide TLS provider, which Atoll does not set.
        let client = blocking_client(trust, EXPORT_TIMEOUT);
        let client = client.map_err(|error| LogsError::Endpoint(crate::chain(&error)))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
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
        self.0.shutdown_with_timeout(Duration::from_secs(5)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::KeyValue;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use prost::Message;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use tracing_subscriber::layer::SubscriberExt;

    /// Answers one export as a collector does. Returns its head in lower case, and what its body holds.
    fn collect(listener: &TcpListener) -> (String, ExportTraceServiceRequest) {
        let (connection, _) = listener.accept().unwrap();
        let mut connection = BufReader::new(connection);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(connection.read_line(&mut head).unwrap(), 0, "{head}");
        }
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        connection.read_exact(&mut body).unwrap();
        let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        connection.get_mut().write_all(answer).unwrap();
        (head, ExportTraceServiceRequest::decode(body.as_slice()).unwrap())
    }

    fn text_of<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
        let found = attributes.iter().find(|attribute| attribute.key == key)?;
        match found.value.as_ref()?.value.as_ref()? {
            Value::StringValue(text) => Some(text.as_str()),
            _ => None,
        }
    }

    #[test]
    fn a_span_reaches_the_collector() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let traces = Traces::to(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let collector = std::thread::spawn(move || collect(&listener));
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        tracing::subscriber::with_default(subscriber, || {
            drop(tracing::error_span!("request", id = "req_1").entered());
        });
        drop(traces);
        let (head, export) = collector.join().unwrap();
        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
        assert!(head.contains("\r\ncontent-type: application/x-protobuf\r\n"), "{head}");
        let [from] = export.resource_spans.as_slice() else {
            panic!("not one resource: {export:?}");
        };
        let resource = from.resource.as_ref().unwrap();
        assert_eq!(text_of(&resource.attributes, "service.name"), Some("atoll"));
        let spans: Vec<_> = from.scope_spans.iter().flat_map(|scope| &scope.spans).collect();
        assert_eq!(spans.len(), 1, "{spans:?}");
        assert_eq!(spans[0].name, "request");
        assert_eq!(text_of(&spans[0].attributes, "id"), Some("req_1"));
    }
}
