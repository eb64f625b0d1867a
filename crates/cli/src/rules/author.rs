//! Who changes rules from a command line, as the record of changes has it.

use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_sources::Author;

/// Whoever runs this process, now.
pub(super) fn author() -> Author {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Author { name: name(), at_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX) }
}

/// The user that the system knows, not the one that the environment claims, and the machine.
#[cfg(unix)]
fn name() -> String {
    let uid = rustix::process::geteuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = user(&users, uid).map_or_else(|| format!("uid {uid}"), str::to_owned);
    let system = rustix::system::uname();
    match system.nodename().to_string_lossy() {
        host if host.is_empty() => user,
        host => format!("{user}@{host}"),
    }
}

#[cfg(not(unix))]
fn name() -> String {
    std::env::var("USERNAME").unwrap_or_else(|_| "unknown".to_owned())
}

/// The name of a user in the system's file of users.
#[cfg(unix)]
fn user(users: &str, uid: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_number() {
        let users = "root:x:0:0:root:/root:/bin/bash\n\n# odd\nann:x:1000:1000::/home/ann:/bin/sh\n:x:7:\n";
        assert_eq!((user(users, 0), user(users, 1000)), (Some("root"), Some("ann")));
        assert_eq!((user(users, 7), user(users, 8), user("", 0)), (None, None, None));
    }
}
