//! Groups as their users see them: picks in made-up time, and real servers.

mod picks;
mod pool;
mod sockets;
