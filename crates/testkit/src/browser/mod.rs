//! A browser, for tests of pages from end to end.

mod console;
mod driver;
mod raw;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fantoccini::elements::Element;
use fantoccini::error::CmdError;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::program::find_program;
use driver::Driver;
use raw::Raw;

pub use console::ConsoleMessage;

const PAUSE: Duration = Duration::from_millis(20);

/// A Chromium without windows, with a profile of its own.
///
/// What is asked of it panics if it cannot be had: the message says what, and what was on the console.
#[derive(Debug)]
pub struct Browser {
    client: Client,
    heard: Mutex<Vec<ConsoleMessage>>,
    driver: Driver,
}

impl Browser {
    /// Starts Debian's Chromium with an empty page.
    ///
    /// # Panics
    /// If it is not installed or does not start: the message says what to do, or has the end of its log.
    pub async fn start() -> Self {
        // It blocks until the driver answers, and what the page is served by may be on this thread.
        let driver = tokio::task::spawn_blocking(Driver::start).await.expect("the driver has started");
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(capabilities(&driver.profile()));
        let client = builder.connect(&driver.url()).await;
        let client = client.unwrap_or_else(|error| panic!("no browser: {error}; {}", driver.log_tail()));
        Self { client, heard: Mutex::default(), driver }
    }

    /// The folder that it keeps what it remembers in; gone with it.
    #[must_use]
    pub fn profile(&self) -> PathBuf {
        self.driver.profile()
    }

    /// Opens a page and waits until it is loaded.
    ///
    /// # Panics
    /// If there is none.
    pub async fn goto(&self, url: &str) {
        let gone = self.client.goto(url).await;
        self.take(url, gone).await;
    }

    /// Makes the page's area this many pixels wide and high, which may be less than a window can be.
    ///
    /// # Panics
    /// If that is no size.
    pub async fn resize(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Tells pages that their reader likes dark colours, or light ones.
    ///
    /// # Panics
    /// If the browser has gone.
    pub async fn prefer_dark(&self, dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        self.emulate_media("prefers-color-scheme", scheme).await;
    }

    /// Tells pages what a media feature is, such as `prefers-reduced-motion`; others are as they were by themselves.
    ///
    /// # Panics
    /// If the browser has gone.
    pub async fn emulate_media(&self, feature: &str, value: &str) {
        let features = json!({"features": [{"name": feature, "value": value}]});
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    /// The text of the first element that the selector finds, as it is shown.
    ///
    /// # Panics
    /// If there is none.
    pub async fn text(&self, css: &str) -> String {
        let text = self.find(css).await.text().await;
        self.take(css, text).await
    }

    /// An attribute of the first element that the selector finds; nothing if it does not have it.
    ///
    /// # Panics
    /// If there is no such element.
    pub async fn attribute(&self, css: &str, name: &str) -> Option<String> {
        let value = self.find(css).await.attr(name).await;
        self.take(css, value).await
    }

    /// How many elements the selector finds.
    ///
    /// # Panics
    /// If it is no selector.
    pub async fn count(&self, css: &str) -> usize {
        let found = self.client.find_all(Locator::Css(css)).await;
        self.take(css, found).await.len()
    }

    /// Clicks the first element that the selector finds, as a mouse does: one that is covered cannot be clicked.
    ///
    /// # Panics
    /// If there is none, or it cannot be clicked.
    pub async fn click(&self, css: &str) {
        let clicked = self.find(css).await.click().await;
        self.take(css, clicked).await;
    }

    /// Empties a field and types into it.
    ///
    /// # Panics
    /// If there is none, or it is not to be typed in.
    pub async fn type_in(&self, css: &str, text: &str) {
        let field = self.find(css).await;
        self.take(css, field.clear().await).await;
        self.take(css, field.send_keys(text).await).await;
    }

    /// Sends keys to the first element that the selector finds, as it is: `\u{e00c}` is escape, `\u{e007}` enter, `\u{e004}` tab.
    ///
    /// # Panics
    /// If there is none, or it takes none.
    pub async fn press(&self, css: &str, keys: &str) {
        let pressed = self.find(css).await.send_keys(keys).await;
        self.take(css, pressed).await;
    }

    /// Runs a function's body in the page, and gives what it returns. A promise is waited for.
    ///
    /// # Panics
    /// If it throws.
    pub async fn eval(&self, body: &str) -> Value {
        let returned = self.client.execute(body, Vec::new()).await;
        self.take(body, returned).await
    }

    /// Waits until the selector finds an element that can be seen.
    ///
    /// # Panics
    /// If none comes in time.
    pub async fn wait_for(&self, css: &str, within: Duration) {
        let selector = Value::from(css);
        let seen =
            format!("Array.from(document.querySelectorAll({selector})).some(e => e.checkVisibility())");
        self.wait_until(&seen, within).await;
    }

    /// Waits until an expression holds in the page, and gives its value.
    ///
    /// # Panics
    /// If it does not in time.
    pub async fn wait_until(&self, expression: &str, within: Duration) -> Value {
        let deadline = Instant::now() + within;
        // The page knows which of its values hold.
        let body = format!("const found = ({expression}); return found ? {{found}} : null;");
        loop {
            // A page that is not there yet has neither elements nor variables.
            let last = self.client.execute(&body, Vec::new()).await;
            match &last {
                Ok(Value::Object(answer)) => return answer.get("found").cloned().unwrap_or_default(),
                _ if Instant::now() < deadline => sleep(PAUSE).await,
                _ => {
                    let (console, body) = (self.console().await, self.body().await);
                    panic!(
                        "waited {within:?} in vain until {expression}: {last:?}; console: {console:#?}; page:\n{body}"
                    )
                }
            }
        }
    }

    /// Writes what the page's area shows into a file, as PNG.
    ///
    /// # Panics
    /// If it cannot be written.
    pub async fn screenshot(&self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        let image = self.take("a picture", self.client.screenshot().await).await;
        std::fs::write(path, image).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// All that was said on the console so far, over all pages: by scripts, and by the browser about errors nobody caught, files
    /// that are not there and what a policy forbids.
    ///
    /// # Panics
    /// If the browser has gone.
    pub async fn console(&self) -> Vec<ConsoleMessage> {
        let new = self.client.issue_cmd(Raw::new("se/log", json!({"type": "browser"}))).await;
        let new = new.unwrap_or_else(|error| panic!("the console: {error}"));
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.extend(new.as_array().into_iter().flatten().map(ConsoleMessage::from_log));
        heard.clone()
    }

    /// Runs a command of Chromium's developer tools.
    ///
    /// # Panics
    /// If it fails.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        let done = self.client.issue_cmd(Raw::new("goog/cdp/execute", body)).await;
        self.take(command, done).await
    }

    async fn find(&self, css: &str) -> Element {
        let found = self.client.find(Locator::Css(css)).await;
        self.take(css, found).await
    }

    async fn body(&self) -> String {
        self.client.source().await.unwrap_or_default()
    }

    /// What came out of it, or the end of the test with all that may explain it.
    async fn take<T>(&self, what: &str, outcome: Result<T, CmdError>) -> T {
        match outcome {
            Ok(value) => value,
            Err(error) => panic!("{what}: {error}; console: {:#?}", self.console().await),
        }
    }
}

fn capabilities(profile: &Path) -> Map<String, Value> {
    let mut arguments: Vec<Value> = [
        "--headless=new",
        // Root may not use the sandbox, and tests run as root in containers.
        "--no-sandbox",
        "--disable-gpu",
        // Shared memory is small in containers.
        "--disable-dev-shm-usage",
        // Nothing but the page is to reach the network or the disk.
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-breakpad",
        "--disable-sync",
        "--no-first-run",
        "--no-default-browser-check",
    ]
    .map(Value::from)
    .into();
    arguments.push(format!("--user-data-dir={}", profile.display()).into());
    let options = json!({"binary": find_program("chromium", "chromium"), "args": arguments});
    let logging = json!({"browser": "ALL"});
    [("goog:chromeOptions", options), ("goog:loggingPrefs", logging)]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}
