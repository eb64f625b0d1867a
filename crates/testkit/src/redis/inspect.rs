//! What a server says about itself and its keys.

use std::collections::HashMap;

use super::Redis;
use super::client::Client;

impl Redis {
    /// A section of `INFO`, by field.
    #[must_use]
    #[track_caller]
    pub fn info(&self, section: &str) -> HashMap<String, String> {
        fields(&self.query::<String>(&["INFO", section]))
    }

    /// How often a command was called since the start, such as `evalsha`; scripts' own calls count too.
    #[must_use]
    #[track_caller]
    pub fn command_calls(&self, command: &str) -> u64 {
        self.command_stat(command, "calls")
    }

    /// How many microseconds the server spent in a command since the start.
    #[must_use]
    #[track_caller]
    pub fn command_usec(&self, command: &str) -> u64 {
        self.command_stat(command, "usec")
    }

    #[track_caller]
    fn command_stat(&self, command: &str, stat: &str) -> u64 {
        let stats = self.info("commandstats");
        let stats = stats.get(&format!("cmdstat_{}", command.to_lowercase()));
        let figures = stats.into_iter().flat_map(|stats| stats.split(','));
        let figure = figures.filter_map(|figure| figure.split_once('=')).find(|(name, _)| *name == stat);
        figure.map_or(0, |(_, value)| value.parse().expect("statistics are numbers"))
    }

    /// All keys that would stay for ever: a limiter leaves none.
    #[must_use]
    #[track_caller]
    pub fn keys_without_ttl(&self) -> Vec<String> {
        keys_without_ttl(&self.client).unwrap_or_else(|error| panic!("looking at all keys: {error}"))
    }
}

fn keys_without_ttl(client: &Client) -> redis::RedisResult<Vec<String>> {
    let mut connection = client.connect(super::START)?;
    let mut found = Vec::new();
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("COUNT").arg(1_000);
        let (next, keys): (u64, Vec<Vec<u8>>) = scan.query(&mut connection)?;
        let mut look = redis::pipe();
        for key in &keys {
            look.cmd("PTTL").arg(key);
        }
        // The client refuses to send nothing.
        let left: Vec<i64> = if keys.is_empty() { Vec::new() } else { look.query(&mut connection)? };
        let lasting = keys.iter().zip(left).filter(|(_, left)| *left == -1);
        found.extend(lasting.map(|(key, _)| String::from_utf8_lossy(key).into_owned()));
        cursor = next;
        if cursor == 0 {
            found.sort();
            // A scan may show a key twice.
            found.dedup();
            return Ok(found);
        }
    }
}

/// The lines `name:value` of an answer, by name.
pub(crate) fn fields(text: &str) -> HashMap<String, String> {
    let lines = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
