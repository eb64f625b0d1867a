//! One etcd.

use std::net::TcpStream;

use tidegate_testkit::{Certificates, Etcd};

use crate::exists;

fn value(etcd: &Etcd, key: &str) -> String {
    etcd.control(&["get", key, "--print-value-only"], "")
}

#[test]
fn starts_answers_and_leaves_nothing_behind() {
    let etcd = Etcd::start();
    let before = etcd.revision();
    etcd.put("a", "1");
    assert_eq!((value(&etcd, "a").as_str(), etcd.revision()), ("1\n", before + 1));
    etcd.compact();
    etcd.delete("a");
    assert_eq!((value(&etcd, "a").as_str(), etcd.revision()), ("", before + 2));
    let (pid, address) = (etcd.pid(), etcd.address());
    assert!(exists(pid));
    drop(etcd);
    assert!(TcpStream::connect(address).is_err() && !exists(pid));
}

#[test]
fn crashes_and_comes_back_with_its_data_on_its_port() {
    let etcd = Etcd::start();
    etcd.put("a", b"1");
    let (pid, address) = (etcd.pid(), etcd.address());
    etcd.kill();
    assert!(TcpStream::connect(address).is_err() && !exists(pid));
    etcd.restart();
    assert_eq!((value(&etcd, "a").as_str(), etcd.address()), ("1\n", address));
    etcd.pause();
    etcd.resume();
    assert_eq!(value(&etcd, "a"), "1\n");
}

#[test]
fn speaks_tls() {
    let etcd = Etcd::start_tls(&Certificates::generate());
    etcd.put("a", "1");
    assert_eq!(value(&etcd, "a"), "1\n");
}
