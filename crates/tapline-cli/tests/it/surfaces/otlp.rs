//! Spans as a receiver of OTLP gets them: as much of protobuf as that takes.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

/// What a span says of itself.
#[derive(Debug, Default)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) texts: Vec<(String, String)>,
    pub(crate) numbers: Vec<(String, f64)>,
}

/// A field of a message: its number and value.
enum Value<'b> {
    Whole(u64),
    Eight([u8; 8]),
    Bytes(&'b [u8]),
}

fn whole(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = whole(&mut bytes);
        let value = match key & 7 {
            0 => Value::Whole(whole(&mut bytes)),
            1 => {
                let (value, rest) = bytes.split_first_chunk().unwrap();
                bytes = rest;
                Value::Eight(*value)
            }
            2 => {
                let length = usize::try_from(whole(&mut bytes)).unwrap();
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(value)
            }
            other => panic!("a field of kind {other}"),
        };
        found.push((key >> 3, value));
    }
    found
}

fn messages(bytes: &[u8], number: u64) -> Vec<&[u8]> {
    let is_one = |(field, value)| match value {
        Value::Bytes(bytes) if field == number => Some(bytes),
        _ => None,
    };
    fields(bytes).into_iter().filter_map(is_one).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The spans in a request to `/v1/traces`.
pub(crate) fn spans(request: &[u8]) -> Vec<Span> {
    let scopes = messages(request, 1).into_iter().flat_map(|resource| messages(resource, 2));
    scopes.flat_map(|scope| messages(scope, 2)).map(span).collect()
}

fn span(bytes: &[u8]) -> Span {
    let mut span = Span { name: messages(bytes, 5).first().map(|name| text(name)).unwrap_or_default(), ..Span::default() };
    for pair in messages(bytes, 9) {
        let key = messages(pair, 1).first().map(|key| text(key)).unwrap_or_default();
        for (field, value) in messages(pair, 2).into_iter().flat_map(fields) {
            match (field, value) {
                (1, Value::Bytes(bytes)) => span.texts.push((key.clone(), text(bytes))),
                (3, Value::Whole(count)) => span.numbers.push((key.clone(), f64::from(u32::try_from(count).unwrap()))),
                (4, Value::Eight(bytes)) => span.numbers.push((key.clone(), f64::from_le_bytes(bytes))),
                _ => {}
            }
        }
    }
    span
}

/// A receiver that takes everything. Returns its address, and the bodies that are sent to `/v1/traces`.
pub(crate) fn receiver() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
            let body = loop {
                let end = request.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
                if let Some(end) = end {
                    let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
                    if request.len() >= end + length {
                        break request[end..].to_vec();
                    }
                }
                let count = stream.read(&mut buffer).unwrap();
                if count == 0 {
                    break Vec::new();
                }
                request.extend(&buffer[..count]);
            };
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            if request.starts_with(b"POST /v1/traces") && tell.send(body).is_err() {
                return;
            }
        }
    });
    (address, told)
}
