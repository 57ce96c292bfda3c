//! What goes wrong on demand: errors, cuts, nonsense, silence; then the turn itself.

use std::time::{Duration, Instant};

use tapline_sim::Sim;
use tapline_testkit::wait_until;

use crate::client::{ask, ask_responses, messages, send};

#[test]
fn an_error_comes_as_often_as_it_should_and_then_the_answer() {
    let sim = Sim::start("[[turn]]\ntext = \"at last\"\nfault = [{ kind = \"error\", status = 529, times = 2, retry_after = 0.5 }, { kind = \"error\", status = 429, message = \"slow down\", headers = { anthropic-ratelimit-requests-remaining = \"0\" } }]\n").unwrap();
    for _ in 0..2 {
        let got = ask(&sim, "a", 0);
        assert_eq!(got.status, 529);
        assert!(got.head.contains("retry-after: 0.5"), "{}", got.head);
        assert_eq!(got.json()["error"]["type"], "overloaded_error");
    }
    let got = ask(&sim, "a", 0);
    assert_eq!((got.status, got.json()["error"]["message"].as_str()), (429, Some("slow down")));
    assert!(got.head.contains("anthropic-ratelimit-requests-remaining: 0"), "{}", got.head);
    assert_eq!(ask(&sim, "a", 0).text(), "at last");
    assert_eq!(sim.tokens().output_tokens, 42, "only the answer counts");
    let faults: Vec<_> = sim.requests().iter().map(|request| request.fault).collect();
    assert_eq!(faults, [Some("error"), Some("error"), Some("error"), None]);
}

#[test]
fn an_error_for_ever_needs_no_answer() {
    let sim = Sim::start("[[turn]]\nfault = [{ kind = \"error\", status = 401, times = \"forever\" }]\n").unwrap();
    for _ in 0..3 {
        assert_eq!(ask(&sim, "a", 0).status, 401);
    }
    let responses = ask_responses(&sim, "a", true);
    assert_eq!(responses.status, 401);
    assert_eq!(responses.json()["error"]["type"], "authentication_error");
}

#[test]
fn a_cut_ends_in_the_middle() {
    let sim = Sim::start("[[turn]]\ntext = \"one two three\"\nchunk = 4\nfault = [{ kind = \"cut\", after = 4 }]\n").unwrap();
    let got = ask(&sim, "a", 0);
    assert_eq!((got.status, got.whole, got.events().len()), (200, false, 4));
    assert_eq!(got.text(), "one ");
    let again = ask(&sim, "a", 0);
    assert_eq!((again.whole, again.text().as_str()), (true, "one two three"));
}

#[test]
fn a_document_is_cut_in_the_middle_too() {
    let sim = Sim::start("[[turn]]\ntext = \"one two three\"\nfault = [{ kind = \"cut\", after = 1 }]\n").unwrap();
    let got = send(&sim, "POST", "/v1/messages", &messages("a", 0, false));
    assert!(!got.whole && serde_json::from_str::<serde_json::Value>(&got.body).is_err(), "{}", got.body);
}

#[test]
fn an_event_that_is_none_and_an_error_in_mid_stream() {
    let sim = Sim::start("[[turn]]\ntext = \"x\"\nfault = [{ kind = \"malformed\", after = 3, data = \"{oops\" }, { kind = \"error\", status = 529, after = 2 }]\n").unwrap();
    let got = ask(&sim, "a", 0);
    assert_eq!(got.events().last().unwrap().1, "{oops");
    let got = ask(&sim, "a", 0);
    assert_eq!(got.status, 200, "the stream had begun");
    let (name, data) = got.events().pop().unwrap();
    assert!(name == "error" && data.contains("overloaded_error"), "{name} {data}");
    assert_eq!(ask(&sim, "a", 0).text(), "x");
}

#[test]
fn silence_lasts_until_the_client_leaves() {
    use std::io::{Read as _, Write as _};
    let sim = Sim::start("[[turn]]\ntext = \"x\"\nfault = [{ kind = \"hang\", after = 1 }]\n").unwrap();
    let body = messages("a", 0, true);
    let mut stream = std::net::TcpStream::connect(sim.address()).unwrap();
    write!(stream, "POST /v1/messages HTTP/1.1\r\nhost: sim\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
    let silent = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break false,
            Ok(count) => got.extend_from_slice(&buffer[..count]),
            Err(_) => break true,
        }
        // Silence counts once it has said what it says.
        if String::from_utf8_lossy(&got).contains("message_start") {
            stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        }
    };
    let got = String::from_utf8_lossy(&got);
    assert!(silent && !got.contains("ping"), "{got}");
    drop(stream);
    assert_eq!(ask(&sim, "a", 0).text(), "x");
}

#[test]
fn delays_and_pieces_are_kept() {
    let sim = Sim::start("[[turn]]\ntext = \"abcdef\"\nchunk = 1\ndelay_ms = 100\npace_ms = 20\nsplit = 7\n").unwrap();
    let start = Instant::now();
    let got = ask(&sim, "a", 0);
    assert_eq!(got.text(), "abcdef");
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
}

#[test]
fn a_sim_that_is_dropped_leaves_nobody_waiting() {
    let sim = Sim::start("[[turn]]\ntext = \"x\"\nfault = [{ kind = \"hang\", times = \"forever\" }]\n").unwrap();
    let address = sim.address();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let body = messages("a", 0, true);
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            std::io::Write::write_all(
                &mut stream,
                format!("POST /v1/messages HTTP/1.1\r\nhost: sim\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes(),
            )
            .unwrap();
            std::io::Read::read_to_end(&mut stream, &mut Vec::new())
        });
        wait_until("the model is asked", || !sim.requests().is_empty());
        drop(sim);
        let _ = waiting.join().unwrap();
    });
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn no_answer_at_all() {
    use std::io::{Read as _, Write as _};
    let sim = Sim::start("[[turn]]\ntext = \"x\"\nfault = [{ kind = \"cut\" }, { kind = \"hang\" }]\n").unwrap();
    let body = messages("a", 0, true);
    let ask = |number: usize, patience: Option<Duration>| {
        let mut stream = std::net::TcpStream::connect(sim.address()).unwrap();
        write!(stream, "POST /v1/messages HTTP/1.1\r\nhost: sim\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        wait_until("the model is asked", || sim.requests().len() >= number);
        stream.set_read_timeout(patience).unwrap();
        let mut got = Vec::new();
        let ended = stream.read_to_end(&mut got).is_ok();
        (got.len(), ended)
    };
    assert_eq!(ask(1, None), (0, true), "cut before a byte has come");
    assert_eq!(ask(2, Some(Duration::from_millis(300))), (0, false), "silent, and open");
    assert_eq!(crate::client::ask(&sim, "a", 0).text(), "x");
}

#[test]
fn what_is_nested_without_end_is_read() {
    let sim = Sim::start("turn = [{ text = \"x\", repeat = \"forever\" }]").unwrap();
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(20_000), close.repeat(20_000));
    let content = format!(r#"{{"messages":[{{"role":"user","content":{}}}]}}"#, deep(r#"[{"content":"#, "}]"));
    assert_eq!(send(&sim, "POST", "/v1/messages", &content).status, 200);
    let tools = format!(r#"{{"input":"a","tools":{}}}"#, deep(r#"[{"tools":"#, "}]"));
    assert_eq!(send(&sim, "POST", "/v1/responses", &tools).status, 200);
}
