//! One Prometheus server.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::ports::Port;
use crate::process::{Launch, Process};
use crate::program::find_program;
use crate::start::{StartError, retry_ports};
use crate::wait;

const START: Duration = crate::wait::HANG_LIMIT;
const ANSWER: Duration = crate::wait::HANG_LIMIT;

/// A Prometheus that scrapes what it is told to, and can be asked what it found.
#[derive(Debug)]
pub struct Prometheus {
    // In this order: the process goes first, then its port and folder.
    process: Process,
    port: Port,
    _folder: TempDir,
}

/// One of the series that a query found, and its value now.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The labels, with the name as `__name__` if the query left it there.
    pub labels: BTreeMap<String, String>,
    /// The value; it may be no number.
    pub value: f64,
}

/// How it stands with something that is scraped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Where it is.
    pub url: String,
    /// `up`, `down`, or `unknown` before the first scrape.
    pub health: String,
    /// What went wrong when it was scraped last; empty if nothing did.
    pub last_error: String,
}

impl Prometheus {
    /// Starts Debian's on a free port, scraping these addresses every second as the job `test`, by these rules.
    ///
    /// # Panics
    /// If it does not start: the message has the end of its log.
    #[must_use]
    pub fn scraping(targets: &[&str], rules: &[&Path]) -> Self {
        let names: Vec<&str> = rules.iter().filter_map(|file| file.file_name()?.to_str()).collect();
        // JSON is YAML.
        let config = serde_json::json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": names,
            "scrape_configs": [{"job_name": "test", "static_configs": [{"targets": targets}]}],
        });
        Self::start(&config.to_string(), rules)
    }

    /// Starts it with a configuration as people write it, and copies of files that this one names beside it.
    ///
    /// # Panics
    /// If it does not start: the message has the end of its log.
    #[must_use]
    pub fn start(config: &str, files: &[&Path]) -> Self {
        retry_ports(|| Self::try_start(config, files))
    }

    fn try_start(config: &str, files: &[&Path]) -> Result<Self, StartError> {
        let (port, folder) = (Port::claim(), tempfile::tempdir().unwrap());
        let own = |name: &str| folder.path().join(name);
        fs::write(own("prometheus.yaml"), config).unwrap();
        for file in files {
            let name = file.file_name().unwrap_or_else(|| panic!("{} is no file", file.display()));
            fs::copy(file, folder.path().join(name))
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
        let flag = |name: &str, value: &Path| format!("--{name}={}", value.display());
        let process = Launch::new(find_program("prometheus", "prometheus"), own("prometheus.log"))
            .args([flag("config.file", &own("prometheus.yaml")), flag("storage.tsdb.path", &own("data"))])
            .args([format!("--web.listen-address={}", port.address())])
            .start();
        let prometheus = Self { process, port, _folder: folder };
        let ready = wait::poll(START, || match prometheus.process.is_running() {
            true => prometheus.get("/-/ready").is_ok_and(|(status, _)| status == 200).then_some(true),
            false => Some(false),
        });
        if ready == Some(true) { Ok(prometheus) } else { Err(StartError::of(&prometheus.process)) }
    }

    /// Where it can be asked, and looked at.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// All that it has printed so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// What a query gives now.
    ///
    /// # Panics
    /// If it is no query, or gives anything but series.
    #[track_caller]
    #[must_use]
    pub fn query(&self, query: &str) -> Vec<Sample> {
        let data = self.ask(&format!("query?query={}", escaped(query)));
        let series = data["result"].as_array().filter(|_| data["resultType"] == "vector");
        let series = series.unwrap_or_else(|| panic!("{query} gives no series: {data}"));
        series.iter().map(Sample::read).collect()
    }

    /// What a query gives that finds one series or none, such as a sum.
    ///
    /// # Panics
    /// If it is no query, or finds more.
    #[track_caller]
    #[must_use]
    pub fn value(&self, query: &str) -> Option<f64> {
        match &*self.query(query) {
            [] => None,
            [one] => Some(one.value),
            more => panic!("{query} gives {more:?}"),
        }
    }

    /// The alerts that are pending or firing, as Prometheus tells them.
    ///
    /// # Panics
    /// If it does not answer.
    #[track_caller]
    #[must_use]
    pub fn alerts(&self) -> Vec<Value> {
        self.ask("alerts")["alerts"].as_array().cloned().unwrap_or_default()
    }

    /// The rules of all groups, as Prometheus tells them: `health` and `lastError` say whether they can be evaluated.
    ///
    /// # Panics
    /// If it does not answer.
    #[track_caller]
    #[must_use]
    pub fn rules(&self) -> Vec<Value> {
        let groups = self.ask("rules")["groups"].as_array().cloned().unwrap_or_default();
        groups.iter().filter_map(|group| group["rules"].as_array()).flatten().cloned().collect()
    }

    /// What is scraped.
    ///
    /// # Panics
    /// If it does not answer.
    #[track_caller]
    #[must_use]
    pub fn targets(&self) -> Vec<Target> {
        let data = self.ask("targets?state=active");
        let text = |of: &Value, name: &str| of[name].as_str().unwrap_or_default().to_owned();
        let read = |of: &Value| Target {
            url: text(of, "scrapeUrl"),
            health: text(of, "health"),
            last_error: text(of, "lastError"),
        };
        data["activeTargets"].as_array().into_iter().flatten().map(read).collect()
    }

    /// The data of an answer of its API.
    #[track_caller]
    fn ask(&self, path: &str) -> Value {
        let (_, body) =
            self.get(&format!("/api/v1/{path}")).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut answer: Value =
            serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"));
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].take()
    }

    fn get(&self, path: &str) -> io::Result<(u16, String)> {
        let mut stream = TcpStream::connect_timeout(&self.address(), ANSWER)?;
        stream.set_read_timeout(Some(ANSWER))?;
        // Version 1.0: no answer in chunks, and the end of the connection is its end.
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        Ok((status, body.to_owned()))
    }
}

impl Sample {
    fn read(series: &Value) -> Self {
        let labels = series["metric"].as_object().into_iter().flatten();
        let labels =
            labels.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()));
        let value = series["value"][1].as_str().and_then(|value| value.parse().ok());
        Self { labels: labels.collect(), value: value.unwrap_or(f64::NAN) }
    }
}

/// A text as part of a URL's query.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}
