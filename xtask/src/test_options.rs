//! The options of `cargo xtask test`.

/// Options that say which tests are run, how often, and beside what load.
#[derive(Debug, PartialEq)]
pub(crate) struct TestOptions {
    /// Busy processes per core that run beside the tests.
    pub(crate) busy: usize,
    /// Number of times that the tests are run.
    pub(crate) rounds: usize,
    /// Parts of the names of suites and tests; empty for everything.
    pub(crate) filters: Vec<String>,
}

pub(crate) const HELP: &str = "\
Runs everything that must hold before a change lands: formatting, lints, all tests, documentation. Installs what is missing.

Usage: cargo xtask test [OPTIONS] [FILTER]...

Arguments:
  [FILTER]...    runs only suites and tests whose names contain one of these, and no lints or documentation; a name as
                 the summary prints it (`SUITE TEST`) selects that test

Options:
  --busy [K]     keeps the processor busy beside the tests: K busy processes per core [2 if K is left out]
  --repeat [N]   runs the tests N times [3 if N is left out] and lists those that failed in any round; lints and
                 documentation are checked in the first round only

Output of suites that failed is kept in target/test-failures.

Examples:
  cargo xtask test
  cargo xtask test --busy --repeat
  cargo xtask test --busy 4 --repeat 10 breaker:: 'tidegate-server http tiers::'
";

impl TestOptions {
    /// Reads the arguments of the command.
    pub(crate) fn read(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self { busy: 0, rounds: 1, filters: Vec::new() };
        let mut rest = arguments.iter().peekable();
        while let Some(&argument) = rest.next() {
            let mut number = |default| match rest.next_if(|next| next.parse::<usize>().is_ok()) {
                None => Ok(default),
                Some(text) => match text.parse() {
                    Ok(number @ 1..=MOST) => Ok(number),
                    _ => Err(format!("{argument} takes a number from 1 to {MOST}, not {text}")),
                },
            };
            match argument {
                "--busy" => options.busy = number(2)?,
                "--repeat" => options.rounds = number(3)?,
                flag if flag.starts_with('-') => {
                    return Err(format!("there is no option `{flag}`; `cargo xtask test --help` lists them"));
                }
                filter => options.filters.push(filter.to_owned()),
            }
        }
        Ok(options)
    }
}

/// Upper bound of busy processes per core and of rounds.
const MOST: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<(usize, usize, Vec<String>), String> {
        TestOptions::read(arguments).map(|options| (options.busy, options.rounds, options.filters))
    }

    #[test]
    fn numbers_may_be_left_out() {
        let none = Vec::new;
        assert_eq!(read(&[]), Ok((0, 1, none())));
        assert_eq!(read(&["--busy", "--repeat"]), Ok((2, 3, none())));
        assert_eq!(read(&["--repeat", "5", "--busy", "1"]), Ok((1, 5, none())));
        let filters = vec!["a b".to_owned(), "c".to_owned()];
        assert_eq!(read(&["--busy", "a b", "--repeat", "7", "c"]), Ok((2, 7, filters)));
    }

    #[test]
    fn bad_options_are_refused() {
        for (arguments, part) in [
            (&["--busy", "0"][..], "--busy takes a number from 1 to 1000, not 0"),
            (&["--repeat", "0"], "--repeat takes"),
            (&["--repeat", "1001"], "not 1001"),
            (&["--bsy"], "no option `--bsy`"),
            (&["--busy", "-1"], "no option `-1`"),
        ] {
            let error = read(arguments).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
