//! What the kernel says about processes under `/proc`: their marks, their parents, and what they hold open.

use std::collections::HashMap;
use std::io::Read as _;
use std::os::unix::fs::DirEntryExt as _;

use rustix::io::Errno;
use rustix::process::getpid;

use crate::marker;

/// A process in the list of `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) pid: i32,
    /// The number of its entry in the list. A later process with the same pid has a different one.
    pub(super) entry: u64,
}

/// Lists every process that the system shows except this one, newest first, because one that starts another and ends is
/// soon gone. Returns `None` if the system shows none.
pub(super) fn listed() -> Option<Vec<Listed>> {
    let me = getpid().as_raw_nonzero().get();
    let newest = last_started().unwrap_or(i32::MAX);
    let entries = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let named = |entry: std::fs::DirEntry| Some(Listed { pid: entry.file_name().to_str()?.parse().ok()?, entry: entry.ino() });
    let mut all: Vec<Listed> = entries.filter_map(named).filter(|listed| listed.pid != me).collect();
    // After the highest number, they start again at the lowest.
    all.sort_unstable_by_key(|listed| newest.wrapping_sub(listed.pid).cast_unsigned());
    Some(all)
}

/// Returns the most recent process numbers, newest first. If thousands of processes have ended and nobody has waited
/// for them, reading the whole list takes longer than a short-lived process exists.
pub(super) fn newest() -> impl Iterator<Item = i32> {
    let me = getpid().as_raw_nonzero().get();
    let last = last_started().unwrap_or(0);
    (0..NEWEST).map(move |back| last - back).take_while(|pid| *pid > 0).filter(move |pid| *pid != me)
}

/// How many numbers are tried before the list is read.
const NEWEST: i32 = 16;

/// Returns the number of the process that started last on this system.
fn last_started() -> Option<i32> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().last()?.parse().ok()
}

/// Why a process has no readable environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bare {
    /// It started before the runs, or has no environment: it belongs to no run.
    Other,
    /// It has ended and not been waited for.
    Ended,
    /// It is just getting a new one, and may belong to a run.
    Becoming,
}

/// Says why the environment of a process was empty, for runs that began at this time.
pub(super) fn bare(pid: i32, born: u64, buffer: &mut Vec<u8>) -> Bare {
    match stat_or_last(pid, buffer) {
        Some((stat, _)) if stat.born < born || stat.of_kernel => Bare::Other,
        None | Some((_, true)) => Bare::Ended,
        // In the meantime it may have got one, or ended. The kernel says nothing about processes of other users.
        Some((stat, _)) => match read(pid, "environ", buffer) {
            ProcFile::Gone => Bare::Ended,
            ProcFile::Read if stat.becoming || !buffer.is_empty() => Bare::Becoming,
            ProcFile::Read | ProcFile::Denied | ProcFile::Failed => Bare::Other,
        },
    }
}

/// Returns which of these marks a process has. A process that has ended has none.
pub(super) fn carried(pid: i32, buffer: &mut Vec<u8>, wanted: &HashMap<&[u8], usize>) -> (ProcFile, Vec<usize>) {
    let told = read(pid, "environ", buffer);
    (told, marker::marks(buffer).filter_map(|mark| wanted.get(mark).copied()).collect())
}

/// The kernel's flag for its own threads.
const PF_KTHREAD: u64 = 0x0020_0000;

/// What the kernel says about a process.
#[derive(Debug)]
pub(super) struct Stat {
    pub(super) parent: i32,
    /// The process group and the session. They are 0 for a process that began outside our PID namespace, which is
    /// common in containers. That is why they are read here and not with `getpgid` and `getsid`, whose wrappers do not
    /// accept 0.
    pub(super) group: i32,
    pub(super) session: i32,
    /// Whether it is a thread of the kernel.
    of_kernel: bool,
    /// When it started, in ticks since boot.
    pub(super) born: u64,
    /// Whether it is in the middle of an exec, so that its new environment does not exist yet.
    becoming: bool,
}

/// Returns `None` if the process has ended and was not waited for.
pub(super) fn stat_of(pid: i32, buffer: &mut Vec<u8>) -> Option<Stat> {
    stat_or_last(pid, buffer).filter(|(_, ended)| !ended).map(|(stat, _)| stat)
}

/// Also returns a process that has ended, and whether it has.
fn stat_or_last(pid: i32, buffer: &mut Vec<u8>) -> Option<(Stat, bool)> {
    read(pid, "stat", buffer);
    stat(buffer)
}

/// Parses a process's `stat`, and returns whether it has ended.
fn stat(told: &[u8]) -> Option<(Stat, bool)> {
    // The name in parentheses may contain anything. The fields follow the last parenthesis.
    let behind = told.iter().rposition(|byte| *byte == b')')?;
    let words: Vec<&str> = std::str::from_utf8(&told[behind + 1..]).ok()?.split_whitespace().collect();
    // Numbered as in the manual, where the state is the third field.
    let field = |number: usize| words.get(number - 3);
    let parent = field(4)?.parse().ok()?;
    let becoming = field(50).is_some_and(|env_start| *env_start == "0") && parent != 0;
    let ended = matches!(*field(3)?, "Z" | "X");
    let of_kernel = field(9)?.parse::<u64>().ok()? & PF_KTHREAD != 0;
    let (group, session) = (field(5)?.parse().ok()?, field(6)?.parse().ok()?);
    Some((Stat { parent, group, session, of_kernel, born: field(22)?.parse().ok()?, becoming }, ended))
}

/// What the kernel said about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcFile {
    /// Everything.
    Read,
    /// Nothing: it has ended.
    Gone,
    /// Nothing: it is another user's.
    Denied,
    /// It could not be read: no descriptors or memory are left.
    Failed,
}

pub(super) fn read(pid: i32, name: &str, buffer: &mut Vec<u8>) -> ProcFile {
    buffer.clear();
    match std::fs::File::open(format!("/proc/{pid}/{name}")).and_then(|mut file| file.read_to_end(buffer)) {
        Ok(_) => ProcFile::Read,
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::SRCH) => ProcFile::Gone,
            Some(Errno::ACCESS | Errno::PERM) => ProcFile::Denied,
            _ => ProcFile::Failed,
        },
    }
}

/// Returns whether a process holds the writing end of one of these pipes.
pub(super) fn holds(pid: i32, pipes: &[String]) -> bool {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().filter_map(Result::ok);
    let is_ours = |path: &std::path::Path| {
        std::fs::read_link(path).is_ok_and(|to| pipes.iter().any(|pipe| to.as_os_str() == pipe.as_str()))
    };
    let mut ours = entries.filter(|entry| is_ours(&entry.path()));
    ours.any(|entry| {
        let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", entry.file_name().display()));
        let flags = info.ok().and_then(|info| {
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?.trim();
            u32::from_str_radix(flags, 8).ok()
        });
        // O_WRONLY: a process that was just forked from us may still hold the reading end.
        flags.is_some_and(|flags| flags & 0o3 == 0o1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_and_session_from_outside_of_the_namespace_are_0() {
        // As `unshare --pid --fork --mount-proc cat /proc/self/stat` prints it.
        let told =
            b"2 (a) b) R 1 0 0 0 -1 4194304 74 0 0 0 0 0 0 0 20 0 1 0 1585249 3133440 364 18446744073709551615 1 1 1 0 0";
        let (stat, ended) = stat(told).expect("a process");
        assert_eq!((stat.parent, stat.group, stat.session, stat.born), (1, 0, 0, 1_585_249));
        assert!(!ended && !stat.of_kernel);
    }

    #[test]
    fn threads_of_the_kernel_are_known_by_their_flag() {
        let told = b"9 (kworker/0:0H-events_highpri) I 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 0 -20 1 0 12 0 0";
        assert!(stat(told).is_some_and(|(stat, _)| stat.of_kernel));
    }

    #[test]
    fn we_are_in_our_group_and_session() {
        let stat = stat_of(getpid().as_raw_nonzero().get(), &mut Vec::new()).expect("ourselves");
        assert!(!stat.of_kernel && stat.group >= 0 && stat.session >= 0);
    }
}
