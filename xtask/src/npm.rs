//! Packages of the npm registry, of exact versions: files are taken out of them, nothing of them is run.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::packages::{only_file, target_folder};
use crate::steps::run;

/// A package and its version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NpmPackage<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
}

impl NpmPackage<'_> {
    /// Where its files are. It is fetched into the target folder if it is not there: nothing else on the machine changes.
    pub(crate) fn fetch(&self) -> Result<PathBuf, String> {
        let Self { name, version } = self;
        let place = target_folder().join("testkit/npm");
        // As the testkit looks for it (crates/testkit/src/program.rs).
        let folder = place.join(format!("{}-{version}", name.trim_start_matches('@').replace('/', "-")));
        let files = folder.join("package");
        if folder.is_dir() {
            return Ok(files);
        }
        println!("xtask: fetching {name} {version} into {}", folder.display());
        // Unpacked beside its place and then moved, so that what is there is whole.
        let unfinished = folder.with_extension("unfinished");
        let could_not = |error| format!("{}: {error}", unfinished.display());
        fs::remove_dir_all(&unfinished).ok();
        fs::create_dir_all(&unfinished).map_err(could_not)?;
        // It compares what it got with what the registry says it is.
        let mut npm = Command::new("npm");
        npm.args(["pack", "--silent", "--ignore-scripts", "--pack-destination"]).arg(&unfinished);
        run(npm.arg(format!("{name}@{version}")).current_dir(&unfinished)).map_err(|error| {
            format!("{error}\n{name} {version} comes from the npm registry; look whether it can be reached:\n  npm view {name}@{version}")
        })?;
        let archive = only_file(&unfinished)?;
        run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&unfinished))?;
        fs::remove_file(&archive).map_err(could_not)?;
        fs::rename(&unfinished, &folder).map_err(could_not)?;
        Ok(files)
    }
}
