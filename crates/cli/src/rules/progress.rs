//! A bar for whoever waits at a terminal while many rules are changed.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Fewer changes are done before a bar could be read.
const MANY: usize = 100;

/// How many changes are made, shown if somebody can see it.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// On standard error, if that is a terminal.
    pub(super) fn new(changes: usize) -> Self {
        let bar = ProgressBar::hidden();
        if changes >= MANY && io::stderr().is_terminal() {
            let template = "{bar:40} {pos} of {len}  {eta} left";
            bar.set_style(
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.set_length(changes as u64);
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        Self(bar)
    }

    /// So many are made.
    pub(super) fn at(&self, done: usize) {
        self.0.set_position(done as u64);
    }
}

/// The bar leaves nothing behind.
impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
