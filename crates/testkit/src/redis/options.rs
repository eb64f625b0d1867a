//! How a Redis server is to be started.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::client::{Client, Login};
use super::{Redis, answers};
use crate::network::Namespace;
use crate::ports::Port;
use crate::process::Launch;
use crate::program::Program;
use crate::start::{StartError, retry_ports};
use crate::tls::{Certificates, ClientCertificates};

/// How a Redis server is to be started; see [`Redis::options`].
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    program: Program,
    args: Vec<String>,
    config: Option<String>,
    login: Option<Login>,
    tls: Option<(Certificates, ClientCertificates)>,
    place: Option<Elsewhere>,
}

/// Where in another network a server is, and what runs it there.
#[derive(Debug, Clone)]
struct Elsewhere {
    address: IpAddr,
    launcher: (PathBuf, String),
}

impl RedisOptions {
    /// Which server; Debian's unless said otherwise.
    #[must_use]
    pub fn program(mut self, program: Program) -> Self {
        self.program = program;
        self
    }

    /// Adds arguments as on the command line, such as `["--maxmemory", "2mb"]`. Each word is one argument.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Requires this password, which the handle then uses itself. It is not in the URL.
    #[must_use]
    pub fn password(self, password: &str) -> Self {
        // Its master, if it has one, requires the same.
        self.args(["--requirepass", password, "--masterauth", password]).login("default", password)
    }

    /// Who the handle itself logs in as, for servers whose `--user` arguments leave the default user no
    /// rights.
    #[must_use]
    pub fn login(mut self, user: &str, password: &str) -> Self {
        self.login = Some(Login { user: user.into(), password: password.into() });
        self
    }

    /// Speaks TLS, and nothing else, on its port.
    #[must_use]
    pub fn tls(mut self, certificates: &Certificates, clients: ClientCertificates) -> Self {
        self.tls = Some((certificates.clone(), clients));
        self
    }

    /// Runs in another network, where it has this address.
    #[must_use]
    pub fn inside(mut self, namespace: &Namespace, address: Ipv4Addr) -> Self {
        self.place = Some(Elsewhere { address: address.into(), launcher: namespace.launcher() });
        // Whoever is in that network may use it.
        self.args(["--protected-mode", "no"])
    }

    /// Starts with this configuration file, which the server may rewrite.
    pub(crate) fn config(mut self, text: String) -> Self {
        self.config = Some(text);
        self
    }

    /// Starts the server on a free port.
    ///
    /// # Panics
    /// If it does not start: the message has the end of its log.
    #[must_use]
    pub fn start(&self) -> Redis {
        retry_ports(|| self.start_on(Port::claim()))
    }

    pub(crate) fn start_on(&self, port: Port) -> Result<Redis, StartError> {
        let folder = TempDir::with_prefix("tidegate-redis-").expect("a temporary folder can be made");
        let socket = folder.path().join("redis.sock");
        let process = self.launch(&port, folder.path(), &socket).start();
        let client = Client::new(socket, self.login.clone());
        answers(&process, &client)?;
        Ok(Redis { process, client, host: self.host(), port, tls: self.tls.clone(), _folder: folder })
    }

    fn host(&self) -> IpAddr {
        self.place.as_ref().map_or(Ipv4Addr::LOCALHOST.into(), |place| place.address)
    }

    fn launch(&self, port: &Port, folder: &Path, socket: &Path) -> Launch {
        let mut args: Vec<String> = Vec::new();
        if let Some(text) = &self.config {
            let file = folder.join("redis.conf");
            std::fs::write(&file, text).expect("the configuration can be written");
            args.push(file.display().to_string());
        }
        args.extend(["--bind".into(), self.host().to_string()]);
        args.extend(words("--daemonize no --appendonly no --unixsocketperm 700 --save"));
        args.push(String::new());
        args.extend(["--dir".into(), folder.display().to_string()]);
        // The handle's own way in: it needs no TLS and takes no part in what happens to the port.
        args.extend(["--unixsocket".into(), socket.display().to_string()]);
        args.extend(self.port_args(port));
        args.extend(self.args.iter().cloned());
        let (program, log) = (self.program.path(), folder.join("log"));
        match &self.place {
            None => Launch::new(program, log).args(args),
            Some(Elsewhere { launcher: (enter, namespace), .. }) => {
                Launch::new(enter, log).args([namespace]).args([program]).args(args)
            }
        }
    }

    fn port_args(&self, port: &Port) -> Vec<String> {
        let number = port.number();
        match &self.tls {
            None => words(&format!("--port {number}")),
            Some((certificates, clients)) => {
                let mut args = words(&format!("--port 0 --tls-port {number}"));
                args.extend(certificates.redis_args(*clients));
                args
            }
        }
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_that_others_took_is_told_from_other_failures() {
        for program in [Program::Debian, Program::Redis62, Program::Valkey] {
            let options = Redis::options().program(program).args(["--cluster-enabled", "yes"]);
            for distance in [0, 10_000] {
                let port = Port::claim();
                let _taken = TcpListener::bind(("127.0.0.1", port.number() + distance)).unwrap();
                let error = options.start_on(port).unwrap_err();
                assert!(matches!(error, StartError::PortTaken(_)), "{program:?} {distance}: {error}");
            }
        }
    }
}
