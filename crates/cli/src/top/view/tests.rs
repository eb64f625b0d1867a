//! What is on terminals of several sizes.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;
use ratatui::style::Color;

use super::*;
use crate::top::keys::Action;
use crate::top::model::Link;
use crate::top::sse::Message;
use crate::top::text::Text;
use crate::top::wire::Fleet;

const TICK: &str = include_str!("fixtures/tick.json");
const INSIGHT: &str = include_str!("fixtures/insight.json");
const JOURNAL: &str = include_str!("fixtures/journal.json");
const FLEET: &str = include_str!("fixtures/fleet.json");

/// Everything at once: an alert, a broken shard, a hot key.
fn busy() -> Model {
    let mut model = Model { link: Link::Live, ..Model::default() };
    let points: Vec<String> = (0..120)
        .map(|n| {
            format!(
                r#"{{"at": {n}, "decisions": {{"allowed": {}}}, "latency": {{"p99": 0.0{n:03}}}}}"#,
                n * 10
            )
        })
        .collect();
    take(&mut model, "history", &format!(r#"{{"points": [{}]}}"#, points.join(",")));
    take(&mut model, "tick", TICK);
    take(&mut model, "insight", INSIGHT);
    take(&mut model, "journal", JOURNAL);
    model.fleet = Some(Ok(serde_json::from_str::<Fleet>(FLEET).unwrap()));
    assert!(model.unread == 0 && model.is_complete());
    model
}

fn take(model: &mut Model, event: &str, data: &str) {
    model.take(&Message { event: event.to_owned(), data: data.to_owned() });
}

fn screen() -> Screen {
    Screen::new("http://127.0.0.1:8082".to_owned())
}

fn buffer(width: u16, height: u16, model: &Model, screen: &mut Screen, palette: Palette) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model, screen, palette)).unwrap();
    terminal.backend().buffer().clone()
}

fn shown(width: u16, height: u16, model: &Model, screen: &mut Screen) -> String {
    let buffer = buffer(width, height, model, screen, Palette::plain());
    let rows = buffer.content.chunks(usize::from(width));
    rows.map(|row| row.iter().map(Cell::symbol).collect::<String>().trim_end().to_owned() + "\n").collect()
}

fn has(shown: &str, texts: &[&str]) {
    for text in texts {
        assert!(shown.contains(text), "`{text}` is not in:\n{shown}");
    }
}

#[test]
fn everything_that_matters_is_on_80_by_24() {
    let shown = shown(80, 24, &busy(), &mut screen());
    has(&shown, &["DEGRADED live  node-a  up 3h 2m  rules v7 (12)  nodes 3/4"]);
    has(&shown, &["1 Overview", "5 Events", "? help", "q quit"]);
    has(&shown, &["CRITICAL store_down: one of 2 shards", "(since 12:00:07)", "WHY degraded: shard"]);
    has(&shown, &["decisions    12.0k/s", "refused      2.00k/s    16.7%", "█"]);
    has(&shown, &["p99           410 \u{b5}s", "p50 12 \u{b5}s", "p999 1.2 ms"]);
    has(&shown, &["total     allowed 1,234,567  refused 89,012"]);
    has(
        &shown,
        &[
            "10.0.0.2:6379",
            "open",
            "PROBLEM connection refused",
            "10.0.0.1:6379",
            "closed",
            "900 \u{b5}s",
            "3.15MB",
        ],
    );
    has(&shown, &["RULES", "per_user", "TIERS", "free", "HOT KEYS", "acme/alice", "14.2k/s", "HOT"]);
    has(&shown, &["EVENTS", "12:00:07", "critical", "breaker opened"]);
    assert!(shown.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn more_is_on_larger_terminals() {
    let shown = shown(120, 40, &busy(), &mut screen());
    has(
        &shown,
        &["DEGRADED live  node-a", "CRITICAL store_down", "12.0k/s", "acme/alice", "connection refused"],
    );
    has(&shown, &["USERS REFUSED MOST", "5,210", "per_rule_9", "gold", "rules changed"]);
    let sides = shown.lines().find(|line| line.contains("HOT KEYS")).unwrap();
    assert!(sides.starts_with("STORE"), "two columns: {sides}");
}

#[test]
fn the_most_important_is_left_on_small_ones() {
    let (model, mut screen) = (busy(), screen());
    has(
        &shown(40, 12, &model, &mut screen),
        &["DEGRADED live  node-a", "CRITICAL", "12.0k/s", "refused      2.00k/s"],
    );
    has(&shown(20, 5, &model, &mut screen), &["DEGRADED live  node-", "CRITICAL", "decisions    12.0k/s"]);
    assert_eq!(shown(1, 1, &model, &mut screen), "D\n");
}

#[test]
fn no_size_and_no_view_is_too_much() {
    let empty = Model::default();
    for model in [&busy(), &empty] {
        let mut screen = screen();
        for view in View::ALL {
            screen.act(Action::Show(view), model);
            for (width, height) in
                (0..140).step_by(7).flat_map(|width| (0..45).step_by(4).map(move |h| (width, h)))
            {
                shown(width.max(1), height.max(1), model, &mut screen);
                screen.act(Action::PageDown, model);
            }
        }
        screen.act(Action::Help, model);
        for size in [1, 3, 24, 200] {
            shown(size, size, model, &mut screen);
        }
    }
}

#[test]
fn each_view_shows_what_it_is_for() {
    let (model, mut screen) = (busy(), screen());
    let mut view = |view| {
        screen.act(Action::Show(view), &model);
        shown(80, 24, &model, &mut screen)
    };
    has(&view(View::Rules), &["per_user", "per_rule_9", "(no rule applies)", "shadow/s", "TIERS"]);
    has(&view(View::HotKeys), &["acme/alice", "USERS REFUSED MOST", "2001:db8:1:2::/64", "5,210"]);
    let fleet = view(View::Fleet);
    has(
        &fleet,
        &["together  2 of 3 nodes answered  DEGRADED", "node-a (asked)", "node-b", "alive", "normal", "lost"],
    );
    has(&fleet, &["PROBLEM node-c: it did not answer within 0.8 s"]);
    has(
        &view(View::Events),
        &["2026-03-01 12:00:07 critical breaker breaker opened", "    5 errors in a row"],
    );
    screen.act(Action::Help, &model);
    has(&shown(80, 24, &model, &mut screen), &["KEYS", "Ctrl-C", "the node is on its own"]);
}

#[test]
fn a_server_that_is_away_is_said() {
    let waiting = shown(80, 24, &Model::default(), &mut screen());
    has(&waiting, &["connecting  http://127.0.0.1:8082", "waiting for the first figures"]);
    let lost = Link::Lost(Text::new("Connection refused"), Duration::from_secs(4));
    let model = Model { link: lost, ..busy() };
    let away = shown(100, 24, &model, &mut screen());
    has(
        &away,
        &[
            "DEGRADED NO ANSWER",
            "NO ANSWER again in 4s: Connection refused, at http://127.0.0.1:8082; what is shown is old",
        ],
    );
}

#[test]
fn oddities_are_said() {
    let mut model = Model { link: Link::Live, ..Model::default() };
    take(
        &mut model,
        "tick",
        r#"{"state": {"mode": "normal", "draining": true, "rules": {"quarantined": 2}}}"#,
    );
    take(&mut model, "tick", "[");
    let odd = shown(80, 24, &model, &mut screen());
    has(&odd, &["NORMAL live DRAINING", "RULES bad and not in force: 2", "ODD 1 messages could not be read"]);
    take(&mut model, "tick", &TICK.replace("\"quarantined\": 0", "\"quarantined\": 1"));
    let cut = shown(80, 24, &model, &mut screen());
    has(&cut, &["CRITICAL store_down", "WARNING hot_key", "WHY degraded", "(+2 more)"]);
}

#[test]
fn what_is_held_does_not_change() {
    let (mut model, mut screen) = (busy(), screen());
    screen.act(Action::Pause, &model);
    take(&mut model, "tick", r#"{"state": {"mode": "emergency"}}"#);
    has(&shown(80, 24, &model, &mut screen), &["DEGRADED PAUSED"]);
    screen.act(Action::Pause, &model);
    has(&shown(80, 24, &model, &mut screen), &["EMERGENCY live"]);
}

#[test]
fn nothing_that_a_client_made_up_reaches_the_terminal_as_it_is() {
    let evil = r"\u001b]0;owned\u0007\u001b[2J\u009b31m\r\n\u202e\u200f日本語";
    let mut model = Model::default();
    let tick = TICK
        .replace("acme/alice", evil)
        .replace("per_user", evil)
        .replace("node-a", evil)
        .replace("one of", evil);
    take(&mut model, "tick", &tick);
    take(&mut model, "insight", &INSIGHT.replace("acme/alice", evil));
    take(&mut model, "journal", &JOURNAL.replace("breaker opened", evil).replace("12:00:07", evil));
    model.fleet = Some(Ok(serde_json::from_str(&FLEET.replace("node-b", evil)).unwrap()));
    assert!(model.unread == 0 && model.is_complete());
    let mut screen = screen();
    for view in View::ALL {
        screen.act(Action::Show(view), &model);
        for (width, height) in [(80, 24), (160, 50), (37, 24)] {
            let buffer = buffer(width, height, &model, &mut screen, Palette::coloured());
            let harmful = |c: char| c.is_control() || matches!(c, '\u{200f}' | '\u{202e}');
            assert!(buffer.content.iter().all(|cell| !cell.symbol().contains(harmful)), "{view:?}");
        }
    }
    let mut plain = Vec::new();
    crate::top::once::write(&mut plain, &model, &screen).unwrap();
    let plain = String::from_utf8(plain).unwrap();
    assert!(!plain.contains(|c: char| c != '\n' && c.is_control()));
    assert!(plain.contains("\\u{1b}]0;owned"), "{plain}");
}

#[test]
fn colours_go_with_words_and_can_be_had_without() {
    let coloured = |palette| {
        let buffer = buffer(80, 24, &busy(), &mut screen(), palette);
        buffer.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(coloured(Palette::coloured()));
    assert!(!coloured(Palette::plain()));
}

#[test]
fn rows_are_shared_fairly() {
    assert_eq!(share(15, &[4, 10, 10, 100]), [4, 4, 4, 3]);
    assert_eq!(share(20, &[1, 3, 3]), [1, 3, 3]);
    assert_eq!(share(5, &[9, 9, 9]), [3, 2, 0], "no head without a row");
    assert_eq!(share(0, &[9]), [0]);
}
