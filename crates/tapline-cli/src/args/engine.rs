//! How to reach the broker that machines share: flags of every command that does.

#[cfg(feature = "nats")]
use std::collections::BTreeSet;
use std::path::PathBuf;

#[cfg(feature = "nats")]
use anyhow::Context as _;
use anyhow::Result;
use clap::Args;
#[cfg(feature = "nats")]
use tapline_fleet::{Broker, check_key};

#[cfg(not(feature = "nats"))]
use crate::features::{Feature, missing};

/// The variable with the address of the broker.
pub(crate) const ENGINE: &str = "TAPLINE_ENGINE";

/// The broker, and who we are there. Everything is as NATS has it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Many machines")]
pub(crate) struct Engine {
    /// The NATS server that machines share: nats://HOST:4222 or tls://HOST:4222; commas separate the servers of a cluster [default:
    /// $TAPLINE_ENGINE]
    #[arg(long, value_name = "URL", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) engine: Option<String>,
    /// A file with NATS credentials (.creds)
    #[arg(long, value_name = "FILE")]
    pub(crate) nats_creds: Option<PathBuf>,
    /// A file with the seed of an NKey
    #[arg(long, value_name = "FILE", conflicts_with = "nats_creds")]
    pub(crate) nats_nkey: Option<PathBuf>,
    /// A file with certificates of authorities to trust, in addition to those of the system
    #[arg(long, value_name = "FILE")]
    pub(crate) nats_ca: Option<PathBuf>,
    /// A file with tapline's own certificate, if the server asks for one
    #[arg(long, value_name = "FILE", requires = "nats_key")]
    pub(crate) nats_cert: Option<PathBuf>,
    /// A file with the key of that certificate
    #[arg(long, value_name = "FILE", requires = "nats_cert")]
    pub(crate) nats_key: Option<PathBuf>,
}

/// A broker, in a build that cannot reach any.
#[cfg(not(feature = "nats"))]
#[derive(Debug)]
pub(crate) enum Broker {}

/// Returns the keys of the machines that are trusted.
#[cfg(feature = "nats")]
pub(crate) fn trusted(keys: &[String]) -> Result<BTreeSet<String>> {
    keys.iter().map(|key| check_key(key).with_context(|| format!("--trust {key}"))).collect()
}

impl Engine {
    /// Returns the address of the broker, if one is named.
    fn url(&self) -> Option<String> {
        let of_user = || std::env::var(ENGINE).ok().filter(|url| !url.trim().is_empty());
        self.engine.clone().or_else(of_user)
    }

    /// Returns the broker, if one is named. A build that cannot reach one refuses it.
    #[cfg(not(feature = "nats"))]
    pub(crate) fn broker(&self) -> Result<Option<Broker>> {
        let how = if self.engine.is_some() { "--engine" } else { ENGINE };
        self.url().map_or(Ok(None), |_| Err(missing(how, Feature::Nats)))
    }

    /// Returns the broker, if one is named.
    #[cfg(feature = "nats")]
    #[expect(clippy::unnecessary_wraps, reason = "a build without brokers refuses them")]
    pub(crate) fn broker(&self) -> Result<Option<Broker>> {
        let Some(url) = self.url() else { return Ok(None) };
        let mut broker = Broker::at(url);
        broker.credentials.clone_from(&self.nats_creds);
        broker.nkey.clone_from(&self.nats_nkey);
        broker.ca.clone_from(&self.nats_ca);
        broker.certificate = self.nats_cert.clone().zip(self.nats_key.clone());
        Ok(Some(broker))
    }
}
