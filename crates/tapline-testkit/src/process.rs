//! A process that does not outlive its test.

use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::wait::wait_for;

/// A process that a test started. It is killed when it is dropped, also if the test fails.
///
/// It can be used as a [`Child`].
#[derive(Debug)]
pub struct TestProcess(Child);

impl TestProcess {
    /// Starts a process.
    pub fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Starts a process without input. What it writes is appended to a log.
    pub fn logged(command: &mut Command, log: impl AsRef<Path>) -> Self {
        let log = File::options().create(true).append(true).open(log).unwrap();
        Self::spawn(command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log))
    }

    /// Sends a signal, by its name without `SIG`.
    pub fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.try_wait().unwrap().is_some()
    }

    /// Waits for its end, which comes by itself.
    pub fn ended(&mut self) -> ExitStatus {
        wait_for("the process ends", || self.try_wait().unwrap())
    }
}

impl From<Child> for TestProcess {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl Deref for TestProcess {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for TestProcess {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a command that runs a test of this binary again, in a process of its own: `rerun(module_path!(), "name_of_the_test")`.
pub fn rerun(module: &str, test: &str) -> Command {
    // The first part is the name of the binary.
    let module = module.split_once("::").map_or("", |(_, module)| module);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("{module}::{test}"), "--nocapture"]).stdin(Stdio::null());
    command
}

/// Sends a signal to a process, by its name without `SIG`.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "SIG{name} cannot be sent to {pid}");
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;
    use crate::{TempFolder, wait_until};

    #[test]
    fn a_process_is_killed_with_its_test() {
        let process = TestProcess::spawn(Command::new("sleep").arg("1000"));
        let folder = format!("/proc/{}", process.id());
        assert!(!cfg!(target_os = "linux") || Path::new(&folder).exists());
        drop(process);
        assert!(!Path::new(&folder).exists());
    }

    #[test]
    fn a_test_runs_again_in_a_process_of_its_own() {
        if std::env::var_os("TESTKIT_AGAIN").is_none() {
            let mut again = rerun(module_path!(), "a_test_runs_again_in_a_process_of_its_own");
            let output = again.env("TESTKIT_AGAIN", "1").output().unwrap();
            assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
        }
    }

    #[test]
    fn a_process_gets_signals_and_its_words_are_logged() {
        let folder = TempFolder::new();
        let log = folder.join("log");
        let script = "echo ready; echo so >&2; exec sleep 1000";
        let mut process = TestProcess::logged(Command::new("sh").args(["-c", script]), &log);
        wait_until("it is ready", || std::fs::read(&log).unwrap() == b"ready\nso\n");
        assert!(!process.has_ended());
        process.signal("TERM");
        assert_eq!(process.ended().signal(), Some(15));
    }
}
