//! Many readers and much data: nothing is lost or told twice, and nothing grows.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tapline_testkit::wait_until;

use crate::stage::{Stage, TOKEN};

/// How many pieces of a session are pushed, and how many lines each of them has.
const PIECES: (usize, usize) = (40, 10);
/// How many clients leave and come back, of each kind.
const CLIENTS: u64 = 12;

type Event = (u64, String, Value);

/// A call, and with it something new in the list.
fn call(n: usize) -> String {
    let call = json!({"type": "tool_use", "id": format!("t{n}"), "name": "Bash", "input": {"command": format!("make {n}")}});
    format!("{}\n", json!({"type": "assistant", "session_id": "many-1", "message": {"role": "assistant", "content": [call]}}))
}

fn said(text: &str) -> String {
    let text = json!({"type": "text", "text": text});
    format!("{}\n", json!({"type": "assistant", "session_id": "many-1", "message": {"role": "assistant", "content": [text]}}))
}

/// Reads until an event, on many connections: each is left after a few events, with others still on their way.
fn come_and_go(stage: &Stage, path: &str, first: u64, until: u64, start: u64) -> Vec<Event> {
    let mut random = start.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let (mut seen, mut last): (Vec<Event>, u64) = (Vec::new(), first);
    while last < until {
        let mut events = stage.events(path, Some(last));
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        for _ in 0..=random % 23 {
            if last >= until {
                break;
            }
            let event = events.next();
            last = event.0;
            seen.push(event);
        }
    }
    seen
}

/// What a reader knows in the end: all steps, and the row.
fn learned(events: &[Event]) -> (BTreeMap<u64, &Value>, Option<&Value>) {
    let steps = events.iter().filter(|event| event.1 == "step");
    let row = events.iter().rfind(|event| event.1 == "row");
    (steps.map(|(_, _, step)| (step["n"].as_u64().unwrap(), step)).collect(), row.map(|event| &event.2))
}

#[test]
fn who_leaves_and_comes_back_has_every_event_once() {
    let stage = &Stage::new();
    let push = |text: &str| assert_eq!(stage.post("/api/v1/ingest/many", &[], text.as_bytes()).status, 200);
    push(&said("begin"));
    let page = stage.until("/api/v1/sessions/many-1/steps", |page| (page["total"] == 1).then(|| page.clone()));
    let (path, list) = ("/api/v1/sessions/many-1/events", "/api/v1/events");
    let from = page["event_id"].as_u64().unwrap();
    let list_from = stage.get("/api/v1/sessions").json().unwrap()["event_id"].as_u64().unwrap();
    // Those that never leave say what there was to hear.
    let (mut steady, mut steady_list) = (stage.events(path, Some(from)), stage.events(list, Some(list_from)));
    let (mut told, mut told_list): (Vec<Event>, Vec<Event>) = (Vec::new(), Vec::new());
    let (tell, ends) = std::sync::mpsc::channel::<(u64, u64)>();
    std::thread::scope(|scope| {
        let pushing = scope.spawn(|| {
            let mut n = 1;
            for _ in 0..PIECES.0 {
                let mut text = String::new();
                for _ in 0..PIECES.1 {
                    text += &if n % PIECES.1 == 0 { call(n) } else { said(&format!("text {n}")) };
                    n += 1;
                }
                push(&text);
                // More than a reader should hear of one by one would become a snapshot.
                loop {
                    told.push(steady.next());
                    if told.last().is_some_and(|(_, name, step)| name == "step" && step["n"] == n - 1) {
                        break;
                    }
                }
            }
            assert_eq!(stage.post("/api/v1/ingest/many/finish", &[], b"{\"exit_code\":0}").status, 200);
            let is_over = |event: Option<&Event>| event.is_some_and(|(_, _, row)| row["state"]["kind"] == "failed");
            while !is_over(told.last()) {
                told.push(steady.next());
            }
            while !is_over(told_list.last()) {
                told_list.push(steady_list.next());
            }
            tell.send((told.last().unwrap().0, told_list.last().unwrap().0)).unwrap();
            (told, told_list)
        });
        // They begin while it grows, and end where the steady ones did. How many events there are is known only then: the first round goes
        // as far as the first pieces lead, which are there in any case.
        let pieces = PIECES.0 as u64;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|seed| {
                scope.spawn(move || {
                    (
                        come_and_go(stage, path, from, from + pieces, seed),
                        come_and_go(stage, list, list_from, list_from + pieces, !seed),
                    )
                })
            })
            .collect();
        let early: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        let (told, told_list) = pushing.join().unwrap();
        let (end, list_end) = ends.recv().unwrap();
        for (all, first, end) in [(&told, from, end), (&told_list, list_from, list_end)] {
            assert!(all.iter().map(|event| event.0).eq(first + 1..=end), "numbers without a gap");
        }
        let steps: Vec<u64> = told.iter().filter(|event| event.1 == "step").filter_map(|event| event.2["n"].as_u64()).collect();
        let mut known = steps.clone();
        known.sort_unstable();
        known.dedup();
        assert_eq!(known, (1..=(PIECES.0 * PIECES.1) as u64).collect::<Vec<_>>());
        let rest: Vec<_> = early
            .into_iter()
            .zip(0..)
            .map(|((mut some, mut some_list), seed)| {
                scope.spawn(move || {
                    let (from, list_from) = (some.last().unwrap().0, some_list.last().unwrap().0);
                    some.extend(come_and_go(stage, path, from, end, seed + 100));
                    some_list.extend(come_and_go(stage, list, list_from, list_end, seed + 200));
                    (some, some_list)
                })
            })
            .collect();
        for client in rest {
            let (seen, seen_list) = client.join().unwrap();
            // A step or a row that changed later may be told as it is then, and only once. The row may change again after the end.
            let (steps, row) = learned(&seen);
            assert!(steps == learned(&told).0, "{} of {} events", seen.len(), told.len());
            assert!(row.is_some_and(|row| row["state"]["kind"] == "failed"), "{row:?}");
            assert!(seen.is_sorted_by(|one, other| one.0 < other.0), "no event twice");
            let same = |event: &Event| {
                let original = &told[usize::try_from(event.0 - from - 1).unwrap()];
                (&original.1, &original.2["n"]) == (&event.1, &event.2["n"])
            };
            assert!(seen.iter().filter(|event| event.0 <= end).all(same), "a number always means the same step");
            assert!(seen_list == told_list, "{} of {} changes", seen_list.len(), told_list.len());
        }
    });
}

#[test]
fn what_a_reader_missed_is_told_from_the_disk() {
    let stage = &Stage::new();
    let push = |text: &str| assert_eq!(stage.post("/api/v1/ingest/many", &[], text.as_bytes()).status, 200);
    push(&said("begin"));
    let path = "/api/v1/sessions/many-1/events";
    let page = stage.until("/api/v1/sessions/many-1/steps", |page| (page["total"] == 1).then(|| page.clone()));
    let from = page["event_id"].as_u64().unwrap();
    // Somebody has every event as it comes, so that none is in memory any more. Half of them tell of the result of a call.
    let mut steady = stage.events(path, Some(from));
    let mut told: Vec<Event> = Vec::new();
    for n in 1..=100 {
        let answer = json!({"type": "tool_result", "tool_use_id": format!("t{n}"), "content": "ok ".repeat(200)});
        let answer = json!({"type": "user", "session_id": "many-1", "message": {"role": "user", "content": [answer]}});
        for text in [call(n), format!("{answer}\n")] {
            push(&text);
            told.push(steady.next());
            while told.last().unwrap().1 != "step" {
                told.push(steady.next());
            }
        }
    }
    let end = told.last().unwrap().0;
    // For everybody who comes back, however late.
    for last in [from, from + 1, from + 50, end - 3, end - 1] {
        let (mut again, mut seen) = (stage.events(path, Some(last)), Vec::new());
        while seen.last().is_none_or(|event: &Event| event.0 < end) {
            seen.push(again.next());
        }
        let rest = &told[usize::try_from(last - from).unwrap()..];
        // A row is told again with the number of the last one, which may be newer than the last step.
        assert!(learned(&seen).0 == learned(rest).0, "{} of {} events", seen.len(), rest.len());
        assert!(seen.len() <= rest.len() / 2 + 2, "each step once: {} of {}", seen.len(), rest.len());
    }
    // Those who go on where they were hear everything new.
    push(&said("more"));
    assert_eq!(steady.until(|name, step| (name == "step").then(|| step["n"].as_u64())), Some(101));
}

#[test]
fn a_reader_that_never_reads_is_dropped() {
    let stage = Stage::with(|options| options.write_timeout = Duration::from_millis(100));
    let push = |text: &str| assert_eq!(stage.post("/api/v1/ingest/many", &[], said(text).as_bytes()).status, 200);
    push("begin");
    stage.until("/api/v1/sessions/many-1/steps", |page| (page["total"] == 1).then_some(()));
    let readers = || {
        let metrics = stage.get("/metrics").body;
        metrics.lines().find_map(|line| line.strip_prefix("tapline_event_readers ")?.parse::<u64>().ok()).unwrap()
    };
    let _silent = stage.events("/api/v1/sessions/many-1/events", None);
    wait_until("somebody reads", || readers() > 0);
    // The system takes some megabytes for it. Then it is in the way.
    let text = "words ".repeat(60_000);
    let mut steps = 1;
    while readers() > 0 {
        push(&text);
        steps += 1;
        // What is read in one go is not told step by step.
        stage.until("/api/v1/sessions/many-1/steps?limit=1", |page| (page["total"] == steps).then_some(()));
    }
    assert_eq!(stage.get("/api/v1/sessions").status, 200);
}

#[test]
fn downloads_come_in_pieces_and_end_with_their_client() {
    let stage = Stage::new();
    let text: String = (0..300).map(|n| said(&format!("text {n} {}", "words ".repeat(3_000)))).collect();
    assert_eq!(stage.post("/api/v1/ingest/many", &[], text.as_bytes()).status, 200);
    stage.until("/api/v1/sessions/many-1/steps?limit=1", |page| (page["total"] == 300).then_some(()));
    let path = "/api/v1/sessions/many-1/download?format=jsonl";
    // Many begin, and leave in the middle.
    for _ in 0..40 {
        let mut stream = TcpStream::connect(stage.address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n", stage.address);
        stream.write_all(head.as_bytes()).unwrap();
        stream.read_exact(&mut vec![0; 100_000]).unwrap();
    }
    let answer = stage.get(path);
    assert!(answer.status == 200 && answer.head.contains("transfer-encoding: chunked"), "{}", answer.head);
    assert!(answer.body == text, "{} bytes of {}", answer.body.len(), text.len());
    for (format, ends) in [("html", "</html>"), ("markdown", "words")] {
        let answer = stage.get(&format!("/api/v1/sessions/many-1/download?format={format}"));
        assert!(answer.status == 200 && answer.body.contains("text 299 words"), "{format}");
        assert!(answer.body.contains(ends), "{format}");
    }
}

#[test]
fn large_bodies_wait_for_each_other() {
    let stage = &Stage::with(|options| options.body_memory = 0);
    let body = vec![b'\n'; 8 << 20];
    let head = format!(
        "POST /api/v1/ingest/large HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        stage.address,
        body.len()
    );
    std::thread::scope(|scope| {
        let mut large = TcpStream::connect(stage.address).unwrap();
        large.write_all(head.as_bytes()).unwrap();
        large.write_all(&body[1..]).unwrap();
        let others: Vec<_> = (0..4)
            .map(|n| scope.spawn(move || stage.post(&format!("/api/v1/ingest/small-{n}"), &[], b"{}\n").status))
            .collect();
        large.write_all(b"\n").unwrap();
        let told = crate::stage::Answer::read(&crate::stage::read_all(&mut large));
        assert_eq!((told.status, told.json()), (200, Some(json!({"offset": body.len()}))));
        for other in others {
            assert_eq!(other.join().unwrap(), 200);
        }
    });
}

#[test]
fn who_promises_much_and_sends_little_delays_nobody() {
    let stage = Stage::with(|options| options.body_timeout = Duration::from_secs(3_600));
    let begin = |bytes: usize| {
        let mut stream = TcpStream::connect(stage.address).unwrap();
        let head = format!(
            "POST /api/v1/ingest/x HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n\r\n",
            stage.address,
            8 << 20
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![b'\n'; bytes]).unwrap();
        stream
    };
    let silent: Vec<_> = (0..40).map(|_| begin(0)).collect();
    let push = vec![b'\n'; 1 << 20];
    assert_eq!(stage.post("/api/v1/ingest/run", &[], &push).status, 200, "with the same token, from the same address");
    // These fill what their client has. What is small does not need it, and the end of a run has memory of its own.
    let stalled: Vec<_> = (0..3).map(|_| begin(1 << 20)).collect();
    assert_eq!(stage.post("/api/v1/ingest/run", &[], b"{}\n").status, 200);
    let end = [b"{\"exit_code\": 0}".as_slice(), &vec![b' '; 100 << 10]].concat();
    assert_eq!(stage.post("/api/v1/ingest/run/finish", &[], &end).status, 200);
    drop((silent, stalled));
}

#[test]
fn rows_stay_small_whatever_is_said() {
    let stage = Stage::new();
    let long = "long ".repeat(100_000);
    let init = json!({"type": "system", "subtype": "init", "session_id": "many-1", "model": long, "cwd": long, "tools": []});
    let prompt = json!({"type": "user", "session_id": "many-1", "message": {"role": "user", "content": long}});
    let call = json!({"type": "tool_use", "id": "t", "name": long.replace(' ', "-"), "input": {"command": long, "more": long}});
    let call = json!({"type": "assistant", "session_id": "many-1", "message": {"role": "assistant", "content": [call]}});
    assert_eq!(stage.post("/api/v1/ingest/many", &[], format!("{init}\n{prompt}\n{call}\n").as_bytes()).status, 200);
    let list = stage.until("/api/v1/sessions", |list| (list["sessions"][0]["now"].is_object()).then(|| list.clone()));
    assert!(list["sessions"][0]["now"]["tool"].as_str().unwrap().starts_with("long-long-"), "it is cut, not dropped");
    assert!(list.to_string().len() < 16 << 10, "{} bytes", list.to_string().len());
}
