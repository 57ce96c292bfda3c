//! Damaged, growing, rewritten and unreadable files: the numbers of all that can be read stay right, and what cannot be
//! read is named.

use std::collections::HashMap;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use tapline_archive::{Index, Places};
use tapline_testkit::{TempFolder, rounds};

use crate::totals::{case, counted, fresh, tokens as tokens_of, transcripts, update};

/// Lines that no agent writes whole: what a crash, a full disk or another program leaves behind.
const DAMAGED: &[&[u8]] = &[
    b"{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":7",
    b"\"usage\":{\"input_tokens\":7}}",
    b"\0\0\0\0\0\0\0\0",
    b"{\"type\":\"assistant\",\"message\":{\"usage\":{\"input_tokens\":\xff\xfe}}}",
    b"]}\"usage\":{,",
];

#[test]
fn damaged_lines_between_all_others_change_no_number_and_are_counted() {
    let folder = TempFolder::new();
    for name in ["claude-fork", "claude-subagents", "codex-fork", "codex-0.142.0"] {
        for path in transcripts(name) {
            let whole = std::fs::read(&path).unwrap();
            let mut damaged = Vec::new();
            for (at, line) in whole.split_inclusive(|byte| *byte == b'\n').enumerate() {
                damaged.extend(line);
                damaged.extend(DAMAGED[at % DAMAGED.len()]);
                damaged.push(b'\n');
            }
            let written = folder.write(path.file_name().unwrap().to_str().unwrap(), &damaged);
            let (got, wanted) = (fresh(&written), fresh(&path));
            assert_eq!(got["totals"], wanted["totals"], "{}", path.display());
            assert!(got["damaged_lines"].as_u64().unwrap() > 0, "{}", path.display());
            assert_eq!(wanted["damaged_lines"], 0, "{}", path.display());
        }
    }
}

/// After a crash of the machine, the end of a file can be a run of NULs, and the next line is written behind it.
#[test]
fn a_line_behind_a_run_of_nuls_is_read() {
    let folder = TempFolder::new();
    for path in transcripts("claude-fork") {
        let whole = std::fs::read(&path).unwrap();
        let mut behind = Vec::new();
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            behind.extend([0; 37]);
            behind.extend(line);
        }
        let written = folder.write(path.file_name().unwrap().to_str().unwrap(), &behind);
        assert_eq!(fresh(&written)["totals"], fresh(&path)["totals"], "{}", path.display());
    }
}

#[test]
fn half_an_emoji_and_bytes_that_are_no_text_do_not_hide_a_message() {
    let folder = TempFolder::new();
    let line = |id: &str, text: &[u8]| {
        let start = format!(
            "{{\"type\":\"assistant\",\"sessionId\":\"s\",\"timestamp\":\"2026-11-16T10:00:00.000Z\",\"message\":{{\"id\":\"{id}\",\"model\":\"claude-opus-5-5\",\"content\":[{{\"type\":\"text\",\"text\":\""
        );
        let end = b"\"}],\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n";
        [start.as_bytes(), text, end].concat()
    };
    let texts: &[&[u8]] = &[b"\\ud83d", b"\\udca9\\ud83d", b"\xf0\x9f\x92", b"\xff", "😀".as_bytes()];
    let lines: Vec<u8> = texts.iter().enumerate().flat_map(|(at, text)| line(&format!("m{at}"), text)).collect();
    let got = fresh(&folder.write("a.jsonl", lines));
    assert_eq!(got["totals"]["requests"], texts.len(), "{got}");
    assert_eq!(tokens_of(&got), [50, 5, 0, 0]);
    assert_eq!(got["damaged_lines"], 0);
}

/// What was read at any moment, and after the rest came, is what a single reading of the same bytes gives.
fn grows(bytes: &[u8], offsets: impl Iterator<Item = usize>, name: &str) {
    let folder = TempFolder::new();
    let path = folder.join("a.jsonl");
    std::fs::write(&path, bytes).unwrap();
    let whole = fresh(&path);
    // What the complete lines say is the same wherever the line behind them is cut.
    let mut of_complete = HashMap::new();
    for offset in offsets {
        std::fs::write(&path, &bytes[..offset]).unwrap();
        let mut index = Index::in_memory().unwrap();
        update(&mut index, &path);
        let at_first = counted(&index);
        // No number may be of a line that is not complete.
        let complete = bytes[..offset].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        if serde_json::from_slice::<Value>(&bytes[complete..offset]).is_err() {
            let expected = of_complete.entry(complete).or_insert_with(|| {
                std::fs::write(&path, &bytes[..complete]).unwrap();
                let expected = fresh(&path);
                std::fs::write(&path, &bytes[..offset]).unwrap();
                expected
            });
            assert_eq!(at_first, *expected, "{name}: cut at {offset}");
        }
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(&bytes[offset..]).unwrap();
        update(&mut index, &path);
        assert_eq!(counted(&index), whole, "{name}: grown from {offset}");
    }
}

/// Lets the files of these cases grow; returns at how many bytes.
fn grow_all(names: &[&str]) -> usize {
    let mut grown = 0;
    for name in names {
        let streams = std::fs::read_dir(case(name)).unwrap().map(|entry| entry.unwrap().path());
        let streams = streams.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
        for path in transcripts(name).into_iter().chain(streams) {
            let bytes = std::fs::read(&path).unwrap();
            let shown = path.display().to_string();
            let offsets: Vec<usize> = if bytes.len() < 400 || shown.ends_with("agent-af6cf33.jsonl") {
                (0..=bytes.len()).step_by(rounds(7, 1)).collect()
            } else {
                // Around the end of every line, and at some bytes between.
                let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
                ends.step_by(rounds(5, 1))
                    .flat_map(|at| [at, at + 1])
                    .chain((0..bytes.len()).step_by(rounds(9_001, 2_003)))
                    .collect()
            };
            grown += offsets.len();
            grows(&bytes, offsets.into_iter(), &shown);
        }
    }
    grown
}

// Two tests, so that they run at once.
#[test]
fn a_file_that_grows_at_any_byte_is_counted_as_if_it_was_read_at_once() {
    assert!(grow_all(&["claude-models", "claude-fork", "claude-2.0.76"]) > rounds(150, 1_000));
}

#[test]
fn so_is_a_rollout_that_grows_at_any_byte() {
    assert!(grow_all(&["codex-fork", "codex-0.60.1"]) > rounds(150, 1_000));
}

#[test]
fn a_file_that_grows_line_by_line_is_counted_as_if_it_was_read_at_once() {
    let folder = TempFolder::new();
    for name in ["claude-fork", "claude-subagents", "claude-compact", "codex-fork", "codex-0.142.0", "codex-compact"] {
        for path in transcripts(name) {
            let bytes = std::fs::read(&path).unwrap();
            let written = folder.write("a.jsonl", b"");
            let mut index = Index::in_memory().unwrap();
            let mut file = std::fs::OpenOptions::new().append(true).open(&written).unwrap();
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                file.write_all(line).unwrap();
                update(&mut index, &written);
            }
            assert_eq!(counted(&index), fresh(&written), "{}", path.display());
        }
    }
}

#[test]
fn a_rewritten_file_is_read_again() {
    let folder = TempFolder::new();
    let all = transcripts("claude-fork");
    let (one, other) = (std::fs::read(&all[0]).unwrap(), std::fs::read(&all[1]).unwrap());
    let longer: Vec<u8> = [&other[..], &one[..]].concat();
    // The last one has the length of the first one, and another text.
    let text = String::from_utf8(one.clone()).unwrap();
    let changed = text.replacen("\"input_tokens\":", "\"input_tokenz\":", 2).into_bytes();
    assert_eq!(changed.len(), one.len());
    let path = folder.join("a.jsonl");
    let mut index = Index::in_memory().unwrap();
    for (at, bytes) in [&one, &other, &longer, &one, &Vec::new(), &other, &one, &changed, &one].into_iter().enumerate() {
        std::fs::write(&path, bytes).unwrap();
        // A file system may write times in coarse steps.
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_794_800_000 + at as u64);
        std::fs::File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
        update(&mut index, &path);
        assert_eq!(counted(&index), fresh(&path), "version {at}");
    }
}

#[test]
#[cfg(target_os = "linux")] // /proc/self/mem
fn what_cannot_be_read_is_named_and_the_rest_is_counted() {
    let folder = TempFolder::new();
    let good = &transcripts("claude-models")[0];
    std::fs::copy(good, folder.join("good.jsonl")).unwrap();
    let wanted = fresh(&folder.join("good.jsonl"));
    // The memory of this process at address 0 is a file that gives an error to everybody, root included.
    let broken = TempFolder::new();
    symlink("/proc/self/mem", broken.join("broken.jsonl")).unwrap();
    let paths = [folder.join(""), broken.join("broken.jsonl")];
    let update = |index: &mut Index| index.update(&Places::below(&paths), &AtomicBool::new(false), |_| {}).unwrap();
    folder.write("torn.jsonl.zst", b"\x28\xb5\x2f\xfd\x00\x58\x01\x00");
    folder.write("not.jsonl.zst", b"not packed at all");
    // Nothing of these is a session, and nobody waits for them.
    symlink(folder.join("nowhere"), folder.join("nowhere.jsonl")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.join("pipe.jsonl"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    std::fs::create_dir(folder.join("folder.jsonl")).unwrap();
    folder.write("empty.jsonl", b"");
    folder.write("other.json", b"{\"name\":\"package\"}");
    for _ in 0..2 {
        let mut index = Index::in_memory().unwrap();
        let updated = update(&mut index);
        let mut named: Vec<_> =
            updated.unreadable.iter().map(|(path, _)| path.file_name().unwrap().to_str().unwrap()).collect();
        named.sort_unstable();
        assert_eq!(named, ["broken.jsonl", "not.jsonl.zst", "torn.jsonl.zst"]);
        assert_eq!(counted(&index), wanted);
        // It is named again until it can be read.
        assert_eq!(update(&mut index).unreadable.len(), 3);
    }
    let places = Places::below(&[folder.join("missing"), folder.join("good.jsonl")]);
    assert_eq!(places.unreadable.len(), 1);
    assert_eq!(places.files.len(), 1);
}

#[test]
fn links_in_circles_end_and_a_linked_file_counts_once() {
    let folder = TempFolder::new();
    let good = &transcripts("claude-models")[0];
    std::fs::create_dir_all(folder.join("a/b")).unwrap();
    std::fs::copy(good, folder.join("a/b/good.jsonl")).unwrap();
    symlink("../..", folder.join("a/b/up")).unwrap();
    symlink("b", folder.join("a/c")).unwrap();
    symlink("itself", folder.join("a/itself")).unwrap();
    symlink(folder.join("a/b/good.jsonl"), folder.join("a/linked.jsonl")).unwrap();
    assert_eq!(fresh(&folder)["totals"], fresh(good)["totals"]);
}

#[test]
fn a_torn_end_is_not_counted_and_does_not_hide_what_is_before_it() {
    let folder = TempFolder::new();
    for path in transcripts("claude-fork") {
        let mut torn = std::fs::read(&path).unwrap();
        let wanted = fresh(&path);
        torn.extend(br#"{"type":"assistant","sessionId":"x","message":{"id":"torn","usage":{"input_tokens":99999,"output_tok"#);
        let written = folder.write("a.jsonl", &torn);
        let got = fresh(&written);
        assert_eq!(got["totals"], wanted["totals"]);
        assert_eq!(got["damaged_lines"], 0, "it is still being written");
    }
}

/// A result of a stream, and an answer of a transcript, with these figures.
fn with_figures(cost: &str, tokens: &str) -> [String; 2] {
    let usage = format!("\"usage\":{{\"input_tokens\":{tokens},\"output_tokens\":5}}");
    let models =
        format!("\"modelUsage\":{{\"claude-opus-5-5\":{{\"inputTokens\":{tokens},\"outputTokens\":5,\"costUSD\":{cost}}}}}");
    let result = format!(
        "{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"session_id\":\"s\",\"total_cost_usd\":{cost},{usage},{models}}}\n"
    );
    let message = format!("{{\"id\":\"m\",\"role\":\"assistant\",\"model\":\"claude-opus-5-5\",\"content\":[],{usage}}}");
    let answer = format!(
        "{{\"parentUuid\":null,\"type\":\"assistant\",\"sessionId\":\"s\",\"uuid\":\"u\",\"timestamp\":\"2026-11-16T10:00:00.000Z\",\"message\":{message}}}\n"
    );
    [result, answer]
}

#[test]
fn figures_that_cannot_be_true_do_not_count() {
    for (cost, tokens) in
        [("1e308", "7"), ("-5000", "7"), ("100000.01", "7"), ("0.5", "1e19"), ("0.5", "-5"), ("1e999", "9e18")]
    {
        for line in with_figures(cost, tokens) {
            let folder = TempFolder::new();
            let counted = fresh(&folder.write("a.jsonl", &line));
            let (spent, input) = (counted["totals"]["cost_usd"].as_f64().unwrap(), tokens_of(&counted)[0]);
            assert!(spent < 1.0 && input <= 7, "{line}: {counted}");
            let is_read = !line.contains("\"result\"") && tokens == "7";
            assert_eq!(counted["damaged_lines"], u64::from(!is_read), "{line}: {counted}");
            assert!(is_read || counted["damaged_files"][0]["path"].as_str().unwrap().ends_with("a.jsonl"), "{counted}");
        }
    }
    // Rollouts.
    for (record, tokens) in [("1e19", "1e19"), ("-3", "-3")] {
        let usage = format!("\"input_tokens\":{record},\"cached_input_tokens\":0,\"output_tokens\":1");
        let total = format!("{{\"total_token_usage\":{{{usage}}},\"last_token_usage\":{{{usage}}}}}");
        let lines = format!(
            "{{\"timestamp\":\"2026-11-16T10:00:00Z\",\"type\":\"session_meta\",\"payload\":{{\"id\":\"c\",\"cli_version\":\"1\"}}}}\n\
             {{\"timestamp\":\"2026-11-16T10:00:01Z\",\"type\":\"event_msg\",\"payload\":{{\"type\":\"token_count\",\"info\":{total}}}}}\n\
             {{\"timestamp\":\"2026-11-16T10:00:02Z\",\"type\":\"token_usage_record\",\"payload\":{{\"response_id\":\"r\",\"usage\":{{{usage}}}}}}}\n"
        );
        let folder = TempFolder::new();
        let counted = fresh(&folder.write("rollout.jsonl", &lines));
        assert_eq!(tokens_of(&counted), [0, 0, 0, 0], "{tokens}: {counted}");
        assert_eq!(counted["damaged_lines"], 2, "{counted}");
    }
}
