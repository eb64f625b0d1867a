//! However large a body is, a gateway only ever has a little of it.

use std::fs::File;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Request, Response};
use tempfile::TempDir;
use tidegate_testkit::{Pieces, Scripted};

use super::Gateway;

const LARGE: u64 = 1 << 30;
const PIECE: usize = 64 * 1024;

/// The most memory that the process has ever had, in KiB.
fn peak(gateway: &Gateway) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn backend(heard: Arc<AtomicU64>) -> Scripted {
    Scripted::http(move |request: Request<Incoming>| {
        let heard = Arc::clone(&heard);
        async move {
            if request.uri().path() == "/down" {
                let (feeder, body) = Pieces::fed_with_length(LARGE);
                tokio::spawn(async move {
                    let piece = hyper::body::Bytes::from(vec![b'x'; PIECE]);
                    for _ in 0..LARGE / PIECE as u64 {
                        if !feeder.give(piece.clone()).await {
                            break;
                        }
                    }
                });
                return Response::new(body);
            }
            let mut body = request.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                heard.fetch_add(frame.data_ref().map_or(0, |data| data.len() as u64), Ordering::SeqCst);
            }
            Response::new(Pieces::whole("thanks"))
        }
    })
}

/// A gibibyte up and one down, over both versions.
#[test]
fn a_gibibyte_takes_no_memory() {
    let heard = Arc::new(AtomicU64::new(0));
    let backend = backend(Arc::clone(&heard));
    let gateway = Gateway::start(&["--upstream", &format!("http://{}", backend.address())]);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("large");
    // All of it is a hole.
    File::create(&file).unwrap().set_len(LARGE).unwrap();
    for (round, version) in ["--http1.1", "--http2-prior-knowledge"].into_iter().enumerate() {
        let curl = |args: &[&str]| {
            let told =
                Command::new("curl").args(["-sS", version, "--max-time", "120"]).args(args).output().unwrap();
            assert!(told.status.success(), "{version}: {}", String::from_utf8_lossy(&told.stderr));
            String::from_utf8_lossy(&told.stdout).into_owned()
        };
        let (up, down) = (format!("http://{}/up", gateway.listen), format!("http://{}/down", gateway.listen));
        assert_eq!(curl(&["-T", file.to_str().unwrap(), &up]), "thanks");
        assert_eq!(heard.load(Ordering::SeqCst), LARGE * (round as u64 + 1));
        assert_eq!(curl(&["-o", "/dev/null", "-w", "%{size_download}", &down]), LARGE.to_string());
    }
    let peak = peak(&gateway);
    assert!(peak < 150 * 1024, "{peak} KiB");
}
