//! A bar for whoever waits at a terminal.

use std::io::{self, IsTerminal, Read};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter inputs are done before a bar could be read.
const LONG: u64 = 8 << 20;

/// How far an input has been read, shown if somebody can see it.
pub(crate) struct Progress {
    bar: ProgressBar,
    visible: bool,
}

impl Progress {
    /// On standard error, if that is a terminal; not while `output` itself goes to one and would be torn apart.
    pub(crate) fn new(output_is_shown: bool) -> Self {
        Self { bar: ProgressBar::hidden(), visible: io::stderr().is_terminal() && !output_is_shown }
    }

    /// Follows `reader`, which has `bytes` in all if that is known.
    pub(crate) fn watch<R: Read>(&self, reader: R, bytes: Option<u64>) -> impl Read + use<R> {
        if self.visible && bytes.is_none_or(|bytes| bytes >= LONG) {
            let template = match bytes {
                Some(_) => "{bar:40} {percent:>3}%  {bytes} of {total_bytes}  {eta} left",
                None => "{spinner} {bytes}  {bytes_per_sec}",
            };
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.set_style(
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            self.bar.set_length(bytes.unwrap_or_default());
        }
        self.bar.wrap_read(reader)
    }
}

/// The bar leaves nothing behind.
impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
