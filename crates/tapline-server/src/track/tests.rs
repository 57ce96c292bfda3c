//! What steps of fixtures add up to.

use tapline_archive::{Source, SourceOptions};
use tapline_session::render::html::Cards;
use tapline_testkit::fixture;

use super::*;

/// The kinds of steps for which it was decided what they say about a session. A new one needs an arm in `accept`, and a look at
/// `hear_answers`.
const KINDS: &[&str] = &[
    "session",
    "prompt",
    "text",
    "thinking",
    "call",
    "answer",
    "orphan",
    "server_call",
    "server_answer",
    "partial",
    "retracted",
    "turn",
    "retry",
    "rate_limit",
    "task",
    "hook",
    "denied",
    "question",
    "progress",
    "item",
    "error",
    "notice",
    "quiet",
    "odd",
];

#[test]
fn every_kind_of_step_was_thought_of() {
    assert_eq!(What::NAMES, KINDS);
}

/// Reads a fixture, and tells what is known after each step.
fn track(name: &str, each: impl FnMut(&Step, &Track)) -> Track {
    track_text(&std::fs::read_to_string(fixture(name)).unwrap(), each)
}

fn track_text(text: &str, mut each: impl FnMut(&Step, &Track)) -> Track {
    let mut source = Source::of("a test", text.as_bytes(), SourceOptions::default()).unwrap();
    let (mut track, mut cards) = (Track::default(), Cards::default());
    while let Some((_, steps)) = source.advance().unwrap() {
        for step in &steps {
            let changed = cards.accept(step);
            track.accept(step, changed.first().and_then(|n| cards.get(*n)));
            each(step, &track);
        }
    }
    track
}

#[test]
fn a_sub_agent_in_the_background_is_at_work_until_its_task_ends() {
    let mut seen = Vec::new();
    let end = track("claude-2.1.325/subagent.jsonl", |step, track| {
        if let Some(agent) = track.agents.first().filter(|agent| seen.last() != Some(&agent.state)) {
            seen.push(agent.state.clone());
            // The call that started it has its answer long before.
            assert!(agent.state == "running" || matches!(step.what, What::Task(_)), "{step:?}");
        }
    });
    assert_eq!((seen.join(" "), end.agents.len()), ("running finished".to_owned(), 1));
}

#[test]
fn a_sub_agent_of_a_transcript_is_at_work_until_it_is_told_that_it_ended() {
    let folder = fixture("transcripts/claude-background/claude/projects/-home-dev-claude-background");
    let path = folder.join("65c4a9db-53af-4ecc-a4cd-c213ed6d4b27.jsonl");
    let mut source = Source::open(&path, SourceOptions::default()).unwrap();
    let (mut track, mut cards, mut seen) = (Track::default(), Cards::default(), Vec::new());
    while let Some((_, steps)) = source.advance().unwrap() {
        for step in &steps {
            let changed = cards.accept(step);
            track.accept(step, changed.first().and_then(|n| cards.get(*n)));
            let states = track.agents.iter().map(|agent| agent.state.clone());
            seen.extend(states.map(|state| (state, matches!(step.what, What::Task(_)))));
        }
    }
    // It is at work when its call has its answer, and until its task ends.
    let ends = seen.iter().position(|(state, _)| state == "finished").unwrap();
    assert!(ends > 3 && seen[ends].1 && seen[..ends].iter().all(|(state, _)| state == "running"), "{seen:?}");
    assert!(seen[ends..].iter().all(|(state, _)| state == "finished"), "{seen:?}");
}

#[test]
fn a_tool_beyond_those_that_are_told_apart_has_no_other_name() {
    let (mut track, mut cards) = (Track::default(), Cards::default());
    let line = r#"{"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"x"}]}}"#;
    let mut source = Source::of("a test", line.as_bytes(), SourceOptions::default()).unwrap();
    let (_, steps) = source.advance().unwrap().unwrap();
    let card = steps.iter().find_map(|step| cards.accept(step).first().copied()).and_then(|n| cards.get(n)).unwrap();
    for number in 0..NAMES + 2 {
        track.begin_span(&format!("tool{number}"), card, Moment::from_millis(0));
    }
    track.begin_span("tool7", card, Moment::from_millis(0));
    let names: Vec<String> = track.details().spans.into_iter().map(|span| span.name).collect();
    assert_eq!(names[NAMES - 1..], [&format!("tool{}", NAMES - 1), "a tool", "a tool", "tool7"]);
}

#[test]
fn a_turn_begins_with_a_prompt_and_counts_from_then_on() {
    let mut most = 0;
    let end = track("claude-2.1.325/multi.jsonl", |step, track| {
        if matches!(step.what, What::Prompt { .. }) {
            most += 1;
            assert_eq!(track.turns.len(), most, "it counts before it has ended");
        }
    });
    assert_eq!((most, end.turns.len()), (2, 2));
    assert!(end.turns.iter().enumerate().all(|(at, turn)| turn.n == at + 1 && turn.cost_usd.is_some()), "{:?}", end.turns);
    // A note of the agent's own is no prompt, and what a person interrupted is over.
    let interrupted = [
        r#"{"type":"user","message":{"role":"user","content":"tell a story"},"session_id":"s","parent_tool_use_id":null,"isReplay":true}"#,
        r#"{"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"Once"}]},"session_id":"s"}"#,
        r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]},"session_id":"s"}"#,
        r#"{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming","session_id":"s","num_turns":1}"#,
    ];
    let end = track_text(&interrupted.join("\n"), |_, _| {});
    assert_eq!((end.turns.len(), end.state().kind, end.title.as_deref()), (1, SessionState::Interrupted, Some("tell a story")));
    // Without a prompt in the stream, a turn begins with what the agent does.
    assert_eq!(track("claude-2.1.325/text.jsonl", |_, _| {}).turns.len(), 1);
}
