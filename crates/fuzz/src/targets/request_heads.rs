//! Heads of requests, as clients send them to the gateway.

/// What is accepted has one host, one path in normal form, and one length.
pub(crate) fn run(bytes: &[u8]) {
    tidegate_gateway::fuzzing::request(bytes);
}
