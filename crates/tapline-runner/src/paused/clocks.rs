//! The clocks in the driver.

use tapline_session::{Category, Outcome};
use tokio::time::sleep;

use super::{ALIVE, INIT, RESULT, TASK, agent, seconds, start, verdict};
use crate::spec::AgentInput;
use crate::transport::memory::Signal;

const TIMEOUT: (Outcome, Option<Category>) = (Outcome::Failure, Some(Category::Timeout));

#[tokio::test(start_paused = true)]
async fn silence_is_not_life_and_heartbeats_are() {
    let (run, peer) = start(agent().idle_timeout(seconds(10)));
    let ended = tokio::spawn(run.finish());
    for _ in 0..10 {
        sleep(seconds(9)).await;
        peer.say(ALIVE);
    }
    assert_eq!(verdict(&ended.await.unwrap()), TIMEOUT);
    assert_eq!(peer.signals(), [(Signal::Term, seconds(100))], "silent since the 90th second");
}

#[tokio::test(start_paused = true)]
async fn one_that_never_stops_talking_is_timed_out() {
    let (run, peer) = start(agent().timeout(seconds(60)).idle_timeout(seconds(10)));
    let ended = tokio::spawn(run.finish());
    while peer.signals().is_empty() {
        peer.say(ALIVE);
        sleep(seconds(1)).await;
    }
    assert_eq!(verdict(&ended.await.unwrap()), TIMEOUT);
    assert_eq!(peer.signals(), [(Signal::Term, seconds(60))]);
}

#[tokio::test(start_paused = true)]
async fn one_that_stays_after_its_result_counts_as_what_it_said() {
    // Whichever clock stops it.
    for (agent, at) in [(agent(), 35), (agent().timeout(seconds(20)), 20), (agent().idle_timeout(seconds(9)), 14)] {
        let (run, peer) = start(agent);
        let ended = tokio::spawn(run.finish());
        sleep(seconds(5)).await;
        peer.say(INIT);
        peer.say(RESULT);
        let report = ended.await.unwrap();
        assert!(report.verdict.clean, "{:?}", report.verdict);
        assert_eq!(peer.signals(), [(Signal::Term, seconds(at))]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_comes_again_prolongs_nothing() {
    let (run, peer) = start(agent());
    let ended = tokio::spawn(run.finish());
    peer.say(INIT);
    for _ in 0..10 {
        peer.say(RESULT);
        sleep(seconds(10)).await;
    }
    assert_eq!(ended.await.unwrap().verdict.outcome, Outcome::Success);
    assert_eq!(peer.signals(), [(Signal::Term, seconds(30))]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ended_is_not_a_run_that_ended() {
    let (run, peer) = start(agent());
    let ended = tokio::spawn(run.finish());
    for _ in 0..3 {
        peer.say(INIT);
        peer.say(RESULT);
        sleep(seconds(29)).await;
    }
    peer.exit(0, 0);
    let report = ended.await.unwrap();
    assert_eq!((report.turns.len(), peer.signals()), (3, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_task_in_the_background_is_waited_for() {
    let (run, peer) = start(agent());
    peer.say(INIT);
    peer.say(TASK);
    peer.say(RESULT);
    let report = run.finish().await;
    assert!(report.verdict.outcome == Outcome::Success, "{:?}", report.verdict);
    assert_eq!(peer.signals(), [(Signal::Term, seconds(600))]);
}

#[tokio::test(start_paused = true)]
async fn one_that_closes_its_output_and_stays_is_not_waited_for() {
    let (run, peer) = start(agent().linger(seconds(7)));
    peer.say(INIT);
    peer.close_output();
    assert_eq!(verdict(&run.finish().await), (Outcome::Incomplete, Some(Category::NoResult)));
    assert_eq!(peer.signals(), [(Signal::Term, seconds(7))]);
}

#[tokio::test(start_paused = true)]
async fn while_more_messages_may_come_nothing_is_over() {
    let (writer, reader) = tokio::io::duplex(64);
    let mut agent = agent().idle_timeout(seconds(10));
    agent.input = AgentInput::Messages { prompt: Some(b"first".to_vec()), lines: Box::pin(reader) };
    let (run, mut peer) = start(agent);
    let ended = tokio::spawn(run.finish());
    assert_eq!(peer.hear().await.unwrap()["message"]["content"], "first");
    peer.say(INIT);
    peer.say(RESULT);
    sleep(seconds(1000)).await;
    drop(writer);
    assert_eq!(peer.hear().await, None);
    sleep(seconds(9)).await;
    assert_eq!(peer.signals(), []);
    peer.exit(0, 0);
    assert!(ended.await.unwrap().verdict.clean);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_read_stops_no_clock_and_makes_nobody_silent() {
    let (run, peer) = start(agent().timeout(seconds(100)).idle_timeout(seconds(10)));
    // More reads than may wait to be taken.
    for _ in 0..50 {
        peer.say(ALIVE);
        sleep(seconds(1)).await;
    }
    sleep(seconds(49)).await;
    assert_eq!(peer.signals(), [], "an agent that is not read is not silent");
    sleep(seconds(2)).await;
    assert_eq!(peer.signals(), [(Signal::Term, seconds(100))]);
    assert_eq!(verdict(&run.finish().await), TIMEOUT);
}
