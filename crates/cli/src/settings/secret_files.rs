//! Files with secrets that options name.

use std::path::{Path, PathBuf};

use tidegate_server::warn_if_exposed;

/// Files with secrets, each with what names it.
#[derive(Debug, Default)]
pub(crate) struct SecretFiles(Vec<(&'static str, PathBuf)>);

impl SecretFiles {
    /// Adds a file, if `option` names one.
    pub(super) fn add(&mut self, option: &'static str, path: Option<&Path>) {
        self.0.extend(path.map(|path| (option, path.to_owned())));
    }

    /// Warns about those that others than their owner can read.
    pub(crate) fn warn(&self) {
        self.0.iter().for_each(|(option, path)| warn_if_exposed(option, path));
    }
}
