//! The stop ladder.

use tapline_protocol::StopReason;
use tapline_session::{Category, Outcome};
use tokio::time::sleep;

use super::{INIT, RESULT, agent, seconds, start, verdict};
use crate::spec::AgentInput;
use crate::transport::memory::{Minds, Signal};
use crate::update::Update;

const TIMEOUT: (Outcome, Option<Category>) = (Outcome::Failure, Some(Category::Timeout));
const INTERRUPTED: (Outcome, Option<Category>) = (Outcome::Interrupted, Some(Category::Interrupted));

#[tokio::test(start_paused = true)]
async fn a_run_over_its_time_gets_sigterm_and_after_the_grace_sigkill() {
    let (run, peer) = start(agent().timeout(seconds(10)));
    peer.minds(Minds::KillAlone);
    let report = run.finish().await;
    assert_eq!(verdict(&report), TIMEOUT);
    assert_eq!(peer.signals(), [(Signal::Term, seconds(10)), (Signal::Kill, seconds(12))]);
    assert_eq!(report.verdict.exit.signal.as_deref(), Some("SIGKILL"));
}

#[tokio::test(start_paused = true)]
async fn one_that_minds_sigterm_gets_no_more() {
    let (run, peer) = start(agent().timeout(seconds(10)));
    let report = run.finish().await;
    assert_eq!(verdict(&report), TIMEOUT);
    assert_eq!(peer.signals(), [(Signal::Term, seconds(10))]);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_is_sigint_then_sigterm_then_sigkill() {
    let (mut run, peer) = start(agent());
    peer.minds(Minds::KillAlone);
    sleep(seconds(5)).await;
    run.stopper().interrupt();
    assert!(matches!(run.next_update().await, Some(Update::Sent(_))));
    assert!(matches!(run.next_update().await, Some(Update::Stopping(StopReason::Interrupted))));
    assert_eq!(verdict(&run.finish().await), INTERRUPTED);
    let rungs = [(Signal::Int, seconds(5)), (Signal::Term, seconds(7)), (Signal::Kill, seconds(9))];
    assert_eq!(peer.signals(), rungs);
}

#[tokio::test(start_paused = true)]
async fn whoever_says_it_twice_does_not_wait() {
    let (run, peer) = start(agent().grace(seconds(1000)));
    peer.minds(Minds::KillAlone);
    run.stopper().interrupt();
    sleep(seconds(3)).await;
    run.stopper().interrupt();
    assert_eq!(verdict(&run.finish().await), INTERRUPTED);
    assert_eq!(peer.signals(), [(Signal::Int, seconds(0)), (Signal::Kill, seconds(3))]);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_is_ended_by_the_end_of_its_input_first() {
    let (_writer, reader) = tokio::io::duplex(64);
    let mut agent = agent().timeout(seconds(10));
    agent.input = AgentInput::Messages { prompt: None, lines: Box::pin(reader) };
    let (run, mut peer) = start(agent);
    let ended = tokio::spawn(run.finish());
    assert_eq!(peer.hear().await, None);
    assert_eq!((peer.age(), peer.signals()), (seconds(10), Vec::new()));
    assert_eq!(verdict(&ended.await.unwrap()), TIMEOUT);
    assert_eq!(peer.signals(), [(Signal::Term, seconds(12))]);
}

#[tokio::test(start_paused = true)]
async fn what_outlives_the_agent_is_swept_away() {
    let (run, peer) = start(agent());
    peer.say(INIT);
    peer.say(RESULT);
    peer.minds(Minds::KillAlone);
    peer.exit(0, 3);
    let report = run.finish().await;
    assert!(report.verdict.clean, "the agent's own end counts: {:?}", report.verdict);
    assert_eq!(peer.signals(), [(Signal::Term, seconds(0)), (Signal::Kill, seconds(2))]);
}

#[tokio::test(start_paused = true)]
async fn what_nothing_ends_is_told_and_not_waited_for() {
    let (mut run, peer) = start(agent());
    peer.say(RESULT);
    peer.minds(Minds::Nothing);
    peer.exit(0, 3);
    let mut left = Vec::new();
    while let Some(update) = run.next_update().await {
        if let Update::Left(processes) = update {
            left.push((processes, peer.age().as_secs()));
        }
    }
    assert_eq!(left, [(3, 12)], "ten seconds after SIGKILL");
    assert!(run.finish().await.verdict.clean);
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_was_broken_is_a_failure_and_not_an_interrupt() {
    let (run, _peer) = start(agent());
    run.stopper().violated("no Bash");
    let report = run.finish().await;
    assert_eq!(verdict(&report), (Outcome::Failure, Some(Category::Policy)));
    assert_eq!(report.verdict.error.as_deref(), Some("policy violated: no Bash"));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_is_killed_at_once() {
    let (run, peer) = start(agent());
    sleep(seconds(1)).await;
    drop(run);
    assert_eq!(peer.signals(), [(Signal::Kill, seconds(1))]);
}
