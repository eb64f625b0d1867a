//! One ZooKeeper server.

use std::fs;
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
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

const START: Duration = crate::wait::HANG_LIMIT;

/// Where Debian puts the classes.
const SERVER: &str = "/usr/share/java/zookeeper.jar";

/// Without it the server logs nothing, not even that its port is taken.
const LOGGER: &str = "/usr/share/java/slf4j-simple.jar";

/// A ZooKeeper server, alone or one of an ensemble. Its data outlive a crash, but not the handle.
#[derive(Debug)]
pub struct Zookeeper {
    // In this order: the process goes first, then its ports and folder.
    process: Process,
    port: Port,
    _peers: Option<Peers>,
    _folder: TempDir,
}

/// Where a server talks with the others of its ensemble, and elects with them.
#[derive(Debug)]
struct Peers {
    talk: Port,
    elect: Port,
}

impl Zookeeper {
    /// Starts Debian's ZooKeeper on a free port. It takes data larger than 1 MiB, which others refuse.
    ///
    /// # Panics
    /// If it does not start: the message has the end of its log.
    #[must_use]
    pub fn start() -> Self {
        assert_installed();
        retry_ports(|| {
            let zookeeper = Self::launch(None, "");
            zookeeper.answers().map(|()| zookeeper)
        })
    }

    /// Starts three of them that are one ensemble: it goes on without any one of them.
    ///
    /// # Panics
    /// If they do not start: the message has the end of a log.
    #[must_use]
    pub fn start_ensemble() -> [Self; 3] {
        assert_installed();
        retry_ports(|| {
            let peers = [(); 3].map(|()| Peers { talk: Port::claim(), elect: Port::claim() });
            let mut lines = "initLimit=40\nsyncLimit=20\n".to_owned();
            for (id, Peers { talk, elect }) in (1..).zip(&peers) {
                lines += &format!("server.{id}=127.0.0.1:{}:{}\n", talk.number(), elect.number());
            }
            let mut id = 0;
            let all = peers.map(|peers| {
                id += 1;
                Self::launch(Some((id, peers)), &lines)
            });
            all.iter().try_for_each(Self::answers).map(|()| all)
        })
    }

    /// Starts the process and waits for nothing.
    fn launch(member: Option<(u32, Peers)>, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = Port::claim();
        let config = folder.path().join("zoo.cfg");
        let data = folder.path().join("data");
        // A short tick, so that sessions may be short. The web server of operators would take a fixed port.
        let lines = format!(
            "dataDir={}\nclientPortAddress=127.0.0.1\nclientPort={}\ntickTime=500\nadmin.enableServer=false\n\
             4lw.commands.whitelist=mntr\n{more}",
            data.display(),
            port.number()
        );
        fs::write(&config, lines).unwrap();
        if let Some((id, _)) = &member {
            fs::create_dir(&data).unwrap();
            fs::write(data.join("myid"), id.to_string()).unwrap();
        }
        let launch =
            Launch::new(find_program("java", "default-jre-headless"), folder.path().join("zookeeper.log"))
                // Made to start soon and to stay small.
                .args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djute.maxbuffer=4194304"])
                // What a killed process has written is in the files; only a machine that loses power needs more.
                .args(["-Dzookeeper.forceSync=no", "-cp", &format!("{SERVER}:{LOGGER}")])
                .args(["org.apache.zookeeper.server.quorum.QuorumPeerMain".as_ref(), config.as_os_str()]);
        let peers = member.map(|(_, peers)| peers);
        Self { process: launch.start(), port, _peers: peers, _folder: folder }
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
    pub fn put(&self, path: &str, data: impl AsRef<[u8]>) -> i64 {
        self.put_as(None, path, data)
    }

    /// The same with `user:password`. A znode that is created then is for that user only.
    ///
    /// # Panics
    /// If it cannot be set.
    #[track_caller]
    pub fn put_as(&self, login: Option<&str>, path: &str, data: impl AsRef<[u8]>) -> i64 {
        self.set(login, path, data.as_ref()).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The same where the server may be away.
    pub fn try_put(&self, path: &str, data: impl AsRef<[u8]>) -> Result<i64, Error> {
        self.set(None, path, data.as_ref())
    }

    fn set(&self, login: Option<&str>, path: &str, data: &[u8]) -> Result<i64, Error> {
        let acls = if login.is_some() { Acls::creator_all() } else { Acls::anyone_all() };
        self.run(login, async |client| {
            match client.set_data(path, data, None).await {
                Err(Error::NoNode) => {}
                set => return set.map(|stat| stat.mzxid),
            }
            if let Some((above, _)) = path.rsplit_once('/').filter(|(above, _)| !above.is_empty()) {
                let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
                client.mkdir(above, &options).await?;
            }
            let options = CreateMode::Persistent.with_acls(acls);
            client.create(path, data, &options).await.map(|(stat, _)| stat.mzxid)
        })
    }

    /// Removes a znode.
    ///
    /// # Panics
    /// If that is refused.
    #[track_caller]
    pub fn delete(&self, path: &str) {
        self.try_delete(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// The same where the server may be away.
    pub fn try_delete(&self, path: &str) -> Result<(), Error> {
        self.run(None, async |client| client.delete(path, None).await)
    }

    /// How many sessions clients have with the ensemble, as this server knows it.
    pub fn sessions(&self) -> io::Result<u64> {
        let mut stream = TcpStream::connect(self.address())?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"mntr")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let line = answer.lines().find_map(|line| line.strip_prefix("zk_global_sessions"));
        line.and_then(|count| count.trim().parse().ok()).ok_or_else(|| io::Error::other(answer))
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

fn assert_installed() {
    assert!(Path::new(SERVER).is_file(), "zookeeper is not installed; apt-get install zookeeper");
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be made").block_on(work)
}
