//! Tokens with rights: each right against every route that the server describes.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;
use tapline_server::ServerTokens;
use tapline_testkit::HANG;

use crate::stage::{Answer, Stage, read_all};

/// Tokens with one right each, one with two, and one with all.
const TOKENS: [(&str, &[&str]); 5] = [
    ("push-0123456789-0123456789", &["push"]),
    ("read-0123456789-0123456789", &["read"]),
    ("control-0123456789-0123456789", &["control"]),
    ("both-0123456789-0123456789", &["read", "control"]),
    ("all-0123456789-0123456789", &["push", "read", "control"]),
];

fn stage() -> Stage {
    Stage::with(|options| {
        let line = |(token, rights): &(&str, &[&str])| match rights.len() {
            3 => (*token).to_owned(),
            _ => format!("{} {token}", rights.join(" ")),
        };
        options.tokens = ServerTokens::read(&TOKENS.iter().map(line).collect::<Vec<_>>().join("\n")).unwrap();
    })
}

/// Asks, and returns the answer; of one that may have no end, such as events, only the head.
fn asked(stage: &Stage, method: &str, path: &str, token: &str) -> Answer {
    let mut stream = TcpStream::connect(stage.address).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n",
        stage.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let answer = Answer::read(&head);
    if answer.status < 400 { answer } else { Answer::read(&(head + &read_all(&mut stream))) }
}

/// The right that a route needs, by what it does.
fn right(method: &str, path: &str) -> Option<&'static str> {
    match path {
        "/healthz" | "/readyz" | "/api/v1/openapi.json" | "/api/v1/sign-in" => None,
        _ if path.starts_with("/api/v1/ingest/") => Some("push"),
        _ if method == "post" => Some("control"),
        _ => Some("read"),
    }
}

#[test]
fn a_token_may_do_what_its_line_says_and_nothing_else() {
    let stage = stage();
    let all = TOKENS[4].0;
    let document =
        stage.ask("GET", "/api/v1/openapi.json", &[("Authorization", &format!("Bearer {all}"))], b"").json().unwrap();
    let mut refused = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let needed = right(method, path);
            let asking = path.replace("{id}", "x").replace("{question}", "x").replace("{run}", "x");
            for (token, rights) in TOKENS {
                let answer = asked(&stage, &method.to_uppercase(), &asking, token);
                let no_right = answer.status == 403 && answer.code() == "no-right";
                let missing = needed.filter(|needed| !rights.contains(needed));
                assert_eq!(no_right, missing.is_some(), "{method} {path} with {rights:?}: {answer:?}");
                if let Some(missing) = missing {
                    assert!(answer.body.contains(&format!("the right `{missing}`")), "{answer:?}");
                    refused.insert(missing);
                }
            }
        }
    }
    assert_eq!(refused, BTreeSet::from(["push", "read", "control"]));
}

#[test]
fn whoever_asks_is_told_what_they_may_do() {
    let stage = stage();
    let push = stage.ask("POST", "/api/v1/ingest/run", &[("Authorization", &format!("Bearer {}", TOKENS[0].0))], b"{}\n");
    assert_eq!(push.status, 200, "{push:?}");
    for (token, rights) in TOKENS.iter().filter(|(_, rights)| rights.contains(&"read")) {
        let mut run = String::new();
        let is_listed = tapline_testkit::eventually(|| {
            let list =
                stage.ask("GET", "/api/v1/sessions", &[("Authorization", &format!("Bearer {token}"))], b"").json().unwrap();
            assert_eq!(list["rights"], serde_json::json!(rights), "{list}");
            run = list["sessions"][0]["id"].as_str().unwrap_or_default().to_owned();
            !run.is_empty()
        });
        assert!(is_listed, "{rights:?}");
        let path = format!("/api/v1/sessions/{run}");
        let one = stage.ask("GET", &path, &[("Authorization", &format!("Bearer {token}"))], b"").json().unwrap();
        assert_eq!(one["rights"], serde_json::json!(rights), "{one}");
    }
}

#[test]
fn what_is_refused_is_not_done() {
    let stage = stage();
    let push = |token: &str| stage.ask("POST", "/api/v1/ingest/run", &[("Authorization", &format!("Bearer {token}"))], b"{}\n");
    for (token, rights) in TOKENS.iter().filter(|(_, rights)| !rights.contains(&"push")) {
        assert_eq!(push(token).code(), "no-right", "{rights:?}");
    }
    assert!(!stage.path("home/recordings").read_dir().unwrap().any(|_| true), "nothing was kept");
    assert_eq!(push(TOKENS[0].0).json(), Some(serde_json::json!({"offset": 3})));
}

#[test]
fn every_token_gets_the_page_and_its_files_which_say_nothing_of_sessions() {
    let stage = stage();
    for (token, rights) in TOKENS {
        for path in ["/", "/costs", "/assets/main.js", "/sessions/x"] {
            assert_eq!(asked(&stage, "GET", path, token).status, 200, "{path} with {rights:?}");
        }
        let nothing = asked(&stage, "GET", "/api/v1/nothing", token);
        assert_eq!((nothing.status, nothing.code().as_str()), (404, "no-route"), "{rights:?}");
    }
    let errors: Vec<Value> = ["push-0123456789-01234567890", "push push-0123456789-0123456789", "push", ""]
        .into_iter()
        .map(|token| asked(&stage, "GET", "/api/v1/sessions", token).json().unwrap()["error"]["code"].clone())
        .collect();
    assert_eq!(errors, vec![Value::from("wrong-token"); 4]);
}
