//! Opening connections.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, FromRedisValue, IntoConnectionInfo,
    RedisConnectionInfo, TlsCertificates, Value,
};
use tidegate_store::Failure;
use tidegate_store::deadline::within;

use crate::encode::{Time, Way, request};
use crate::problem::Problem;
use crate::script::Scripts;
use crate::url::{Address, Credentials, RedisUrl, Topology};

/// How long a server may take to accept us.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// How to connect to the servers of one URL.
#[derive(Debug)]
pub(crate) struct Connector {
    credentials: Credentials,
    sentinel_credentials: Credentials,
    database: i64,
    tls: Option<TlsCertificates>,
    /// Two keys to try a server with, which the nodes of a Cluster do not accept together; none in a Cluster.
    trial_keys: Vec<String>,
    pub(crate) scripts: Scripts,
}

impl Connector {
    /// Reads the certificates `url` names.
    pub(crate) fn new(url: &RedisUrl) -> Result<Self, Problem> {
        let tls = match &url.tls {
            None => None,
            Some(tls) => {
                // An error says that somebody has chosen already, which is as good.
                rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
                let read = |path: &Option<_>| path.as_deref().map(read).transpose();
                let (cert, key) = (read(&tls.cert)?, read(&tls.key)?);
                let client_tls = cert
                    .zip(key)
                    .map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
                Some(TlsCertificates { client_tls, root_cert: read(&tls.ca)? })
            }
        };
        let trial_keys = match url.topology {
            Topology::Cluster(_) => Vec::new(),
            Topology::Single(_) | Topology::Sentinel { .. } => {
                ["{1}", "{2}"].map(|tag| format!("{}:{tag}", url.prefix)).to_vec()
            }
        };
        Ok(Self {
            credentials: url.credentials.clone(),
            sentinel_credentials: url.sentinel_credentials.clone(),
            database: url.database.into(),
            tls,
            trial_keys,
            scripts: Scripts::new(),
        })
    }

    /// A connection to a server that counts: a master that knows the scripts and lets us run them.
    pub(crate) async fn open_master(&self, address: &Address) -> Result<MultiplexedConnection, Problem> {
        let mut connection = self.open(address).await?;
        check_role(&mut connection, address).await?;
        let trials = [Way::Short, Way::Long].map(|way| {
            let keys = self.trial_keys.iter().map(String::as_bytes);
            self.scripts.run(way, keys, &request(way, Time::Server, std::iter::empty()))
        });
        let cmds: Vec<Cmd> =
            self.scripts.load().into_iter().chain([unknown_script()]).chain(trials).collect();
        // All in one round trip, for servers that are far away; they are answered in order.
        let asked = join_all(cmds.iter().map(|cmd| {
            let mut connection = connection.clone();
            async move { ask::<Value>(&mut connection, cmd, address).await }
        }));
        let problem =
            asked.await.into_iter().filter_map(Result::err).find(|problem| !is_unknown_script(problem));
        problem.map_or(Ok(connection), Err)
    }

    /// A connection to any server.
    pub(crate) async fn open(&self, address: &Address) -> Result<MultiplexedConnection, Problem> {
        let client = self.client(address, &self.credentials, self.database)?;
        self.connect(&client, address).await
    }

    /// A connection to a sentinel.
    pub(crate) async fn open_sentinel(&self, address: &Address) -> Result<MultiplexedConnection, Problem> {
        self.connect(&self.sentinel_client(address)?, address).await
    }

    /// How to reach a sentinel.
    pub(crate) fn sentinel_client(&self, address: &Address) -> Result<Client, Problem> {
        self.client(address, &self.sentinel_credentials, 0)
    }

    async fn connect(&self, client: &Client, address: &Address) -> Result<MultiplexedConnection, Problem> {
        // Every call has a limit of its own, so none is wanted here.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        let opened =
            within(CONNECT_LIMIT, client.get_multiplexed_async_connection_with_config(&config)).await;
        match opened {
            Ok(opened) => opened.map_err(|error| Problem::of(&error, address)),
            // A server that does not speak TLS goes on waiting for what it would understand.
            Err(_) if self.tls.is_some() => {
                let Problem { failure, text } = silent(address);
                Err(Problem::new(failure, format!("{text}; if it does not speak TLS, use redis://")))
            }
            Err(_) => Err(silent(address)),
        }
    }

    fn client(&self, address: &Address, who: &Credentials, database: i64) -> Result<Client, Problem> {
        let Address { host, port } = address.clone();
        let unusable = |error| Problem::of(&error, address);
        let at = match &self.tls {
            None => ConnectionAddr::Tcp(host, port),
            Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        };
        let mut settings = RedisConnectionInfo::default().set_db(database).set_skip_set_lib_name();
        if let Some(user) = &who.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &who.password {
            settings = settings.set_password(password);
        }
        let info = at.into_connection_info().map_err(unusable)?;
        let info =
            info.set_redis_settings(settings).set_tcp_settings(TcpSettings::default().set_nodelay(true));
        match &self.tls {
            None => Client::open(info),
            Some(certificates) => Client::build_with_tls(info, certificates.clone()),
        }
        .map_err(unusable)
    }
}

fn silent(place: &dyn fmt::Display) -> Problem {
    let text = format!("{place}: it does not answer within {} s", CONNECT_LIMIT.as_secs());
    Problem::new(Failure::Connection, text)
}

/// Finds out whether there is a command that runs scripts. Servers quote what they do not understand, and
/// what our scripts are sent is no text that could be read back; so this is asked for by itself.
fn unknown_script() -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg("0".repeat(40)).arg(0);
    cmd
}

fn is_unknown_script(problem: &Problem) -> bool {
    problem.failure == Failure::Other && problem.text.contains("NoScript")
}

/// Asks something that every server answers at once.
pub(crate) async fn ask<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    cmd: &Cmd,
    place: &(dyn fmt::Display + Sync),
) -> Result<T, Problem> {
    match within(CONNECT_LIMIT, cmd.query_async(connection)).await {
        Ok(answer) => answer.map_err(|error| Problem::of(&error, place)),
        Err(_) => Err(silent(place)),
    }
}

/// Fails unless the server is a master.
pub(crate) async fn check_role(
    connection: &mut MultiplexedConnection,
    address: &Address,
) -> Result<(), Problem> {
    let role: Vec<Value> = ask(connection, &redis::cmd("ROLE"), address).await?;
    let text =
        |value: Option<&Value>| value.and_then(|value| redis::from_redis_value_ref::<String>(value).ok());
    match text(role.first()).as_deref() {
        Some("master") => Ok(()),
        Some("slave") => {
            let master = text(role.get(1)).unwrap_or_default();
            let port =
                role.get(2).and_then(|port| redis::from_redis_value_ref::<u16>(port).ok()).unwrap_or(0);
            let text = format!(
                "{address}: it is a replica of {master}:{port}; give the master's address, or let redis+sentinel:// find it"
            );
            Err(Problem::new(Failure::Replica, text))
        }
        Some("sentinel") => {
            let text = format!("{address}: it is a sentinel, which counts nothing; use redis+sentinel://");
            Err(Problem::new(Failure::NotAStore, text))
        }
        _ => {
            let text = format!("{address}: what answers does not speak the Redis protocol");
            Err(Problem::new(Failure::NotAStore, text))
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    fs::read(path)
        .map_err(|error| Problem::new(Failure::Other, format!("cannot read {}: {error}", path.display())))
}
