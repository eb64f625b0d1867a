//! Adding to a file of tokens that a server may be reading.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tidegate_server::{NamedToken, Tokens};

use crate::failure::Failure;

/// Adds the line of `token` to the file at `path`, which is made for its owner only if there is none. The file is replaced
/// whole, so that nobody finds half of it, and not at all if the server could not use it then.
pub(super) fn append(path: &Path, token: &NamedToken) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Failed(format!("cannot write {}: {error}", path.display()));
    // A link goes on leading to where it led.
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(failed(error)),
    };
    let mut name = target.clone().into_os_string();
    name.push(".new");
    let unfinished = PathBuf::from(name);
    let file = match private().create_new(true).open(&unfinished) {
        Ok(file) => file,
        // Of two that add at once, one would undo what the other did.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let unfinished = unfinished.display();
            return Err(Failure::Failed(format!(
                "{unfinished} is there already: somebody else is adding a token; try again, or remove it if nobody is"
            )));
        }
        Err(error) => return Err(failed(error)),
    };
    let written = write(file, &target, token);
    let written = written.and_then(|()| fs::rename(&unfinished, &target).map_err(failed));
    if written.is_err() {
        // What went wrong is said; that this is left behind too would not help.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Writes what is at `target`, and the line of `token`.
fn write(mut file: File, target: &Path, token: &NamedToken) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Failed(format!("cannot add to {}: {error}", target.display()));
    let mut text = match fs::read_to_string(target) {
        Ok(text) => {
            keep_owner(&file, target).map_err(failed)?;
            text
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text += &format!("{token}\n");
    Tokens::parse(&target.display().to_string(), &text)
        .map_err(|error| Failure::Failed(format!("{error}\nNothing was added.")))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}

#[cfg(unix)]
fn private() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

#[cfg(not(unix))]
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    options
}

/// Whoever could read the file before, such as a server that runs as another user, still can.
#[cfg(unix)]
fn keep_owner(file: &File, before: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let (before, now) = (fs::metadata(before)?, file.metadata()?);
    if (before.uid(), before.gid()) != (now.uid(), now.gid()) {
        fchown(file, Some(before.uid()), Some(before.gid()))?;
    }
    file.set_permissions(before.permissions())
}

#[cfg(not(unix))]
fn keep_owner(file: &File, before: &Path) -> io::Result<()> {
    file.set_permissions(fs::metadata(before)?.permissions())
}
