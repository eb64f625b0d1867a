//! The scripts that decide, and what they are called.

use redis::Cmd;

use crate::encode::Way;

/// Plain takes.
const SHORT: [&str; 1] = [include_str!("../scripts/takes.lua")];

/// Everything; the files build on each other in this order.
const LONG: [&str; 9] = [
    include_str!("../scripts/prelude.lua"),
    include_str!("../scripts/arithmetic.lua"),
    include_str!("../scripts/windows.lua"),
    include_str!("../scripts/token_bucket.lua"),
    include_str!("../scripts/fixed_window.lua"),
    include_str!("../scripts/sliding_window.lua"),
    include_str!("../scripts/sliding_log.lua"),
    include_str!("../scripts/counter.lua"),
    include_str!("../scripts/replays.lua"),
];

/// What of the long way comes last.
const GROUPS: &str = include_str!("../scripts/groups.lua");

/// A script, and the digest by which a server knows it.
#[derive(Clone, Debug)]
struct Script {
    text: String,
    digest: String,
}

impl Script {
    fn new(files: impl Iterator<Item = &'static str>) -> Self {
        let text = files.flat_map(str::lines).filter_map(code).fold(String::new(), |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        });
        let digest = redis::Script::new(&text).get_hash().to_owned();
        Self { text, digest }
    }
}

/// All that a server must know to decide.
#[derive(Clone, Debug)]
pub(crate) struct Scripts {
    short: Script,
    long: Script,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Self { short: Script::new(SHORT.into_iter()), long: Script::new(LONG.into_iter().chain([GROUPS])) }
    }

    /// Teaches a server the scripts.
    pub(crate) fn load(&self) -> [Cmd; 2] {
        [&self.short, &self.long].map(|script| {
            let mut cmd = redis::cmd("SCRIPT");
            cmd.arg("LOAD").arg(&script.text);
            cmd
        })
    }

    /// Runs one on `keys` with `input`, by its digest.
    pub(crate) fn run<'k>(
        &self,
        way: Way,
        keys: impl ExactSizeIterator<Item = &'k [u8]>,
        input: &[u8],
    ) -> Cmd {
        let script = match way {
            Way::Short => &self.short,
            Way::Long => &self.long,
        };
        let mut cmd = Cmd::with_capacity(4 + keys.len(), 64 + 96 * keys.len() + input.len());
        cmd.arg("EVALSHA").arg(&script.digest).arg(keys.len());
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
