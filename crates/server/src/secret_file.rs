//! Files that hold secrets: who else can read them.

use std::path::Path;

/// Warns, in the log, about a file with a secret that others than its owner can read. `option` says what names the file.
///
/// A file that is not there is the business of whoever reads it.
pub fn warn_if_exposed(option: &str, path: &Path) {
    if let Some(mode) = exposed_mode(path) {
        let path = path.display();
        tracing::warn!(
            option,
            file = %path,
            mode = format_args!("{mode:04o}"),
            "a file with a secret can be read by its group or by others; run `chmod 600 {path}`"
        );
    }
}

/// Returns the permissions of a file that its group or others can read.
#[cfg(unix)]
fn exposed_mode(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;

    const READ_BY_GROUP_OR_OTHERS: u32 = 0o044;
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o7777;
    (mode & READ_BY_GROUP_OR_OTHERS != 0).then_some(mode)
}

/// Where permissions are something else, nothing can be said about them.
#[cfg(not(unix))]
fn exposed_mode(_path: &Path) -> Option<u32> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_files_that_others_can_read_are_exposed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let exposed = |mode| {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            exposed_mode(file.path())
        };
        for mode in [0o600, 0o400, 0o700, 0o622, 0o611] {
            assert_eq!(exposed(mode), None, "{mode:o}");
        }
        for mode in [0o640, 0o644, 0o604, 0o440, 0o777] {
            assert_eq!(exposed(mode), Some(mode), "{mode:o}");
        }
        assert_eq!(exposed_mode(Path::new("/nowhere/at/all")), None);
    }
}
