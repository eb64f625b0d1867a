//! Access logs and JSON lines, as `tidegate simulate` reads them.

/// Each line is a request at a time, or is refused with a reason.
pub(crate) fn run(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        tidegate_cli::fuzzing::log_line(line);
    }
}
