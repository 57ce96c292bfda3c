//! How runs end: in time, with the right verdict, and with nothing left behind.

use std::time::Duration;

use tapline_runner::{Agent, Permission, Running, Update};
use tapline_session::{Category, Outcome, Report};
use tapline_testkit::{HANG, TempFolder, unique, wait_until, within};

use crate::fake_agent::{fake, gone, id_of, left_of};

/// Runs it to its end, and sees that it ends and that nothing is left.
async fn ended(agent: Agent) -> Report {
    let id = id_of(&agent);
    let report = finished(agent.start().await.unwrap()).await;
    assert_eq!(left_of(&id), Vec::<String>::new(), "nothing is left");
    assert!(report.run.duration_ms.is_some(), "its duration is known");
    assert!(report.run.started_at.is_some());
    report
}

fn verdict(report: &Report) -> (Outcome, Option<Category>) {
    (report.verdict.outcome, report.verdict.category)
}

/// The report of a run that comes to its end.
async fn finished(run: Running) -> Report {
    within("the run ends", run.finish()).await
}

#[tokio::test]
async fn a_good_run() {
    let report = ended(fake("ok").label("good")).await;
    assert!(report.verdict.clean);
    assert_eq!(report.answer.as_deref(), Some("done"));
    assert_eq!(report.session.id.as_deref(), Some("fake-session"));
    assert_eq!(report.verdict.exit.code, Some(0));
    assert_eq!(report.run.label.as_deref(), Some("good"));
}

#[tokio::test]
async fn one_that_hangs_is_timed_out() {
    for mode in ["hang", "hang-silent"] {
        let report = ended(fake(mode).timeout(Duration::from_millis(400))).await;
        assert_eq!(verdict(&report), (Outcome::Failure, Some(Category::Timeout)), "{mode}");
        assert_eq!(report.verdict.error.as_deref(), Some("timeout"));
        assert!(report.run.duration_ms.unwrap() >= 400);
        assert_eq!(report.verdict.exit_code(), 124);
    }
}

#[tokio::test]
async fn one_that_is_silent_is_timed_out() {
    let report = ended(fake("hang").idle_timeout(Duration::from_millis(400))).await;
    assert_eq!(verdict(&report), (Outcome::Failure, Some(Category::Timeout)));
}

#[tokio::test]
async fn one_that_never_stops_talking_is_timed_out() {
    let agent = fake("noisy").timeout(Duration::from_millis(400));
    let id = id_of(&agent);
    let mut run = agent.start().await.unwrap().collect_only("");
    while run.next().await.is_some() {}
    assert_eq!(verdict(&finished(run).await), (Outcome::Failure, Some(Category::Timeout)));
    assert!(left_of(&id).is_empty());
    // Nor is one that is dropped in the middle of it.
    let agent = fake("noisy");
    let id = id_of(&agent);
    let mut run = agent.start().await.unwrap();
    run.next().await.unwrap();
    drop(run);
    assert!(gone(&id));
}

#[tokio::test]
async fn a_flood_of_stderr_blocks_nobody() {
    let agent = fake("flood").prompt("x".repeat(1 << 20)).timeout(HANG);
    let report = ended(agent).await;
    assert_eq!(verdict(&report), (Outcome::Success, None));
    let told = report.verdict.warnings.iter().find(|warning| warning.code == "stderr").unwrap();
    assert!(told.message.ends_with(" ... (truncated)"));
}

#[tokio::test]
async fn one_that_ignores_sigterm_is_killed() {
    let agent = fake("stubborn");
    let id = id_of(&agent);
    let mut run = agent.start().await.unwrap();
    // From its first line on, it minds no SIGTERM.
    run.next().await.unwrap();
    run.stopper().stop();
    let report = finished(run).await;
    assert_eq!(report.verdict.exit.signal.as_deref(), Some("SIGKILL"));
    assert_eq!(left_of(&id), Vec::<String>::new());
}

#[tokio::test]
async fn grandchildren_in_sessions_of_their_own_go_too() {
    let report = ended(fake("grandchild")).await;
    assert!(report.verdict.clean, "the agent's own end counts");
    assert_eq!(report.verdict.exit.code, Some(0));
}

#[tokio::test]
async fn so_do_those_that_cleared_their_environment_and_hold_the_output() {
    let agent = fake("bare-grandchild");
    let id = id_of(&agent);
    let report = finished(agent.start().await.unwrap()).await;
    assert!(report.verdict.clean);
    // Known by its command line alone. One that was killed may take a moment to go.
    wait_until("the holder is gone", || named(&id) == 0);
}

#[tokio::test]
async fn and_those_that_cleared_it_and_were_seen_as_children() {
    let agent = fake("bare-child").timeout(Duration::from_millis(500));
    let id = id_of(&agent);
    let report = ended(agent).await;
    assert_eq!(verdict(&report), (Outcome::Failure, Some(Category::Timeout)));
    wait_until("the child is gone", || named(&id) == 0);
}

/// How many processes have this word on their command line.
fn named(word: &str) -> usize {
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok());
    let cmdline = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    pids.map(cmdline).filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

#[tokio::test]
async fn one_without_a_result_is_incomplete() {
    let report = ended(fake("no-result")).await;
    assert_eq!(verdict(&report), (Outcome::Incomplete, Some(Category::NoResult)));
    assert_eq!(report.answer.as_deref(), Some("done"), "what it said is there");
    let report = ended(fake("nothing")).await;
    assert_eq!(verdict(&report), (Outcome::Incomplete, Some(Category::NoResult)));
}

#[tokio::test]
async fn half_a_line_is_kept_and_said() {
    let report = ended(fake("half-line")).await;
    assert_eq!(verdict(&report), (Outcome::Incomplete, Some(Category::NoResult)));
    assert!(report.verdict.warnings.iter().any(|warning| warning.code == "truncated-tail"));
}

#[tokio::test]
async fn lines_of_64_mib() {
    let agent = fake("long-line");
    let id = id_of(&agent);
    let mut run = agent.start().await.unwrap().collect_only("");
    let (mut bytes, mut longest) = (0, 0);
    while let Some(record) = run.next().await {
        bytes += record.bytes.len();
        longest = longest.max(record.bytes.len());
    }
    let report = run.finish().await;
    assert_eq!(report.verdict.outcome, Outcome::Success);
    assert!(longest > 67_100_000 && bytes > 137_100_000, "{longest} of {bytes}");
    assert!(report.verdict.warnings.iter().any(|warning| warning.code == "line-too-long"));
    assert!(left_of(&id).is_empty());
}

#[tokio::test]
async fn one_that_stays_after_its_result_counts_as_what_it_said() {
    for mode in ["lingers", "closes-stdout"] {
        // It ends at SIGTERM, however long it takes to get a turn.
        let report = ended(fake(mode).linger(Duration::from_millis(300)).grace(HANG)).await;
        assert!(report.verdict.clean, "{mode}: {:?}", report.verdict);
        assert_eq!(report.verdict.exit.signal.as_deref(), Some("SIGTERM"), "{mode}");
    }
}

#[tokio::test]
async fn one_that_stays_and_never_says_that_it_is_idle_counts_as_what_it_said() {
    // It is asked things, so its input stays open as long as it may need it.
    let agent = fake("lingers-busy").on_permission(|_| async { Permission::allow() });
    let report = ended(agent.linger(Duration::from_millis(300)).timeout(HANG)).await;
    assert!(report.verdict.clean, "{:?}", report.verdict);
    assert_eq!(report.verdict.exit.signal.as_deref(), Some("SIGTERM"));
}

#[tokio::test]
async fn one_that_closes_its_output_and_stays_without_a_result() {
    let report = ended(fake("closes-early").linger(Duration::from_millis(300))).await;
    assert_eq!(verdict(&report), (Outcome::Incomplete, Some(Category::NoResult)));
}

#[tokio::test]
async fn a_turn_that_ended_is_not_a_run_that_ended() {
    let report = ended(fake("two-turns").linger(Duration::from_millis(200))).await;
    assert_eq!(report.answer.as_deref(), Some("second"));
    assert_eq!(report.turns.len(), 2);
}

#[tokio::test]
async fn one_that_is_killed_or_exits() {
    let report = ended(fake("dies")).await;
    assert_eq!(verdict(&report), (Outcome::Failure, Some(Category::Killed)));
    let report = ended(fake("exits")).await;
    assert_eq!(verdict(&report), (Outcome::Failure, Some(Category::Startup)));
    assert_eq!(report.verdict.error.as_deref(), Some("something broke: [redacted]"), "secrets stay secret");
    let report = ended(fake("exits-late")).await;
    assert_eq!(verdict(&report), (Outcome::Failure, Some(Category::Exit)));
    assert_eq!(report.verdict.error.as_deref(), Some("late"));
}

#[tokio::test]
async fn an_interrupt_is_no_failure_whatever_the_agent_writes_then() {
    for mode in ["interrupted", "hang", "stubborn"] {
        let agent = fake(mode);
        let id = id_of(&agent);
        let mut run = agent.start().await.unwrap();
        run.next().await.unwrap();
        run.stopper().interrupt();
        let report = run.finish().await;
        assert_eq!(verdict(&report), (Outcome::Interrupted, Some(Category::Interrupted)), "{mode}");
        assert_eq!(report.verdict.error.as_deref(), Some("interrupted"));
        assert!(left_of(&id).is_empty(), "{mode}");
    }
}

#[tokio::test]
async fn a_program_that_has_seen_enough_stops_it() {
    let agent = fake("hang");
    let id = id_of(&agent);
    let mut run = agent.start().await.unwrap();
    run.next().await.unwrap();
    run.stopper().stop();
    assert_eq!(run.finish().await.verdict.outcome, Outcome::Interrupted);
    assert!(left_of(&id).is_empty());
}

#[tokio::test]
async fn told_twice_it_stops_at_once() {
    let agent = fake("stubborn").grace(10 * HANG);
    let mut run = agent.start().await.unwrap();
    run.next().await.unwrap();
    for _ in 0..2 {
        run.stopper().interrupt();
    }
    let report = finished(run).await;
    assert_eq!(report.verdict.outcome, Outcome::Interrupted);
}

#[tokio::test]
async fn a_reader_that_does_not_read_stops_no_clock() {
    let agent = fake("lines").env("LINES_WANTED", "200000").timeout(Duration::from_millis(500));
    let id = id_of(&agent);
    let run = agent.start().await.unwrap();
    let stopped = tokio::task::spawn_blocking(move || gone(&id));
    assert!(stopped.await.unwrap(), "stopped, though nobody took its lines");
    let report = finished(run).await;
    assert_eq!(verdict(&report), (Outcome::Failure, Some(Category::Timeout)));
}

#[tokio::test]
async fn what_it_says_on_stderr_is_told_without_secrets() {
    let mut run = fake("exits").start().await.unwrap();
    let mut told = Vec::new();
    while let Some(update) = run.next_update().await {
        if let Update::Stderr(line) = update {
            told.push(line);
        }
    }
    assert_eq!(told, ["something broke: [redacted]"]);
}

#[tokio::test]
async fn the_recording_has_everything_and_reads_the_same() {
    let folder = TempFolder::new();
    for mode in ["ok", "malformed", "half-line", "two-turns", "exits-late", "flood", "rate-limited"] {
        let path = folder.join(mode);
        let mut run = fake(mode).record(&path).start().await.unwrap();
        let mut bytes = Vec::new();
        while let Some(record) = run.next().await {
            bytes.extend(record.bytes);
        }
        let live = run.finish().await;
        let recording = tapline_recording::Recording::open(&path).unwrap();
        assert_eq!(std::fs::read(recording.stdout()).unwrap(), bytes, "{mode}");
        assert_eq!(recording.end.as_ref().unwrap().exit_code, live.verdict.exit.code);
        assert_eq!(recording.meta.agent.as_deref(), Some("claude"));
        assert!(recording.meta.env_names.contains(&"FAKE".to_owned()));
        assert_eq!(recording.end.unwrap().verdict.unwrap().text_of("outcome").as_deref(), Some(live.verdict.outcome.word()));
        if mode == "ok" {
            assert_eq!(std::fs::read(path.join("stdin")).unwrap(), b"go", "the others do not read it");
        }
        if mode == "flood" {
            assert_eq!(std::fs::metadata(path.join("stderr")).unwrap().len(), 10_000_000);
        }
    }
}

#[tokio::test]
async fn a_program_that_is_only_asked_something_leaves_nothing_behind() {
    for (script, within, expected) in [
        ("sleep 313 & echo said; wait", Duration::from_millis(300), None),
        ("trap '' TERM; sleep 313 >/dev/null & echo said", HANG, Some(b"said\n".to_vec())),
    ] {
        let id = unique();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]).env("FAKE_ID", &id);
        let printed = tapline_runner::Process::output(command, within).await;
        assert_eq!(printed.ok(), expected, "{script}");
        assert!(gone(&id), "{script}: {:?}", left_of(&id));
    }
}
