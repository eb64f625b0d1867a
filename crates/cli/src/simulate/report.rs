//! What a replay showed, for people.

use std::io::{self, Write};

use tidegate_core::RuleSet;

use super::tally::{RuleTally, Tally};
use crate::table::{Align, Table};
use crate::terminal::{BAD, FAINT, GOOD, PLAIN, STRONG, count, moment, number, share};

/// Writes the report on a replay by `rules`, with the `top` identities that were refused most.
pub(crate) fn write(out: &mut impl Write, tally: &Tally, rules: &RuleSet, top: usize) -> io::Result<()> {
    let Some((first, last)) = tally.period else {
        return writeln!(out, "There are no requests in the input.");
    };
    let requests = count(tally.requests, "request");
    writeln!(out, "{STRONG}{requests}{STRONG:#} from {} to {}", moment(first), moment(last))?;
    totals(out, tally)?;
    writeln!(out)?;
    by_rule(out, tally, rules)?;
    writeln!(out)?;
    by_identity(out, tally, rules, top)?;
    writeln!(out)?;
    tally.chart.write(out)
}

fn totals(out: &mut impl Write, tally: &Tally) -> io::Result<()> {
    let allowed = tally.requests - tally.refused;
    let width = number(tally.requests).len();
    for (label, style, part) in [("allowed", GOOD, allowed), ("refused", BAD, tally.refused)] {
        writeln!(
            out,
            "  {style}{label}{style:#}  {:>width$}  {:>6}",
            number(part),
            share(part, tally.requests)
        )?;
    }
    if tally.unlimited > 0 {
        writeln!(out, "  {FAINT}no rule applies to {}{FAINT:#}", count(tally.unlimited, "request"))?;
    }
    if tally.backwards > 0 {
        let backwards = count(tally.backwards, "request");
        writeln!(out, "  {FAINT}{backwards} earlier than the one before; counted as they come{FAINT:#}")?;
    }
    Ok(())
}

fn by_rule(out: &mut impl Write, tally: &Tally, rules: &RuleSet) -> io::Result<()> {
    writeln!(out, "By rule")?;
    let columns = [
        ("rule", Align::Left),
        ("applied", Align::Right),
        ("refused", Align::Right),
        ("share", Align::Right),
    ];
    let mut table = Table::new(&columns);
    for (rule, RuleTally { applied, refused, .. }) in rules.rules().zip(&tally.rules) {
        let style = if *refused > 0 { BAD } else { PLAIN };
        table.row([
            (named(&rule.id, rule.shadow), PLAIN),
            (number(*applied), PLAIN),
            (number(*refused), style),
            (share(*refused, *applied), FAINT),
        ]);
    }
    table.write(out)
}

/// A rule that only watches is never to be mistaken for one that refuses.
fn named(id: &str, shadow: bool) -> String {
    if shadow { format!("{id} (shadow)") } else { id.to_owned() }
}

fn by_identity(out: &mut impl Write, tally: &Tally, rules: &RuleSet, top: usize) -> io::Result<()> {
    let most = tally.top(top);
    if most.is_empty() {
        return writeln!(out, "Nobody would have been refused.");
    }
    let shown = match tally.identities() {
        Some(all) if all <= most.len() => String::new(),
        Some(all) => format!(" (the first {} of {})", most.len(), number(all as u64)),
        None => format!(" (the first {}; there are too many to know them all)", most.len()),
    };
    writeln!(out, "Who would have been refused{shown}")?;
    let columns = [
        ("rule", Align::Left),
        ("identity", Align::Left),
        ("refused", Align::Right),
        ("first", Align::Left),
        ("last", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for (rule, identity, refusals) in most {
        let rule = rules.rule(rule);
        table.row([
            (named(&rule.id, rule.shadow), PLAIN),
            (identity.to_owned(), STRONG),
            (number(refusals.count), BAD),
            (moment(refusals.first), PLAIN),
            (moment(refusals.last), PLAIN),
        ]);
    }
    table.write(out)
}
