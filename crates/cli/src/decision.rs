//! Decisions and explanations as a server words them, shown to people.

use std::io::{self, Write};

use serde::Deserialize;

use crate::client::Answer;
use crate::failure::Failure;
use crate::table::{Align, Table};
use crate::terminal::{BAD, FAINT, GOOD, PLAIN, STRONG, duration, number, safe};

/// A decision, as far as people are told it.
#[derive(Debug, Deserialize)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    pub(crate) rule_id: Option<String>,
    pub(crate) limit: Option<u64>,
    pub(crate) remaining: Option<u64>,
    /// In seconds.
    pub(crate) retry_after: Option<u64>,
    pub(crate) status: String,
    pub(crate) mode: String,
    pub(crate) rules: Vec<Rule>,
}

/// What one rule said.
#[derive(Debug, Deserialize)]
pub(crate) struct Rule {
    rule_id: String,
    allowed: bool,
    limit: u64,
    remaining: u64,
    reset_after_ms: u64,
    retry_after_ms: Option<u64>,
    pub(crate) shadow: bool,
    /// Explanations say whom a rule counts and what it is for.
    #[serde(default)]
    identity: Option<String>,
    #[serde(default)]
    description: Option<String>,
}

/// What a server says about a request it does not understand.
#[derive(Debug, Deserialize)]
struct Wrong {
    message: String,
}

/// Shows `answer`, word for word if `json`, otherwise as `write` puts the decision in it for people.
pub(crate) fn show(
    answer: &Answer,
    json: bool,
    write: impl FnOnce(&mut dyn Write, &Decision) -> io::Result<()>,
) -> Result<Decision, Failure> {
    let decision = Decision::read(answer)?;
    let mut out = anstream::stdout().lock();
    if json {
        out.write_all(answer.body.trim_ascii())?;
        writeln!(out)?;
    } else {
        write(&mut out, &decision)?;
    }
    Ok(decision)
}

impl Decision {
    /// The body of an answer that is a decision; otherwise what the server had to say instead.
    pub(crate) fn read(answer: &Answer) -> Result<Self, Failure> {
        if let Ok(decision) = serde_json::from_slice(&answer.body) {
            return Ok(decision);
        }
        match serde_json::from_slice::<Wrong>(&answer.body) {
            Ok(wrong) if answer.status.as_u16() == 400 => Err(Failure::Usage(wrong.message)),
            Ok(wrong) => {
                Err(Failure::Failed(format!("the server answers {}: {}", answer.status, wrong.message)))
            }
            Err(_) => Err(Failure::Failed(format!(
                "{} and nothing that makes sense is the answer; is this a Tidegate server?",
                answer.status
            ))),
        }
    }

    /// Says which rule is the reason, and how it stands.
    pub(crate) fn write_reason(&self, out: &mut dyn Write) -> io::Result<()> {
        match (&self.rule_id, self.limit, self.remaining) {
            (Some(rule), Some(limit), Some(remaining)) => {
                let (remaining, limit) = (number(remaining), number(limit));
                write!(out, " by {STRONG}{}{STRONG:#}: {remaining} left (limit {limit})", safe(rule))?;
            }
            _ => write!(out, ": no rule applies")?,
        }
        if !self.allowed {
            write!(out, "; {}", wait(self.retry_after.map(|seconds| seconds.saturating_mul(1_000))))?;
        }
        writeln!(out)?;
        if self.status != "enforced" || self.mode != "normal" {
            let (status, mode) = (safe(&self.status), safe(&self.mode));
            writeln!(out, "{FAINT}status {status}, mode {mode}{FAINT:#}")?;
        }
        Ok(())
    }

    /// What every rule said, in a table.
    pub(crate) fn table(&self) -> Table {
        let columns = [
            ("rule", Align::Left),
            ("says", Align::Left),
            ("left", Align::Right),
            ("limit", Align::Right),
            ("all back in", Align::Left),
        ];
        let mut table = Table::new(&columns);
        self.rules.iter().for_each(|rule| table.row(rule.cells()));
        table
    }

    /// The same with whom every rule counts, and what it is for.
    pub(crate) fn explained(&self) -> Table {
        let columns = [
            ("rule", Align::Left),
            ("counts", Align::Left),
            ("says", Align::Left),
            ("left", Align::Right),
            ("limit", Align::Right),
            ("all back in", Align::Left),
            ("for", Align::Left),
        ];
        let mut table = Table::new(&columns);
        for rule in &self.rules {
            let [name, says, left, limit, back] = rule.cells();
            let counts = rule.identity.as_deref().unwrap_or("(no identity)").to_owned();
            let purpose = rule.description.clone().unwrap_or_default();
            table.row([name, (counts, PLAIN), says, left, limit, back, (purpose, FAINT)]);
        }
        table
    }
}

impl Rule {
    fn cells(&self) -> [(String, anstyle::Style); 5] {
        let says = match (self.allowed, self.shadow) {
            (true, _) => ("allowed".to_owned(), GOOD),
            (false, false) => (format!("refused, {}", wait(self.retry_after_ms)), BAD),
            (false, true) => ("would refuse (shadow)".to_owned(), FAINT),
        };
        [
            (self.rule_id.clone(), STRONG),
            says,
            (number(self.remaining), PLAIN),
            (number(self.limit), PLAIN),
            (if self.reset_after_ms == 0 { "now".to_owned() } else { duration(self.reset_after_ms) }, PLAIN),
        ]
    }
}

/// When to come back, in words.
fn wait(ms: Option<u64>) -> String {
    ms.map_or_else(|| "waiting will not help".to_owned(), |ms| format!("try again in {}", duration(ms)))
}
