//! The proxy that encrypted requests go through: `HTTPS_PROXY` or `ALL_PROXY` names it, `NO_PROXY` lists the hosts that need none.

use std::env;
use std::io;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::address::{Address, percent_decoded};
use crate::connect::connect;
use crate::error::HttpError;

/// The longest head of an answer that is read.
const HEAD: usize = 8 << 10;

/// A proxy that passes on encrypted connections.
pub(crate) struct Proxy {
    address: Address,
    /// The header that names the user, with its line end; empty if there is no user. It is a secret.
    user: String,
}

/// Returns the proxy for an address, if there is one.
pub(crate) fn proxy_for(address: &Address) -> Option<Result<Proxy, HttpError>> {
    let value = |name: &&str| env::var(name).ok().filter(|value| !value.is_empty());
    let (name, url) =
        ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"].iter().find_map(|name| Some((name, value(name)?)))?;
    if is_exempt(address.name(), &["no_proxy", "NO_PROXY"].iter().find_map(value).unwrap_or_default()) {
        return None;
    }
    Some(Proxy::read(&url).map_err(|why| HttpError::Connect(io::Error::other(format!("the proxy in {name}: {why}")))))
}

/// Returns whether a host is in a list such as `localhost,.example.com,10.0.0.1`. This machine never needs a proxy.
fn is_exempt(name: &str, list: &str) -> bool {
    let is_own = name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_own
        || list.split(',').map(|entry| entry.trim().trim_start_matches('.')).any(|entry| {
            entry == "*"
                || !entry.is_empty()
                    && name.len() >= entry.len()
                    && name[name.len() - entry.len()..].eq_ignore_ascii_case(entry)
                    && (name.len() == entry.len() || name.as_bytes()[name.len() - entry.len() - 1] == b'.')
        })
}

impl Proxy {
    /// Reads `http://USER:PASSWORD@HOST:PORT`; only the host must be there.
    fn read(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        if scheme != "http" {
            return Err(format!("tapline does not support {scheme} there, only http"));
        }
        let (user, host) = rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host));
        let address = Address::read(&format!("http://{host}")).map_err(|error| error.to_string())?;
        let user = user.map(|user| percent_decoded(user).ok_or("the user or the password has a wrong %")).transpose()?;
        let user = user.map(|user| format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(user))).unwrap_or_default();
        Ok(Self { address, user })
    }

    /// Asks the proxy for a connection to a host.
    pub(crate) async fn tunnel(&self, to: &Address) -> Result<TcpStream, HttpError> {
        let mut stream = connect(self.address.name(), self.address.port()).await.map_err(HttpError::Connect)?;
        open(&mut stream, &to.host(), &self.user).await.map_err(|error| {
            HttpError::Connect(io::Error::new(error.kind(), format!("the proxy {}: {error}", self.address.host())))
        })?;
        Ok(stream)
    }
}

async fn open(stream: &mut TcpStream, host: &str, user: &str) -> io::Result<()> {
    stream.write_all(format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n{user}\r\n").as_bytes()).await?;
    // Byte by byte: what comes after the head belongs to the host.
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let status = head.split_ascii_whitespace().nth(1).unwrap_or_default();
    if status.starts_with('2') { Ok(()) } else { Err(io::Error::other(format!("it answers {status} to CONNECT"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_the_list_and_this_machine_need_no_proxy() {
        let list = "internal, .example.com ,10.0.0.1";
        for name in ["internal", "a.internal", "EXAMPLE.com", "a.b.example.com", "10.0.0.1", "localhost", "127.0.0.1", "::1"] {
            assert!(is_exempt(name, list), "{name}");
        }
        for name in ["xinternal", "example.org", "notexample.com", "10.0.0.10", "com"] {
            assert!(!is_exempt(name, list), "{name}");
        }
        assert!(is_exempt("anything.at.all", "*"));
        assert!(!is_exempt("anything", ""));
    }
}
