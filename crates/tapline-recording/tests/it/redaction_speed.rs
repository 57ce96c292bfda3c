//! Hostile text takes no more time than other text. What is quadratic takes many minutes for so much of it, so that a guard of two
//! tells it apart on any machine; `bench redact` measures.

use std::time::{Duration, Instant};

use tapline_recording::Redactor;

#[test]
fn hostile_text_is_looked_at_in_linear_time() {
    let pieces = [
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----",
        "sk-",
        "sk-ant-",
        "eyJ",
        "eyJaaaaaaaaaa.",
        "password=",
        "password=(",
        "password=\"",
        "password=\\\"",
        "password: ",
        "token='",
        "Authorization: ",
        "Cookie: a",
        "\"",
        "\\",
        "\\\"",
        "\\u0073",
        "://a:",
        "://",
        "Bearer ",
        "curl -u a",
        "MTMT",
        "AKIA",
        "token,password=a,",
        "api_key",
        "_KEY=",
        "machine a login b password ",
        "<password>",
        "sig=",
        "é",
        " -u",
        " -u a:",
        " -p",
        "sshpass -p a",
        "password=[",
        "PASSWORD: ",
        "password: |\n ",
        "kind: Secret\n",
        "kind: Secret\ndata:\n a: b\n",
        "<key>password</key>",
        "\"api_key\">",
        "$6$",
    ];
    let redactor = Redactor::default();
    for piece in pieces {
        let start = Instant::now();
        let text = piece.repeat((256 << 10) / piece.len());
        let clean = redactor.text(&text);
        assert!(clean.len() <= 3 * text.len(), "{piece}");
        let json = serde_json::json!({ "a": text }).to_string();
        let clean = redactor.line(json.as_bytes());
        assert!(serde_json::from_slice::<serde_json::Value>(&clean).is_ok(), "{piece}: JSON stays JSON");
        assert!(start.elapsed() < Duration::from_secs(120), "{piece} is not linear");
    }
}
