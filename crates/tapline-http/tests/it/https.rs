//! Encrypted requests: to a server whose certificate the system trusts, to one that it does not trust, and through a proxy.
//!
//! The certificates and the proxy are named by variables, which a process reads once. So each test starts itself again, with its variables set.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tapline_http::{Address, BlockingClient, HttpError, HttpRequest};
use tapline_testkit::TempFolder;

use crate::server::read_request;

const URL: &str = "TAPLINE_TEST_URL";
const NAME: &str = "store.test";

/// Makes a certificate for `localhost` and for [`NAME`], and starts a server with it that greets everybody.
fn serve(folder: &Path) -> SocketAddr {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ])
        .args(["-addext", &format!("subjectAltName=DNS:localhost,DNS:{NAME}"), "-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder)
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let certificate = CertificateDer::from_pem_file(folder.join("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut tls) = (stream.unwrap(), rustls::ServerConnection::new(Arc::clone(&config)).unwrap());
            let mut stream = rustls::Stream::new(&mut tls, &mut stream);
            // Somebody who does not trust the certificate goes away at once.
            if std::io::Write::flush(&mut stream).is_ok() && stream.conn.complete_io(stream.sock).is_ok() {
                read_request(&mut stream);
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    address
}

/// Starts a proxy that connects everybody to this server, whatever they ask for. It wants a user.
fn proxy(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let head: Vec<String> =
                BufReader::with_capacity(1, &stream).lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            assert_eq!(head[0], format!("CONNECT {NAME}:443 HTTP/1.1"));
            // me:secret
            if !head.iter().any(|line| line == "Proxy-Authorization: Basic bWU6c2VjcmV0") {
                stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").unwrap();
                continue;
            }
            stream.write_all(b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n").unwrap();
            let server = TcpStream::connect(to).unwrap();
            let (mut from, mut back) = (stream.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut &server));
            std::thread::spawn(move || std::io::copy(&mut back, &mut stream));
        }
    });
    address
}

/// Sends a request in a process with these variables, and returns what comes of it.
fn ask(test: &str, url: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env_clear().env(URL, url);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let answer = stdout.lines().find_map(|line| line.split_once("answer: ")).map(|(_, answer)| answer.to_owned());
    answer.unwrap_or_else(|| panic!("{stdout}{}", String::from_utf8_lossy(&output.stderr)))
}

/// In the process that a test starts: sends the request. Returns whether this is that process.
#[expect(clippy::print_stdout, reason = "it is how the test hears of it")]
fn is_asking() -> bool {
    let Ok(url) = std::env::var(URL) else { return false };
    let answer =
        BlockingClient::new().unwrap().send(&Address::read(&url).unwrap(), HttpRequest::get("/"), Duration::from_secs(600));
    let answer = match answer {
        Ok(answer) => format!("{} {}", answer.status, answer.text()),
        Err(HttpError::Tls(error)) => format!("not trusted: {error}"),
        Err(error) => format!("{error}"),
    };
    println!("answer: {answer}");
    true
}

#[test]
fn a_server_with_a_trusted_certificate_is_asked() {
    if is_asking() {
        return;
    }
    let folder = TempFolder::new();
    let url = format!("https://localhost:{}", serve(&folder).port());
    let trusted = folder.join("cert.pem");
    let test = "https::a_server_with_a_trusted_certificate_is_asked";
    assert_eq!(ask(test, &url, &[("SSL_CERT_FILE", trusted.to_str().unwrap())]), "200 hello");
}

#[test]
fn a_server_with_another_certificate_or_another_name_is_refused() {
    if is_asking() {
        return;
    }
    let (folder, other) = (TempFolder::new(), TempFolder::new());
    let (address, _) = (serve(&folder), serve(&other));
    let test = "https::a_server_with_another_certificate_or_another_name_is_refused";
    let (own, others) = (folder.join("cert.pem"), other.join("cert.pem"));
    let answer = ask(test, &format!("https://localhost:{}", address.port()), &[("SSL_CERT_FILE", others.to_str().unwrap())]);
    assert!(answer.starts_with("not trusted: "), "{answer}");
    let answer = ask(test, &format!("https://127.0.0.1:{}", address.port()), &[("SSL_CERT_FILE", own.to_str().unwrap())]);
    assert!(answer.starts_with("not trusted: "), "{answer}");
    let empty = folder.join("none.pem");
    std::fs::write(&empty, "").unwrap();
    let answer = ask(test, &format!("https://localhost:{}", address.port()), &[("SSL_CERT_FILE", empty.to_str().unwrap())]);
    assert!(answer.contains("no certificates"), "{answer}");
}

#[test]
fn a_proxy_passes_on_what_is_encrypted() {
    if is_asking() {
        return;
    }
    let folder = TempFolder::new();
    let proxy = proxy(serve(&folder));
    let trusted = folder.join("cert.pem");
    let trusted = ("SSL_CERT_FILE", trusted.to_str().unwrap());
    let test = "https::a_proxy_passes_on_what_is_encrypted";
    let ask = |proxy: &str| ask(test, &format!("https://{NAME}"), &[trusted, ("HTTPS_PROXY", proxy)]);
    assert_eq!(ask(&format!("http://me:s%65cret@{proxy}")), "200 hello");
    assert_eq!(ask(&format!("me:s%65cret@{proxy}")), "200 hello");
    assert_eq!(ask(&format!("http://{proxy}")), format!("the proxy {proxy}: it answers 407 to CONNECT"));
    assert_eq!(ask("socks5://h:1"), "the proxy in HTTPS_PROXY: tapline does not support socks5 there, only http");
}
