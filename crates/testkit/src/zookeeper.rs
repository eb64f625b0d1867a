//! One ZooKeeper server.

use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::ports::Port;
use crate::process::{Launch, Process};
use crate::program::find_program;
use crate::start::{StartError, retry_ports};
use crate::wait;

const START: Duration = Duration::from_secs(60);

/// Where Debian puts the classes.
const SERVER: &str = "/usr/share/java/zookeeper.jar";

/// Without it the server logs nothing, not even that its port is taken.
const LOGGER: &str = "/usr/share/java/slf4j-simple.jar";

/// A ZooKeeper server without an ensemble. Its data outlive a crash, but not the handle.
#[derive(Debug)]
pub struct Zookeeper {
    // In this order: the process goes first, then its port and folder.
    process: Process,
    port: Port,
    _folder: TempDir,
}

impl Zookeeper {
    /// Starts Debian's ZooKeeper on a free port. It takes data larger than 1 MiB, which others refuse.
    ///
    /// # Panics
    /// If it does not start: the message has the end of its log.
    #[must_use]
    pub fn start() -> Self {
        assert!(Path::new(SERVER).is_file(), "zookeeper is not installed; apt-get install zookeeper");
        retry_ports(Self::try_start)
    }

    fn try_start() -> Result<Self, StartError> {
        let folder = tempfile::tempdir().unwrap();
        let port = Port::claim();
        let config = folder.path().join("zoo.cfg");
        // A short tick, so that sessions may be short. The web server of operators would take a fixed port.
        let lines = format!(
            "dataDir={}\nclientPortAddress=127.0.0.1\nclientPort={}\ntickTime=500\nadmin.enableServer=false\n",
            folder.path().join("data").display(),
            port.number()
        );
        fs::write(&config, lines).unwrap();
        let launch =
            Launch::new(find_program("java", "default-jre-headless"), folder.path().join("zookeeper.log"))
                // Made to start soon and to stay small.
                .args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djute.maxbuffer=4194304"])
                // What a killed process has written is in the files; only a machine that loses power needs more.
                .args(["-Dzookeeper.forceSync=no", "-cp", &format!("{SERVER}:{LOGGER}")])
                .args(["org.apache.zookeeper.server.quorum.QuorumPeerMain".as_ref(), config.as_os_str()]);
        let zookeeper = Self { process: launch.start(), port, _folder: folder };
        zookeeper.answers().map(|()| zookeeper)
    }

    /// Where clients reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Makes it hang, with all its sockets open, until [`resume`](Self::resume).
    pub fn pause(&self) {
        self.process.pause();
    }

    /// Lets it run on.
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Ends it at once, as a crash does, and waits until it is gone.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Kills it if it runs, and starts it again with the same data on the same port.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&self) {
        self.process.restart();
        self.answers().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Sets the data of a znode, and creates it and those above it if need be. Returns the transaction's id.
    ///
    /// # Panics
    /// If it cannot be set.
    #[track_caller]
    pub fn put(&self, path: &str, data: impl AsRef<[u8]> + Sync) -> i64 {
        self.put_as(None, path, data)
    }

    /// The same with `user:password`. A znode that is created then is for that user only.
    ///
    /// # Panics
    /// If it cannot be set.
    #[track_caller]
    pub fn put_as(&self, login: Option<&str>, path: &str, data: impl AsRef<[u8]> + Sync) -> i64 {
        let acls = if login.is_some() { Acls::creator_all() } else { Acls::anyone_all() };
        self.run(login, async |client| {
            match client.set_data(path, data.as_ref(), None).await {
                Err(Error::NoNode) => {}
                set => return set.map(|stat| stat.mzxid),
            }
            if let Some((above, _)) = path.rsplit_once('/').filter(|(above, _)| !above.is_empty()) {
                let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
                client.mkdir(above, &options).await?;
            }
            let options = CreateMode::Persistent.with_acls(acls);
            client.create(path, data.as_ref(), &options).await.map(|(stat, _)| stat.mzxid)
        })
        .unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Removes a znode.
    ///
    /// # Panics
    /// If that is refused.
    #[track_caller]
    pub fn delete(&self, path: &str) {
        let deleted = self.run(None, async |client| client.delete(path, None).await);
        deleted.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// Does something in a session of its own. On a thread of its own, too: whoever calls may be on a runtime already.
    fn run<T: Send>(
        &self,
        login: Option<&str>,
        work: impl AsyncFnOnce(Client) -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        let address = self.address().to_string();
        let connect = async || {
            let mut connector = Client::connector().with_fail_eagerly();
            if let Some(login) = login {
                connector = connector.with_auth("digest", login.as_bytes());
            }
            connector.connect(&address).await
        };
        thread::scope(|scope| {
            let thread = scope.spawn(|| block_on(async { work(connect().await?).await }));
            thread.join().expect("the thread does not panic")
        })
    }

    /// Waits until the server answers.
    fn answers(&self) -> Result<(), StartError> {
        let ready = wait::poll(START, || match self.process.is_running() {
            true => self.run(None, async |client| client.sync("/").await).is_ok().then_some(true),
            false => Some(false),
        });
        if ready == Some(true) { Ok(()) } else { Err(StartError::of(&self.process)) }
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be made").block_on(work)
}
