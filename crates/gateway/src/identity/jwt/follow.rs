//! Keys that come from elsewhere and change.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::fetch::SetUrl;
use super::keys::Keys;
use super::{Ring, Tokens};
use crate::identity::file;

/// The largest set of keys, in bytes.
pub(super) const MAX_SET_BYTES: usize = 1024 * 1024;

/// Where a set of keys is.
pub(super) enum Origin {
    File(PathBuf),
    Url(Box<SetUrl>),
}

impl Origin {
    pub(super) fn url(url: &str, authorities: Option<&Path>) -> Result<Self, String> {
        SetUrl::new(url, authorities).map(Box::new).map(Self::Url)
    }
}

impl Tokens {
    /// Reads a file for the first time, so that there are keys before the first request. A URL is not waited for.
    pub(super) fn look(&self) {
        match &self.origin {
            None => {}
            Some(Origin::File(path)) => {
                self.take(&mut None, file::read(path, MAX_SET_BYTES));
            }
            Some(Origin::Url(url)) => self.note(Some(format!("{url}: it was not asked yet"))),
        }
    }

    /// Takes other keys into use as they come, for as long as this runs. What cannot be used changes nothing.
    pub(in crate::identity) async fn follow(&self) {
        match &self.origin {
            None => std::future::pending().await,
            Some(Origin::File(path)) => self.follow_file(path).await,
            Some(Origin::Url(url)) => self.follow_url(url).await,
        }
    }

    async fn follow_file(&self, path: &Path) {
        let mut watch = file::Watch::new(path, MAX_SET_BYTES);
        let mut last = None;
        loop {
            if let Some(read) = watch.changed().await {
                self.take(&mut last, read);
            }
            sleep(self.pace.file).await;
        }
    }

    async fn follow_url(&self, url: &SetUrl) {
        let mut last = None;
        let mut failures = 0;
        loop {
            let fetched = url.fetch(self.pace.patience).await;
            let asked = Instant::now();
            let wait = if self.take(&mut last, fetched) {
                failures = 0;
                self.pace.url
            } else {
                failures += 1;
                backoff(self.pace.retry, self.pace.retry_most, failures)
            };
            self.wait(asked, wait).await;
        }
    }

    /// Until the next time to ask; earlier if somebody shows a token of an unknown key, but not at once: anybody can.
    pub(super) async fn wait(&self, asked: Instant, wait: Duration) {
        let mut due = pin!(sleep_until(asked + wait));
        tokio::select! {
            () = &mut due => {}
            () = self.wanted.notified() => sleep_until(asked + wait.min(self.pace.early)).await,
        }
    }

    /// Puts a set in use; whether it could be. The same again changes nothing, and verified tokens stay remembered.
    fn take(&self, last: &mut Option<Vec<u8>>, read: Result<Vec<u8>, String>) -> bool {
        let is_file = matches!(self.origin, Some(Origin::File(_)));
        let used = read.and_then(|text| {
            if last.as_ref() != Some(&text) {
                self.ring.store(Some(Ring::new(Keys::set(&text, is_file)?)));
                tracing::info!(from = %self.place(), "keys for tokens in use");
                *last = Some(text);
            }
            Ok(())
        });
        let good = used.is_ok();
        self.note(used.err().map(|wrong| format!("{}: {wrong}", self.place())));
        good
    }

    fn place(&self) -> String {
        match &self.origin {
            None => String::new(),
            Some(Origin::File(path)) => path.display().to_string(),
            Some(Origin::Url(url)) => url.to_string(),
        }
    }

    /// Remembers what is wrong, and says so if it is new.
    fn note(&self, wrong: Option<String>) {
        let wrong = wrong.map(|wrong| match *self.ring.load() {
            Some(_) => format!("keys for tokens not loaded, the last good ones stay in use: {wrong}"),
            None => format!("keys for tokens not there yet, tokens are answered with 503: {wrong}"),
        });
        let mut problem = self.problem.lock();
        if *problem != wrong {
            if let Some(wrong) = &wrong {
                tracing::warn!("{wrong}");
            }
            *problem = wrong;
        }
    }
}

/// How long to wait after so many failures in a row.
pub(super) fn backoff(first: Duration, most: Duration, failures: u32) -> Duration {
    first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(most)
}
