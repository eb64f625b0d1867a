//! `GET|PUT /v1/log-level`

use std::sync::{Arc, Mutex};

use tidegate_server::{Config, LogControl, LogHandle, LogLevel, RulesFeed};

use crate::client::{Ask, config, send, start, start_with};

const RULES: &str = "rules: [{rule_id: all, identifier_type: global, limit: 9, window: 1s}]";

/// A log that remembers what it was told; one that is `stuck` does not let itself be told anything.
struct Log {
    level: Mutex<LogLevel>,
    stuck: bool,
}

impl LogControl for Log {
    fn level(&self) -> LogLevel {
        *self.level.lock().unwrap()
    }

    fn set(&self, level: LogLevel) -> bool {
        if !self.stuck {
            *self.level.lock().unwrap() = level;
        }
        !self.stuck
    }
}

/// A log that can be told.
pub(crate) fn any() -> LogHandle {
    LogHandle(Arc::new(Log { level: Mutex::default(), stuck: false }))
}

fn put(body: &str) -> Ask {
    Ask { body: body.to_owned().into(), ..Ask::new("PUT", "/v1/log-level") }
}

#[tokio::test]
async fn a_program_that_keeps_its_log_to_itself_is_told_so() {
    let server = start(RULES).await;
    for ask in [Ask::get("/v1/log-level"), put(r#"{"level":"debug"}"#)] {
        let answer = send(server.addresses.admin, ask).await;
        assert_eq!(
            (answer.status, answer.json()["error"].as_str()),
            (404.try_into().unwrap(), Some("no_log_control"))
        );
    }
}

#[tokio::test]
async fn the_log_is_told_and_what_cannot_be_changed_stays() {
    for stuck in [false, true] {
        let log = Arc::new(Log { level: Mutex::default(), stuck });
        let config = Config { log: Some(LogHandle(Arc::clone(&log) as _)), ..config() };
        let server = start_with(config, RulesFeed::fixed("rules.yaml", RULES)).await;
        let answer = send(server.addresses.admin, put(r#"{"level":"debug"}"#)).await;
        let (status, level) = if stuck { (503, LogLevel::Info) } else { (200, LogLevel::Debug) };
        assert_eq!((answer.status.as_u16(), log.level()), (status, level), "{}", answer.text());
        assert_eq!(server.admin("/v1/log-level").await.json()["level"], level.name());
    }
}
