//! How long a million recorded requests take to replay: the built binary, as a user runs it.
#![allow(missing_docs, reason = "a benchmark")]

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;

const REQUESTS: u64 = 1_000_000;
const ROUNDS: usize = 3;
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rules.yaml");

fn main() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let (json, log, gzip) = (
        folder.path().join("requests.jsonl"),
        folder.path().join("access.log"),
        folder.path().join("access.log.gz"),
    );
    write_json(&mut BufWriter::new(File::create(&json)?))?;
    write_log(&mut BufWriter::new(File::create(&log)?))?;
    write_log(&mut GzEncoder::new(BufWriter::new(File::create(&gzip)?), Compression::fast()))?;
    println!("simulate: seconds for {REQUESTS} requests (best of {ROUNDS})\n");
    println!("| input | seconds |");
    println!("|---|---|");
    for (label, path, options) in [
        ("JSON lines", &json, &[][..]),
        ("combined log", &log, &[]),
        ("combined log, gzip", &gzip, &[]),
        ("JSON lines, `--json`", &json, &["--json"]),
    ] {
        println!("| {label} | {:.2} |", (0..ROUNDS).map(|_| replay(path, options)).fold(f64::MAX, f64::min));
    }
    Ok(())
}

fn replay(requests: &Path, options: &[&str]) -> f64 {
    let start = Instant::now();
    let status = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["simulate", "--rules", RULES])
        .args(options)
        .arg(requests)
        .stdout(Stdio::null())
        .status();
    assert!(status.is_ok_and(|status| status.success()), "the replay failed");
    start.elapsed().as_secs_f64()
}

/// User and millisecond of the `number`th request: 20,000 users, some 280 requests a second.
fn request(number: u64) -> (u64, u64) {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 & 0x3fff, number * 7 / 2)
}

fn write_json(to: &mut impl Write) -> io::Result<()> {
    for number in 0..REQUESTS {
        let (user, ms) = request(number);
        let at = 1_767_225_600_000 + ms;
        writeln!(
            to,
            r#"{{"at_ms":{at},"user":"user-{user}","method":"GET","resource":"/orders/{number}","ip":"198.51.100.7"}}"#
        )?;
    }
    to.flush()
}

fn write_log(to: &mut impl Write) -> io::Result<()> {
    for number in 0..REQUESTS {
        let (user, ms) = request(number);
        let (minute, second) = (ms / 60_000 % 60, ms / 1_000 % 60);
        writeln!(
            to,
            r#"198.51.100.7 - user-{user} [01/Jan/2026:00:{minute:02}:{second:02} +0000] "GET /orders/{number} HTTP/1.1" 200 512 "-" "shop-app/3.1""#
        )?;
    }
    to.flush()
}
