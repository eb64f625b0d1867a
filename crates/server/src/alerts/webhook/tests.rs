use proptest::prelude::*;
use serde_json::json;
use tidegate_core::Timestamp;

use super::message::State;
use super::*;
use crate::alerts::evaluator::{Event, Fired};
use crate::alerts::kind::{Alert, EventKind};

fn news(alert: Alert, over: bool) -> News {
    let fired = Fired {
        alert,
        summary: "<it> is & was".to_owned(),
        since: Timestamp::from_millis(1_704_067_200_000),
        resolved: over.then_some(Timestamp::from_millis(1_704_067_260_000)),
    };
    if over { News::Resolved(fired) } else { News::Fired(fired) }
}

fn message(alert: Alert, over: bool) -> Message {
    Message::new(&news(alert, over), &AlertSettings::default())
}

fn event() -> Message {
    let event =
        Event { kind: EventKind::Failover, at: Timestamp::from_millis(0), summary: "b for a".to_owned() };
    Message::new(&News::Event(event), &AlertSettings::default())
}

#[test]
fn bodies_have_the_shape_of_their_style() {
    let (fires, over) = (message(Alert::StoreDown, false), message(Alert::StoreDown, true));
    let runbook = "docs/operations/runbooks.md#store_down";
    assert_eq!(
        over.body(&WebhookStyle::Generic, "edge-1"),
        json!({
            "state": "resolved", "alert": "store_down", "severity": "critical", "summary": "<it> is & was",
            "since": "2024-01-01T00:00:00Z", "resolved_at": "2024-01-01T00:01:00Z", "runbook": runbook,
            "source": "edge-1",
        })
    );
    let slack = fires.body(&WebhookStyle::Slack, "edge-1");
    assert_eq!(slack["text"], "[firing] store_down on edge-1");
    assert_eq!(slack["attachments"][0]["color"], "danger");
    assert_eq!(slack["attachments"][0]["text"], "&lt;it&gt; is &amp; was");
    assert_eq!(over.body(&WebhookStyle::Slack, "edge-1")["attachments"][0]["color"], "good");
    let footer = format!("Runbook: {runbook} (--runbooks URL makes this a link)");
    assert_eq!(slack["attachments"][0]["footer"], footer);
    assert_eq!(slack["attachments"][0].get("title_link"), None, "a path is no link");
    let settings = AlertSettings { runbooks: "https://wiki/limits".to_owned(), ..AlertSettings::default() };
    let linked = Message::new(&news(Alert::StoreDown, false), &settings).body(&WebhookStyle::Slack, "edge-1");
    assert_eq!(linked["attachments"][0]["title_link"], "https://wiki/limits#store_down");
    let style = WebhookStyle::PagerDuty { routing_key: "secret".to_owned() };
    let (first, second) = (fires.body(&style, "edge-1"), over.body(&style, "edge-1"));
    assert_eq!((&first["event_action"], &second["event_action"]), (&json!("trigger"), &json!("resolve")));
    assert_eq!(first["dedup_key"], "tidegate/edge-1/store_down");
    assert_eq!(first["dedup_key"], second["dedup_key"]);
    assert_eq!(first["routing_key"], "secret");
    assert_eq!(first["payload"]["severity"], "critical");
    assert_eq!(first["payload"]["source"], "edge-1");
    assert_eq!(first["payload"]["custom_details"]["runbook"], runbook);
    assert!(!format!("{style:?}").contains("secret"));
}

#[test]
fn addresses_that_cannot_be_posted_to_are_refused() {
    for (url, why) in [
        ("ftp://a/b", "neither http"),
        ("/path", "no host"),
        ("https://user:password@a/", "password"),
        ("https:// /", "no URL"),
    ] {
        let error = Webhook::new(url, WebhookStyle::Generic).unwrap_err().to_string();
        assert!(error.contains(why), "{url}: {error}");
    }
    let style = WebhookStyle::PagerDuty { routing_key: String::new() };
    assert!(Webhook::new("http://a/", style).is_err());
    let webhook = Webhook::new("http://a/services/SECRET", WebhookStyle::Slack).unwrap();
    assert!(!format!("{webhook:?}").contains("SECRET"));
}

#[test]
fn events_have_bounded_room_and_do_not_push_out_alerts() {
    let mut outbox = Outbox::default();
    outbox.add(message(Alert::StoreDown, false));
    for _ in 0..1_000 {
        outbox.add(event());
    }
    assert_eq!((outbox.len(), outbox.dropped()), (51, 950));
    assert_eq!(outbox.take().unwrap().name, "store_down");
}

proptest! {
    /// However an alert comes and goes and however deliveries go between: what is delivered last is how it is, nothing is
    /// delivered twice in a row, and little waits.
    #[test]
    fn what_is_delivered_last_is_how_it_is(steps in prop::collection::vec(0_u8..4, 0..80)) {
        let mut outbox = Outbox::default();
        let mut fires = false;
        let mut delivered: Vec<State> = Vec::new();
        let mut under_way = None;
        for step in steps {
            match step {
                0 | 1 => {
                    outbox.add(message(Alert::Latency, fires));
                    fires = !fires;
                }
                2 if under_way.is_none() => under_way = outbox.take(),
                _ => {
                    delivered.extend(under_way.take().map(|message: Message| message.state));
                    outbox.done();
                }
            }
            prop_assert!(outbox.len() <= 2);
        }
        delivered.extend(under_way.take().map(|message| message.state));
        outbox.done();
        while let Some(message) = outbox.take() {
            delivered.push(message.state);
            outbox.done();
        }
        prop_assert!(delivered.windows(2).all(|two| two[0] != two[1]), "{delivered:?}");
        let last = delivered.last().is_some_and(|state| *state == State::Firing);
        prop_assert_eq!(last, fires);
    }
}
