//! Stands between a node and others: what it says and hears passes through here, is kept, lost or cut off.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// Passes on to one node what is sent to its address. A node that advertises it is heard of through it alone.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    /// One of how many packets is lost: 0 none, 1 all.
    lose: Arc<AtomicU64>,
    to: Arc<Mutex<Option<SocketAddr>>>,
    caught: Arc<Mutex<Vec<Vec<u8>>>>,
    task: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (lose, to) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(None)));
        let caught = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(run(socket, Arc::clone(&lose), Arc::clone(&to), Arc::clone(&caught)));
        Self { address, lose, to, caught, task }
    }

    pub(crate) fn pass_to(&self, node: SocketAddr) {
        *self.to.lock() = Some(node);
    }

    pub(crate) fn lose_one_in(&self, one_in: u64) {
        self.lose.store(one_in, Ordering::SeqCst);
    }

    /// All packets that came, whether they were passed on or not.
    pub(crate) fn caught(&self) -> Vec<Vec<u8>> {
        self.caught.lock().clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(
    socket: UdpSocket,
    lose: Arc<AtomicU64>,
    to: Arc<Mutex<Option<SocketAddr>>>,
    caught: Arc<Mutex<Vec<Vec<u8>>>>,
) {
    let mut buffer = vec![0; 2048];
    for count in 1_u64.. {
        let Ok((length, _)) = socket.recv_from(&mut buffer).await else { continue };
        let packet = &buffer[..length];
        if caught.lock().len() < 1000 {
            caught.lock().push(packet.to_vec());
        }
        let lost = lose.load(Ordering::SeqCst);
        let to = *to.lock();
        if let Some(to) = to.filter(|_| lost == 0 || !count.is_multiple_of(lost)) {
            socket.send_to(packet, to).await.ok();
        }
    }
}
