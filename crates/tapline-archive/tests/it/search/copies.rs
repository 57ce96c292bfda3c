//! A text that several files or sessions have: it is found in each of them, and shown once.

use super::*;

fn below(index: &TextIndex, query: &str, path: &Path) -> Vec<String> {
    let mut options = SearchOptions::default();
    options.below = vec![path.to_owned()];
    lines(&search_with(index, query, &options).sessions)
}

/// A prompt, in a session with this folder and branch.
fn asked(session: &str, folder: &str, branch: &str, text: &str) -> String {
    json!({
        "type": "user", "sessionId": session, "uuid": format!("u{session}"), "timestamp": time(1), "cwd": folder,
        "gitBranch": branch, "message": { "role": "user", "content": text },
    })
    .to_string()
}

#[test]
fn a_text_is_found_below_every_folder_that_has_it() {
    let folder = TempFolder::new();
    let (one, other) = (folder.join("one"), folder.join("other"));
    let text = [prompt("s1", 1, "find the zebra")];
    write(&folder, "one/s1.jsonl", &text);
    write(&folder, "other/s1.jsonl", &text);
    let mut index = TextIndex::open(&folder.join("index")).unwrap();
    update(&mut index, &one);
    assert_eq!(below(&index, "zebra", &other), [""; 0], "not read yet");
    update(&mut index, &other);
    for path in [one.as_path(), &other, &folder] {
        assert_eq!(below(&index, "zebra", path), ["s1 prompt : find the [zebra]"], "{}", path.display());
    }
    fs::remove_dir_all(&one).unwrap();
    assert_eq!(below(&index, "zebra", &other), ["s1 prompt : find the [zebra]"]);
    // The hit names the file that still has it.
    assert!(search(&index, "zebra")[0].hits[0].path.starts_with(&other));
}

#[test]
fn a_rewritten_file_takes_no_text_away_that_another_one_has() {
    let folder = TempFolder::new();
    let shared = |session: &str| asked(session, "/x", "main", "find the zebra");
    write(&folder, "s1.jsonl", &[shared("s1")]);
    write(&folder, "fork.jsonl", &[shared("s2")]);
    let mut index = TextIndex::open(&folder.join("index")).unwrap();
    update(&mut index, &folder);
    write(&folder, "s1.jsonl", &[prompt("s1", 2, "lion")]);
    update(&mut index, &folder);
    assert_eq!(lines(&search(&index, "zebra")), ["s2 prompt : find the [zebra]"]);
    // The same within one session: the text goes with its last file.
    write(&folder, "copy.jsonl", &[shared("s2")]);
    update(&mut index, &folder);
    write(&folder, "fork.jsonl", &[prompt("s2", 3, "the tiger")]);
    update(&mut index, &folder);
    assert_eq!(lines(&search(&index, "zebra")), ["s2 prompt : find the [zebra]"]);
    write(&folder, "copy.jsonl", &[prompt("s2", 4, "the bear")]);
    update(&mut index, &folder);
    assert!(search(&index, "zebra").is_empty());
    for (word, hits) in [("lion", 1), ("tiger", 1), ("bear", 1)] {
        assert_eq!(lines(&search(&index, word)).len(), hits, "{word}");
    }
}

#[test]
fn a_text_is_found_by_what_holds_for_any_session_that_has_it() {
    let folder = TempFolder::new();
    write(&folder, "s1.jsonl", &[asked("s1", "/home/dev/shop", "main", "find the zebra")]);
    let mut index = TextIndex::in_memory().unwrap();
    update(&mut index, &folder);
    write(&folder, "s2.jsonl", &[asked("s2", "/home/dev/bank", "fix", "find the zebra")]);
    update(&mut index, &folder);
    let sessions = |query: &str| search(&index, query).into_iter().map(|found| found.id).collect::<Vec<_>>();
    for (query, wanted) in [
        ("zebra", &["s1"][..]),
        ("zebra project:shop", &["s1"]),
        ("zebra project:bank", &["s2"]),
        ("zebra branch:fix", &["s2"]),
        ("zebra session:s2", &["s2"]),
        ("zebra -session:s1", &["s2"]),
        ("zebra -project:shop", &["s2"]),
        ("zebra session:s1 project:bank", &[]),
        ("zebra -session:s1 -session:s2", &[]),
    ] {
        assert_eq!(sessions(query), wanted, "{query}");
    }
    assert_eq!(below(&index, "zebra", &folder.join("s2.jsonl")), ["s2 prompt : find the [zebra]"]);
}

#[test]
fn many_hits_elsewhere_do_not_hide_what_is_asked_for() {
    let folder = TempFolder::new();
    let many: Vec<String> = (10..3_000).map(|number| said(&format!("s{number}"), 99, &format!("needle {number}"))).collect();
    write(&folder, "big/a.jsonl", &many);
    let more: Vec<String> = (10..3_000).map(|number| said(&format!("t{number}"), 99, &format!("needle {number}"))).collect();
    write(&folder, "big/b.jsonl", &more);
    write(&folder, "small/old.jsonl", &[prompt("old", 1, "needle")]);
    let index = indexed(&folder);
    assert_eq!(below(&index, "needle", &folder.join("small")), ["old prompt : [needle]"]);
}

#[test]
fn calls_of_other_sessions_with_the_same_id_are_other_calls() {
    let folder = TempFolder::new();
    let session = |session: &str, tool: &str, text: &str| {
        let line = |kind: &str, block: serde_json::Value| {
            json!({ "type": kind, "sessionId": session, "uuid": kind, "timestamp": time(1), "cwd": "/x",
                "message": { "id": format!("m{session}"), "role": kind, "content": [block] } })
            .to_string()
        };
        write(
            &folder,
            &format!("{session}.jsonl"),
            &[
                line("assistant", json!({ "type": "tool_use", "id": "call_0", "name": tool, "input": { "text": text } })),
                line("user", json!({ "type": "tool_result", "tool_use_id": "call_0", "content": format!("{text} done") })),
            ],
        );
    };
    session("s1", "Bash", "zebra");
    session("s2", "Read", "lion");
    let index = indexed(&folder);
    assert_eq!(lines(&search(&index, "zebra is:output")), ["s1 output Bash: [zebra] done"]);
    assert_eq!(lines(&search(&index, "lion is:output")), ["s2 output Read: [lion] done"]);
    assert_eq!(lines(&search(&index, "lion is:call")), ["s2 call Read: [lion]"]);
}

#[test]
fn a_stream_and_its_transcript_are_one_session_and_the_transcript_knows_more() {
    let said = |more: &serde_json::Value| {
        let mut line = json!({ "type": "assistant",
            "message": { "id": "m1", "role": "assistant", "content": [{ "type": "text", "text": "the zebra" }] } });
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line.to_string()
    };
    let init = json!({ "type": "system", "subtype": "init", "session_id": "s1", "model": "m", "cwd": "/x", "tools": [] });
    let stream = [init.to_string(), said(&json!({ "session_id": "s1" }))];
    let transcript = [said(&json!({ "sessionId": "s1", "uuid": "a", "timestamp": time(1), "cwd": "/x", "gitBranch": "main" }))];
    for stream_first in [true, false] {
        let folder = TempFolder::new();
        let mut index = TextIndex::in_memory().unwrap();
        let mut add = |is_stream: bool| {
            if is_stream {
                write(&folder, "stream.jsonl", &stream);
            } else {
                write(&folder, "transcript.jsonl", &transcript);
            }
            update(&mut index, &folder);
        };
        add(stream_first);
        add(!stream_first);
        for query in ["zebra", "zebra branch:main"] {
            let found = search(&index, query);
            assert_eq!(lines(&found), ["s1 answer : the [zebra]"], "{query}, {stream_first}");
            assert_eq!(found[0].hits[0].time % 3_600, 1, "{query}, {stream_first}");
        }
    }
}

#[test]
fn the_newest_session_comes_first_by_the_times_that_are_shown() {
    let folder = TempFolder::new();
    // The stream has no times: it is as new as its file. Its session said it long ago.
    let init = json!({ "type": "system", "subtype": "init", "session_id": "s1", "model": "m", "cwd": "/home/dev/shop" });
    let message =
        json!({ "id": "msg_s1_1", "model": "m", "role": "assistant", "content": [{ "type": "text", "text": "the zebra" }] });
    let stream = json!({ "type": "assistant", "session_id": "s1", "uuid": "a1", "message": message });
    write(&folder, "stream.jsonl", &[init.to_string(), stream.to_string()]);
    write(&folder, "s1.jsonl", &[said("s1", 1, "the zebra")]);
    write(&folder, "s2.jsonl", &[said("s2", 30, "a zebra"), said("s2", 31, "one more zebra")]);
    let index = indexed(&folder);
    let found = search(&index, "zebra");
    assert_eq!(
        lines(&found),
        ["s2 answer : one more [zebra]", "s2 answer : a [zebra]", "s1 answer : the [zebra]"],
        "as their times say"
    );
    let mut options = SearchOptions::default();
    options.sessions = 1;
    let one = search_with(&index, "zebra", &options);
    assert!(one.more && one.sessions[0].id == "s2", "{one:?}");
}

#[test]
fn a_title_is_the_first_prompt_or_what_somebody_gave_and_no_summary_of_another_session() {
    let folder = TempFolder::new();
    let summary = json!({ "type": "summary", "summary": "Another session", "leafUuid": "x" }).to_string();
    write(&folder, "s1.jsonl", &[summary.clone(), prompt("s1", 1, "find the zebra"), summary]);
    let given = json!({ "type": "custom-title", "customTitle": "Animals", "sessionId": "s2" }).to_string();
    write(&folder, "s2.jsonl", &[prompt("s2", 2, "find the zebra again"), given]);
    let titles = search(&indexed(&folder), "zebra").into_iter().map(|session| session.title);
    assert_eq!(titles.collect::<Vec<_>>(), ["Animals", "find the zebra"]);
}
