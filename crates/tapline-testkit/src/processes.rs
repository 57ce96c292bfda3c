//! Whether anything is left of what a test started: processes, found by a variable that only they have.

use std::sync::atomic::{AtomicU32, Ordering};

/// A process that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProcess {
    /// Its number.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

/// Returns a word that no other test has: the value of a variable by which processes are found again.
pub fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Finds all processes that have this in their environment, such as `NAME=value`. Of processes that have ended nothing is told.
#[cfg(target_os = "linux")]
pub fn processes_with(variable: &str) -> Vec<FoundProcess> {
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let read = |pid: u32, file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let has_it = |pid: &u32| read(*pid, "environ").split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes());
    let command = |pid: u32| String::from_utf8_lossy(&read(pid, "cmdline")).replace('\0', " ");
    pids.filter(has_it).map(|pid| FoundProcess { pid, command: command(pid) }).collect()
}

/// Finds all processes that have this in their environment, such as `NAME=value`. Of processes that have ended nothing is told.
///
/// `ps` prints the variables behind the command line, so that `command` has them, too.
#[cfg(not(target_os = "linux"))]
pub fn processes_with(variable: &str) -> Vec<FoundProcess> {
    let listed = std::process::Command::new("ps").args(["-axEww", "-o", "pid=,command="]).output().unwrap();
    let process = |line: &str| {
        let (pid, command) = line.trim().split_once(' ')?;
        let has_it = command.split(' ').any(|word| word == variable);
        has_it.then_some(FoundProcess { pid: pid.parse().ok()?, command: command.to_owned() })
    };
    String::from_utf8_lossy(&listed.stdout).lines().filter_map(process).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::{TestProcess, wait_until};

    #[test]
    fn a_process_is_found_by_a_variable_until_it_ends() {
        let (name, other) = (unique(), unique());
        let process = TestProcess::spawn(Command::new("sleep").arg("1000").env("MARK", &name));
        // The child is this program until it is another.
        wait_until("it has started", || {
            let found = processes_with(&format!("MARK={name}"));
            found.len() == 1 && found[0].pid == process.id() && found[0].command == "sleep 1000 "
        });
        assert!(processes_with(&format!("MARK={other}")).is_empty());
        drop(process);
        assert!(processes_with(&format!("MARK={name}")).is_empty());
    }
}
