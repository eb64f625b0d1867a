//! The back end tells what it was asked.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use tidegate_testkit::Backend;

use crate::SOON;

#[test]
fn the_back_end_echoes_counts_and_adds_headers() {
    let backend = Backend::start();
    backend.answer_with(&[("x-extra", "1"), ("x-extra", "2")]);
    let answer = ask(
        &backend,
        "POST /a?b HTTP/1.1\r\nHost: h\r\nX-Mine: m\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
    );
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nx-extra: 1\r\nx-extra: 2\r\n"), "{answer}");
    let body = "POST /a?b\nhost: h\nx-mine: m\nconnection: close\ncontent-length: 2\n\nhi\n";
    assert!(answer.ends_with(body), "{answer}");
    backend.answer_with(&[]);
    let answer = ask(&backend, "GET / HTTP/1.0\r\n\r\n");
    assert!(!answer.contains("x-extra"), "{answer}");
    assert_eq!(backend.requests(), 2);
}

#[test]
fn the_back_end_ends_with_its_handle() {
    let backend = Backend::start();
    let mut stream = TcpStream::connect_timeout(&backend.address(), SOON).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    drop(backend);
    // Its port may have been given to somebody else by now; its connections end with it.
    let read = stream.read(&mut [0]).map_err(|error| error.kind());
    assert!(matches!(read, Ok(0) | Err(ErrorKind::ConnectionReset)), "{read:?}");
}

fn ask(backend: &Backend, request: &str) -> String {
    let mut stream = TcpStream::connect_timeout(&backend.address(), SOON).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
