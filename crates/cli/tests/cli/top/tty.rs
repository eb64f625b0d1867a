//! A terminal, as far as it takes to see what was drawn on it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::{PATIENCE, tidegate, wait_for};

const COLUMNS: u16 = 80;
const ROWS: u16 = 24;

/// Written behind the last output of a process.
const LAST: &str = "\u{4}";

/// The binary on a terminal of its own; ends with the test.
pub(super) struct Tty {
    child: Child,
    keyboard: File,
    /// Kept open, so that the terminal can be looked at when the binary has ended.
    inside: File,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Tty {
    pub(super) fn start(args: &[&str]) -> Self {
        Self::start_with(args, |command| command.env_remove("NO_COLOR"))
    }

    /// The same, with a word on how to start the process.
    pub(super) fn start_with(args: &[&str], adjust: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let outside: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&outside).unwrap();
        unlockpt(&outside).unwrap();
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&outside, size).unwrap();
        let name = ptsname(&outside, Vec::new()).unwrap().into_string().unwrap();
        let inside = OpenOptions::new().read(true).write(true).open(name).unwrap();
        // Away from the terminal of whoever runs the tests, if there is one.
        let mut command = Command::new("setsid");
        command.arg(tidegate().get_program()).args(args).env_remove("TIDEGATE_TOKEN").env("TERM", "xterm");
        let end = || inside.try_clone().unwrap();
        let child = adjust(&mut command).stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let mut output = File::from(outside.try_clone().unwrap());
        let written = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&written);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut piece) {
                all.lock().unwrap().extend_from_slice(&piece[..read]);
            }
        });
        Self { child, keyboard: File::from(outside), inside, written }
    }

    /// Waits until a text is on the screen.
    pub(super) fn wait_for(&self, text: &str) {
        let deadline = std::time::Instant::now() + PATIENCE;
        while !self.screen().contains(text) {
            assert!(
                std::time::Instant::now() < deadline,
                "`{text}` is not on the screen:\n{}",
                self.screen()
            );
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    pub(super) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Sends a signal to this process and to no other.
    pub(super) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Waits for the end, and until all that was written has been read.
    pub(super) fn end(&mut self) -> i32 {
        let code = wait_for("it to end", || self.child.try_wait().unwrap()).code().unwrap_or(-1);
        // A terminal keeps the order: whatever the process wrote comes before this.
        self.inside.write_all(LAST.as_bytes()).unwrap();
        wait_for("all output", || self.text().ends_with(LAST).then_some(()));
        code
    }

    /// Whether keys reach the program one by one.
    pub(super) fn is_raw(&self) -> bool {
        !tcgetattr(&self.inside).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    /// Whether what was there before is hidden.
    pub(super) fn in_alternate_screen(&self) -> bool {
        let text = self.text();
        let (enters, leaves) = (text.rfind("\u{1b}[?1049h"), text.rfind("\u{1b}[?1049l"));
        enters > leaves
    }

    /// Whether anything was written in a colour.
    pub(super) fn is_coloured(&self) -> bool {
        self.text().contains("\u{1b}[38;5;")
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// What somebody would see.
    fn screen(&self) -> String {
        let (columns, rows) = (usize::from(COLUMNS), usize::from(ROWS));
        let mut cells = vec![vec![' '; columns]; rows];
        let (mut row, mut column) = (0, 0);
        let text = self.text();
        let mut left = text.chars();
        while let Some(c) = left.next() {
            match c {
                '\u{1b}' if left.as_str().starts_with('[') => {
                    let rest = &left.as_str()[1..];
                    let end = rest.find(|c: char| c.is_ascii_alphabetic()).map_or(rest.len(), |end| end + 1);
                    let sequence = &rest[..end];
                    left = rest[end..].chars();
                    if let Some(place) = sequence.strip_suffix('H') {
                        let mut numbers = place.split(';').map(|n| n.parse().unwrap_or(1_usize) - 1);
                        (row, column) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
                    } else if sequence == "2J" || sequence.starts_with("?1049") {
                        cells = vec![vec![' '; columns]; rows];
                    }
                }
                '\r' => column = 0,
                '\n' => row += 1,
                _ => {
                    if let Some(cell) = cells.get_mut(row).and_then(|cells| cells.get_mut(column)) {
                        *cell = c;
                    }
                    column += 1;
                }
            }
        }
        cells.into_iter().map(|cells| cells.into_iter().collect::<String>() + "\n").collect()
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
