//! A server that answers each connection with the bytes that a test gives it.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

/// Starts a server on loopback. Returns its address, and what arrives: each request as text.
pub(crate) fn serve(answers: Vec<&'static str>) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let request = read_request(&mut stream);
            stream.write_all(answer.as_bytes()).unwrap();
            if tell.send(request).is_err() {
                return;
            }
        }
    });
    (address, told)
}

/// Reads a request with its whole body.
pub(crate) fn read_request(stream: &mut impl std::io::Read) -> String {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |length| length.parse().unwrap());
            if request.len() >= head.len() + 4 + length {
                return text;
            }
        }
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the request breaks off: {text:?}");
        request.extend(&buffer[..count]);
    }
}
