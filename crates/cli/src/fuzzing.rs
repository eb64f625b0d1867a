//! What fuzz targets call: readers of bytes that others choose.

use crate::simulate::{combined_log, json_line};

/// Reads a line of an access log or of recorded requests, and checks what came of it.
pub fn log_line(line: &[u8]) {
    match combined_log::parse(line) {
        Ok((_, logged)) => assert!(logged.request().headers.value("\n").is_none()),
        Err(reason) => assert!(!reason.is_empty(), "refused without a reason"),
    }
    match json_line::parse(line) {
        Ok((_, body)) => drop(body.request().cost),
        Err(reason) => assert!(!reason.is_empty(), "refused without a reason"),
    }
}
