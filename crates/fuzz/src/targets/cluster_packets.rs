//! Packets of other nodes, sealed and opened: a node with the secret may be broken.

/// No packet makes a node panic, remember without end, or talk without end.
pub(crate) fn run(bytes: &[u8]) {
    tidegate_cluster::fuzzing::packet(bytes);
}
