//! The fake agent: a program of its own, played by the test.

use std::io::Write as _;
use std::process::{Command, Stdio};

use tapline_recording::End;
use tapline_sim::{FakeAgent, ReplayOptions};
use tapline_testkit::TempFolder;

use crate::recordings::record;

#[test]
fn a_program_that_plays_a_recording() {
    let folder = TempFolder::new();
    let said = [('>', "the prompt\n".to_owned()), ('<', "{\"type\":\"result\"}\n".to_owned()), ('!', "a warning\n".to_owned())];
    record(&folder.join("r"), &said, &End { exit_code: Some(3), ..End::default() });
    let agent = FakeAgent::replaying(folder.join("r"), ReplayOptions::default()).unwrap();
    // As often as it is started, also at the same time.
    let children: Vec<_> = (0..3)
        .map(|_| {
            let mut command = Command::new(agent.program());
            command.args(["-p", "ignored"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for mut child in children {
        child.stdin.take().unwrap().write_all(b"the prompt\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"type\":\"result\"}\n");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "a warning\n");
        assert_eq!(output.status.code(), Some(3));
    }
    let program = agent.program().to_owned();
    drop(agent);
    assert!(!program.exists());
}

#[test]
fn agents_of_the_same_options_go_one_by_one() {
    let folder = TempFolder::new();
    record(&folder.join("r"), &[('<', "{}\n".to_owned())], &End { exit_code: Some(0), ..End::default() });
    let options = ReplayOptions::default();
    let first = FakeAgent::replaying(folder.join("r"), options.clone()).unwrap();
    let second = FakeAgent::replaying(folder.join("r"), options).unwrap();
    drop(first);
    let status = Command::new(second.program()).stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
    assert_eq!((status.code(), second.played().len()), (Some(0), 1));
}

#[test]
fn ended_by_a_signal_it_ends_by_one() {
    use std::os::unix::process::ExitStatusExt as _;
    let folder = TempFolder::new();
    record(&folder.join("r"), &[('<', "{}\n".to_owned())], &End { signal: Some("SIGTERM".to_owned()), ..End::default() });
    let agent = FakeAgent::replaying(folder.join("r"), ReplayOptions::default()).unwrap();
    let status = Command::new(agent.program()).stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
    assert_eq!(status.signal(), Some(15));
}

#[test]
fn one_that_hangs_can_be_ended() {
    use std::os::unix::process::ExitStatusExt as _;
    let folder = TempFolder::new();
    record(
        &folder.join("r"),
        &[('<', "one\n".to_owned()), ('<', "two\n".to_owned())],
        &End { exit_code: Some(0), ..End::default() },
    );
    let agent = FakeAgent::replaying(folder.join("r"), ReplayOptions { hang_at: Some(1), ..ReplayOptions::default() }).unwrap();
    let mut child = Command::new(agent.program()).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line).unwrap();
    assert_eq!(line, "one\n");
    assert_eq!(child.try_wait().unwrap(), None);
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}
