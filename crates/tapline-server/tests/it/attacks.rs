//! Attacks that tools on a loopback address have fallen to, over raw connections: a clear refusal each, nothing served, nothing that grows.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use crate::stage::{Answer, Stage, TOKEN, read_all};

/// The page: it says nothing about sessions.
const PAGE: &[(&str, &str)] = &[("GET", "/"), ("GET", "/sessions/x"), ("GET", "/costs"), ("GET", "/assets/main.js")];

/// Every route that must not be open.
const CLOSED: &[(&str, &str)] = &[
    ("POST", "/api/v1/sign-in"),
    ("GET", "/metrics"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/api/v1/sessions"),
    ("GET", "/api/v1/sessions/x"),
    ("GET", "/api/v1/sessions/x/steps"),
    ("GET", "/api/v1/sessions/x/events"),
    ("GET", "/api/v1/sessions/x/questions/q"),
    ("GET", "/api/v1/sessions/x/download"),
    ("GET", "/api/v1/events"),
    ("GET", "/api/v1/search?q=x"),
    ("GET", "/api/v1/costs"),
    ("POST", "/api/v1/ingest/run"),
    ("POST", "/api/v1/ingest/run/finish"),
    ("GET", "/api/v1/ingest/run/commands"),
    ("POST", "/api/v1/sessions/x/answer"),
    ("POST", "/api/v1/sessions/x/interrupt"),
    ("POST", "/api/v1/sessions/x/stop"),
    ("POST", "/api/v1/sessions/x/message"),
    ("GET", "/nothing"),
];

#[test]
fn without_a_token_nothing_is_served() {
    let stage = Stage::new();
    for (method, path) in CLOSED {
        let answer = stage.ask(method, path, &[], b"");
        assert_eq!((answer.status, answer.code().as_str()), (401, "no-token"), "{method} {path}");
        for wrong in ["Bearer wrong", "Bearer ", "Bearer", TOKEN, &format!("Basic {TOKEN}"), &format!("Bearer {TOKEN}x")] {
            let answer = stage.ask(method, path, &[("Authorization", wrong)], b"");
            assert_eq!((answer.status, answer.code().as_str()), (401, "wrong-token"), "{method} {path} {wrong}");
        }
        let answer = stage.ask(method, path, &[("Cookie", &format!("tapline_{}=wrong", stage.address.port()))], b"");
        assert_eq!(answer.status, 401, "{method} {path}");
        // A token in an address leaks into logs and Referer headers.
        let sign = if path.contains('?') { '&' } else { '?' };
        let answer = stage.ask(method, &format!("{path}{sign}token={TOKEN}&access_token={TOKEN}"), &[], b"");
        assert_eq!(answer.status, 401, "{method} {path}");
    }
    assert!(!stage.path("home/recordings").read_dir().unwrap().any(|_| true), "nothing was kept");
}

#[test]
fn a_wrong_host_gets_nothing() {
    let stage = Stage::new();
    let port = stage.address.port();
    let token = format!("Bearer {TOKEN}");
    let hosts = [
        "evil.example",
        &format!("evil.example:{port}"),
        "127.0.0.1:1",
        "127.0.0.1",
        "localhost.evil.example",
        &format!("127.0.0.1.evil.example:{port}"),
        "",
    ];
    for (method, path) in CLOSED.iter().chain(PAGE).chain(&[("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/open?ticket=x")])
    {
        for host in &hosts {
            let answer = stage.ask(method, path, &[("Host", host), ("Authorization", &token)], b"");
            assert_eq!((answer.status, answer.code().as_str()), (421, "wrong-host"), "{method} {path} {host}");
        }
    }
    let two = stage.raw(
        format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nHost: evil.example\r\nConnection: close\r\n\r\n", stage.address)
            .as_bytes(),
    );
    assert_eq!(Answer::read(&two).status, 400, "{two}");
    let none = stage.raw(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(Answer::read(&none).status, 400, "{none}");
    let absolute = format!(
        "GET http://evil.example/api/v1/sessions HTTP/1.1\r\nHost: {}\r\nAuthorization: {token}\r\nConnection: close\r\n\r\n",
        stage.address
    );
    assert_eq!(Answer::read(&stage.raw(absolute.as_bytes())).status, 421);
    for host in [format!("localhost:{port}"), format!("LOCALHOST:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")]
    {
        assert_eq!(stage.ask("GET", "/healthz", &[("Host", &host)], b"").status, 200, "{host}");
    }
}

#[test]
fn a_name_that_is_allowed_is_answered() {
    let stage = Stage::with(|options| options.hosts = vec!["watch.example".to_owned()]);
    for (host, status) in [("watch.example", 200), ("watch.example:8443", 200), ("other.example", 421), ("xwatch.example", 421)]
    {
        assert_eq!(stage.ask("GET", "/healthz", &[("Host", host)], b"").status, status, "{host}");
    }
}

#[test]
fn another_page_gets_nothing() {
    let stage = Stage::new();
    let token = format!("Bearer {TOKEN}");
    let port = stage.address.port();
    for (method, path) in CLOSED.iter().chain(PAGE) {
        for origin in [
            "http://evil.example",
            "null",
            "https://127.0.0.1.evil.example",
            &format!("file://127.0.0.1:{port}"),
            "http://127.0.0.1:1",
            "",
        ] {
            let answer = stage.ask(method, path, &[("Authorization", &token), ("Origin", origin)], b"");
            assert_eq!((answer.status, answer.code().as_str()), (403, "wrong-origin"), "{method} {path} {origin}");
            assert!(!answer.head.contains("access-control"), "{answer:?}");
        }
        for site in ["cross-site", "same-site"] {
            let answer = stage.ask(method, path, &[("Authorization", &token), ("Sec-Fetch-Site", site)], b"");
            assert_eq!(answer.status, 403, "{method} {path} {site}");
        }
    }
    // Another port of a name that is allowed is another page, and so is another of the server's own names.
    let named = Stage::with(|options| options.hosts = vec!["watch.example".to_owned()]);
    let ask = |host: &str, origin: &str| {
        named.ask("GET", "/api/v1/sessions", &[("Authorization", &token), ("Host", host), ("Origin", origin)], b"").status
    };
    let own = named.address.to_string();
    assert_eq!(ask("watch.example:8443", "https://watch.example:8443"), 200);
    assert_eq!(ask(&own, "https://watch.example"), 200, "a proxy asks under another name");
    assert_eq!(ask("watch.example", "https://watch.example:3000"), 403);
    assert_eq!(ask(&own, "https://watch.example:3000"), 403);
    assert_eq!(ask(&own, &format!("http://localhost:{}", named.address.port())), 403);
    let preflight = stage.ask(
        "OPTIONS",
        "/api/v1/ingest/x",
        &[("Origin", "http://evil.example"), ("Access-Control-Request-Method", "POST")],
        b"",
    );
    assert_eq!(preflight.status, 403);
    let own = format!("http://{}", stage.address);
    assert_eq!(
        stage
            .ask(
                "GET",
                "/api/v1/sessions",
                &[("Authorization", &token), ("Origin", &own), ("Sec-Fetch-Site", "same-origin")],
                b""
            )
            .status,
        200
    );
}

#[test]
fn the_link_is_good_once_and_the_cookie_is_strict() {
    let stage = Stage::new();
    let path = stage.link.split_once(&stage.address.to_string()).unwrap().1.to_owned();
    let wrong = stage.ask("GET", "/open?ticket=0123456789abcdef0123456789abcdef", &[], b"");
    assert_eq!((wrong.status, wrong.code().as_str()), (401, "used-link"));
    assert_eq!(stage.ask("HEAD", &path, &[], b"").status, 405, "looking does not use it up");
    // A link on another site leads here, too, and the cookie goes only with what comes from here.
    let opened = stage.ask("GET", &path, &[("Sec-Fetch-Site", "cross-site")], b"");
    assert_eq!(opened.status, 200, "{opened:?}");
    assert!(opened.body.contains("<meta http-equiv=refresh content=\"0;url=/\">"), "{opened:?}");
    assert!(opened.head.contains("content-type: text/html") && !opened.body.contains("script"), "{opened:?}");
    let cookie = opened.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap().to_owned();
    for part in ["httponly", "samesite=strict", "path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("domain"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    assert!(!cookie.contains(TOKEN), "the token stays where it is");
    assert_eq!(stage.ask("GET", &path, &[], b"").status, 401, "a second time");
    assert_eq!(stage.ask("GET", "/api/v1/sessions", &[("Cookie", cookie)], b"").status, 200);
    assert_eq!(stage.ask("GET", "/", &[("Cookie", &format!("other=1; {cookie}"))], b"").status, 200);
    // With a cookie, a change must say which page it comes from.
    let own = format!("http://{}", stage.address);
    let push = |headers: &[(&str, &str)]| stage.ask("POST", "/api/v1/ingest/run", headers, b"{}\n");
    assert_eq!(push(&[("Cookie", cookie)]).code(), "no-origin");
    assert_eq!(push(&[("Cookie", cookie), ("Origin", "http://evil.example")]).code(), "wrong-origin");
    assert_eq!(push(&[("Cookie", cookie), ("Origin", &own)]).status, 200);
}

#[test]
fn every_answer_is_sealed() {
    let stage = Stage::new();
    for answer in [
        stage.get("/"),
        stage.get("/api/v1/sessions"),
        stage.get("/nothing"),
        stage.ask("GET", "/", &[], b""),
        stage.ask("GET", "/healthz", &[], b""),
    ] {
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answer.head.contains(header), "{header}: {answer:?}");
        }
        for never in ["unsafe-inline", "unsafe-eval", "access-control-allow"] {
            assert!(!answer.head.contains(never), "{answer:?}");
        }
        assert!(answer.head.contains("cache-control: no-store"), "{answer:?}");
    }
}

#[test]
fn broken_http_is_refused() {
    let stage = Stage::new();
    let host = stage.address;
    for (bytes, statuses) in [
        (b"\r\n\r\nnonsense\r\n\r\n".to_vec(), &[400][..]),
        (b"GET\r\n\r\n".to_vec(), &[400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[400]),
        (format!("GET / HTTP/9.9\r\nHost: {host}\r\n\r\n").into_bytes(), &[400, 505]),
        (format!("GET /\0 HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes(), &[400]),
        (format!("G@T / HTTP/1.1\r\nHost: {host}\r\nBad Header: x\r\n\r\n").into_bytes(), &[400]),
        (
            format!("POST /api/v1/ingest/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx")
                .into_bytes(),
            &[400],
        ),
        (format!("POST /api/v1/ingest/x HTTP/1.1\r\nHost: {host}\r\nContent-Length: -1\r\n\r\nx").into_bytes(), &[400]),
        (format!("GET /{} HTTP/1.1\r\nHost: {host}\r\n\r\n", "a".repeat(100_000)).into_bytes(), &[400, 414, 431]),
        (format!("GET / HTTP/1.1\r\nHost: {host}\r\nX: {}\r\n\r\n", "a".repeat(100_000)).into_bytes(), &[400, 431]),
        (format!("GET / HTTP/1.1\r\nHost: {host}\r\n{}\r\n", "X: y\r\n".repeat(1_000)).into_bytes(), &[400, 431]),
    ] {
        let answer = Answer::read(&stage.raw(&bytes));
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert!(statuses.contains(&answer.status), "{shown:?}: {answer:?}");
    }
    assert_eq!(stage.get("/api/v1/sessions").status, 200, "and it still serves");
}

#[test]
fn a_wrong_method_is_refused() {
    let stage = Stage::new();
    let token = format!("Bearer {TOKEN}");
    for (method, path) in
        [("POST", "/api/v1/sessions"), ("DELETE", "/api/v1/sessions/x"), ("GET", "/api/v1/ingest/x"), ("PUT", "/")]
    {
        let answer = stage.ask(method, path, &[("Authorization", &token)], b"");
        assert_eq!((answer.status, answer.code().as_str()), (405, "wrong-method"), "{method} {path}");
    }
}

#[test]
fn large_bodies_are_refused() {
    let stage = Stage::new();
    let head = |length: &str| {
        format!(
            "POST /api/v1/ingest/x HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n{length}\r\n\r\n",
            stage.address
        )
    };
    // It says that it is large: nothing is read.
    let answer = Answer::read(&stage.raw(head("Content-Length: 99999999999").as_bytes()));
    assert_eq!((answer.status, answer.code().as_str()), (413, "too-large"));
    // It does not say it.
    let mut bytes = head("Transfer-Encoding: chunked").into_bytes();
    let chunk = [b"100000\r\n".as_slice(), &vec![b'x'; 1 << 20], b"\r\n"].concat();
    for _ in 0..12 {
        bytes.extend_from_slice(&chunk);
    }
    let answer = Answer::read(&stage.raw(&bytes));
    assert!(answer.status == 413 || answer.status == 0, "{answer:?}");
    assert!(!stage.path("home/recordings").read_dir().unwrap().any(|_| true), "nothing was kept");
}

#[test]
fn who_sends_slowly_is_cut_off() {
    let stage = Stage::with(|options| options.head_timeout = Duration::from_millis(300));
    // The head never ends. The server closes, whatever it says before that.
    for bytes in [b"".as_slice(), b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX: y\r\n"] {
        let mut stream = TcpStream::connect(stage.address).unwrap();
        // On a slow machine, the server may have closed already.
        let _ = stream.write_all(bytes);
        let told = read_all(&mut stream);
        assert!(told.is_empty() || Answer::read(&told).status == 408, "{told}");
    }
    // The body never ends.
    let stage = Stage::with(|options| options.body_timeout = Duration::from_millis(300));
    let mut stream = TcpStream::connect(stage.address).unwrap();
    let head = format!(
        "POST /api/v1/ingest/x HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 1000\r\n\r\n{{",
        stage.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    let answer = Answer::read(&read_all(&mut stream));
    assert_eq!((answer.status, answer.code().as_str()), (408, "too-slow"));
    assert!(!stage.path("home/recordings").read_dir().unwrap().any(|_| true), "nothing was kept");
}

#[test]
fn connections_are_limited_and_come_back() {
    let stage = Stage::with(|options| {
        options.connections = 4;
        options.head_timeout = Duration::from_millis(300);
    });
    // They say nothing, and take every place.
    let idle: Vec<_> = (0..16).map(|_| TcpStream::connect(stage.address).unwrap()).collect();
    // They are cut off, and so is whoever asks, if the machine is so slow that the question comes too late.
    let answers = || stage.ask("GET", "/healthz", &[], b"").status == 200;
    assert!((0..100).any(|_| answers()), "once they were cut off");
    drop(idle);
}

#[test]
fn ids_are_never_paths() {
    let stage = Stage::new();
    std::fs::write(stage.path("secret.jsonl"), "{\"type\":\"result\"}\n").unwrap();
    let outside = stage.path("secret.jsonl");
    for id in [
        "..%2f..%2fsecret.jsonl",
        "%2e%2e%2fsecret",
        "..",
        ".",
        "%2fetc%2fpasswd",
        "%00",
        &outside.to_str().unwrap().replace('/', "%2f"),
        "....//....//secret",
    ] {
        for path in [
            format!("/api/v1/sessions/{id}"),
            format!("/api/v1/sessions/{id}/steps"),
            format!("/api/v1/sessions/{id}/download"),
            format!("/assets/{id}"),
        ] {
            let answer = stage.get(&path);
            assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
            assert!(!answer.body.contains("root:"), "{path}");
        }
        let answer = stage.post(&format!("/api/v1/ingest/{id}"), &[], b"{}\n");
        assert!((400..500).contains(&answer.status), "{id}: {answer:?}");
    }
    for path in ["/../../etc/passwd", "/assets/../../secret.jsonl", "//etc/passwd", "/assets//etc/passwd"] {
        let answer = stage.get(path);
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
    }
    assert!(!stage.path("home/recordings").read_dir().unwrap().any(|_| true), "nothing was kept");
}
