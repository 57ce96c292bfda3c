//! The command line of `serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use tapline_server::Budget;

use super::archive::Prices;
use super::engine::Engine;
use crate::money::budget;

/// Watch all sessions in a browser, live
///
/// tapline serves a page with every session on this machine, as it grows: its own recordings, the transcripts that agents keep, and
/// streams that other machines push (`tapline run --push`). With a NATS server (`--engine`), it also collects and shows what workers record.
/// Repositories need no set-up. The first line of stdout is a link that opens the page once; after that a cookie lets the browser in.
/// Programs use the API with a token. `tapline help serving` has more.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  tapline serve
  tapline serve link                            print a fresh link of the server that runs
  tapline serve --demo                          try the page without any agent
  tapline serve --budget 200 --budget shop=50   warn when a month costs more, in all or in the project shop
  tapline serve --otlp http://127.0.0.1:4318    send spans and metrics to OpenTelemetry
  tapline serve --engine nats://broker:4222     show what workers on other machines do, too
  tapline serve --no-open --listen 127.0.0.1:7770 --token-file ~/.tapline-token
  curl -H \"Authorization: Bearer $(cat ~/.tapline-token)\" http://127.0.0.1:7770/api/v1/sessions"
)]
pub(crate) struct Serve {
    #[command(subcommand)]
    pub(crate) command: Option<ServeCommand>,
    /// Show only what is in these files and folders: transcripts, recordings, captured streams; and what is pushed
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Show an example of a session that grows, and none of your own sessions
    #[arg(long, conflicts_with = "paths")]
    pub(crate) demo: bool,
    /// Where to listen; port 0 is any free port. An address that other machines can reach needs --token-file
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    /// Read the tokens of the API from this file: a line for each, of at least 22 characters. Before it, a line may name what it may do: push, read, control [default: none, so that only the page can use the API]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Answer to this host name, too, for a proxy in front of tapline; can be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// Do not open a browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Let the page answer, interrupt and stop runs and chats that are pushed here (`tapline run --push`, `tapline chat --push`)
    #[arg(long)]
    pub(crate) allow_control: bool,
    /// Warn on the page when a month costs more than this many dollars: in all or, with PROJECT=, in projects whose folder has this text in
    /// its path; can be repeated [default: those of config.toml]
    #[arg(long, value_name = "[PROJECT=]USD", value_parser = budget)]
    pub(crate) budget: Vec<Budget>,
    /// Send spans and metrics of what happens from now on to this OpenTelemetry receiver [default: $OTEL_EXPORTER_OTLP_ENDPOINT]
    ///
    /// tapline sends protobuf to URL/v1/traces and URL/v1/metrics. Headers come from $OTEL_EXPORTER_OTLP_HEADERS.
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    pub(crate) otlp: Option<String>,
    /// With --otlp: send prompts, texts, arguments and results, too, without their secrets
    #[arg(long, requires = "otlp")]
    pub(crate) otlp_content: bool,
    #[command(flatten)]
    pub(crate) prices: Prices,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServeCommand {
    /// Print a fresh link of the server that runs
    ///
    /// The link opens the page once, for ten minutes. Each server that runs with this $TAPLINE_HOME gets one, on a line of its own.
    Link,
}

/// Reads an address to listen on. `localhost` is this machine's loopback; other names are not looked up.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.rsplit_once(':').map(|(_, port)| port);
    if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| {
        let is_number = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let wrong = match port {
            Some(port) if is_number(port) && port.parse::<u16>().is_err() => "a port is a number up to 65535",
            Some(port) if is_number(port) => "the address is an IP address or localhost",
            _ => "it is an address and a port",
        };
        format!("{wrong}, as in 127.0.0.1:7770 or localhost:7770")
    })
}
