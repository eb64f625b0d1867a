//! A small collector: takes spans as OpenTelemetry's own does, and remembers them.

use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use tidegate_testkit::Certificates;
use tokio::sync::oneshot;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

use crate::support::wait_for;

/// A span as a collector gets it.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty: none.
    pub(crate) parent: String,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) resource: Vec<(String, String)>,
    /// When it began and ended, in nanoseconds.
    pub(crate) lasted: (u64, u64),
}

impl Got {
    /// An attribute's value; empty if it has none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.attributes.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

/// A running collector; ends with the test.
pub(crate) struct Collector {
    scheme: &'static str,
    at: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
    _end: oneshot::Sender<()>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::serve("http", Server::builder())
    }

    /// One that is spoken to over TLS.
    pub(crate) fn start_tls(certificates: &Certificates) -> Self {
        let [certificate, key] = [certificates.server_certificate(), certificates.server_key()]
            .map(|file| fs::read_to_string(file).unwrap());
        let tls = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
        Self::serve("https", Server::builder().tls_config(tls).unwrap())
    }

    fn serve(scheme: &'static str, mut server: Server) -> Self {
        let got = Arc::new(Mutex::new(Vec::new()));
        let service = TraceServiceServer::new(Desk(Arc::clone(&got)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let at = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel();
        thread::spawn(move || {
            let incoming = tonic::transport::server::TcpIncoming::from(listener);
            let serving = server.add_service(service);
            runtime
                .block_on(serving.serve_with_incoming_shutdown(incoming, async { drop(ended.await) }))
                .unwrap();
        });
        Self { scheme, at, got, _end: end }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.at)
    }

    pub(crate) fn all(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    /// Waits for a trace with all of these spans; all the spans of it.
    pub(crate) fn trace_with(&self, names: &[&str]) -> Vec<Got> {
        wait_for(&format!("a trace with {names:?}"), || {
            let all = self.all();
            let has =
                |trace: &str, name: &str| all.iter().any(|span| span.trace == trace && span.name == name);
            let found = all.iter().find(|span| names.iter().all(|name| has(&span.trace, name)))?;
            Some(all.iter().filter(|span| span.trace == found.trace).cloned().collect())
        })
    }
}

struct Desk(Arc<Mutex<Vec<Got>>>);

#[tonic::async_trait]
impl TraceService for Desk {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource_spans in request.into_inner().resource_spans {
            let resource =
                resource_spans.resource.map(|resource| pairs(&resource.attributes)).unwrap_or_default();
            let spans = resource_spans.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().unwrap().extend(spans.map(|span| got(&span, &resource)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn got(span: &Span, resource: &[(String, String)]) -> Got {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Got {
        name: span.name.clone(),
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        attributes: pairs(&span.attributes),
        resource: resource.to_vec(),
        lasted: (span.start_time_unix_nano, span.end_time_unix_nano),
    }
}

fn pairs(attributes: &[KeyValue]) -> Vec<(String, String)> {
    attributes.iter().map(|pair| (pair.key.clone(), text(pair.value.as_ref()))).collect()
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(whether)) => whether.to_string(),
        other => format!("{other:?}"),
    }
}
