//! The trace of a run: what happened, one line each.

use tidegate_failover::Notice;

use crate::scenario::Micros;

/// Lines that tell what happened; nothing unless tracing.
pub(crate) struct Trace {
    enabled: bool,
    pub(crate) lines: Vec<String>,
}

impl Trace {
    pub(crate) const fn new(enabled: bool) -> Self {
        Self { enabled, lines: Vec::new() }
    }

    pub(crate) fn line(&mut self, now: Micros, text: impl FnOnce() -> String) {
        if self.enabled {
            self.lines.push(format!("{:>10.3} ms  {}", now as f64 / 1e3, text()));
        }
    }

    pub(crate) fn notice(&mut self, now: Micros, node: usize, notice: &Notice) {
        self.line(now, || match notice {
            Notice::Entered { part, phase } => format!("node {node} part {part} enters phase {phase}"),
            Notice::Opened { part, phase, agreed } => {
                let how = if *agreed { "all agree" } else { "an open member says so" };
                format!("node {node} part {part} opens phase {phase}: {how}")
            }
            Notice::BookOpened { key, balance, .. } => {
                format!("node {node} opens its book of key {} with {balance:?}", key.rule[0])
            }
            Notice::Debited { key, slot, units } => {
                format!("node {node} debits {units} of key {} in slot {slot}", key.rule[0])
            }
            Notice::Joined => format!("node {node} joins"),
            Notice::Formed => format!("node {node} forms a fleet"),
            Notice::Forgot(pid) => format!("node {node} gives up {pid}"),
            Notice::Renamed { from, to } => format!("node {node} was given up: {from} goes on as {to}"),
        });
    }
}
