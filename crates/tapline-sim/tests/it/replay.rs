//! A replay is the agent again: the same bytes and end, answers with the host's own ids, faults on demand; whatever was cut.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use tapline_recording::{End, Stream};
use tapline_sim::{Played, ReplayOptions, Speed};
use tapline_testkit::TempFolder;

use crate::recordings::{conversation, converse, play, record, record_every};

fn simple() -> Vec<(char, String)> {
    let line = |who, text: &str| (who, format!("{text}\n"));
    vec![
        line('<', r#"{"type":"system","subtype":"init","claude_code_version":"2.1.325"}"#),
        line('!', "a warning"),
        line('<', r#"{"type":"assistant","message":{"content":[{"type":"text","text":"the result of \"result\""}]}}"#),
        line('<', r#"{"subtype":"success","type":"result"}"#),
        line('<', r#"{"type":"system","subtype":"notification"}"#),
    ]
}

fn all(said: &[(char, String)], who: char) -> String {
    said.iter().filter(|(speaker, _)| *speaker == who).map(|(_, text)| text.as_str()).collect()
}

/// The same line of a host with other ids. Those of the API (`req_sim_1`) are not the host's.
fn with_ids(text: &str, prefix: &str) -> String {
    (0..10).fold(text.to_owned(), |text, digit| text.replace(&format!("\"req_{digit}"), &format!("\"{prefix}{digit}")))
}

fn ended(exit_code: i32) -> End {
    End { exit_code: Some(exit_code), ..End::default() }
}

#[test]
fn the_same_bytes_and_the_same_end() {
    let folder = TempFolder::new();
    for (at, end) in [ended(0), ended(7), End { signal: Some("SIGTERM".to_owned()), ..End::default() }].iter().enumerate() {
        let path = folder.join(at.to_string());
        record(&path, &simple(), end);
        for chunks in [None, NonZeroUsize::new(1), NonZeroUsize::new(7)] {
            let saw = play(&path, &ReplayOptions { chunks, ..ReplayOptions::default() }, "");
            assert_eq!(saw.stdout, all(&simple(), '<'));
            assert_eq!(saw.stderr, all(&simple(), '!'));
            let wanted = end.exit_code.map_or(Played::Signal("SIGTERM".to_owned()), Played::Exit);
            assert_eq!(saw.played, wanted);
        }
    }
}

#[test]
fn it_takes_its_time() {
    let folder = TempFolder::new();
    record(&folder.join("r"), &simple(), &ended(0));
    let timed = |speed| {
        let start = Instant::now();
        play(&folder.join("r"), &ReplayOptions { speed, ..ReplayOptions::default() }, "");
        start.elapsed()
    };
    assert!(timed(Speed::Times(1.0)) >= Duration::from_millis(40));
    assert!(timed(Speed::Times(0.25)) >= Duration::from_millis(160));
    // An hour of silence is passed over: this would not end today.
    record_every(Duration::from_secs(3600), &folder.join("slow"), &simple(), &ended(0));
    let options = ReplayOptions { speed: Speed::Instant, ..ReplayOptions::default() };
    assert_eq!(play(&folder.join("slow"), &options, "").stdout, all(&simple(), '<'));
}

#[test]
fn a_conversation_is_had_again_with_the_hosts_own_ids() {
    let folder = TempFolder::new();
    let said = conversation();
    record(&folder.join("r"), &said, &ended(1));
    let options = ReplayOptions { strict: true, ..ReplayOptions::default() };
    // Every id of the host's is another, and of another length.
    let change = |text: &str| with_ids(text, "a-much-longer-id-");
    let (read, played) = converse(&folder.join("r"), &options, &said, change);
    let wanted: Vec<String> =
        said.iter().filter(|(who, _)| *who == '<').map(|(_, text)| with_ids(text, "a-much-longer-id-")).collect();
    assert_eq!(read, wanted);
    assert_eq!(played, Played::Exit(1));
    assert!(wanted.iter().any(|line| line.contains("a-much-longer-id-5")), "there is something to map");
}

#[test]
fn a_host_that_departs_is_told_where() {
    let folder = TempFolder::new();
    let said = conversation();
    record(&folder.join("r"), &said, &ended(1));
    let strict = ReplayOptions { strict: true, ..ReplayOptions::default() };
    let departs = |change: &dyn Fn(&str) -> String| match converse(&folder.join("r"), &strict, &said, change).1 {
        Played::Departed(why) => why,
        other => panic!("{other:?}"),
    };
    let why = departs(&|text| text.replace("\"mode\": \"acceptEdits\"", "\"mode\": \"plan\""));
    assert!(
        why.contains("set_permission_mode")
            && why.contains(".request.mode")
            && why.contains("acceptEdits")
            && why.contains("plan"),
        "{why}"
    );
    let why = departs(&|text| text.replace("no writes today", "yes"));
    assert!(why.contains("answer to") && why.contains("no writes today"), "{why}");
    let why = departs(&|text| text.replace("\"subtype\": \"mcp_status\"", "\"subtype\": \"get_usage\""));
    assert!(why.contains("get_usage") && why.contains("not recorded"), "{why}");
    let why = departs(&|text| if text.contains("go slow") { String::new() } else { text.to_owned() });
    assert!(why.contains("closed before") && why.contains("user"), "{why}");
    let why = departs(&|text| text.replace("\"content\": \"do it\"", "\"content\": \"do it\", \"extra\": 1"));
    assert!(why.contains(".message.extra"), "{why}");
}

#[test]
fn without_strict_a_host_may_depart_and_nobody_hangs() {
    let folder = TempFolder::new();
    let said = conversation();
    record(&folder.join("r"), &said, &ended(1));
    // It asks what was never asked: the answer is an error, at once; and it leaves early.
    let asks = "{\"type\":\"control_request\",\"request_id\":\"mine\",\"request\":{\"subtype\":\"brew_coffee\"}}\n";
    let saw = play(&folder.join("r"), &ReplayOptions::default(), asks);
    let refusal = saw.stdout.lines().find(|line| line.contains("\"mine\"")).unwrap();
    assert!(refusal.contains("\"subtype\":\"error\"") && refusal.contains("brew_coffee"), "{refusal}");
    let lines = all(&said, '<').lines().count();
    assert_eq!(saw.stdout.lines().count(), lines + 1, "all that was recorded is played");
    assert_eq!(saw.played, Played::Exit(1));
}

#[test]
fn a_host_that_asks_in_another_order_gets_its_answers() {
    let folder = TempFolder::new();
    let request = |id: &str, asked: &str| {
        ('>', format!("{{\"type\":\"control_request\",\"request_id\":\"{id}\",\"request\":{{\"subtype\":\"{asked}\"}}}}\n"))
    };
    let answer = |id: &str, text: &str| {
        (
            '<',
            format!(
                "{{\"type\":\"control_response\",\"response\":{{\"subtype\":\"success\",\"request_id\":\"{id}\",\"response\":{{\"a\":\"{text}\"}}}}}}\n"
            ),
        )
    };
    let said = [request("1", "set_model"), answer("1", "model"), request("2", "mcp_status"), answer("2", "status")];
    record(&folder.join("r"), &said, &ended(0));
    // The second first, and nothing else before its answer is there.
    let other = [request("x", "mcp_status"), answer("x", "status"), request("y", "set_model"), answer("y", "model")];
    let (read, played) = converse(&folder.join("r"), &ReplayOptions::default(), &other, str::to_owned);
    assert_eq!(read, [other[1].1.clone(), other[3].1.clone()]);
    assert_eq!(played, Played::Exit(0));
}

#[test]
fn only_ids_are_mapped_and_all_of_them() {
    let folder = TempFolder::new();
    for (recorded, here) in [("\"1\"", "\"longer\""), ("\"a\\\"b\\u00e9\"", "7"), ("\"type\"", "\"x\"")] {
        let request = |id: &str| {
            ('>', format!("{{\"type\":\"control_request\",\"request_id\":{id},\"request\":{{\"subtype\":\"mcp_status\"}}}}\n"))
        };
        let answer = |id: &str| {
            ('<', format!("{{\"type\":\"control_response\",\"response\":{{\"subtype\":\"success\",\"request_id\":{id}}}}}\n"))
        };
        let other = ('<', "{\"type\":\"assistant\",\"taskId\":\"1\",\"text\":\"type\",\"request_id\":\"1\"}\n".to_owned());
        let path = folder.join(recorded.len().to_string());
        record(&path, &[request(recorded), answer(recorded), other.clone()], &ended(0));
        let (read, _) =
            converse(&path, &ReplayOptions::default(), &[request(here), answer(here), other.clone()], str::to_owned);
        assert_eq!(read, [answer(here).1, other.1]);
    }
}

#[test]
fn requests_of_one_kind_get_each_its_own_answer() {
    let folder = TempFolder::new();
    let request = |id: &str, what: &str| {
        (
            '>',
            format!(
                "{{\"type\":\"control_request\",\"request_id\":\"{id}\",\"request\":{{\"subtype\":\"read_file\",\"path\":\"{what}\"}}}}\n"
            ),
        )
    };
    let answer = |id: &str, what: &str| {
        ('<', format!("{{\"type\":\"control_response\",\"response\":{{\"request_id\":\"{id}\",\"contents\":\"{what}\"}}}}\n"))
    };
    record(&folder.join("r"), &[request("1", "a"), request("2", "b"), answer("1", "a"), answer("2", "b")], &ended(0));
    let (read, _) = converse(
        &folder.join("r"),
        &ReplayOptions::default(),
        &[request("x", "b"), request("y", "a"), answer("y", "a"), answer("x", "b")],
        str::to_owned,
    );
    assert_eq!(read, [answer("y", "a").1, answer("x", "b").1]);
}

#[test]
fn an_answer_in_a_pause_is_not_put_off() {
    let folder = TempFolder::new();
    let said = [('<', "{\"type\":\"system\",\"n\":1}\n".to_owned()), ('<', "{\"type\":\"system\",\"n\":2}\n".to_owned())];
    record(&folder.join("r"), &said, &ended(0));
    // Ten milliseconds, ten thousand times as slow: it is answered long before.
    let slow = ReplayOptions { speed: Speed::Times(0.0001), stop_after: Some(1), ..ReplayOptions::default() };
    let asks = "{\"type\":\"control_request\",\"request_id\":\"q\",\"request\":{\"subtype\":\"new\"}}\n";
    let strict = ReplayOptions { strict: true, stop_after: None, ..slow };
    let saw = play(&folder.join("r"), &strict, asks);
    assert!(matches!(saw.played, Played::Departed(_)), "{:?}", saw.played);
}

#[test]
fn cut_in_the_middle_of_what_the_host_sent_nobody_waits_for_it() {
    let folder = TempFolder::new();
    let said = conversation();
    record(&folder.join("r"), &said, &ended(1));
    let path = folder.join("r").join(Stream::Stdin.file_name());
    let bytes = std::fs::read(&path).unwrap();
    let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    std::fs::write(&path, &bytes[..last + 20]).unwrap();
    // The host keeps its end open until it has read everything.
    let (read, _) = converse(&folder.join("r"), &ReplayOptions::default(), &said, str::to_owned);
    // What it asked there was never recorded whole: it is told so, beside all that was.
    assert_eq!(read.len(), said.iter().filter(|(who, _)| *who == '<').count() + 1);
}

#[test]
fn half_a_line_is_not_kept_from_a_host_that_waits_for_it() {
    let folder = TempFolder::new();
    let said = [
        ('<', "{\"type\":\"a\"}\nready? ".to_owned()),
        ('>', "{\"type\":\"user\"}\n".to_owned()),
        ('<', "yes\n{\"type\":\"b\"}\n".to_owned()),
    ];
    record(&folder.join("r"), &said, &ended(0));
    let recording = tapline_recording::Recording::open(&folder.join("r")).unwrap();
    let (ours, mut stdin) = std::os::unix::net::UnixStream::pair().unwrap();
    let (out, mut stdout) = std::os::unix::net::UnixStream::pair().unwrap();
    let host = tapline_sim::HostEnds { stdin: Some(Box::new(ours)), stdout: Box::new(out), stderr: Box::new(std::io::sink()) };
    let playing = std::thread::spawn(move || tapline_sim::replay(&recording, &ReplayOptions::default(), host).unwrap());
    let mut first = vec![0; said[0].1.len()];
    std::io::Read::read_exact(&mut stdout, &mut first).unwrap();
    std::io::Write::write_all(&mut stdin, said[1].1.as_bytes()).unwrap();
    drop(stdin);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut rest).unwrap();
    assert_eq!((String::from_utf8(first).unwrap(), rest), (said[0].1.clone(), said[2].1.clone()));
    assert_eq!(playing.join().unwrap(), Played::Exit(0));
}

#[test]
fn a_strict_host_may_speak_of_its_own_messages() {
    let folder = TempFolder::new();
    let (recorded, here) = ("0f5f9a2e-0000-4000-8000-000000000001", "0f5f9a2e-0000-4000-8000-00000000000a");
    let said = |uuid: &str| {
        [
            ('>', format!("{{\"type\":\"user\",\"uuid\":\"{uuid}\"}}\n")),
            ('<', "{\"type\":\"assistant\"}\n".to_owned()),
            (
                '>',
                format!(
                    "{{\"type\":\"control_request\",\"request_id\":\"1\",\"request\":{{\"subtype\":\"rewind_files\",\"user_message_id\":\"{uuid}\"}}}}\n"
                ),
            ),
        ]
    };
    record(&folder.join("r"), &said(recorded), &ended(0));
    let strict = ReplayOptions { strict: true, ..ReplayOptions::default() };
    assert_eq!(converse(&folder.join("r"), &strict, &said(here), str::to_owned).1, Played::Exit(0));
    let wrong = converse(&folder.join("r"), &strict, &said(recorded), |text| {
        text.replace("user_message_id\":\"0f", "user_message_id\":\"1f")
    })
    .1;
    assert!(matches!(wrong, Played::Departed(_)), "{wrong:?}");
}

#[test]
fn ids_of_messages_are_the_hosts_too() {
    let folder = TempFolder::new();
    let uuid = "0f5f9a2e-0000-4000-8000-000000000001";
    let said = [
        ('>', format!("{{\"type\":\"user\",\"uuid\":\"{uuid}\",\"message\":{{\"role\":\"user\",\"content\":\"hi\"}}}}\n")),
        (
            '<',
            format!(
                "{{\"type\":\"system\",\"subtype\":\"command_lifecycle\",\"command_uuid\":\"{uuid}\",\"state\":\"queued\"}}\n"
            ),
        ),
        (
            '<',
            format!(
                "{{\"type\":\"assistant\",\"text\":\"not \\\"{uuid}\\\" in a text\",\"user_message_uuids\":[\"{uuid}\"]}}\n"
            ),
        ),
    ];
    record(&folder.join("r"), &said, &ended(0));
    let (read, _) = converse(&folder.join("r"), &ReplayOptions::default(), &said, |text| text.replace(uuid, "mine"));
    assert!(read[0].contains("\"command_uuid\":\"mine\""), "{}", read[0]);
    assert!(read[1].contains(&format!("not \\\"{uuid}\\\" in a text")) && read[1].contains("[\"mine\"]"), "{}", read[1]);
}

#[test]
fn faults_on_demand() {
    let folder = TempFolder::new();
    record(&folder.join("r"), &simple(), &ended(0));
    let lines: Vec<String> = simple().into_iter().filter(|(who, _)| *who == '<').map(|(_, text)| text).collect();
    for count in 0..=5 {
        let saw = play(&folder.join("r"), &ReplayOptions { stop_after: Some(count), ..ReplayOptions::default() }, "");
        assert_eq!(saw.stdout, lines[..usize::try_from(count).unwrap().min(lines.len())].concat());
        assert_eq!(saw.played, Played::Exit(0), "it ends as if that were all");
    }
    let saw = play(&folder.join("r"), &ReplayOptions { drop_result: true, ..ReplayOptions::default() }, "");
    assert_eq!(saw.stdout, [&lines[0], &lines[1], &lines[3]].map(String::as_str).concat());
}

#[test]
fn a_prompt_is_awaited_and_held_against_the_recorded_one() {
    let folder = TempFolder::new();
    let said: Vec<_> = std::iter::once(('>', "What is this?".to_owned())).chain(simple()).collect();
    record(&folder.join("r"), &said, &ended(0));
    let strict = ReplayOptions { strict: true, ..ReplayOptions::default() };
    assert_eq!(play(&folder.join("r"), &strict, "What is this?").played, Played::Exit(0));
    let Played::Departed(why) = play(&folder.join("r"), &strict, "What is that?").played else { panic!("it departs") };
    assert!(why.contains("byte 10"), "{why}");
    assert_eq!(play(&folder.join("r"), &ReplayOptions::default(), "anything").stdout, all(&said, '<'));
}

#[test]
fn cut_at_any_byte_it_plays_to_its_end_and_says_so() {
    let folder = TempFolder::new();
    let said: Vec<_> = std::iter::once(('>', "{\"type\":\"user\"}\n".to_owned())).chain(simple()).collect();
    record(&folder.join("whole"), &said, &ended(0));
    assert_eq!(tapline_recording::Recording::open(&folder.join("whole")).unwrap().flaws(), Vec::<String>::new());
    for file in ["stdout", "stderr", "stdin", "times", "meta.json", "end.json"] {
        let bytes = std::fs::read(folder.join("whole").join(file)).unwrap();
        // The last byte of JSON is its line end: without it, nothing is missing. The last line of times says that stdin was closed: not
        // every recording has it.
        let closing = bytes
            .iter()
            .rposition(|byte| *byte == b'\n' && file == "times")
            .and_then(|end| bytes[..end].iter().rposition(|byte| *byte == b'\n'));
        let most = if file.contains("json") { bytes.len() - 1 } else { bytes.len() };
        for cut in (0..most).filter(|cut| closing.is_none_or(|closing| *cut != closing + 1)) {
            let path = folder.join(format!("{file}-{cut}"));
            std::fs::create_dir(&path).unwrap();
            for entry in std::fs::read_dir(folder.join("whole")).unwrap() {
                let entry = entry.unwrap();
                std::fs::copy(entry.path(), path.join(entry.file_name())).unwrap();
            }
            std::fs::write(path.join(file), &bytes[..cut]).unwrap();
            let saw = play(&path, &ReplayOptions::default(), "{\"type\":\"user\"}\n");
            let wanted = if file == "stdout" { String::from_utf8(bytes[..cut].to_vec()).unwrap() } else { all(&said, '<') };
            assert_eq!(saw.stdout, wanted, "{file} cut at {cut}");
            let flaws = tapline_recording::Recording::open(&path).unwrap().flaws();
            assert!(!flaws.is_empty(), "{file} cut at {cut} is not told");
            assert_eq!(saw.played, if file == "end.json" { Played::NoEnd } else { Played::Exit(0) });
            std::fs::remove_dir_all(&path).unwrap();
        }
    }
}

#[test]
fn edited_by_hand_a_conversation_still_follows() {
    let folder = TempFolder::new();
    let said = conversation();
    record(&folder.join("r"), &said, &ended(1));
    let path = folder.join("r").join(Stream::Stdout.file_name());
    let longer =
        std::fs::read_to_string(&path).unwrap().replace("Done: 5.", "Done: five, and a good deal longer than it was recorded.");
    std::fs::write(&path, longer).unwrap();
    let edited: Vec<(char, String)> = said
        .iter()
        .map(|(who, text)| (*who, text.replace("Done: 5.", "Done: five, and a good deal longer than it was recorded.")))
        .collect();
    let (read, played) = converse(&folder.join("r"), &ReplayOptions::default(), &edited, |text| with_ids(text, "other-"));
    let wanted: Vec<String> = edited.iter().filter(|(who, _)| *who == '<').map(|(_, text)| with_ids(text, "other-")).collect();
    assert_eq!(read, wanted);
    assert_eq!(played, Played::Exit(1));
    // Also without any times at all.
    std::fs::remove_file(folder.join("r").join("times")).unwrap();
    let (read, _) = converse(&folder.join("r"), &ReplayOptions::default(), &edited, |text| with_ids(text, "other-"));
    assert_eq!(read, wanted);
}
