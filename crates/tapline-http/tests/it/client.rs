//! What is sent, which answers are understood, and how long it may take.

use std::net::TcpListener;
use std::time::Duration;

use tapline_http::{Address, BlockingClient, HttpError, HttpRequest};

use crate::server::serve;

/// No test waits for so long.
const LONG: Duration = Duration::from_secs(600);

fn send(url: &str, request: HttpRequest, within: Duration) -> Result<(u16, String), HttpError> {
    let answer = BlockingClient::new().unwrap().send(&Address::read(url).unwrap(), request, within)?;
    Ok((answer.status, answer.text()))
}

#[test]
fn a_request_has_its_path_headers_and_body() {
    let (address, told) = serve(vec!["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]);
    let request = HttpRequest::post("/v1/traces?x=1").header("authorization", "Bearer token").body("spans");
    assert_eq!(send(&format!("http://{address}/otel/"), request, LONG).unwrap(), (200, "ok".to_owned()));
    let request = told.recv().unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /otel/v1/traces?x=1 HTTP/1.1\r\n"), "{head}");
    for header in [&format!("host: {address}"), "authorization: Bearer token", "content-length: 5", "connection: close"] {
        assert!(head.lines().any(|line| line == header), "{header} in {head}");
    }
    assert_eq!(body, "spans");
}

#[test]
fn answers_in_chunks_without_a_length_and_cut_off_are_read() {
    let answers = vec![
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\n\r\nno such run",
        "HTTP/1.1 503 x\r\nRetry-After: 7\r\nContent-Length: 100\r\n\r\nonly a part",
        "HTTP/1.1 204 No Content\r\n\r\n",
    ];
    let (address, _told) = serve(answers);
    let url = format!("http://{address}");
    assert_eq!(send(&url, HttpRequest::get("/"), LONG).unwrap(), (200, "abc".to_owned()));
    assert_eq!(send(&url, HttpRequest::get("/"), LONG).unwrap(), (404, "no such run".to_owned()));
    let answer = BlockingClient::new().unwrap().send(&Address::read(&url).unwrap(), HttpRequest::get("/"), LONG).unwrap();
    assert_eq!(
        (answer.status, answer.text().as_str(), answer.retry_after()),
        (503, "only a part", Some(Duration::from_secs(7)))
    );
    assert_eq!(send(&url, HttpRequest::get("/"), LONG).unwrap(), (204, String::new()));
}

#[test]
fn of_a_long_answer_the_beginning_is_read() {
    let body = "x".repeat(9 << 20);
    let answer: &'static str =
        Box::leak(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_boxed_str());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        crate::server::read_request(&mut stream);
        // The client goes away in the middle of it.
        let _ = std::io::Write::write_all(&mut stream, answer.as_bytes());
    });
    let (status, text) = send(&url, HttpRequest::get("/"), LONG).unwrap();
    assert_eq!((status, text.len()), (200, 8 << 20));
}

#[test]
fn what_is_no_http_is_an_error() {
    let (address, _told) = serve(vec!["SSH-2.0-OpenSSH_9.9\r\n", ""]);
    for _ in 0..2 {
        let error = send(&format!("http://{address}"), HttpRequest::get("/"), LONG).unwrap_err();
        assert!(matches!(error, HttpError::Broken(_)), "{error:?}");
    }
}

#[test]
fn a_port_where_nobody_listens_is_an_error_at_once() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = send(&format!("http://127.0.0.1:{port}"), HttpRequest::get("/"), LONG).unwrap_err();
    assert!(matches!(error, HttpError::Connect(_)), "{error:?}");
}

#[test]
fn a_server_that_does_not_answer_costs_the_time_that_was_given() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let error = send(&url, HttpRequest::get("/"), Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, HttpError::TimedOut(_)), "{error:?}");
}

#[test]
fn every_address_of_a_host_is_tried() {
    // `localhost` is ::1 and 127.0.0.1 on most systems; the server is only on the second one.
    let (address, _told) = serve(vec!["HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]);
    let url = format!("http://localhost:{}", address.port());
    assert_eq!(send(&url, HttpRequest::get("/"), LONG).unwrap().0, 200);
}

#[test]
fn a_header_that_could_become_two_is_refused() {
    let (address, _told) = serve(vec![]);
    let request = HttpRequest::get("/").header("x", "a\r\ny: b");
    let error = send(&format!("http://{address}"), request, LONG).unwrap_err();
    assert!(matches!(error, HttpError::Request(_)), "{error:?}");
}
