//! What becomes of decisions: they are printed, or counted for a report.

use std::io::{self, BufWriter, Write};

use tidegate::Checked;
use tidegate_core::{Mode, Request, RuleSet};
use tidegate_wire::DecisionBody;

use super::report;
use super::tally::Tally;

/// What to write at once.
const CHUNK: usize = 1 << 17;

/// Where decisions go.
pub(super) enum Sink {
    Decisions(BufWriter<io::StdoutLock<'static>>),
    Report(Box<Tally>),
}

impl Sink {
    /// Each to standard output as it comes.
    pub(super) fn decisions() -> Self {
        Self::Decisions(BufWriter::with_capacity(CHUNK, io::stdout().lock()))
    }

    /// All of them together, counted, at the end.
    pub(super) fn report(rules: &RuleSet) -> Self {
        Self::Report(Box::new(Tally::new(rules)))
    }

    /// Takes a decision about `request`.
    pub(super) fn add(&mut self, checked: &Checked, request: &Request<'_>) -> io::Result<()> {
        match self {
            Self::Decisions(out) => {
                let body = DecisionBody::new(checked, checked.rules(), Mode::Normal);
                serde_json::to_writer(&mut *out, &body)?;
                out.write_all(b"\n")
            }
            Self::Report(tally) => {
                tally.add(checked, request);
                Ok(())
            }
        }
    }

    /// Lets nothing wait to be written.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Decisions(out) => out.flush(),
            Self::Report(_) => Ok(()),
        }
    }

    /// Ends it: a report by `rules` names the `top` that were refused most.
    pub(super) fn finish(mut self, rules: &RuleSet, top: usize) -> io::Result<()> {
        if let Self::Report(tally) = &self {
            let mut out = BufWriter::new(anstream::stdout().lock());
            report::write(&mut out, tally, rules, top)?;
            out.flush()?;
        }
        self.flush()
    }
}
