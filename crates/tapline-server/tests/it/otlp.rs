//! Spans and measures of live sessions: they arrive, none twice, and a receiver that is away holds up nobody.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tapline_recording::{End, Meta, Recorder, Stream, Sync};
use tapline_server::{OtlpOptions, OtlpTarget};
use tapline_session::otlp::OtlpResource;
use tapline_testkit::{HANG, wait_until};

use crate::stage::Stage;

const STREAM: &str = "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"one\",\"model\":\"m\",\"cwd\":\"/p\"}\n\
    {\"type\":\"assistant\",\"session_id\":\"one\",\"timestamp\":\"TIME\",\"message\":{\"id\":\"msg_1\",\"model\":\"m\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1},\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"Bash\",\"input\":{}}]}}\n\
    {\"type\":\"user\",\"session_id\":\"one\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"content\":\"ok\"}]}}\n\
    {\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"session_id\":\"one\",\"result\":\"done\",\"total_cost_usd\":0.5,\"num_turns\":1,\"usage\":{\"input_tokens\":1,\"output_tokens\":1},\"modelUsage\":{\"m\":{\"inputTokens\":1,\"outputTokens\":1,\"costUSD\":0.5}}}\n";

/// A receiver that takes everything, with these statuses first. Returns its address, and what arrives: the path and the body.
fn receiver(mut first: Vec<u16>) -> (SocketAddr, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            loop {
                let text = String::from_utf8_lossy(&request).into_owned();
                if let Some((head, _)) = text.split_once("\r\n\r\n") {
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                    if request.len() >= head.len() + 4 + length.parse::<usize>().unwrap_or(usize::MAX) {
                        break;
                    }
                }
                let count = stream.read(&mut buffer).unwrap();
                request.extend(&buffer[..count]);
            }
            let status = if first.is_empty() { 200 } else { first.remove(0) };
            // It is known before the sender knows that it was taken.
            let text = String::from_utf8_lossy(&request).into_owned();
            let path = text.split(' ').nth(1).unwrap().to_owned();
            if status == 200 && tell.send((path, text)).is_err() {
                return;
            }
            let answer = format!("HTTP/1.1 {status} x\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, told)
}

fn exporting(address: SocketAddr) -> Stage {
    Stage::with(move |options| {
        let target = OtlpTarget::read(&format!("http://{address}"), "").unwrap();
        let mut otlp = OtlpOptions::new(target, OtlpResource::new("1", []));
        // Only the end sends measures.
        otlp.interval = Duration::from_secs(3_600);
        // However busy the machine is.
        otlp.grace = HANG;
        options.otlp = Some(otlp);
    })
}

fn record(stage: &Stage, name: &str) {
    record_stream(stage, name, STREAM);
}

fn record_stream(stage: &Stage, name: &str, stream: &str) {
    let meta = Meta { started_at: Some(jiff::Timestamp::now().to_string()), ..Meta::default() };
    let mut recorder = Recorder::create(&stage.path("home/recordings").join(name), &meta, Sync::EverySecond).unwrap();
    // An agent says when it answered.
    let stream = stream.replace("TIME", &jiff::Timestamp::now().to_string());
    recorder.write_at(Stream::Stdout, stream.as_bytes(), Duration::from_millis(10));
    recorder.finish(&End { exit_code: Some(0), ..End::default() }).unwrap();
}

/// Records another run of the same session.
fn record_again(stage: &Stage, name: &str) {
    record_stream(stage, name, &STREAM.replace("msg_1", "msg_2").replace("\"t1\"", "\"t2\""));
}

/// How often a text occurs in what arrived.
fn count(arrived: &[(String, String)], path: &str, text: &str) -> usize {
    arrived.iter().filter(|(to, _)| to == path).map(|(_, body)| body.matches(text).count()).sum()
}

#[test]
fn the_end_sends_what_waits_and_nothing_twice() {
    let (address, told) = receiver(vec![503, 429]);
    let stage = exporting(address);
    record(&stage, "2026-11-16T06-46-57Z-0a1b2c3d4e");
    stage.until("/api/v1/sessions", |list| {
        // The archive may know it before it is read.
        let is_read = |row: &&serde_json::Value| row["state"]["kind"] == "finished" && row["steps"] != 0;
        list["sessions"].as_array()?.iter().find(is_read).cloned()
    });
    // The end reads only what is new: the archive must have been read once.
    assert_eq!(stage.get("/api/v1/costs").status, 200);
    drop(stage);
    let arrived: Vec<_> = told.try_iter().collect();
    for name in ["execute_tool Bash", "chat m", "invoke_agent claude", "session claude"] {
        assert_eq!(count(&arrived, "/v1/traces", name), 1, "{name}: {arrived:?}");
    }
    for name in ["gen_ai.client.token.usage", "gen_ai.client.operation.duration", "tapline.cost"] {
        assert_eq!(count(&arrived, "/v1/metrics", name), 1, "{name}: {arrived:?}");
    }
}

#[test]
fn the_span_of_a_session_counts_all_of_its_runs() {
    let (address, told) = receiver(Vec::new());
    let stage = exporting(address);
    record(&stage, "2026-11-16T06-46-57Z-0a1b2c3d4e");
    let first: Vec<_> = until_told(&told, "session claude", 1);
    record_again(&stage, "2026-11-16T07-46-57Z-0a1b2c3d4f");
    let second: Vec<_> = until_told(&told, "session claude", 1);
    // `tapline.turns` is a whole number: its key, and the number in a field of the value.
    let turns = |arrived: &[(String, String)]| {
        let body = &arrived.iter().rfind(|(_, body)| body.contains("session claude")).unwrap().1;
        let after = &body.as_bytes()[body.rfind("tapline.turns").unwrap() + "tapline.turns".len()..];
        after[..4].to_vec()
    };
    assert_eq!((turns(&first)[3], turns(&second)[3]), (1, 2), "{:?} {:?}", turns(&first), turns(&second));
    drop(stage);
}

/// Waits until a text has arrived so often. Returns what arrived.
fn until_told(told: &Receiver<(String, String)>, text: &str, times: usize) -> Vec<(String, String)> {
    let mut arrived = Vec::new();
    while count(&arrived, "/v1/traces", text) < times {
        arrived.push(told.recv_timeout(HANG).unwrap());
    }
    arrived
}

#[test]
fn what_a_receiver_refuses_is_counted_and_serving_goes_on() {
    let (address, told) = receiver(vec![400]);
    let stage = exporting(address);
    record(&stage, "2026-11-16T06-46-57Z-0a1b2c3d4e");
    let dropped = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("tapline_otlp_spans_total{outcome=\"dropped\"}"))?;
        line.split(' ').nth(1)?.parse::<u64>().ok()
    };
    wait_until("spans are dropped", || dropped(&stage.get("/metrics").body).is_some_and(|count| count > 0));
    assert_eq!(stage.get("/healthz").status, 200);
    drop(stage);
    assert!(told.try_iter().any(|(path, _)| path == "/v1/metrics"));
}

#[test]
fn without_a_receiver_the_counters_are_there_and_zero() {
    let stage = Stage::new();
    let metrics = stage.get("/metrics").body;
    for line in
        ["tapline_otlp_spans_total{outcome=\"sent\"} 0", "tapline_otlp_waiting_spans 0", "tapline_otlp_failures_total 0"]
    {
        assert!(metrics.lines().any(|known| known == line), "{line}: {metrics}");
    }
}
