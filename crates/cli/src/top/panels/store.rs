//! Where counters are.

use ratatui::style::Style;
use ratatui::text::Line;

use super::super::columns::{Column, Columns};
use super::super::model::Model;
use super::super::palette::Palette;
use super::super::text::cut;
use super::super::units::{UNKNOWN, latency, percent, short, whole};
use super::super::wire::{Shard, ShardState};
use super::{Lines, plain};

/// The servers of the store, those with problems first; one line if counters are in memory.
pub(crate) fn store(model: &Model, room: usize, palette: Palette) -> Lines {
    let Some(tick) = &model.tick else { return Vec::new() };
    let store = &tick.state.store;
    let keys = tick.state.keys.map(|keys| format!(", keys {}", whole(keys))).unwrap_or_default();
    if store.shards.is_empty() {
        return vec![Line::raw(format!("STORE     {}{keys}", store.kind))];
    }
    let columns = [
        Column::Name("STORE"),
        Column::Figure("ops/s", 6),
        Column::Figure("err/s", 6),
        Column::Figure("p99", 7),
        Column::Word("breaker", 9),
        Column::Figure("cpu", 6),
        Column::Figure("memory", 6),
        Column::Figure("lag", 7),
    ];
    let mut shards: Vec<&ShardState> = store.shards.iter().collect();
    shards.sort_by_key(|shard| shard.problem.is_none() && shard.breaker.as_str() == "closed");
    let mut table = Columns::new(room, palette.head(), &columns);
    for shard in shards {
        let rates = tick.point.shards.iter().find(|rates| rates.name == shard.name);
        let of = |figure: fn(&Shard) -> f64| {
            rates.map_or_else(|| UNKNOWN.to_owned(), |rates| short(figure(rates)))
        };
        let failing = rates.is_some_and(|rates| rates.errors > 0.0);
        let share = |part: Option<f64>| part.map_or_else(|| UNKNOWN.to_owned(), |part| percent(part, 1.0));
        let memory = match (shard.memory, shard.memory_bytes) {
            (None, Some(bytes)) => format!("{}B", short(bytes)),
            (part, _) => share(part),
        };
        let breaker = shard.breaker.as_str();
        table.row([
            plain(&shard.name),
            plain(of(|rates| rates.operations)),
            (of(|rates| rates.errors), if failing { palette.critical() } else { Style::new() }),
            plain(latency(rates.and_then(|rates| rates.p99))),
            (breaker.to_owned(), palette.word(breaker)),
            plain(share(shard.cpu)),
            plain(memory),
            plain(latency(shard.replication_lag_seconds)),
        ]);
        if let Some(problem) = &shard.problem {
            table.remark(cut(&format!("  PROBLEM {problem}"), room), palette.warning());
        }
    }
    let mut lines = table.lines();
    if store.unsettled > 0.0 {
        let owed = format!("{} keys not settled with the store yet", whole(store.unsettled));
        lines.push(Line::styled(owed, palette.warning()));
    }
    lines
}
