//! Where spans and metrics go, as the command line and OpenTelemetry's own variables say it.

use std::env;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use tapline_http::AddressError;
use tapline_http::percent_decoded;
use tapline_server::{OtlpError, OtlpOptions, OtlpTarget};
use tapline_session::otlp::OtlpResource;

use crate::features::{self, Feature};
use crate::output;

/// The receiver, if the command line names none.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Headers for the receiver, often with a secret.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// Reads where to export to. `flag` is how the command line would say it.
pub(crate) fn options(url: Option<&str>, flag: &str) -> Result<OtlpOptions> {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
    let url = match url.filter(|url| !url.is_empty()) {
        Some(url) => url.to_owned(),
        None => set(ENDPOINT).with_context(|| format!("no receiver for OTLP: name it with {flag}, or set {ENDPOINT}"))?,
    };
    let target = OtlpTarget::read(&url, &set(HEADERS).unwrap_or_default()).map_err(|error| match error {
        OtlpError::Address(AddressError::Encrypted(url)) => features::missing(&url, Feature::Https),
        OtlpError::Header(_) => anyhow!("{HEADERS}: {error}. It is a list like `api-key=abc,tenant=one`, with %20 for a blank"),
        error => error.into(),
    })?;
    let version = env!("CARGO_PKG_VERSION");
    let own = [("service.name", "tapline".to_owned()), ("service.version", version.to_owned())];
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned());
    let given = set("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let given = given.split(',').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.trim().to_owned(), percent_decoded(value.trim())?)).filter(|(name, _)| !name.is_empty())
    });
    let own = own.into_iter().chain(host.map(|host| ("host.name", host))).map(|(name, value)| (name.to_owned(), value));
    let name = set("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name));
    let resource = OtlpResource::new(version, own.chain(given).chain(name));
    let mut options = OtlpOptions::new(target, resource);
    options.tell = Some(output::tell);
    if let Some(interval) = set("OTEL_METRIC_EXPORT_INTERVAL") {
        let millis = interval.trim().parse().ok().filter(|millis| *millis > 0);
        let millis = millis.context("OTEL_METRIC_EXPORT_INTERVAL is not a number of milliseconds")?;
        options.interval = Duration::from_millis(millis);
    }
    Ok(options)
}
