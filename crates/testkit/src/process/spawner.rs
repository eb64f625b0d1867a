//! The one thread that starts all processes.
//!
//! The kernel kills a child with the death of the *thread* that started it, and the thread of a test ends
//! before the test process does. This one lives as long as the process.

use std::io;
use std::process::{Child, Command};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

struct Order {
    command: Command,
    reply: Sender<io::Result<Child>>,
}

static SPAWNER: LazyLock<Sender<Order>> = LazyLock::new(|| {
    let (orders, incoming) = mpsc::channel::<Order>();
    let work = move || {
        for Order { mut command, reply } in incoming {
            // Whoever asked waits for the reply.
            reply.send(command.spawn()).ok();
        }
    };
    thread::Builder::new().name("testkit-spawner".into()).spawn(work).expect("a thread can be started");
    orders
});

pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let (reply, answer) = mpsc::channel();
    SPAWNER.send(Order { command, reply }).map_err(io::Error::other)?;
    answer.recv().map_err(io::Error::other)?
}
