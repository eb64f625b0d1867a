//! What goes wrong with a server, told apart.

use std::fmt;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tidegate_store::Failure;

/// Why a server cannot be used: a kind for metrics, a text that names the fix for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind of failure it is.
    pub failure: Failure,
    /// What is wrong and what to do about it.
    pub text: String,
}

impl Problem {
    pub(crate) fn new(failure: Failure, text: impl Into<String>) -> Self {
        Self { failure, text: text.into() }
    }

    /// Returns whether it stays until somebody mends it.
    pub(crate) const fn lasts(&self) -> bool {
        matches!(
            self.failure,
            Failure::Credentials | Failure::Permission | Failure::NotAStore | Failure::NoScripts
        )
    }

    /// What `error` from the server at `place` means.
    pub(crate) fn of(error: &RedisError, place: &dyn fmt::Display) -> Self {
        let failure = classify(error);
        let advice = match failure {
            Failure::NotAStore if matches!(error.code(), Some("MOVED" | "CROSSSLOT")) => {
                "it is a node of a Cluster; use redis+cluster://"
            }
            Failure::Connection if error.is_connection_dropped() && !error.is_connection_refusal() => {
                "it hangs up: is it going down, or does it want TLS (rediss://)?"
            }
            Failure::Connection => "is it running, and is the address right?",
            Failure::Credentials => "give the user and password in the URL: redis://user:password@host:port",
            Failure::Permission => "docs/operations/redis.md lists what the user must be allowed to do",
            Failure::NotAStore if mentions(error, &CERTIFICATES) => {
                "who may have signed is said by ?ca=, who we are by ?cert= and ?key="
            }
            Failure::NotAStore if mentions(error, &HANDSHAKES) => {
                "what answers does not speak TLS; use redis://"
            }
            Failure::NotAStore => "what answers does not speak the Redis protocol; with TLS use rediss://",
            Failure::Replica => "give the master's address, or let redis+sentinel:// find it",
            Failure::NoScripts => "the commands EVALSHA and SCRIPT must not be renamed or disabled",
            Failure::OutOfMemory => "raise maxmemory; docs/operations/redis.md tells how much is needed",
            Failure::NotReady => "it should pass by itself",
            Failure::ClusterDown => "a master is missing and no replica has taken its place",
            Failure::Deadline
            | Failure::Full
            | Failure::Foreign
            | Failure::LeftAlone
            | Failure::Slow
            | Failure::Other => "",
        };
        // What a parser has to say takes several lines.
        let error = error.to_string();
        let text = format!("{place}: {}", error.split_whitespace().collect::<Vec<_>>().join(" "));
        let text = if advice.is_empty() { text } else { format!("{text}; {advice}") };
        Self { failure, text }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Problem {}

/// The kind of failure an error is.
pub(crate) fn classify(error: &RedisError) -> Failure {
    if let Some(failure) = error.code().and_then(|code| by_code(code, error.detail().unwrap_or_default())) {
        return failure;
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => Failure::Credentials,
        // Cut off within a reply: what came of it was Redis.
        ErrorKind::Parse if mentions(error, &["end of input"]) => Failure::Connection,
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType | ErrorKind::RESP3NotSupported => {
            Failure::NotAStore
        }
        ErrorKind::Server(ServerErrorKind::NoPerm) => Failure::Permission,
        // A handshake that fails means that the other side does not want to speak to us, not that it is away.
        ErrorKind::Io if mentions(error, &CERTIFICATES) || mentions(error, &HANDSHAKES) => Failure::NotAStore,
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => Failure::Connection,
        _ => Failure::Other,
    }
}

/// Old servers wrap what went wrong inside a script into an `ERR` that quotes it.
fn by_code(code: &str, detail: &str) -> Option<Failure> {
    Some(match code {
        "NOAUTH" | "WRONGPASS" => Failure::Credentials,
        "NOPERM" => Failure::Permission,
        "READONLY" => Failure::Replica,
        "OOM" => Failure::OutOfMemory,
        "LOADING" | "BUSY" | "MISCONF" | "NOREPLICAS" | "MASTERDOWN" | "TRYAGAIN" => Failure::NotReady,
        "CLUSTERDOWN" => Failure::ClusterDown,
        "WRONGTYPE" => Failure::Foreign,
        // A store that knows of Clusters never gets to see these here.
        "MOVED" | "CROSSSLOT" => Failure::NotAStore,
        "ERR" if detail.contains("invalid password") || detail.contains("without any password") => {
            Failure::Credentials
        }
        "ERR" if detail.contains("unknown command") => Failure::NoScripts,
        "ERR"
            if detail.contains("executing the script can't") || detail.contains("ACL failure in script") =>
        {
            Failure::Permission
        }
        "ERR" => {
            let quoted = ["OOM", "READONLY", "NOPERM", "MISCONF", "NOREPLICAS"];
            let found = quoted.into_iter().find(|code| detail.contains(&format!("-{code} ")));
            return found.and_then(|code| by_code(code, ""));
        }
        _ => return None,
    })
}

/// What errors are about when certificates do not suit, and when the other side does not speak TLS at all.
const CERTIFICATES: [&str; 3] = ["certificate", "Certificate", "fatal alert"];
const HANDSHAKES: [&str; 3] = ["handshake", "InvalidContentType", "corrupt message"];

fn mentions(error: &RedisError, words: &[&str]) -> bool {
    let text = error.to_string();
    words.iter().any(|word| text.contains(word))
}
