//! A line for whoever waits for many requests at a terminal.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::summary::Tally;

/// How many requests have ended, shown if somebody can see it.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// On standard error, if that is a terminal.
    pub(super) fn new(requests: u64) -> Self {
        let bar = ProgressBar::hidden();
        if io::stderr().is_terminal() {
            let template = "{bar:40} {pos} of {len}  {eta} left  {msg}";
            bar.set_style(
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.set_length(requests);
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        Self(bar)
    }

    /// One more has ended.
    pub(super) fn step(&self, tally: &Tally) {
        self.0.inc(1);
        if tally.over_limit() > 0 && !self.0.is_hidden() {
            self.0.set_message(format!("{} over the limit", tally.over_limit()));
        }
    }
}

/// The line leaves nothing behind.
impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
