//! Requests to an agent that answers late, twice, wrongly, or not at all: each ends within its deadline, and the error names it.

use std::time::{Duration, Instant};

use tapline_runner::Session;
use tapline_session::Outcome;
use tapline_sim::ReplayOptions;
use tapline_testkit::wait_until_async;

use crate::scripted_agent::Scripted;

const SOON: Duration = Duration::from_millis(400);

fn plain(lines: &str) -> Scripted {
    Scripted::new(lines, ReplayOptions::default())
}

async fn session(scripted: &Scripted) -> Session {
    scripted.claude().session().await.unwrap()
}

/// The words of an error.
fn words<T: std::fmt::Debug>(answer: Result<T, impl std::error::Error>) -> String {
    answer.unwrap_err().to_string()
}

const VERSION: &str = r#"
> {"type":"control_request","request_id":"h3","request":{"subtype":"get_binary_version"}}
< {"type":"control_response","response":{"subtype":"success","request_id":"h3","response":{"version":"2.1.325","buildTime":"now"}}}
"#;

#[tokio::test]
async fn no_answer() {
    let scripted =
        plain(&[r#"> {"type":"control_request","request_id":"h2","request":{"subtype":"mcp_status"}}"#, VERSION].concat());
    let session = session(&scripted).await;
    let since = Instant::now();
    let error = words(session.control().within(SOON).mcp_status().await);
    assert_eq!(error, "mcp_status: the agent gave no answer within 400ms");
    assert!(since.elapsed() >= SOON);
    // The agent was told that nobody waits, and another request has its answer.
    assert_eq!(session.binary_version().await.unwrap().version.as_deref(), Some("2.1.325"));
    let report = session.finish().await;
    assert_eq!(report.verdict.outcome, Outcome::Incomplete, "nothing was ever asked");
    let said = scripted.said();
    let withdrawn: Vec<_> = said.iter().filter(|line| line["type"] == "control_cancel_request").collect();
    assert_eq!(withdrawn.len(), 1);
    let asked = said.iter().find(|line| line["request"]["subtype"] == "mcp_status").unwrap();
    assert_eq!(withdrawn[0]["request_id"], asked["request_id"]);
}

#[tokio::test]
async fn an_answer_twice_and_one_that_nobody_asked_for() {
    let twice = r#"
        > {"type":"control_request","request_id":"h2","request":{"subtype":"get_session_cost"}}
        < {"type":"control_response","response":{"subtype":"success","request_id":"h2","response":{"text":"first"}}}
        < {"type":"control_response","response":{"subtype":"success","request_id":"h2","response":{"text":"second"}}}
        < {"type":"control_response","response":{"subtype":"success","request_id":"who","response":{"text":"third"}}}
        < {"type":"control_response","response":{"subtype":"success","response":{"text":"fourth"}}}
        < {"type":"control_response","response":"no object"}
    "#;
    let scripted = plain(&[twice, VERSION].concat());
    let session = session(&scripted).await;
    assert_eq!(session.session_cost().await.unwrap().text.as_deref(), Some("first"));
    assert_eq!(session.binary_version().await.unwrap().version.as_deref(), Some("2.1.325"));
    session.finish().await;
}

#[tokio::test]
async fn answers_in_another_order_and_an_error() {
    let scripted = plain(
        r#"
        > {"type":"control_request","request_id":"a","request":{"subtype":"get_context_usage"}}
        > {"type":"control_request","request_id":"b","request":{"subtype":"get_session_cost"}}
        > {"type":"control_request","request_id":"c","request":{"subtype":"set_color"}}
        < {"type":"control_response","response":{"subtype":"error","request_id":"c","error":"Unsupported control request subtype: set_color"}}
        < {"type":"control_response","response":{"subtype":"success","request_id":"b","response":{"text":"nothing"}}}
        < {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"totalTokens":7,"percentage":0.5}}}
    "#,
    );
    let session = session(&scripted).await;
    let (context, cost, color) = tokio::join!(session.context_usage(), session.session_cost(), session.set_color("red"));
    assert_eq!(context.unwrap().total_tokens, Some(7));
    assert_eq!(cost.unwrap().text.as_deref(), Some("nothing"));
    assert_eq!(color.unwrap_err().to_string(), "set_color: the agent refused: Unsupported control request subtype: set_color");
    session.finish().await;
}

#[tokio::test]
async fn one_not_known_yet() {
    let scripted = plain(
        r#"
        > {"type":"control_request","request_id":"a","request":{"subtype":"brand_new","how":"fast"}}
        < {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"very":"fast"}}}
    "#,
    );
    let session = session(&scripted).await;
    let answer = session.request_raw("brand_new", serde_json::json!({"how": "fast", "subtype": "never"})).await.unwrap();
    assert_eq!(answer.text_of("very").as_deref(), Some("fast"));
    let error = session.request_raw("brand_new", serde_json::json!(["no", "object"])).await.unwrap_err();
    assert!(error.to_string().starts_with("brand_new: "), "{error}");
    session.finish().await;
    let said = scripted.said();
    assert_eq!(said.last().unwrap()["request"], serde_json::json!({"subtype": "brand_new", "how": "fast"}));
}

#[tokio::test]
async fn the_agent_ends_in_the_middle() {
    let lines = r#"
        > {"type":"user","message":{"role":"user","content":"go"},"uuid":"3c5b1f2e-0000-4000-8000-000000000001"}
        < {"type":"system","subtype":"init","session_id":"s","model":"m"}
        > {"type":"control_request","request_id":"a","request":{"subtype":"mcp_status"}}
        < {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{}}}
    "#;
    let scripted = Scripted::new(lines, ReplayOptions { stop_after: Some(2), ..ReplayOptions::default() });
    let mut session = session(&scripted).await;
    let control = session.control();
    let mut turning = session.turn("go");
    while let Some(update) = turning.next().await {
        if matches!(&update, tapline_runner::Update::Record(seen) if seen.record.tag().as_deref() == Some("system/init")) {
            break;
        }
    }
    let error = words(control.mcp_status().await);
    assert!(error.starts_with("mcp_status: the agent has ended"), "{error}");
    let error = words(turning.await);
    assert!(error.starts_with("turn: the agent has ended"), "{error}");
    let error = words(session.turn("again").await);
    assert!(error.contains("the agent has ended"), "{error}");
    assert_eq!(session.finish().await.verdict.outcome, Outcome::Incomplete);
}

#[tokio::test]
async fn a_stalled_agent() {
    let scripted = Scripted::new(VERSION, ReplayOptions { hang_at: Some(1), ..ReplayOptions::default() });
    // Long enough for it to begin.
    let mut session = scripted.claude().idle_timeout(Duration::from_secs(8)).session().await.unwrap();
    let error = words(session.control().within(SOON).binary_version().await);
    assert!(error.starts_with("get_binary_version: the agent gave no answer within"), "{error}");
    // And a turn ends with the watchdog.
    let error = words(session.turn("go").await);
    assert!(error.starts_with("turn: the agent has ended"), "{error}");
    assert_eq!(session.finish().await.verdict.error.as_deref(), Some("timeout"));
}

#[tokio::test]
async fn one_that_never_answers_the_first_request() {
    let scripted = Scripted::new("", ReplayOptions { hang_at: Some(0), ..ReplayOptions::default() });
    let error = words(scripted.claude().request_timeout(SOON).session().await);
    assert!(error.contains("initialize: the agent gave no answer within 400ms"), "{error}");
}

#[tokio::test]
async fn one_that_ends_before_it_answers() {
    let scripted = Scripted::new("", ReplayOptions { stop_after: Some(0), ..ReplayOptions::default() });
    let error = words(scripted.claude().session().await);
    assert!(error.starts_with("incomplete"), "{error}");
}

#[tokio::test]
async fn a_request_that_is_dropped_is_taken_back_and_its_late_answer_is_nobodys() {
    let lines = r#"
        > {"type":"control_request","request_id":"a","request":{"subtype":"mcp_status"}}
        > {"type":"control_cancel_request","request_id":"a"}
        < {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"mcpServers":[]}}}
    "#;
    let scripted = plain(&[lines, VERSION].concat());
    let session = session(&scripted).await;
    let is_asked = async || scripted.said().iter().any(|line| line["request"]["subtype"] == "mcp_status");
    let asked = wait_until_async("the agent is asked", is_asked);
    tokio::select! {
        biased;
        answer = session.mcp_status() => panic!("{answer:?}"),
        () = asked => {}
    }
    assert_eq!(session.binary_version().await.unwrap().version.as_deref(), Some("2.1.325"));
    session.finish().await;
    assert_eq!(scripted.said().iter().filter(|line| line["type"] == "control_cancel_request").count(), 1);
}
