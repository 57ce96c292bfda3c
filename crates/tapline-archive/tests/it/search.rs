//! The text index on transcripts and streams of the real programs, and on files that grow, change and vanish.

mod copies;
mod prompts;

use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tapline_archive::Places;
use tapline_archive::search::{EntryKind, FoundSession, SearchFound, SearchOptions, SearchQuery, SearchSort, Shown, TextIndex};
use tapline_recording::Redactor;
use tapline_testkit::files::{files_below, mode};
use tapline_testkit::{TempFolder, fixture};

/// Writes lines to a file.
fn write(folder: &TempFolder, name: &str, lines: &[String]) -> PathBuf {
    folder.write(name, lines.iter().map(|line| line.clone() + "\n").collect::<String>())
}

fn fixtures(case: &str) -> PathBuf {
    fixture("transcripts").join(case)
}

fn update(index: &mut TextIndex, path: &Path) -> usize {
    let updated = index.update(&Places::below(&[path.to_owned()]), &AtomicBool::new(false), |_| {}).unwrap();
    assert!(updated.unreadable.is_empty() && !updated.interrupted, "{updated:?}");
    updated.files
}

fn indexed(path: &Path) -> TextIndex {
    let mut index = TextIndex::in_memory().unwrap();
    update(&mut index, path);
    index
}

fn search_with(index: &TextIndex, query: &str, options: &SearchOptions) -> SearchFound {
    let query = SearchQuery::parse(query, |time| time.parse().map_err(|_| "no number")).unwrap();
    index.search(&query, options, &Redactor::default()).unwrap()
}

fn search(index: &TextIndex, query: &str) -> Vec<FoundSession> {
    search_with(index, query, &SearchOptions::default()).sessions
}

/// What was found, as lines: session, kind, tool, error, snippet with its matches in brackets.
fn lines(found: &[FoundSession]) -> Vec<String> {
    let hits = found.iter().flat_map(|session| session.hits.iter().map(move |hit| (session, hit)));
    let line = |(session, hit): (&FoundSession, &tapline_archive::search::Hit)| {
        let text = match &hit.shown {
            Shown::Snippet(snippet) => {
                let mut text = snippet.text.clone();
                for range in snippet.matches.iter().rev() {
                    text.insert(range.end, ']');
                    text.insert(range.start, '[');
                }
                text
            }
            lost => format!("({lost:?})"),
        };
        let error = if hit.error { " error" } else { "" };
        let subagent = if hit.subagent { " subagent" } else { "" };
        let start: String = session.id.chars().take(8).collect();
        format!("{start} {}{error}{subagent} {}: {text}", hit.kind.name(), hit.tool)
    };
    hits.map(line).collect()
}

/// A line of a transcript with a prompt.
fn prompt(session: &str, second: u32, text: &str) -> String {
    json!({
        "type": "user", "sessionId": session, "uuid": format!("u{second}"), "timestamp": time(second), "cwd": "/home/dev/shop",
        "gitBranch": "main", "message": { "role": "user", "content": text },
    })
    .to_string()
}

fn time(second: u32) -> String {
    format!("2026-11-01T00:{:02}:{:02}.000Z", second / 60, second % 60)
}

fn answer(session: &str, second: u32, blocks: &serde_json::Value) -> String {
    json!({
        "type": "assistant", "sessionId": session, "uuid": format!("a{second}"), "timestamp": time(second), "cwd": "/home/dev/shop",
        "message": { "id": format!("msg_{session}_{second}"), "model": "m", "role": "assistant", "content": blocks },
    })
    .to_string()
}

fn said(session: &str, second: u32, text: &str) -> String {
    answer(session, second, &json!([{ "type": "text", "text": text }]))
}

fn call(session: &str, second: u32, tool: &str, input: &serde_json::Value) -> String {
    answer(session, second, &json!([{ "type": "tool_use", "id": format!("t{session}{second}"), "name": tool, "input": input }]))
}

fn output(session: &str, second: u32, of: u32, text: &str, error: bool) -> String {
    json!({
        "type": "user", "sessionId": session, "uuid": format!("u{second}"), "timestamp": time(second), "cwd": "/home/dev/shop",
        "message": { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": format!("t{session}{of}"), "content": text, "is_error": error }] },
    })
    .to_string()
}

#[test]
fn prompts_answers_calls_output_and_errors_of_the_real_programs_are_found() {
    let denied = indexed(&fixtures("claude-denied"));
    assert_eq!(lines(&search(&denied, "is:prompt try")), ["78c1d850 prompt : [try] it"]);
    let none = lines(&search(&denied, "\"no such file\""));
    assert_eq!(none, ["78c1d850 output error Bash: Exit code 1 cat: none.txt: [No such file] or directory"]);
    let touch = lines(&search(&denied, "touch is:call"));
    assert!(touch.len() == 1 && touch[0].starts_with("78c1d850 call Bash: [touch] "), "{touch:?}");
    // The tool does not exist, and was called.
    assert_eq!(lines(&search(&denied, "tool:NoSuch is:error")).len(), 1);
    let codex = indexed(&fixtures("codex-0.142.0"));
    assert_eq!(lines(&search(&codex, "first prompt")), ["01a1e4f6 prompt : [first] [prompt]"]);
    assert_eq!(lines(&search(&codex, "tool:shell_command is:call echo one")), ["01a1e4f6 call shell_command: [echo] [one]"]);
    let output = lines(&search(&codex, "tool:shell_command is:output one"));
    assert_eq!(output, ["01a1e4f6 output shell_command: Exit code: 0 Wall time: 0 seconds Output: [one]"]);
    let failed = indexed(&fixtures("codex-error"));
    let failed = lines(&search(&failed, "is:error \"too many requests\""));
    assert!(failed.len() == 1 && failed[0].contains("answer error"), "{failed:?}");
    let packed = indexed(&fixtures("codex-zst"));
    assert!(search(&packed, "is:prompt").iter().all(|session| matches!(session.hits[0].shown, Shown::Snippet(_))));
}

#[test]
fn a_text_in_several_files_is_one_hit() {
    for case in fs::read_dir(fixtures("")).unwrap().map(|entry| entry.unwrap().path()) {
        let index = indexed(&case);
        let mut options = SearchOptions::default();
        (options.sessions, options.hits, options.width) = (1_000, 1_000, 10_000);
        let found = search_with(&index, "is:prompt", &options).sessions;
        for kind in ["is:answer", "is:call", "is:output"] {
            for session in search_with(&index, kind, &options).sessions {
                let mut texts: Vec<String> = lines(std::slice::from_ref(&session));
                let all = texts.len();
                texts.sort();
                texts.dedup();
                assert_eq!(texts.len(), all, "{}: {texts:?}", case.display());
            }
        }
        assert!(!found.is_empty() || case.ends_with("claude-killed"), "{}", case.display());
    }
    // The fork copies the prompt of its parent, and has one of its own.
    let fork = indexed(&fixtures("codex-fork"));
    let prompts = lines(&search(&fork, "is:prompt first"));
    assert_eq!(prompts.len(), 1, "{prompts:?}");
}

#[test]
fn what_a_file_gains_is_added_and_a_rewritten_one_is_read_again() {
    let folder = TempFolder::new();
    let mut all = vec![prompt("s1", 1, "find the zebra"), call("s1", 2, "Bash", &json!({ "command": "grep zebra" }))];
    let path = write(&folder, "p/s1.jsonl", &all);
    let mut index = TextIndex::open(&folder.join("index")).unwrap();
    assert_eq!(update(&mut index, &folder), 1);
    assert_eq!(update(&mut index, &folder), 0);
    assert_eq!(search(&index, "zebra")[0].hits.len(), 2);
    // The output comes later. Its tool is that of the call, which is not read again.
    all.push(output("s1", 3, 2, "giraffe found", false));
    write(&folder, "p/s1.jsonl", &all);
    assert_eq!(update(&mut index, &folder), 1);
    assert_eq!(lines(&search(&index, "giraffe tool:bash")), ["s1 output Bash: [giraffe] found"]);
    assert_eq!(search(&index, "zebra")[0].hits.len(), 2);
    // A line that is still being written waits.
    let torn = &said("s1", 4, "the okapi")[..60];
    fs::write(&path, all.join("\n") + "\n" + torn).unwrap();
    update(&mut index, &folder);
    assert!(search(&index, "okapi").is_empty());
    all.push(said("s1", 4, "the okapi"));
    write(&folder, "p/s1.jsonl", &all);
    update(&mut index, &folder);
    assert_eq!(lines(&search(&index, "okapi")), ["s1 answer : the [okapi]"]);
    write(&folder, "p/s1.jsonl", &[prompt("s1", 1, "find the lion")]);
    update(&mut index, &folder);
    assert!(search(&index, "zebra").is_empty() && search(&index, "okapi").is_empty());
    assert_eq!(lines(&search(&index, "lion")), ["s1 prompt : find the [lion]"]);
}

#[test]
fn deleted_files_stay_searchable_and_moved_ones_are_read_where_they_are() {
    let folder = TempFolder::new();
    let path = write(&folder, "p/s1.jsonl", &[prompt("s1", 1, "find the zebra")]);
    let mut index = TextIndex::open(&folder.join("index")).unwrap();
    update(&mut index, &folder);
    fs::remove_file(&path).unwrap();
    update(&mut index, &folder);
    assert_eq!(lines(&search(&index, "zebra")), ["s1 prompt : (Gone)"]);
    write(&folder, "q/s1.jsonl", &[prompt("s1", 1, "find the zebra")]);
    update(&mut index, &folder);
    assert_eq!(lines(&search(&index, "zebra")), ["s1 prompt : find the [zebra]"]);
    let mut below = SearchOptions::default();
    below.below = vec![folder.join("q")];
    assert_eq!(search_with(&index, "zebra", &below).sessions.len(), 1);
    // It was there, too.
    below.below = vec![folder.join("p")];
    assert_eq!(lines(&search_with(&index, "zebra", &below).sessions), ["s1 prompt : find the [zebra]"]);
    below.below = vec![folder.join("r")];
    assert!(search_with(&index, "zebra", &below).sessions.is_empty());
}

#[test]
fn words_phrases_prefixes_exclusions_and_filters_select() {
    let folder = TempFolder::new();
    write(
        &folder,
        "a.jsonl",
        &[
            prompt("s1", 1, "Fix the Größe of the parser"),
            call("s1", 2, "Bash", &json!({ "command": "cargo test", "nested": { "path": "/src/parse_all.rs" } })),
            output("s1", 3, 2, "error: parser failed", true),
            call("s1", 4, "mcp__db__query", &json!({ "sql": "select 日本語 from t" })),
            said("s1", 5, "The parser works."),
        ],
    );
    write(&folder, "b.jsonl", &[prompt("s2", 100, "the parser again, failed"), said("s2", 101, "NEAR( \" AND OR")]);
    let index = indexed(&folder);
    let ids = |query: &str| {
        let found = search(&index, query);
        found.iter().flat_map(|found| &found.hits).map(|hit| hit.time % 3_600).collect::<Vec<_>>()
    };
    // The newest first, by session.
    assert_eq!(ids("parser"), [100, 5, 3, 1]);
    assert_eq!(ids("PARSER failed"), [100, 3]);
    assert_eq!(ids("\"parser failed\""), [3]);
    assert_eq!(ids("\"failed parser\""), [0_u64; 0]);
    // Three of a session.
    assert_eq!(ids("pars*"), [100, 5, 3, 2]);
    assert_eq!(ids("parser -failed"), [5, 1]);
    assert_eq!(ids("-parser is:prompt"), [0_u64; 0]);
    assert_eq!(ids("größe"), [1]);
    assert_eq!(ids("GROSSE"), [1], "accents do not matter");
    assert_eq!(ids("select OR works"), [5, 4]);
    assert_eq!(ids("parser select OR works OR error -fix"), [5, 3]);
    assert_eq!(ids("本語"), [4]);
    assert_eq!(ids("parse_all.rs"), [2]);
    assert_eq!(ids("tool:bash"), [3, 2]);
    assert_eq!(ids("tool:mcp__*"), [4]);
    assert_eq!(ids("tool:nothing"), [0_u64; 0]);
    assert_eq!(ids("parser -tool:bash -is:prompt"), [5]);
    assert_eq!(ids("is:error"), [3]);
    assert_eq!(ids("session:s2"), [101, 100]);
    assert_eq!(ids("project:SHOP parser is:answer"), [5]);
    assert_eq!(ids("project:other parser"), [0_u64; 0]);
    assert_eq!(ids("branch:main is:prompt"), [100, 1]);
    assert_eq!(ids("agent:claude is:prompt"), [100, 1]);
    assert_eq!(ids("agent:codex is:prompt"), [0_u64; 0]);
    let from = 1_793_491_200_000_u64;
    assert_eq!(ids(&format!("parser since:{}", from + 5_000)), [100, 5]);
    assert_eq!(ids(&format!("parser until:{}", from + 3_000)), [1]);
    // What the database has as syntax is text here.
    assert_eq!(ids("near( AND \"OR\""), [101]);
    for hostile in
        ["body:x\"", "\"", "a\" OR \"b", "{marks} : k0", "s1 NOT", "^parser", "parser + x", "' ; --", "a\0b", "\u{feff}x"]
    {
        let query = SearchQuery::parse(hostile, |_| Ok::<_, Infallible>(0));
        if let Ok(query) = query {
            index.search(&query, &SearchOptions::default(), &Redactor::default()).unwrap();
        }
    }
}

#[test]
fn signs_and_thoughts_are_found() {
    let folder = TempFolder::new();
    let thought = json!([{ "type": "thinking", "thinking": "Perhaps C++, not C#", "signature": "x" }, { "type": "text", "text": "In C, then 🚀👍🏽" }]);
    write(&folder, "a.jsonl", &[answer("s1", 1, &thought), prompt("s1", 2, "Crème brûlée with c# and cre\u{300}me")]);
    let index = indexed(&folder);
    let shown = |query: &str| lines(&search(&index, query));
    assert_eq!(shown("c++"), ["s1 thinking : Perhaps [C++], not C#"]);
    assert_eq!(shown("C#"), ["s1 prompt : Crème brûlée with [c#] and cre\u{300}me", "s1 thinking : Perhaps C++, not [C#]"]);
    assert_eq!(shown("c"), ["s1 answer : In [C], then 🚀👍🏽"]);
    assert_eq!(shown("🚀"), ["s1 answer : In C, then [🚀]👍🏽"]);
    assert_eq!(shown("creme"), ["s1 prompt : [Crème] brûlée with c# and [cre\u{300}me]"]);
    assert_eq!(shown("perhaps is:thinking").len(), 1);
    assert_eq!(shown("perhaps -is:thinking").len(), 0);
    let codex = indexed(&fixtures("codex-0.142.0"));
    assert_eq!(lines(&search(&codex, "is:thinking hm"))[0], "01a1e4f6 thinking : [Hm].");
}

#[test]
fn what_the_program_notes_for_its_makers_is_not_found() {
    let folder = TempFolder::new();
    let result = |errors: &[&str]| {
        json!({ "type": "result", "subtype": "error_during_execution", "is_error": true, "session_id": "s1", "errors": errors })
            .to_string()
    };
    let note = "[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=null";
    write(&folder, "a.jsonl", &[prompt("s1", 1, "go"), result(&[note]), result(&[note, "Connection lost"])]);
    let index = indexed(&folder);
    assert_eq!(lines(&search(&index, "ede_diagnostic")), [""; 0]);
    assert_eq!(lines(&search(&index, "is:error")), ["s1 answer error : Connection lost"]);
}

#[test]
fn a_word_that_stands_nowhere_has_a_similar_one() {
    let folder = TempFolder::new();
    let lines = [prompt("s1", 1, "the connection was refused"), prompt("s1", 2, "password: correcthorse")];
    write(&folder, "a.jsonl", &lines);
    let index = indexed(&folder);
    let meant = |query: &str| search_with(&index, query, &SearchOptions::default()).meant;
    let pair = |word: &str, meant: &str| (word.to_owned(), meant.to_owned());
    assert_eq!(meant("conection refuzed"), [pair("conection", "connection"), pair("refuzed", "refused")]);
    assert_eq!(meant("Connetcion OR zebra"), [pair("connetcion", "connection")]);
    // What is found needs no advice, short words have none, and a secret is not shown.
    for none in ["connection", "connection zebra", "waz", "correcthorze", "conec*"] {
        assert_eq!(meant(none), [], "{none}");
    }
    let mut elsewhere = SearchOptions::default();
    elsewhere.below = vec!["/elsewhere".into()];
    assert_eq!(search_with(&index, "conection", &elsewhere).meant, []);
}

#[test]
fn the_best_hits_are_those_with_the_words_together() {
    let folder = TempFolder::new();
    let far = format!("alpha {} omega", "x ".repeat(50));
    write(
        &folder,
        "a.jsonl",
        &[prompt("near", 1, "alpha then omega"), call("call", 2, "Bash", &json!({ "command": "alpha omega" }))],
    );
    write(&folder, "b.jsonl", &[prompt("far", 3, &far)]);
    let index = indexed(&folder);
    let order = |sort| {
        let mut options = SearchOptions::default();
        options.sort = sort;
        search_with(&index, "alpha omega", &options).sessions.into_iter().map(|session| session.id).collect::<Vec<_>>()
    };
    assert_eq!(order(SearchSort::Newest), ["far", "call", "near"]);
    assert_eq!(order(SearchSort::Best), ["near", "call", "far"]);
}

#[test]
fn a_session_with_many_hits_does_not_hide_the_others() {
    let folder = TempFolder::new();
    write(&folder, "old.jsonl", &[prompt("old", 1, "needle")]);
    let many: Vec<String> = (10..900).map(|second| said("new", second, &format!("needle {second}"))).collect();
    write(&folder, "new.jsonl", &many);
    let index = indexed(&folder);
    let found = search(&index, "needle");
    assert_eq!(found.iter().map(|session| &*session.id).collect::<Vec<_>>(), ["new", "old"]);
    assert_eq!((found[0].hits.len(), found[0].more), (3, 47));
    let mut one = SearchOptions::default();
    one.sessions = 1;
    assert!(search_with(&index, "needle", &one).more);
}

#[test]
fn texts_without_a_time_in_one_second_are_all_found() {
    let folder = TempFolder::new();
    let line = |number: u32| {
        json!({ "type": "assistant", "session_id": "s", "message": { "id": format!("m{number}"), "role": "assistant",
            "content": [{ "type": "text", "text": format!("needle n{number}") }] } })
        .to_string()
    };
    let mut all = vec![
        json!({ "type": "system", "subtype": "init", "session_id": "s", "model": "m", "cwd": "/x", "tools": [] }).to_string(),
    ];
    all.extend((0..3_000).map(line));
    write(&folder, "stream.jsonl", &all);
    let index = indexed(&folder);
    for number in [0, 1_023, 1_024, 2_999] {
        assert_eq!(search(&index, &format!("needle n{number}")).len(), 1, "{number}");
    }
}

#[test]
fn snippets_have_no_secrets_and_no_halves_of_them() {
    let folder = TempFolder::new();
    let key = format!("sk-ant-api03-{}", "Ab3dEf6hIj9k".repeat(8));
    let near = format!("{}zebra {key} zebra", "word ".repeat(30));
    write(
        &folder,
        "a.jsonl",
        &[
            prompt("s", 1, &near),
            call("s", 2, "Login", &json!({ "user": "zebra", "password": "hunter2hunter2" })),
            output("s", 3, 2, &format!("zebra token={key}"), false),
        ],
    );
    let index = indexed(&folder);
    for width in 1..200 {
        let mut options = SearchOptions::default();
        options.width = width;
        for query in ["zebra", "sk ant", "hunter2hunter2", "is:call", "is:prompt"] {
            let shown = lines(&search_with(&index, query, &options).sessions).join("\n");
            assert!(
                !shown.contains("Ab3d") && !shown.contains("sk-ant-api") && !shown.contains("hunter2"),
                "{width} {query}: {shown}"
            );
        }
    }
    let call = lines(&search(&index, "hunter2hunter2"));
    assert_eq!(call, ["s call Login: [redacted] zebra"]);
}

#[test]
fn long_texts_are_found_at_their_beginning_and_at_their_end() {
    let folder = TempFolder::new();
    let long = format!("alpha {} beta {} omega", "x ".repeat(40_000), "y ".repeat(20_000));
    write(&folder, "a.jsonl", &[call("s", 1, "Bash", &json!({ "command": "make" })), output("s", 2, 1, &long, false)]);
    let mut index = TextIndex::in_memory().unwrap();
    let updated = index.update(&Places::below(&[folder.to_owned()]), &AtomicBool::new(false), |_| {}).unwrap();
    assert_eq!(updated.cut, 1);
    assert_eq!((search(&index, "alpha").len(), search(&index, "beta").len(), search(&index, "omega").len()), (1, 0, 1));
    assert!(lines(&search(&index, "omega"))[0].contains("[omega]"));
}

#[test]
fn damaged_lines_and_strange_files_do_no_harm() {
    let folder = TempFolder::new();
    let good = prompt("s", 1, "needle");
    let mut bytes = b"\0\0\0\n{\"type\":\"user\"\n\xff\xfe{}\n\n[1,2]\n".to_vec();
    bytes.extend(good.as_bytes());
    bytes.extend(b"\n{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":\"half \\ud83d emoji needle\"}}\n");
    fs::write(folder.join("a.jsonl"), bytes).unwrap();
    fs::write(folder.join("b.jsonl"), "no session at all\n").unwrap();
    fs::write(folder.join("c.jsonl"), "").unwrap();
    fs::write(folder.join("d.jsonl.zst"), "not packed").unwrap();
    let mut index = TextIndex::in_memory().unwrap();
    let updated = index.update(&Places::below(&[folder.to_owned()]), &AtomicBool::new(false), |_| {}).unwrap();
    assert_eq!(updated.unreadable.len(), 1);
    assert_eq!(search(&index, "needle")[0].hits.len(), 2);
}

#[test]
fn a_damaged_index_is_built_again_and_all_its_files_are_private() {
    let folder = TempFolder::new();
    let (sessions, home) = (folder.join("sessions"), folder.join("index"));
    write(&folder, "sessions/a.jsonl", &[prompt("s", 1, "needle")]);
    update(&mut TextIndex::open(&home).unwrap(), &sessions);
    fs::write(home.join("text.db"), "this is no database, and long enough to be taken for one ".repeat(40)).unwrap();
    let mut index = TextIndex::open(&home).unwrap();
    assert!(index.was_damaged());
    update(&mut index, &sessions);
    assert_eq!(search(&index, "needle").len(), 1);
    for file in files_below(&home) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    assert_eq!(mode(&home), 0o700);
}

#[test]
fn several_indexes_of_one_folder_agree() {
    let folder = TempFolder::new();
    let (sessions, home) = (folder.join("sessions"), folder.join("index"));
    for file in 0..20 {
        write(&folder, &format!("sessions/{file}.jsonl"), &[prompt(&format!("s{file}"), file + 1, "needle")]);
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| update(&mut TextIndex::open(&home).unwrap(), &sessions));
        }
    });
    let mut index = TextIndex::open(&home).unwrap();
    assert_eq!(update(&mut index, &sessions), 0);
    let mut options = SearchOptions::default();
    options.sessions = 100;
    let found = search_with(&index, "needle", &options).sessions;
    assert_eq!(found.len(), 20);
    assert!(found.iter().all(|session| session.hits.len() == 1 && session.hits[0].kind == EntryKind::Prompt));
}

#[test]
fn an_interrupted_update_goes_on_next_time() {
    let folder = TempFolder::new();
    let (sessions, home) = (folder.join("sessions"), folder.join("index"));
    let lines: Vec<String> =
        (0..3_000).map(|second| said("s", second, &format!("n{second} {}", "filler ".repeat(200)))).collect();
    write(&folder, "sessions/a.jsonl", &lines);
    let places = Places::below(std::slice::from_ref(&sessions));
    let stop = AtomicBool::new(false);
    let mut index = TextIndex::open(&home).unwrap();
    let updated = index.update(&places, &stop, |_| stop.store(true, Ordering::Relaxed)).unwrap();
    assert!(updated.interrupted, "{updated:?}");
    drop(index);
    let mut index = TextIndex::open(&home).unwrap();
    update(&mut index, &sessions);
    for number in [0, 1, 1_500, 2_998, 2_999] {
        assert_eq!(search(&index, &format!("n{number}")).iter().map(|found| found.hits.len()).sum::<usize>(), 1, "{number}");
    }
}
