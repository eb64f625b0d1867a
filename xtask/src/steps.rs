//! What the commands do, one cargo call after the other.

use std::process::Command;
use std::time::Instant;

/// The benchmarks, by the package that has them.
const BENCHES: [(&str, &str); 4] = [
    ("in_process", "tidegate"),
    ("memory", "tidegate"),
    ("http", "tidegate-server"),
    ("simulate", "tidegate-cli"),
];

/// Rewrites committed outputs when set; see `bless`.
const BLESS: &str = "TIDEGATE_BLESS";

/// Everything that must hold before a change lands.
pub(crate) fn test() -> Result<(), String> {
    lint()?;
    step("tests", cargo().args(["test", "--workspace", "--lib", "--bins", "--tests", "--examples"]))?;
    step("documentation tests", cargo().args(["test", "--workspace", "--doc"]))?;
    step(
        "documentation",
        cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// Formatting and lints.
pub(crate) fn lint() -> Result<(), String> {
    step("formatting", cargo().args(["fmt", "--all", "--check"]))?;
    step("lints", cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Runs the benchmarks named, or all of them.
pub(crate) fn bench(names: &[&str]) -> Result<(), String> {
    if let Some(unknown) = names.iter().find(|name| !BENCHES.iter().any(|(known, _)| known == *name)) {
        let known: Vec<&str> = BENCHES.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no benchmark `{unknown}`; there are {}", known.join(", ")));
    }
    for (name, package) in BENCHES.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        step(name, cargo().args(["bench", "--quiet", "--package", package, "--bench", name]))?;
    }
    Ok(())
}

/// Rewrites the committed outputs that tests compare with the code.
pub(crate) fn bless() -> Result<(), String> {
    let packages = ["--package", "tidegate-rules", "--package", "tidegate-server"];
    step("bless", cargo().arg("test").args(packages).env(BLESS, "1"))
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs one step and says how long it took.
fn step(name: &str, command: &mut Command) -> Result<(), String> {
    println!("\n== {name}");
    let start = Instant::now();
    run(command)?;
    println!("== {name}: done in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(error) => Err(format!("{command:?} could not be started: {error}")),
    }
}
