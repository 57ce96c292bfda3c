//! Git, as a test uses it.

use std::path::Path;
use std::process::Command;

/// Runs git in a folder, without the configuration of the user and of the system. Returns what it says.
pub fn git(folder: impl AsRef<Path>, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder.as_ref()).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
    let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
