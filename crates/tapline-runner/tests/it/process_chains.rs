//! Processes that start another and end, faster than anybody can look: they do not get away either.

use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use tapline_testkit::{HANG, TempFolder, rerun, wait_until_async};

use crate::fake_agent::fake;

/// Runs an agent that leaves chains behind, and sees that nobody holds the pipe that they hold.
async fn leaves_nothing(every_ms: &str, chains: &str, own_sessions: bool, stays: bool) {
    let folder = TempFolder::new();
    let held = folder.join("held");
    assert!(std::process::Command::new("mkfifo").arg(&held).status().unwrap().success());
    // O_NONBLOCK: it is opened before anybody writes.
    let mut pipe = std::fs::OpenOptions::new().read(true).custom_flags(0o4000).open(&held).unwrap();
    let mut agent = fake("chain").env("CHAIN_HELD", &held).env("CHAIN_MS", every_ms).env("CHAINS", chains);
    // Short, because the chain goes on meanwhile, and where nobody reaps, each of its processes keeps its number.
    agent = agent.grace(Duration::from_millis(100)).timeout(if stays { Duration::from_secs(1) } else { HANG });
    if own_sessions {
        agent = agent.env("CHAIN_SESSION", "1");
    }
    if stays {
        agent = agent.env("CHAIN_STAYS", "1");
    }
    let _ = agent.start().await.unwrap().finish().await;
    // The last of them may still be going: nobody is left who could start another.
    let what = format!("no chain gets away: every {every_ms} ms, {chains} of them");
    wait_until_async(&what, async || pipe.read(&mut [0; 16]).is_ok()).await;
}

#[tokio::test]
async fn a_process_that_forks_and_exits_every_5_ms_does_not_get_away_in_24_runs() {
    for _ in 0..12 {
        leaves_nothing("5", "1", false, false).await;
        leaves_nothing("5", "1", true, false).await;
    }
}

#[tokio::test]
async fn nor_do_two_that_do_so_every_millisecond() {
    leaves_nothing("1", "2", false, false).await;
    leaves_nothing("1", "2", true, false).await;
    leaves_nothing("1", "2", true, true).await;
}

/// A first process that waits for nobody but the last of its children: thousands have ended before.
const NOBODY_WAITS: &str = r"for (1 .. 3000) { defined(my $p = fork) or die; exit unless $p }
    my $test = fork // die; exec @ARGV or die unless $test; waitpid $test, 0; exit !!$?";

#[test]
fn nor_where_thousands_have_ended_and_the_first_process_waits_for_nobody() {
    let test = rerun(module_path!(), "nor_do_two_that_do_so_every_millisecond");
    let mut alone = std::process::Command::new("unshare");
    alone.args(["-r", "--pid", "--fork", "--mount-proc", "--kill-child", "perl", "-e", NOBODY_WAITS]).arg(test.get_program());
    let output = alone.args(test.get_args()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}
