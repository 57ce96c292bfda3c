//! Where requests go: the address of a server, read and checked once.

use std::fmt;

/// Why an address cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It is no address. What could be a password in it is not repeated.
    #[error("`{0}` is not an address like http://HOST:PORT")]
    Invalid(String),
    /// It needs encryption, and this program was built without it.
    #[error("`{0}` begins with https://, and this tapline was built without the feature `https`")]
    Encrypted(String),
}

/// The address of a server: `http://127.0.0.1:4318`, `https://collector.example/otel`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    is_encrypted: bool,
    /// The name or the number of the host, without brackets.
    name: String,
    port: u16,
    /// What stands before the path of each request; empty, or with a slash at its beginning and none at its end.
    prefix: String,
}

impl Address {
    /// Reads an address. It has a host, and may have a port and a path, but no name of a user, no query and no fragment.
    pub fn read(url: &str) -> Result<Self, AddressError> {
        let url = url.trim();
        let invalid = || AddressError::Invalid(without_user(url));
        let (is_encrypted, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err(invalid()),
        };
        if is_encrypted && !cfg!(feature = "https") {
            return Err(AddressError::Encrypted(without_user(url)));
        }
        let (host, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && !b"@?#\"<>\\".contains(&byte));
        if !is_plain(host) || !is_plain(prefix) {
            return Err(invalid());
        }
        let (name, port) = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
            Some((name, port)) => (name, port),
            None => host.find(':').map_or((host, ""), |at| host.split_at(at)),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| invalid())?,
            None if port.is_empty() => {
                if is_encrypted {
                    443
                } else {
                    80
                }
            }
            None => return Err(invalid()),
        };
        if name.is_empty() || name.contains(['[', ']']) {
            return Err(invalid());
        }
        let prefix = prefix.trim_end_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
        Ok(Self { is_encrypted, name: name.to_owned(), port, prefix })
    }

    /// Returns whether requests to it are encrypted.
    pub const fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Returns the host and its port, as people write them.
    pub fn host(&self) -> String {
        let Self { name, port, .. } = self;
        if name.contains(':') { format!("[{name}]:{port}") } else { format!("{name}:{port}") }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns a path on this server, as a request has it.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http{}://{}{}", if self.is_encrypted { "s" } else { "" }, self.host(), self.prefix)
    }
}

/// A user and a password may stand before the host. They are secrets.
fn without_user(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((before, host)) => {
            format!("{}…@{host}", before.split_once("://").map_or(String::new(), |(scheme, _)| format!("{scheme}://")))
        }
        None => url.to_owned(),
    }
}

/// Decodes `%20` and the like. Returns nothing if a `%` has no two digits behind it, or if the result is no text.
///
/// ```
/// assert_eq!(tapline_http::percent_decoded("a%20b").as_deref(), Some("a b"));
/// assert_eq!(tapline_http::percent_decoded("100%"), None);
/// ```
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        if *first == b'%' {
            let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok())?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &behind[2..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_a_port_and_a_prefix() {
        for (url, host, path) in [
            ("http://127.0.0.1:4318", "127.0.0.1:4318", "/x"),
            (" http://collector:4318/ ", "collector:4318", "/x"),
            ("http://collector/a/b/", "collector:80", "/a/b/x"),
            ("http://[::1]:4318", "[::1]:4318", "/x"),
            ("http://[::1]", "[::1]:80", "/x"),
        ] {
            let address = Address::read(url).unwrap();
            assert_eq!((address.host().as_str(), address.path("/x").as_str()), (host, path), "{url}");
            assert_eq!(Address::read(&address.to_string()), Ok(address), "{url}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let urls = [
            "",
            "127.0.0.1:4318",
            "http://",
            "http://:4318",
            "http://a b",
            "http://u:p@host:1",
            "http://host:99999",
            "http://host:x",
            "http://h/\r\nX: y",
            "grpc://x",
            "http://h?x",
            "http://::1",
            "http://[::1",
            "http://[::1]x",
            "http://[]:1",
            "http://a]b",
            "ftp://x",
        ];
        for url in urls {
            assert!(matches!(Address::read(url), Err(AddressError::Invalid(_))), "{url}");
        }
    }

    #[test]
    fn a_password_is_not_repeated() {
        let error = Address::read("http://me:hunter2@host:1").unwrap_err().to_string();
        assert_eq!(error, "`http://…@host:1` is not an address like http://HOST:PORT");
    }

    #[test]
    fn an_encrypted_address_needs_the_feature() {
        let address = Address::read("https://collector.example/otel");
        if cfg!(feature = "https") {
            assert_eq!(address.map(|address| address.to_string()).as_deref(), Ok("https://collector.example:443/otel"));
        } else {
            assert_eq!(address, Err(AddressError::Encrypted("https://collector.example/otel".to_owned())));
        }
    }
}
