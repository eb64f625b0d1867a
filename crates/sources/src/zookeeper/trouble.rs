//! What ZooKeeper says when something goes wrong, and what to do about it.

use zookeeper_client::Error;

use super::url::ZookeeperUrl;

pub(super) use crate::trouble::Trouble;

/// An error that came up when `path` was to be read.
pub(super) fn of(url: &ZookeeperUrl, path: &str, error: &Error) -> Trouble {
    match (error, &url.login) {
        (Error::NoAuth, Some((user, _))) => Trouble::refused(format!(
            "ZooKeeper does not let {user} read or change {path}; correct user and password in the URL, \
             or grant the permission r (crwd for who changes rules) with setAcl -R {} in zkCli.sh",
            url.path
        )),
        (Error::NoAuth, None) => Trouble::refused(format!(
            "ZooKeeper does not let everybody read or change {path}; write user:password@ before the host in the URL"
        )),
        (Error::AuthFailed, _) => Trouble::refused(format!(
            "ZooKeeper at {} refuses user and password; correct them in the URL",
            url.servers
        )),
        (Error::NoHosts, _) => away(url, "no server can be reached"),
        (Error::Timeout, _) => silent(url),
        (error, _) => away(url, &error.to_string()),
    }
}

/// There is no answer.
pub(super) fn silent(url: &ZookeeperUrl) -> Trouble {
    away(url, "there is no answer")
}

/// The connection, or the whole session, is lost.
pub(super) fn lost(url: &ZookeeperUrl) -> Trouble {
    away(url, "the connection is lost")
}

fn away(url: &ZookeeperUrl, why: &str) -> Trouble {
    let servers = &url.servers;
    Trouble::away(format!(
        "cannot reach the rules in ZooKeeper at {servers}: {why}; see that it runs there and answers"
    ))
}
