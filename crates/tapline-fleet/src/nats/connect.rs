//! How to reach the broker: its address, and who we are there.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_nats::Event as ConnectionNews;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::AccountErrorKind;
use async_nats::jetstream::{self, Context};
use async_nats::{Auth, AuthError, Client, ClientError, ConnectErrorKind, ConnectOptions, ServerError};
use nkeys::KeyPair;
use serde::{Deserialize, Serialize};

use super::role::BrokerRole;
use super::trouble::{NO_QUORUM, Trouble, has_no_quorum};
use crate::folder::{BatchError, BatchFolder};

/// The broker, and who we are there. Everything is as NATS has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Broker {
    /// Its address: `nats://HOST:4222` or `tls://HOST:4222`; several are separated by commas.
    pub url: String,
    /// A file with credentials (`.creds`).
    pub credentials: Option<PathBuf>,
    /// A file with the seed of an `NKey`.
    pub nkey: Option<PathBuf>,
    /// A file with the certificates of authorities to trust, besides those of the system.
    pub ca: Option<PathBuf>,
    /// Files with a client's certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The keys of data folders: a worker takes orders from these, and a batch believes outcomes from these. Without any, everybody is believed
    /// who may write to the broker.
    pub trusted: BTreeSet<String>,
}

/// Why the broker cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// The address makes no sense.
    #[error("`{address}` is no address of a NATS server (an example is nats://127.0.0.1:4222)")]
    Address {
        /// The address, without a password.
        address: String,
    },
    /// A file cannot be read.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// Nobody answers there.
    #[error("cannot reach the broker at {address}: {}", cause(.error))]
    Unreachable {
        /// The address, without a password.
        address: String,
        /// The cause. It tells its own causes, too, so it is no source of this error.
        error: async_nats::ConnectError,
    },
    /// The broker does not take us.
    #[error("the broker at {address} refuses us: {who} missing, wrong or expired ({})", cause(.error))]
    Refused {
        /// The address, without a password.
        address: String,
        /// What we have told the broker about us: the name of a file, for example.
        who: String,
        /// The cause. It tells its own causes, too, so it is no source of this error.
        error: async_nats::ConnectError,
    },
    /// The broker and we cannot agree on TLS.
    #[error("no safe connection to the broker at {address}: it and we must trust each other's certificates ({})", cause(.error))]
    Untrusted {
        /// The address, without a password.
        address: String,
        /// The cause. It tells its own causes, too, so it is no source of this error.
        error: async_nats::ConnectError,
    },
    /// The broker has no JetStream.
    #[error("the broker at {address} has no JetStream: start it with `nats-server --jetstream`")]
    NoJetStream {
        /// The address, without a password.
        address: String,
    },
    /// Something is missing, and we may not make it.
    #[error("the broker has no {name}, and this user may not make it")]
    Missing {
        /// What is missing.
        name: String,
    },
    /// The broker has no room.
    #[error("{what} is full: raise its limits, or wait until there is room")]
    Full {
        /// What has no room.
        what: &'static str,
    },
    /// Too few servers of a cluster are there.
    #[error("{}", NO_QUORUM)]
    NoQuorum,
    /// The broker did not do what was asked.
    #[error("the broker cannot {what}: {why}")]
    Failed {
        /// What it should have done.
        what: &'static str,
        /// Its own words.
        why: String,
    },
}

impl BrokerError {
    /// The broker did not do what was asked, for this reason.
    pub(crate) fn failed<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| match error.to_string() {
            why if has_no_quorum(&why) => Self::NoQuorum,
            why => Self::Failed { what, why },
        }
    }
}

impl Broker {
    /// A broker at this address.
    pub fn at(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// Notes in the folder of a batch how to reach the broker. A password in the address is not noted: it is given again.
    pub fn note(&self, folder: &BatchFolder) -> Result<(), BatchError> {
        let here = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        folder.note_engine(&Self {
            url: self.address(),
            credentials: self.credentials.as_ref().map(here),
            nkey: self.nkey.as_ref().map(here),
            ca: self.ca.as_ref().map(here),
            certificate: self.certificate.as_ref().map(|(certificate, key)| (here(certificate), here(key))),
            trusted: self.trusted.clone(),
        })
    }

    /// Returns the broker that was noted in the folder of a batch.
    pub fn noted(folder: &BatchFolder) -> Option<Self> {
        serde_json::from_value(folder.engine()?).ok()
    }

    /// Returns the address without a password, for people.
    pub fn address(&self) -> String {
        let plain = |url: &str| match (url.split_once("://"), url.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
            (None, Some((_, host))) => host.to_owned(),
            (_, None) => url.to_owned(),
        };
        self.url.split(',').map(plain).collect::<Vec<_>>().join(",")
    }

    /// Connects under this name. If the connection is lost later, it is made again for as long as it takes.
    pub async fn connect(&self, name: &str) -> Result<Client, BrokerError> {
        self.connect_with(self.options()?.name(name).max_reconnects(None)).await
    }

    /// Connects, and tells if the connection is lost later, or the broker refuses us then.
    async fn connect_and_tell(
        &self,
        role: BrokerRole,
        name: &str,
        trouble: Option<Arc<Trouble>>,
    ) -> Result<Client, BrokerError> {
        let mut options = self.options()?.name(name).max_reconnects(None).custom_inbox_prefix(role.inbox());
        if let Some(trouble) = trouble {
            let refused = self.refused();
            options = options.event_callback(move |event| {
                match refuses(&event) {
                    Some(true) => trouble.lost(Some(&refused)),
                    Some(false) => trouble.connected(),
                    None if event == ConnectionNews::Disconnected => trouble.lost(None),
                    None => {}
                }
                std::future::ready(())
            });
        }
        self.connect_with(options).await
    }

    /// Returns options that say who we are.
    pub(crate) fn options(&self) -> Result<ConnectOptions, BrokerError> {
        if let (None, None) = (&self.credentials, &self.nkey) {
            return Ok(ConnectOptions::new());
        }
        for path in [&self.credentials, &self.nkey].into_iter().flatten() {
            read(path)?;
        }
        if let Some(path) = &self.credentials {
            jwt_and_seed(&read(path)?).map_err(|error| BrokerError::File { path: path.clone(), error })?;
        }
        let broker = self.clone();
        let auth = move |nonce: Vec<u8>| std::future::ready(broker.auth(&nonce).map_err(AuthError::new));
        Ok(ConnectOptions::with_auth_callback(auth))
    }

    /// Connects with these options.
    pub(crate) async fn connect_with(&self, mut options: ConnectOptions) -> Result<Client, BrokerError> {
        if let Some(path) = &self.ca {
            if !read(path)?.contains("-----BEGIN CERTIFICATE-----") {
                let error = io::Error::new(io::ErrorKind::InvalidData, "it has no certificate");
                return Err(BrokerError::File { path: path.clone(), error });
            }
            options = options.add_root_certificates(path.clone());
        }
        if let Some((certificate, key)) = &self.certificate {
            read(certificate)?;
            read(key)?;
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        let mut addresses = Vec::new();
        // A comma at the end names nobody.
        for url in self.url.split(',').filter(|url| !url.trim().is_empty()) {
            let wrong = |_| BrokerError::Address { address: Self::at(url).address() };
            addresses.push(url.trim().parse::<async_nats::ServerAddr>().map_err(wrong)?);
        }
        if addresses.is_empty() {
            return Err(BrokerError::Address { address: self.address() });
        }
        // The client itself does not look for them there.
        if let Some((user, password)) =
            addresses.iter().find_map(|address| Some((plain(address.username()?), address.password())))
        {
            options = match password {
                Some(password) => options.user_and_password(user, plain(password)),
                None => options.token(user),
            };
        }
        let address = self.address();
        options.connect(addresses).await.map_err(|error| match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                BrokerError::Refused { address, who: self.who(), error }
            }
            ConnectErrorKind::ServerParse => BrokerError::Address { address },
            ConnectErrorKind::Tls => BrokerError::Untrusted { address, error },
            ConnectErrorKind::Io if is_of_tls(&error) => BrokerError::Untrusted { address, error },
            _ => BrokerError::Unreachable { address, error },
        })
    }

    /// Who we are. Files are read again for each connection: somebody may have renewed them.
    fn auth(&self, nonce: &[u8]) -> io::Result<Auth> {
        let mut auth = Auth::new();
        let sign = |seed: &str| {
            let pair = KeyPair::from_seed(seed).map_err(io::Error::other)?;
            Ok::<_, io::Error>((pair.public_key(), pair.sign(nonce).map_err(io::Error::other)?))
        };
        if let Some(path) = &self.nkey {
            let (key, signature) = sign(std::fs::read_to_string(path)?.trim())?;
            (auth.nkey, auth.signature) = (Some(key), Some(signature));
        }
        if let Some(path) = &self.credentials {
            let (jwt, seed) = jwt_and_seed(&std::fs::read_to_string(path)?)?;
            (auth.jwt, auth.signature) = (Some(jwt), Some(sign(&seed)?.1));
        }
        Ok(auth)
    }

    /// What we tell the broker about us.
    fn who(&self) -> String {
        match (&self.credentials, &self.nkey, self.url.contains('@')) {
            (Some(path), ..) => format!("the credentials in {} are", path.display()),
            (None, Some(path), _) => format!("the NKey in {} is", path.display()),
            (None, None, true) => "the user or the password in the address is".to_owned(),
            (None, None, false) => "the credentials are".to_owned(),
        }
    }

    /// What people are told if the broker refuses us later.
    fn refused(&self) -> String {
        let what_to_do = match (&self.credentials, &self.nkey) {
            (None, None) => "It is tried again; if that does not help, start this again with others",
            _ => "Renew the file: it is read again for each try",
        };
        format!("the broker refuses us: {} wrong, expired or withdrawn. {what_to_do}. Nothing is lost", self.who())
    }

    /// Connects, and asks whether the broker has JetStream.
    pub(crate) async fn jetstream(
        &self,
        role: BrokerRole,
        name: &str,
        trouble: Option<Arc<Trouble>>,
    ) -> Result<(Client, Context), BrokerError> {
        let client = self.connect_and_tell(role, name, trouble).await?;
        let context = jetstream::new(client.clone());
        match context.query_account().await {
            Ok(_) => Ok((client, context)),
            Err(error) if has_none(&error.kind()) => Err(BrokerError::NoJetStream { address: self.address() }),
            Err(error) => Err(BrokerError::failed("tell whether it has JetStream")(error)),
        }
    }
}

/// The JWT and the seed in a file of credentials, as `nsc` makes it: each is a line between two that name it.
fn jwt_and_seed(text: &str) -> io::Result<(String, String)> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_framed = |lines: &&[&str]| lines[0].starts_with("-----BEGIN ") && lines[2].starts_with("------END ");
    let mut framed = lines.windows(3).filter(is_framed).map(|lines| lines[1].to_owned());
    match (framed.next(), framed.next()) {
        (Some(jwt), Some(seed)) => Ok((jwt, seed)),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it has no JWT and seed of a user, as `nsc generate creds` writes them",
        )),
    }
}

/// How many bytes of ours a message has room for: an operator may have made messages smaller, and there are headers besides.
pub(crate) fn most_bytes(client: &Client) -> usize {
    client.server_info().max_payload / 4 * 3
}

/// The size of the parts of an object.
pub(crate) fn chunk_size(client: &Client) -> usize {
    most_bytes(client).clamp(1, 256 << 10)
}

/// Whether the broker refuses us, or takes us; many events say nothing about it.
fn refuses(event: &ConnectionNews) -> Option<bool> {
    let is_about_us = |words: &str| {
        let words = words.to_lowercase();
        words.contains("authentication") || words.contains("authorization")
    };
    match event {
        ConnectionNews::Connected => Some(false),
        ConnectionNews::ServerError(ServerError::AuthorizationViolation) => Some(true),
        ConnectionNews::ServerError(ServerError::Other(words)) | ConnectionNews::ClientError(ClientError::Other(words)) => {
            is_about_us(words).then_some(true)
        }
        _ => None,
    }
}

/// Whether this means that there is no JetStream, for nobody or for us.
fn has_none(error: &AccountErrorKind) -> bool {
    match error {
        AccountErrorKind::JetStreamUnavailable => true,
        AccountErrorKind::JetStream(error) => {
            [ErrorCode::JETSTREAM_NOT_ENABLED, ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT].contains(&error.error_code())
        }
        AccountErrorKind::TimedOut | AccountErrorKind::Other => false,
    }
}

/// Whether it is about certificates.
fn is_of_tls(error: &async_nats::ConnectError) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData)
}

/// The first cause of an error, in its own words.
fn cause(error: &async_nats::ConnectError) -> String {
    let first = std::iter::successors(std::error::Error::source(error), |cause| cause.source()).last();
    first.map_or_else(|| error.to_string(), ToString::to_string)
}

/// A part of an address without its escapes: `%40` is `@`.
fn plain(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = escaped.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn read(path: &Path) -> Result<String, BrokerError> {
    std::fs::read_to_string(path).map_err(|error| BrokerError::File { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_that_expire_are_known_by_the_words_of_the_broker() {
        let server = |words: &str| ConnectionNews::ServerError(ServerError::Other(words.to_owned()));
        for event in [
            ConnectionNews::ServerError(ServerError::AuthorizationViolation),
            server("User Authentication Expired"),
            server("user authentication revoked"),
            ConnectionNews::ClientError(ClientError::Other(ConnectErrorKind::AuthorizationViolation.to_string())),
        ] {
            assert_eq!(refuses(&event), Some(true), "{event}");
        }
        assert_eq!(refuses(&ConnectionNews::Connected), Some(false));
        assert_eq!(refuses(&server("Permissions Violation for Publish to \"x\"")), None);
    }

    #[test]
    fn credentials_as_nsc_writes_them() {
        let text = "-----BEGIN NATS USER JWT-----\r\neyJ0.e30.c2ln\r\n------END NATS USER JWT------\r\n\r\n\
                    ************* IMPORTANT *************\n\n-----BEGIN USER NKEY SEED-----\nSUAB\n------END USER NKEY SEED------\n";
        let short = text.replace("************* IMPORTANT *************\n", "");
        for text in [text, &short] {
            assert_eq!(jwt_and_seed(text).ok(), Some(("eyJ0.e30.c2ln".to_owned(), "SUAB".to_owned())), "{text}");
        }
        for wrong in ["", "SUAB", "-----BEGIN USER NKEY SEED-----\nSUAB\n------END USER NKEY SEED------\n"] {
            assert!(jwt_and_seed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_password_can_have_any_characters() {
        for (text, is) in [("a", "a"), ("%40%3A%2f", "@:/"), ("100%", "100%"), ("%zz%4", "%zz%4"), ("", ""), ("%C3%BC", "ü")] {
            assert_eq!(plain(text), is);
        }
    }

    #[test]
    fn no_password_is_told() {
        for (url, told) in [
            ("nats://127.0.0.1:4222", "nats://127.0.0.1:4222"),
            ("nats://me:secret@host:4222,tls://me:se@cret@other", "nats://host:4222,tls://other"),
            ("me:secret@host", "host"),
        ] {
            assert_eq!(Broker::at(url).address(), told);
        }
    }
}
