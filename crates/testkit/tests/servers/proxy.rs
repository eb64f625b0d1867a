//! The network fails as told, and heals.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tidegate_testkit::{Proxy, Redis, wait};

use crate::SOON;

/// How long to look for something that is not to come.
const A_MOMENT: Duration = Duration::from_millis(100);

/// A client that speaks the simplest form of the protocol.
struct Client(TcpStream);

impl Client {
    fn connect(proxy: &Proxy) -> Self {
        Self(TcpStream::connect(proxy.address()).unwrap())
    }

    fn send(&mut self, command: &str) {
        self.0.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    }

    fn receive(&mut self, expected: &str) {
        assert_eq!(self.reply(expected.len()), expected);
    }

    fn reply(&mut self, length: usize) -> String {
        self.0.set_read_timeout(Some(SOON)).unwrap();
        let mut reply = vec![0; length];
        self.0.read_exact(&mut reply).unwrap();
        String::from_utf8(reply).unwrap()
    }

    fn receives_nothing(&mut self) {
        self.0.set_read_timeout(Some(A_MOMENT)).unwrap();
        assert_eq!(self.0.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    fn is_closed(&mut self) {
        self.0.set_read_timeout(Some(SOON)).unwrap();
        match self.0.read(&mut [0]) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("the connection is to be closed: {other:?}"),
        }
    }
}

fn proxied() -> (Redis, Proxy) {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    (redis, proxy)
}

#[test]
fn carries_and_counts_connections() -> io::Result<()> {
    let (_redis, proxy) = proxied();
    let mut client = Client::connect(&proxy);
    client.send("PING");
    client.receive("+PONG\r\n");
    assert_eq!(proxy.connections(), 1);
    drop(client);
    wait::until("the client's end is seen", SOON, || (proxy.connections() == 0).then_some(()));

    let address = proxy.address();
    let mut client = TcpStream::connect(address)?;
    drop(proxy);
    assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    Ok(())
}

#[test]
fn delays_replies_side_by_side_and_in_order() {
    let (redis, proxy) = proxied();
    let (delay, count) = (Duration::from_millis(200), 50);
    proxy.set_delay(delay);
    let mut client = Client::connect(&proxy);
    let start = Instant::now();
    for number in 0..count {
        client.send(&format!("ECHO {number:03}"));
        // Each reply is a chunk of its own.
        wait::until("the server has replied", SOON, || (redis.command_calls("echo") > number).then_some(()));
    }
    let sent = Instant::now();
    for number in 0..count {
        client.receive(&format!("$3\r\n{number:03}\r\n"));
        assert!(start.elapsed() >= delay);
    }
    let one_after_the_other = delay * u32::try_from(count).unwrap();
    assert!(sent.elapsed() < one_after_the_other);
}

#[test]
fn stalls_and_carries_on() {
    let (redis, proxy) = proxied();
    let mut client = Client::connect(&proxy);
    client.send("INCR a");
    client.receive(":1\r\n");

    proxy.stall();
    let mut late = Client::connect(&proxy);
    for client in [&mut client, &mut late] {
        client.send("INCR a");
        client.receives_nothing();
    }
    assert_eq!(redis.query::<u32>(&["GET", "a"]), 1);

    proxy.heal();
    let mut replies = [client.reply(4), late.reply(4)];
    replies.sort();
    assert_eq!(replies, [":2\r\n", ":3\r\n"]);
}

#[test]
fn loses_replies_to_what_was_done() {
    let (redis, proxy) = proxied();
    let mut client = Client::connect(&proxy);
    client.send("INCR a");
    client.receive(":1\r\n");

    proxy.drop_replies();
    client.send("INCR a");
    wait::until("the request has arrived", SOON, || (redis.query::<u32>(&["GET", "a"]) == 2).then_some(()));
    client.receives_nothing();

    proxy.heal();
    client.is_closed();
    let mut client = Client::connect(&proxy);
    client.send("INCR a");
    client.receive(":3\r\n");
}

#[test]
fn cuts_refuses_and_heals() {
    let (_redis, proxy) = proxied();
    let mut client = Client::connect(&proxy);
    client.send("PING");
    client.receive("+PONG\r\n");

    for _ in 0..3 {
        proxy.cut();
        client.is_closed();
        let refused = TcpStream::connect(proxy.address()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        wait::until("no connection is left", SOON, || (proxy.connections() == 0).then_some(()));

        proxy.heal();
        client = Client::connect(&proxy);
        client.send("PING");
        client.receive("+PONG\r\n");
    }
}
