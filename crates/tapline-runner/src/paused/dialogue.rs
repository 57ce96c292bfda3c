//! The dialogue.

use std::time::Duration;

use serde_json::{Value, json};
use tapline_session::{Category, Outcome};
use tokio::time::{Instant, sleep};

use super::{INIT, RESULT, TASK, agent, seconds, start, verdict};
use crate::agent::Agent;
use crate::answers::{Permission, PermissionQuestion};
use crate::session::Session;
use crate::transport::memory::{Peer, Signal};

/// Returns the next request that the agent gets.
async fn request(peer: &mut Peer, subtype: &str) -> Value {
    let line = peer.hear().await.unwrap();
    assert_eq!(line["request"]["subtype"], subtype, "{line}");
    line
}

async fn answer(peer: &mut Peer, subtype: &str, payload: Value) {
    let id = request(peer, subtype).await["request_id"].clone();
    let response = json!({"subtype": "success", "request_id": id, "response": payload});
    peer.say(&json!({"type": "control_response", "response": response}).to_string());
}

/// Starts a session whose agent has introduced itself. Versions that do not report their version get no more requests.
async fn session(agent: Agent) -> (Session, Peer) {
    let mut agent = agent.again();
    agent.converses = true;
    let (run, mut peer) = start(agent);
    let begun = tokio::spawn(Session::begun(run));
    answer(&mut peer, "initialize", json!({})).await;
    (begun.await.unwrap().unwrap(), peer)
}

/// Runs a turn that the agent ends at once.
async fn turn(session: &mut Session, peer: &mut Peer) {
    let turning = session.turn("go");
    assert_eq!(peer.hear().await.unwrap()["message"]["content"], "go");
    peer.say(INIT);
    peer.say(RESULT);
    assert_eq!(turning.await.unwrap().answer, "done");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_says_what_it_is_does_not_talk() {
    let mut agent = agent().again().request_timeout(seconds(20));
    agent.converses = true;
    let (run, mut peer) = start(agent);
    let begun = tokio::spawn(Session::begun(run));
    request(&mut peer, "initialize").await;
    let error = begun.await.unwrap().unwrap_err().to_string();
    assert_eq!(error, "failure (startup): initialize: the agent gave no answer within 20s");
    assert_eq!(peer.signals(), [(Signal::Term, seconds(20))]);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_is_taken_back() {
    let (session, mut peer) = session(agent()).await;
    let since = Instant::now();
    let error = session.control().within(seconds(7)).mcp_status().await.unwrap_err();
    assert_eq!(error.to_string(), "mcp_status: the agent gave no answer within 7s");
    assert_eq!(since.elapsed(), seconds(7));
    let id = request(&mut peer, "mcp_status").await["request_id"].clone();
    assert_eq!(peer.hear().await.unwrap(), json!({"type": "control_cancel_request", "request_id": id}));
}

#[tokio::test(start_paused = true)]
async fn requests_between_turns_stop_no_clock() {
    let (mut session, mut peer) = session(agent().idle_timeout(seconds(3))).await;
    // Nobody has sent anything yet, so the agent may be silent.
    sleep(seconds(1000)).await;
    turn(&mut session, &mut peer).await;
    let control = session.control();
    let usage = tokio::spawn(async move { control.context_usage().await.map(drop) });
    answer(&mut peer, "get_context_usage", json!({})).await;
    usage.await.unwrap().unwrap();
    sleep(seconds(1000)).await;
    assert_eq!(peer.signals(), []);
    let ended = tokio::spawn(session.finish());
    assert_eq!(peer.hear().await, None, "its input ends at once");
    peer.exit(0, 0);
    assert!(ended.await.unwrap().verdict.clean);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_owed_is_silence() {
    let (mut session, mut peer) = session(agent().idle_timeout(seconds(3))).await;
    let turning = session.turn("go");
    peer.hear().await.unwrap();
    let error = turning.await.unwrap_err().to_string();
    assert_eq!(error, "turn: the agent has ended or no longer accepts input");
    assert_eq!(verdict(&session.finish().await), (Outcome::Failure, Some(Category::Timeout)));
}

#[tokio::test(start_paused = true)]
async fn tasks_in_the_background_have_their_time() {
    let (mut session, mut peer) = session(agent().background_timeout(seconds(80))).await;
    let turning = session.turn("go");
    peer.hear().await.unwrap();
    for line in [INIT, TASK, RESULT] {
        peer.say(line);
    }
    turning.await.unwrap();
    // It is longer than that, but this time does not count.
    sleep(seconds(200)).await;
    let since = Instant::now();
    let ended = tokio::spawn(session.finish());
    assert_eq!(peer.hear().await, None);
    assert_eq!(since.elapsed(), seconds(80), "from the wish to finish");
    peer.exit(0, 0);
    assert_eq!(ended.await.unwrap().verdict.outcome, Outcome::Success);
}

#[tokio::test(start_paused = true)]
async fn one_that_stays_after_its_result_has_its_linger_and_no_more() {
    let busy = r#"{"type":"system","subtype":"session_state_changed","state":"running"}"#;
    let begun = |uuid: &str| format!(r#"{{"type":"command_lifecycle","command_uuid":"{uuid}","state":"started"}}"#);
    for (acknowledges, busy) in [(false, Some(busy)), (true, Some(busy)), (true, None)] {
        let (run, mut peer) = start(agent().on_permission(|_| async { Permission::allow() }));
        let ended = tokio::spawn(run.finish());
        answer(&mut peer, "initialize", json!({})).await;
        let message = peer.hear().await.unwrap();
        if acknowledges {
            peer.say(&begun(message["uuid"].as_str().unwrap()));
        }
        [Some(INIT), busy, Some(RESULT)].into_iter().flatten().for_each(|line| peer.say(line));
        let since = Instant::now();
        assert_eq!(peer.hear().await, None, "its input is closed");
        assert_eq!(since.elapsed(), seconds(30));
        assert_eq!(ended.await.unwrap().verdict.outcome, Outcome::Success);
        assert_eq!(since.elapsed(), seconds(32), "and one grace later it is ended");
        assert!(matches!(peer.signals()[..], [(Signal::Term, _)]), "{:?}", peer.signals());
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_never_ends_is_waited_for_once() {
    let (mut session, mut peer) = session(agent().background_timeout(seconds(80))).await;
    let turning = session.turn("go");
    peer.hear().await.unwrap();
    for line in [INIT, TASK, RESULT] {
        peer.say(line);
    }
    turning.await.unwrap();
    let since = Instant::now();
    assert_eq!(session.finish().await.verdict.outcome, Outcome::Success);
    assert_eq!(since.elapsed(), seconds(82), "and no linger after that");
}

/// The request of an agent before it runs a command.
const MAY_I: &str = r#"{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"t1"}}"#;

#[tokio::test(start_paused = true)]
async fn while_the_agent_waits_for_an_answer_of_ours_it_is_not_silent() {
    for (takes, behavior) in [(400, "allow"), (4000, "deny")] {
        let ask = move |_: PermissionQuestion| async move {
            sleep(Duration::from_secs(takes)).await;
            Permission::allow()
        };
        let agent = agent().idle_timeout(seconds(10)).answer_within(seconds(600)).on_permission(ask);
        let (mut session, mut peer) = session(agent).await;
        let turning = session.turn("go");
        peer.hear().await.unwrap();
        peer.say(INIT);
        peer.say(MAY_I);
        let since = Instant::now();
        let answer = peer.hear().await.unwrap();
        assert_eq!(since.elapsed(), seconds(takes.min(600)), "the callback, or its deadline");
        assert_eq!(answer["response"]["response"]["behavior"], behavior, "{answer}");
        peer.say(RESULT);
        turning.await.unwrap();
        let ended = tokio::spawn(session.finish());
        assert_eq!(peer.hear().await, None);
        peer.exit(0, 0);
        assert_eq!((ended.await.unwrap().verdict.outcome, peer.signals()), (Outcome::Success, Vec::new()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_prompt_with_answers_is_said_after_the_beginning_and_the_input_ends_with_it() {
    let (run, mut peer) = start(agent().on_permission(|_| async { Permission::allow() }));
    let ended = tokio::spawn(run.finish());
    answer(&mut peer, "initialize", json!({})).await;
    assert_eq!(peer.hear().await.unwrap()["message"]["content"], "go");
    peer.say(INIT);
    peer.say(RESULT);
    assert_eq!(peer.hear().await, None);
    peer.exit(0, 0);
    assert!(ended.await.unwrap().verdict.clean);
}
