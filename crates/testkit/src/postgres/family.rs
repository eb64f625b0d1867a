//! A server that is many processes: one for each connection, all children of the first.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::process::Process;
use crate::wait;

const SOON: Duration = crate::wait::HANG_LIMIT;

/// Stops all of them. The first goes first, so that none is added meanwhile.
pub(super) fn pause(process: &Process) {
    process.pause();
    let children = children(process.pid());
    send(&children, Signal::STOP);
    wait::until("all processes stand still", SOON, || {
        children.iter().all(|&child| matches!(state(child), None | Some('T' | 'Z'))).then_some(())
    });
}

/// Lets all of them run on.
pub(super) fn resume(process: &Process) {
    send(&children(process.pid()), Signal::CONT);
    process.resume();
}

/// Ends all of them, and waits until they are gone.
pub(super) fn kill(process: &Process) {
    if !process.is_running() {
        return;
    }
    process.pause();
    let children = children(process.pid());
    send(&children, Signal::KILL);
    process.kill();
    wait::until("all processes are gone", SOON, || {
        children.iter().all(|&child| matches!(state(child), None | Some('Z'))).then_some(())
    });
}

fn send(processes: &[u32], signal: Signal) {
    for &process in processes {
        if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
            // One that has ended by itself is as well.
            kill_process(pid, signal).ok();
        }
    }
}

fn children(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&process| stat(process).is_some_and(|(_, of)| of == parent)).collect()
}

fn state(process: u32) -> Option<char> {
    stat(process).map(|(state, _)| state)
}

/// What a process is doing, and whose child it is.
fn stat(process: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // They follow the name, which is in parentheses and may contain any.
    let mut parts = stat.rsplit_once(") ")?.1.split(' ');
    Some((parts.next()?.chars().next()?, parts.next()?.parse().ok()?))
}
