//! Starting the binary and talking to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take before a test gives up: generous, for machines that are busy with other things.
pub(crate) const PATIENCE: Duration = tidegate_testkit::wait::HANG_LIMIT;

/// The binary, in an environment of which Tidegate takes no notice.
pub(crate) fn tidegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"TIDEGATE_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// How a run of the binary ended and what it said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Said {
    /// What was printed, as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails unless it ended with `code` and complained with all of `texts`.
    pub(crate) fn complains(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for text in texts {
            assert!(self.err.contains(text), "`{text}` is not in: {}", self.err);
        }
    }
}

/// Runs the binary to its end.
pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Said {
    tidegate().args(args).output().unwrap().into()
}

/// Waits until `look` finds something.
pub(crate) fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, what, look)
}

/// The same for what may take another time.
pub(crate) fn wait_within<T>(longest: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + longest;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "gave up waiting: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A file of the fixtures.
pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A running server; ends with the test.
pub(crate) struct Server {
    child: Child,
    /// Everything printed so far: standard output, standard error.
    said: [Arc<Mutex<String>>; 2],
    pub(crate) http: String,
    pub(crate) grpc: String,
    pub(crate) admin: String,
    pub(crate) curl: String,
}

impl Server {
    /// Starts it on free ports, but where the arguments say otherwise, and waits until it says where it is.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with(args, |command| command)
    }

    /// The same, with a word on how to start the process.
    pub(crate) fn start_with(args: &[&str], adjust: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        Self::start_at("127.0.0.1", args, adjust)
    }

    /// The same, at another address.
    pub(crate) fn start_at(
        host: &str,
        args: &[&str],
        adjust: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let (mut command, any_port) = (tidegate(), format!("{host}:0"));
        command.arg("serve");
        for listener in ["--http", "--grpc", "--admin"].iter().filter(|listener| !args.contains(*listener)) {
            command.args([*listener, &*any_port]);
        }
        adjust(command.args(args)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = follow(child.stdout.take().unwrap());
        let err = follow(child.stderr.take().unwrap());
        let unknown = String::new;
        let mut server = Self {
            child,
            said: [out, err],
            http: unknown(),
            grpc: unknown(),
            admin: unknown(),
            curl: unknown(),
        };
        server.curl = wait_for("the server to start", || {
            assert!(server.child.try_wait().unwrap().is_none(), "ended early: {}", server.log());
            server.out().lines().find(|line| line.starts_with("  curl ")).map(|line| line.trim().to_owned())
        });
        let place = |name: &str| {
            let out = server.out();
            let line = out.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().trim_start_matches("http://").to_owned()
        };
        (server.http, server.grpc, server.admin) = (place("http"), place("grpc"), place("admin"));
        server
    }

    pub(crate) fn out(&self) -> String {
        self.said[0].lock().unwrap().clone()
    }

    pub(crate) fn log(&self) -> String {
        self.said[1].lock().unwrap().clone()
    }

    /// Decides a request.
    pub(crate) fn check(&self, body: &str) -> Value {
        let (status, answer) = ask(&self.http, "POST", "/v1/check", body);
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(&answer).unwrap()
    }

    /// What the admin listener says.
    pub(crate) fn admin(&self, path: &str) -> (u16, String) {
        ask(&self.admin, "GET", path, "")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to this process and to no other.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Ends it as an operator would; everything it logged.
    #[cfg(unix)]
    pub(crate) fn end(mut self) -> String {
        self.signal("TERM");
        assert_eq!(self.wait(), 0, "{}", self.log());
        self.log()
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> i32 {
        wait_for("the server to end", || self.child.try_wait().unwrap()).code().unwrap_or(-1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything that is printed, as it comes.
pub(crate) fn follow(from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let said = Arc::new(Mutex::new(String::new()));
    let all = Arc::clone(&said);
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = String::new();
        while from.read_line(&mut line).is_ok_and(|read| read > 0) {
            all.lock().unwrap().push_str(&line);
            line.clear();
        }
    });
    said
}

/// Sends one request over its own connection; panics if there is no answer.
pub(crate) fn ask(to: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = begin(to, method, path, body.len());
    stream.write_all(body.as_bytes()).unwrap();
    answer(stream)
}

/// Connects and sends the head of a request.
pub(crate) fn begin(to: &str, method: &str, path: &str, length: usize) -> TcpStream {
    begin_with(to, method, path, length, "")
}

/// The same with more headers, each with its line end.
pub(crate) fn begin_with(to: &str, method: &str, path: &str, length: usize, more: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-length: {length}\r\n{more}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Reads the answer to its end.
pub(crate) fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer but: {text:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
