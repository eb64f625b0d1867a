//! The calls of etcd that reading and changing keys take, to one server.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use futures_util::stream;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::mpsc::{self, Sender};
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::keys::MAX_BYTES;
use super::message::{
    Ask, AuthenticateRequest, AuthenticateResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
    WatchCreate, WatchProgress, WatchRequest, WatchResponse,
};
use super::url::{EtcdTls, EtcdUrl};

/// How long a connection may be silent before it is asked for a sign of life. etcd hangs up on those who ask more
/// often than every five seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(6);

/// How long the sign may take.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// The largest message that is read: more than this is refused anyway.
const MAX_MESSAGE: usize = MAX_BYTES + 16 * 1024 * 1024;

/// Anything that can fail here.
pub(super) type Failure = Box<dyn Error + Send + Sync>;

/// A connection to one server.
#[derive(Debug)]
pub(super) struct Client {
    grpc: Grpc<Channel>,
    token: Option<MetadataValue<Ascii>>,
}

impl Client {
    /// Connects to one of the URL's servers, and says who is asking.
    pub(super) async fn connect(url: &EtcdUrl, address: &str) -> Result<Self, Failure> {
        let scheme = if url.tls.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))?
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        if let Some(tls) = &url.tls {
            endpoint = endpoint.tls_config(tls_config(tls)?)?;
        }
        let grpc = Grpc::new(endpoint.connect().await?).max_decoding_message_size(MAX_MESSAGE);
        let mut client = Self { grpc, token: None };
        if let Some((name, password)) = url.login.clone() {
            let request = AuthenticateRequest { name, password };
            let answer: AuthenticateResponse =
                client.call("/etcdserverpb.Auth/Authenticate", request).await?;
            client.token = Some(answer.token.parse()?);
        }
        Ok(client)
    }

    /// Reads keys, as a majority of the servers knows them.
    pub(super) async fn range(&mut self, request: RangeRequest) -> Result<RangeResponse, Status> {
        self.call("/etcdserverpb.KV/Range", request).await
    }

    /// Changes keys, all or none.
    pub(super) async fn txn(&mut self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.call("/etcdserverpb.KV/Txn", request).await
    }

    /// Starts to watch keys.
    pub(super) async fn watch(&mut self, request: WatchCreate) -> Result<Watch, Status> {
        let (asks, receiver) = mpsc::channel(8);
        let first = WatchRequest { ask: Some(Ask::Create(request)) };
        let requests = stream::unfold((Some(first), receiver), async |(first, mut receiver)| match first {
            Some(first) => Some((first, (None, receiver))),
            None => receiver.recv().await.map(|next| (next, (None, receiver))),
        });
        self.ready().await?;
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let request = self.request(requests);
        let answer = self.grpc.streaming(request, path, ProstCodec::default()).await?;
        Ok(Watch { asks, answers: answer.into_inner() })
    }

    async fn call<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.ready().await?;
        let request = self.request(request);
        let path = PathAndQuery::from_static(path);
        let answer = self.grpc.unary(request, path, ProstCodec::<Q, A>::default()).await?;
        Ok(answer.into_inner())
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.grpc.ready().await.map_err(|error| Status::from_error(error.into()))
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        // A server that has lost the others must say so instead of being silent.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }
}

/// Keys being watched.
#[derive(Debug)]
pub(super) struct Watch {
    asks: Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
}

impl Watch {
    /// Waits for the next message. Giving up waiting loses nothing.
    pub(super) async fn next(&mut self) -> Result<WatchResponse, Status> {
        self.answers.message().await?.ok_or_else(|| Status::unavailable("it has ended the connection"))
    }

    /// Asks for a message, whatever happens. One that is still on its way will do.
    pub(super) fn ask_for_progress(&self) {
        self.asks.try_send(WatchRequest { ask: Some(Ask::Progress(WatchProgress {})) }).ok();
    }
}

fn tls_config(tls: &EtcdTls) -> Result<ClientTlsConfig, Failure> {
    let config = match &tls.ca {
        Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    Ok(match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => config.identity(Identity::from_pem(read(cert)?, read(key)?)),
        _ => config,
    })
}

/// Read anew for each connection, so that certificates may be replaced at any time.
fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()).into())
}
