//! Keys that change while tokens are verified.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jsonwebtoken::Algorithm::{ES256, HS256};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;

use super::signer::set;
use super::*;
use crate::identity::jwt::follow::backoff;

const SOON: Duration = Duration::from_millis(5);
const LATER: Duration = Duration::from_secs(3_600);

/// So quick that tests need not wait, except for what they are not about.
fn pace() -> Pace {
    Pace {
        file: SOON,
        url: SOON,
        early: SOON,
        retry: SOON,
        retry_most: SOON,
        patience: Duration::from_secs(10),
    }
}

/// Runs `test` while keys are followed.
async fn following(tokens: &Tokens, test: impl Future<Output = ()>) {
    let limited = timeout(Duration::from_secs(30), test);
    tokio::select! {
        () = tokens.follow() => unreachable!("following does not end"),
        done = limited => done.unwrap(),
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = timeout(Duration::from_secs(20), async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("not so after 20 s: {what}"));
}

fn with(keys: JwtKeys, pace: Pace) -> Tokens {
    Tokens::new(&JwtConfig::new(keys), pace).unwrap()
}

fn problem(tokens: &Tokens) -> String {
    tokens.problem().unwrap_or_default()
}

#[tokio::test]
async fn a_file_may_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let (old, new) = (Signer::new(ES256).named("old"), Signer::new(ES256).named("new"));
    let (by_old, by_new) = (old.sign(&json!({})), new.sign(&json!({})));
    std::fs::write(&path, set(&[&old])).unwrap();
    let tokens = with(JwtKeys::SetFile(path.clone()), pace());
    assert_eq!(ask(&tokens, &by_old).as_deref(), Ok("alice"), "without waiting");
    refused(&tokens, &by_new, "not known");
    following(&tokens, async {
        std::fs::write(&path, set(&[&old, &new])).unwrap();
        until("both are good", || ask(&tokens, &by_new).is_ok()).await;
        assert!(ask(&tokens, &by_old).is_ok());
        for bad in ["", "{\"keys\":[]}", "garbage", &" ".repeat(1024 * 1024 + 1)] {
            std::fs::write(&path, bad).unwrap();
            until("it is told", || problem(&tokens).contains("the last good ones stay in use")).await;
            assert!(ask(&tokens, &by_new).is_ok() && ask(&tokens, &by_old).is_ok());
            std::fs::write(&path, set(&[&old, &new])).unwrap();
            until("it is over", || tokens.problem().is_none()).await;
        }
        std::fs::remove_file(&path).unwrap();
        until("it is told", || problem(&tokens).contains("cannot be read")).await;
        // What was remembered as good goes with its key.
        std::fs::write(&path, set(&[&new])).unwrap();
        until("the old is refused", || ask(&tokens, &by_old).is_err()).await;
        assert!(ask(&tokens, &by_new).is_ok() && tokens.problem().is_none());
    })
    .await;
}

#[tokio::test]
async fn without_keys_tokens_have_to_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let signer = Signer::new(ES256).named("1");
    let token = signer.sign(&json!({}));
    let tokens = with(JwtKeys::SetFile(path.clone()), pace());
    assert!(ask(&tokens, &token).unwrap_err().starts_with("503 keys_unavailable"));
    assert!(problem(&tokens).contains("not there yet"), "{}", problem(&tokens));
    following(&tokens, async {
        std::fs::write(&path, set(&[&signer])).unwrap();
        until("it is good", || ask(&tokens, &token).is_ok()).await;
        assert_eq!(tokens.problem(), None);
    })
    .await;
}

/// A server of keys that does as it is told.
#[derive(Clone)]
struct Issuer {
    answer: Arc<Mutex<Answer>>,
    asked: Arc<AtomicUsize>,
    address: SocketAddr,
}

#[derive(Clone)]
enum Answer {
    Set(String),
    Status(u16),
    Nothing,
    Huge,
}

impl Issuer {
    async fn start(answer: Answer, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let issuer = Self { answer: Arc::new(Mutex::new(answer)), asked: Arc::default(), address };
        let serving = issuer.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (issuer, tls) = (serving.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => issuer.serve(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                issuer.serve(stream).await;
                            }
                        }
                    }
                });
            }
        });
        issuer
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let service = service_fn(|request| self.answer(request));
        drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert_eq!(
            (request.uri().to_string().as_str(), request.headers().contains_key("host")),
            ("/keys?a=b", true)
        );
        let answer = self.answer.lock().clone();
        let (status, body) = match answer {
            Answer::Set(text) => (200, text),
            Answer::Status(status) => (status, "{}".to_owned()),
            Answer::Nothing => std::future::pending().await,
            Answer::Huge => (200, " ".repeat(2 * 1024 * 1024)),
        };
        Ok(Response::builder().status(status).header("location", "/other").body(body.into()).unwrap())
    }

    fn says(&self, answer: Answer) {
        *self.answer.lock() = answer;
    }

    fn keys(&self) -> JwtKeys {
        JwtKeys::SetUrl { url: format!("http://{}/keys?a=b", self.address), authorities: None }
    }
}

#[tokio::test]
async fn a_url_may_answer_anything() {
    let (old, new) = (Signer::new(ES256).named("old"), Signer::new(ES256).named("new"));
    let (by_old, by_new) = (old.sign(&json!({})), new.sign(&json!({})));
    let issuer = Issuer::start(Answer::Status(500), None).await;
    let patience = Duration::from_millis(200);
    let tokens = with(issuer.keys(), Pace { patience, ..pace() });
    assert!(ask(&tokens, &by_old).unwrap_err().starts_with("503 keys_unavailable"));
    assert!(problem(&tokens).contains("/keys: it was not asked yet"), "{}", problem(&tokens));
    following(&tokens, async {
        until("it is told", || problem(&tokens).contains("500")).await;
        assert!(ask(&tokens, &by_old).unwrap_err().starts_with("503 keys_unavailable"));
        issuer.says(Answer::Set(set(&[&old])));
        until("it is good", || ask(&tokens, &by_old).is_ok()).await;
        until("all is well", || tokens.problem().is_none()).await;
        let shared = Signer::new(HS256).named("s");
        for (answer, said) in [
            (Answer::Status(500), "the answer is 500"),
            (Answer::Status(302), "the answer is 302"),
            (Answer::Nothing, "no answer within"),
            (Answer::Huge, "larger than 1 MiB"),
            (Answer::Set("<html>".to_owned()), "not JSON"),
            (Answer::Set(set(&[])), "no key"),
            (Answer::Set(set(&[&shared])), "no key"),
        ] {
            issuer.says(answer);
            until(said, || problem(&tokens).contains(said)).await;
            assert!(problem(&tokens).contains("the last good ones stay in use"));
            assert!(ask(&tokens, &by_old).is_ok(), "{said}");
        }
        issuer.says(Answer::Set(set(&[&new])));
        until("it is the new one's turn", || ask(&tokens, &by_new).is_ok()).await;
        refused(&tokens, &by_old, "not known");
        until("all is well", || tokens.problem().is_none()).await;
    })
    .await;
}

#[tokio::test]
async fn a_new_key_is_asked_for_when_it_is_seen() {
    let (old, new) = (Signer::new(ES256).named("old"), Signer::new(ES256).named("new"));
    let issuer = Issuer::start(Answer::Set(set(&[&old])), None).await;
    let tokens = with(issuer.keys(), Pace { url: LATER, ..pace() });
    following(&tokens, async {
        let (by_old, by_new) = (old.sign(&json!({})), new.sign(&json!({})));
        until("there are keys", || ask(&tokens, &by_old).is_ok()).await;
        issuer.says(Answer::Set(set(&[&old, &new])));
        refused(&tokens, &by_new, "not known");
        until("the new one is known", || ask(&tokens, &by_new).is_ok()).await;
    })
    .await;
}

#[tokio::test]
async fn an_unchanged_set_forgets_nothing() {
    let signer = Signer::new(ES256).named("1");
    let issuer = Issuer::start(Answer::Set(set(&[&signer])), None).await;
    let tokens = with(issuer.keys(), pace());
    following(&tokens, async {
        let token = signer.sign(&json!({}));
        until("there are keys", || ask(&tokens, &token).is_ok()).await;
        let before = issuer.asked.load(Ordering::SeqCst);
        until("it was asked again", || issuer.asked.load(Ordering::SeqCst) > before + 2).await;
        assert_eq!(tokens.ring.load().as_ref().unwrap().verified.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_encrypted_url_must_be_vouched_for() {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let signer = Signer::new(ES256).named("1");
    let issuer = Issuer::start(Answer::Set(set(&[&signer])), Some(Arc::new(config).into())).await;

    let folder = tempfile::tempdir().unwrap();
    let stranger = folder.path().join("stranger.pem");
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&stranger, other.cert.pem()).unwrap();
    let trusted = folder.path().join("trusted.pem");
    std::fs::write(&trusted, authority.pem()).unwrap();

    let url = format!("https://{}/keys?a=b", issuer.address);
    let keys = |authorities| JwtKeys::SetUrl { url: url.clone(), authorities: Some(authorities) };
    let tokens = with(keys(stranger), pace());
    following(&tokens, async {
        until("it is told", || problem(&tokens).contains("cannot agree on TLS")).await;
    })
    .await;
    assert_eq!(issuer.asked.load(Ordering::SeqCst), 0);
    let tokens = with(keys(trusted), pace());
    following(&tokens, async {
        until("it is good", || ask(&tokens, &signer.sign(&json!({}))).is_ok()).await;
    })
    .await;
    assert!(Tokens::new(&JwtConfig::new(keys("/nowhere.pem".into())), pace()).is_err());
}

/// In virtual time.
#[tokio::test(start_paused = true)]
async fn unknown_keys_do_not_make_us_ask_all_the_time() {
    let tokens = tokens(JwtKeys::SetUrl { url: "http://127.0.0.1:9/keys".to_owned(), authorities: None });
    let asked = Instant::now();
    tokens.wait(asked, Duration::from_secs(300)).await;
    assert_eq!(asked.elapsed(), Duration::from_secs(300));

    let asked = Instant::now();
    (0..100).for_each(|_| tokens.wanted.notify_one());
    tokens.wait(asked, Duration::from_secs(300)).await;
    assert_eq!(asked.elapsed(), Duration::from_secs(10));

    let asked = Instant::now();
    tokens.wanted.notify_one();
    tokens.wait(asked, Duration::from_secs(2)).await;
    assert_eq!(asked.elapsed(), Duration::from_secs(2), "a retry is not put off");
}

#[test]
fn retries_come_less_and_less_often() {
    let seconds = |failures| backoff(Duration::from_secs(1), Duration::from_secs(60), failures).as_secs();
    assert_eq!([1, 2, 3, 6, 7, 8, 40, u32::MAX].map(seconds), [1, 2, 4, 32, 60, 60, 60, 60]);
}
