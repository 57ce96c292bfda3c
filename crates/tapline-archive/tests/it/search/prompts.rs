//! Prompts of recordings: without a transcript, only what was sent to the agent has them, or its command line.

use std::time::Duration;

use tapline_archive::sessions::{ListedSession, SessionFilter, sessions};
use tapline_archive::{Index, Prices, Selection};
use tapline_recording::{End, Meta, Recorder, Stream, Sync};

use super::*;

const MESSAGES: &[&str] = &["claude", "-p", "--output-format=stream-json", "--input-format=stream-json"];
const TEXT: &[&str] = &["codex", "exec", "--json", "-"];
/// When recordings begin, in seconds since 1970.
const BEGAN: u64 = 1_793_000_000;

/// A recording that is being written.
fn begun(folder: &TempFolder, name: &str, argv: &[&str]) -> Recorder {
    let meta = Meta {
        schema: 1,
        agent: argv.first().map(ToString::to_string),
        argv: argv.iter().map(ToString::to_string).collect(),
        started_ms: Some(tapline_protocol::Moment::from_millis(BEGAN * 1_000)),
        ..Meta::default()
    };
    Recorder::create(&folder.join(name), &meta, Sync::EverySecond).unwrap()
}

fn recorded(folder: &TempFolder, name: &str, argv: &[&str], sent: &[u8], output: &str) {
    let mut recorder = begun(folder, name, argv);
    recorder.write_at(Stream::Stdin, sent, Duration::ZERO);
    recorder.write_at(Stream::Stdout, output.as_bytes(), Duration::from_secs(1));
    recorder.finish(&End { exit_code: Some(0), ..End::default() }).unwrap();
}

fn message(text: &str) -> String {
    json!({ "type": "user", "session_id": "", "message": { "role": "user", "content": [{ "type": "text", "text": text }] } })
        .to_string()
        + "\n"
}

/// The output of a run of Claude Code, which does not repeat its prompt.
fn claude(session: &str, text: &str) -> String {
    let init = json!({ "type": "system", "subtype": "init", "session_id": session, "cwd": "/home/dev/shop", "model": "m" });
    let block = json!({ "type": "text", "text": text });
    let answer = json!({
        "type": "assistant", "session_id": session,
        "message": { "id": format!("msg_{text}"), "model": "m", "role": "assistant", "content": [block] },
    });
    format!("{init}\n{answer}\n")
}

fn codex(session: &str) -> String {
    let started = json!({ "type": "thread.started", "thread_id": session });
    let answer = json!({ "type": "item.completed", "item": { "id": "i", "type": "agent_message", "text": "done" } });
    format!("{started}\n{answer}\n")
}

fn listed(index: &mut Index, path: &Path) -> Vec<ListedSession> {
    index.update(&Places::below(&[path.to_owned()]), &AtomicBool::new(false), |_| {}).unwrap();
    sessions(index, Prices::embedded(), &Selection::default(), &SessionFilter::default()).unwrap()
}

/// The title and the number of prompts of the only session there is.
fn only(path: &Path) -> (String, u64) {
    let found = listed(&mut Index::in_memory().unwrap(), path);
    let [session] = found.as_slice() else { panic!("{found:?}") };
    (session.facts.title.clone(), session.facts.prompts)
}

#[test]
fn messages_that_were_sent_are_prompts_of_the_session() {
    let folder = TempFolder::new();
    let mut recorder = begun(&folder, "run", MESSAGES);
    let control =
        "{\"type\":\"control_request\",\"request_id\":\"1\",\"request\":{\"subtype\":\"initialize\",\"prompt\":\"zebra\"}}\n";
    recorder.write_at(Stream::Stdin, control.as_bytes(), Duration::ZERO);
    recorder.write_at(Stream::Stdin, message("\n find the zebra\nin the shop").as_bytes(), Duration::from_secs(1));
    recorder.write_at(Stream::Stdout, claude("s1", "one").as_bytes(), Duration::from_secs(2));
    recorder.write_at(Stream::Stdin, message("and the second zebra").as_bytes(), Duration::from_secs(60));
    recorder.write_at(Stream::Stdout, claude("s1", "two").as_bytes(), Duration::from_secs(61));
    recorder.finish(&End { exit_code: Some(0), ..End::default() }).unwrap();
    let index = indexed(&folder);
    let found = search(&index, "zebra project:shop session:s1 is:prompt");
    assert_eq!(lines(&found), ["s1 prompt : and the second [zebra]", "s1 prompt : find the [zebra] in the shop"]);
    assert_eq!((found[0].title.as_str(), found[0].more), ("find the zebra", 0));
    let stdin = folder.join("run/stdin");
    let hits: Vec<_> = found[0].hits.iter().map(|hit| (hit.time, hit.path.clone())).collect();
    assert_eq!(hits, [(BEGAN + 60, stdin.clone()), (BEGAN + 1, stdin.clone())]);
    // The offset is that of its line.
    let at = usize::try_from(found[0].hits[0].offset).unwrap();
    assert_eq!(fs::read_to_string(&stdin).unwrap()[at..], message("and the second zebra"));
    assert_eq!(only(&folder), ("find the zebra".to_owned(), 2));
}

#[test]
fn a_text_that_was_sent_is_one_prompt() {
    let folder = TempFolder::new();
    recorded(&folder, "run", TEXT, b"find the zebra\n\nand {\"the\": \"lion\"}\n", &codex("c1"));
    let index = indexed(&folder);
    assert_eq!(lines(&search(&index, "zebra lion")), ["c1 prompt : find the [zebra] and {\"the\": \"[lion]\"}"]);
    assert_eq!(only(&folder), ("find the zebra".to_owned(), 1));
    // A recording whose output names no session is one of its own.
    let error = "{\"type\":\"error\",\"message\":\"no login\"}\n";
    for name in ["one", "other"] {
        recorded(&folder, name, TEXT, b"find the tiger", error);
    }
    let index = indexed(&folder);
    assert_eq!(search(&index, "tiger").len(), 2);
}

#[test]
fn a_prompt_on_the_command_line_is_found_and_is_the_title() {
    for (argv, output) in [
        (&["claude", "-p", "--output-format", "stream-json", "\nfind the zebra\nin the shop"][..], claude("s1", "one")),
        (&["codex", "exec", "--json", "\nfind the zebra\nin the shop"], codex("s1")),
    ] {
        let folder = TempFolder::new();
        let all = folder.join("all");
        let mut index = TextIndex::open(&folder.join("index")).unwrap();
        let mut sessions = Index::in_memory().unwrap();
        let mut recorder = begun(&folder, "all/run", argv);
        let found = |index: &TextIndex| {
            let found = search(index, "zebra is:prompt");
            assert_eq!(lines(&found), ["s1 prompt : find the [zebra] in the shop"], "{argv:?}");
            assert_eq!((found[0].title.as_str(), found[0].hits[0].time), ("find the zebra", BEGAN));
            assert_eq!(found[0].hits[0].path, all.join("run/meta.json"));
        };
        // It is there once, also when more is written.
        for _ in 0..2 {
            recorder.write_at(Stream::Stdout, output.as_bytes(), Duration::from_secs(1));
            update(&mut index, &all);
            found(&index);
            let listed = listed(&mut sessions, &all);
            assert_eq!((listed[0].facts.title.as_str(), listed[0].facts.prompts), ("find the zebra", 1), "{argv:?}");
        }
    }
}

#[test]
fn what_is_piped_to_a_command_with_a_prompt_is_found_and_no_further_prompt() {
    let folder = TempFolder::new();
    recorded(&folder, "run", &["claude", "-p", "find the zebra"], b"lions and tigers\n", &claude("s1", "one"));
    let index = indexed(&folder);
    for word in ["zebra", "tigers"] {
        assert_eq!(search(&index, &format!("{word} is:prompt")).len(), 1, "{word}");
    }
    assert_eq!(only(&folder), ("find the zebra".to_owned(), 1));
    // An agent that takes messages takes nothing else.
    let folder = TempFolder::new();
    recorded(&folder, "run", &[MESSAGES, &["find the zebra"]].concat(), message("a lion").as_bytes(), &claude("s1", "one"));
    assert_eq!(only(&folder), ("a lion".to_owned(), 1));
}

#[test]
fn a_transcript_and_a_recording_of_a_session_have_a_prompt_once() {
    let transcript = [prompt("s1", 5, "find the zebra"), said("s1", 6, "it is the zebra"), said("s1", 7, "a zebra, I say")];
    let rollout = [
        json!({ "type": "session_meta", "timestamp": time(1), "payload": { "id": "c1", "cwd": "/x", "cli_version": "0.142.0" } }),
        json!({ "type": "event_msg", "timestamp": time(2), "payload": { "type": "user_message", "message": "find the zebra" } }),
    ]
    .map(|line| line.to_string());
    for transcript_first in [true, false] {
        let folder = TempFolder::new();
        let mut index = TextIndex::open(&folder.join("index")).unwrap();
        let mut sessions = Index::in_memory().unwrap();
        for written in [transcript_first, !transcript_first] {
            if written {
                write(&folder, "all/s1.jsonl", &transcript);
                write(&folder, "all/c1.jsonl", &rollout);
            } else {
                recorded(&folder, "all/run", MESSAGES, message("find the zebra").as_bytes(), &claude("s1", "one"));
                recorded(&folder, "all/other", TEXT, b"find the zebra\n", &codex("c1"));
            }
            update(&mut index, &folder.join("all"));
            listed(&mut sessions, &folder.join("all"));
        }
        let found = search(&index, "zebra is:prompt");
        let mut hits = lines(&found);
        hits.sort_unstable();
        assert_eq!(hits, ["c1 prompt : find the [zebra]", "s1 prompt : find the [zebra]"], "{transcript_first}");
        // The transcript's time and file: it knows more.
        for session in &found {
            assert!(session.hits[0].path.extension().is_some_and(|ending| ending == "jsonl"), "{session:?}");
        }
        // The one that is not shown is not counted as a further hit either.
        let mut few = SearchOptions::default();
        few.hits = 3;
        let found = search_with(&index, "zebra session:s1", &few).sessions;
        assert_eq!((found[0].hits.len(), found[0].more), (3, 0), "{transcript_first}: {found:?}");
        let listed = listed(&mut sessions, &folder.join("all"));
        let titles: Vec<_> = listed.iter().map(|session| (session.facts.title.as_str(), session.facts.prompts)).collect();
        assert_eq!(titles, [("find the zebra", 1); 2]);
        // The recording still has it when the transcript is gone.
        fs::remove_file(folder.join("all/s1.jsonl")).unwrap();
        let found = search(&index, "zebra is:prompt session:s1");
        assert_eq!(lines(&found), ["s1 prompt : find the [zebra]"], "{transcript_first}");
        assert_eq!(found[0].hits[0].path, folder.join("all/run/stdin"));
    }
}

#[test]
fn what_is_sent_later_is_found_later() {
    let folder = TempFolder::new();
    let mut recorder = begun(&folder, "all/run", MESSAGES);
    let mut index = TextIndex::open(&folder.join("index")).unwrap();
    let mut sessions = Index::in_memory().unwrap();
    for (number, word) in (1_u64..).zip(["zebra", "lion", "tiger"]) {
        let sent = message(&format!("find the {word}"));
        // The next message is not whole yet.
        let (now, later) = sent.split_at(if word == "lion" { 20 } else { sent.len() });
        recorder.write_at(Stream::Stdin, now.as_bytes(), Duration::from_secs(number));
        recorder.write_at(Stream::Stdout, claude("s1", word).as_bytes(), Duration::from_secs(number));
        update(&mut index, &folder.join("all"));
        let whole = if later.is_empty() { number } else { number - 1 };
        assert_eq!(lines(&search(&index, "find is:prompt")).len() as u64, whole);
        let listed = listed(&mut sessions, &folder.join("all"));
        assert_eq!((listed[0].facts.title.as_str(), listed[0].facts.prompts), ("find the zebra", whole));
        recorder.write_at(Stream::Stdin, later.as_bytes(), Duration::from_secs(number));
    }
    for word in ["zebra", "lion", "tiger"] {
        assert_eq!(lines(&search(&index, word)), [format!("s1 prompt : find the [{word}]"), format!("s1 answer : [{word}]")]);
    }
}

#[test]
fn any_input_is_read_and_takes_no_more_than_it_may() {
    let folder = TempFolder::new();
    let long = message(&"much ".repeat(4 << 20));
    assert!(long.len() > 16 << 20);
    let mut sent = b"\xff\xfe{\"type\":\"user\"\n\0\0\0\n[]\n{\"type\":\"user\",\"message\":{\"content\":7}}\n".to_vec();
    for part in [&*long, &message("the \u{0}last zebra")] {
        sent.extend(part.as_bytes());
    }
    // A message that was cut off.
    sent.extend(&message("the lion").as_bytes()[..40]);
    recorded(&folder, "messages", MESSAGES, &sent, &claude("s1", "one"));
    recorded(&folder, "text", TEXT, b"\xff\xfe caf\xe9 zebra \xf0\x9f", &codex("c1"));
    let mut large = b"the first zebra ".to_vec();
    large.resize(20 << 20, b'x');
    large.extend(b" the giraffe");
    recorded(&folder, "large", TEXT, &large, &codex("c2"));
    recorded(&folder, "empty", TEXT, b" \n", &codex("c3"));
    recorded(&folder, "none", TEXT, b"zebra", &codex("c4"));
    fs::remove_file(folder.join("none/stdin")).unwrap();
    let index = indexed(&folder);
    let mut hits: Vec<String> = search(&index, "zebra is:prompt").iter().map(|session| session.id.clone()).collect();
    hits.sort_unstable();
    assert_eq!(hits, ["c1", "c2", "s1"]);
    assert!(search(&index, "giraffe").is_empty() && search(&index, "lion").is_empty() && search(&index, "much").is_empty());
    let mut listed = listed(&mut Index::in_memory().unwrap(), &folder);
    listed.sort_by(|one, other| one.facts.id.cmp(&other.facts.id));
    let titles: Vec<_> = listed.iter().map(|session| (&*session.facts.id, session.facts.prompts)).collect();
    assert_eq!(titles, [("c1", 1), ("c2", 1), ("c3", 0), ("c4", 0), ("s1", 1)]);
    assert!(listed.iter().all(|session| session.facts.title.chars().count() <= 160));
}

#[test]
fn a_prompt_is_shown_without_its_secrets() {
    let folder = TempFolder::new();
    let key = format!("sk-ant-api03-{}", "a1B2".repeat(20));
    recorded(&folder, "run", MESSAGES, message(&format!("zebra {key}")).as_bytes(), &claude("s1", "one"));
    recorded(&folder, "other", TEXT, format!("zebra {key}").as_bytes(), &codex("c1"));
    recorded(&folder, "command", &["codex", "exec", &format!("zebra {key}")], b"", &codex("c2"));
    let found = lines(&search(&indexed(&folder), "zebra is:prompt"));
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|line| line.contains("[zebra] [redacted") && !line.contains("a1B2")), "{found:?}");
}
