//! Encrypted connections, with the certificates that the system trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others).

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::HttpError;

/// Encrypts a connection to a host, whose certificate must have this name.
pub(crate) async fn encrypt(stream: TcpStream, name: &str) -> Result<TlsStream<TcpStream>, HttpError> {
    let host = ServerName::try_from(name.to_owned()).map_err(|error| HttpError::Tls(io::Error::other(error)))?;
    TlsConnector::from(config()?).connect(host, stream).await.map_err(HttpError::Tls)
}

/// Reading the system's certificates takes some milliseconds, so they are read once.
fn config() -> Result<Arc<ClientConfig>, HttpError> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(Arc::clone(config));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
        return Err(HttpError::Tls(io::Error::other(format!(
            "this system has no certificates to check others by (package ca-certificates){why}"
        ))));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config =
        builder.map_err(|error| HttpError::Tls(io::Error::other(error)))?.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::clone(CONFIG.get_or_init(|| Arc::new(config))))
}
