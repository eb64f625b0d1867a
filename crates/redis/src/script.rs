//! The script that decides, and what it is called.

use redis::Cmd;

/// What decides most takes.
const SHORT: [&str; 9] = [
    include_str!("../scripts/prelude.lua"),
    include_str!("../scripts/arithmetic.lua"),
    include_str!("../scripts/windows.lua"),
    include_str!("../scripts/token_bucket.lua"),
    include_str!("../scripts/fixed_window.lua"),
    include_str!("../scripts/sliding_window.lua"),
    include_str!("../scripts/sliding_log.lua"),
    include_str!("../scripts/state.lua"),
    include_str!("../scripts/take.lua"),
];

/// What decides all others. It becomes the body of a function, so that it costs nothing unless it is needed: a script
/// sets up everything it defines each time it runs.
const LONG: [&str; 3] = [
    include_str!("../scripts/counter.lua"),
    include_str!("../scripts/replays.lua"),
    include_str!("../scripts/groups.lua"),
];

/// What reads the input and calls the others.
const APPLY: &str = include_str!("../scripts/apply.lua");

/// The script, and the digest by which a server knows it.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    text: String,
    digest: String,
}

impl Script {
    pub(crate) fn new() -> Self {
        let long = ["local function long_way()"].into_iter().chain(LONG).chain(["end"]);
        let lines = SHORT.into_iter().chain(long).chain([APPLY]).flat_map(str::lines);
        let text = lines.filter_map(code).fold(String::new(), |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        });
        let digest = redis::Script::new(&text).get_hash().to_owned();
        Self { text, digest }
    }

    /// Teaches a server the script.
    pub(crate) fn load(&self) -> Cmd {
        let mut cmd = redis::cmd("SCRIPT");
        cmd.arg("LOAD").arg(&self.text);
        cmd
    }

    /// Runs it on `keys` with `input`, by its digest.
    pub(crate) fn run<'k>(&self, keys: impl ExactSizeIterator<Item = &'k [u8]>, input: &[u8]) -> Cmd {
        let mut cmd = Cmd::with_capacity(4 + keys.len(), 64 + 96 * keys.len() + input.len());
        cmd.arg("EVALSHA").arg(&self.digest).arg(keys.len());
        keys.for_each(|key| {
            cmd.arg(key);
        });
        cmd.arg(input);
        cmd
    }
}

/// A line without indentation and comments, which a server need not keep.
fn code(line: &str) -> Option<&str> {
    let line = line.trim();
    (!line.is_empty() && !line.starts_with("--")).then_some(line)
}

