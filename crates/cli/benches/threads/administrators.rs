//! Administrators who ask again as soon as they are answered.
//!
//! They stand for machines elsewhere, so that what they do with answers must not slow down what is measured: they are a process of their
//! own, which runs only when no other process wants its core.

use std::io::{BufRead as _, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::{ADMINISTRATORS_OF, CLIENT_CORE};

/// Paths that they read, each in a loop. The last is the stream of an open dashboard.
const PATHS: [&str; 4] = ["/metrics", "/v1/rules", "/v1/documents", "/v1/events"];

/// A process of administrators.
pub(crate) struct Administrators(Child);

impl Administrators {
    /// Starts them, and returns when they have been answered for the first time.
    pub(crate) fn start(admin: SocketAddr) -> Self {
        let bench = std::env::current_exe().expect("a path");
        let mut process = Command::new("chrt");
        process.args(["--idle", "0", "taskset", "-c", CLIENT_CORE]).arg(bench);
        process.env(ADMINISTRATORS_OF, admin.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = process.spawn().expect("chrt is not there; apt-get install util-linux");
        let answered = process.stdout.as_mut().and_then(|out| out.read_exact(&mut [0]).ok());
        answered.expect("an answer to an administrator");
        Self(process)
    }

    /// Returns how often they were answered.
    pub(crate) fn end(mut self) -> u64 {
        drop(self.0.stdin.take());
        let mut answered = String::new();
        let out = self.0.stdout.as_mut().map(|out| BufReader::new(out).read_line(&mut answered));
        out.expect("an output").expect("a number");
        self.0.wait().ok();
        answered.trim().parse().expect("a number")
    }
}

/// Is such a process, until its input ends: says so when there was an answer, and at the end how many there were.
pub(crate) fn ask(admin: SocketAddr) {
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let ask = |path: &'static str| {
        let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                get(admin, path, &stop);
                if answered.fetch_add(1, Ordering::Relaxed) == 0 {
                    print!("!");
                    std::io::stdout().flush().expect("an output");
                }
            }
        })
    };
    let threads = PATHS.map(ask);
    std::io::stdin().read_to_end(&mut Vec::new()).ok();
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("an administrator"));
    println!("{}", answered.load(Ordering::Relaxed));
}

/// Reads an answer to its end, or until there is no more time for it.
fn get(admin: SocketAddr, path: &str, stop: &AtomicBool) {
    let mut stream = TcpStream::connect(admin).expect("the admin listener");
    stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut buffer = vec![0; 1 << 16];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return,
            _ if stop.load(Ordering::Relaxed) => return,
            _ => {}
        }
    }
}
