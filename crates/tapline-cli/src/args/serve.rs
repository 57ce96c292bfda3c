//! The command line of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use tapline_server::Budget;

use super::archive::Prices;
use super::engine::Engine;
use super::sessions::dollars;

/// Watch all sessions in a browser, live
///
/// tapline serves a page with every session on this machine, as it grows: its own recordings, the transcripts that agents keep, and
/// streams that other machines push (`tapline run --push`). With a broker (`--engine`), it collects what workers of a fleet record. It needs no set-up in any repository. The first line of stdout is a link that
/// opens the page once; after that a cookie lets the browser in. Programs use the API with a token. `tapline help serving` has more.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tapline serve
  tapline serve --demo                        try the page without any agent
  tapline serve --budget 200 --budget shop=50 warn when a month, or a project's month, costs more
  tapline serve --otlp http://127.0.0.1:4318
  tapline serve --engine nats://broker:4222   show what workers of a fleet do, too
  tapline serve --no-open --listen 127.0.0.1:7770 --token-file ~/.tapline-token
  curl -H \"Authorization: Bearer $(cat ~/.tapline-token)\" http://127.0.0.1:7770/api/v1/sessions")]
pub(crate) struct Serve {
    /// Show only what is in these files and folders: transcripts, recordings, captured streams; and what is pushed
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Show a recorded session as it grows, and nothing of yours
    #[arg(long, conflicts_with = "paths")]
    pub(crate) demo: bool,
    /// Where to listen; port 0 is any free port. An address that other machines can reach needs --token-file
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Read the token of the API from this file: one line of at least 22 characters [default: a random one that nobody is told]
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
    /// Warn on the page when a month costs more than this, in USD: in all, or in projects with this in their folder's path; can be repeated
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

/// Reads `200` or `shop=50`.
fn budget(text: &str) -> Result<Budget, String> {
    // A path may have the sign in it, an amount does not.
    let (project, amount) = text.rsplit_once('=').map_or((None, text), |(project, amount)| (Some(project.trim()), amount));
    if project.is_some_and(str::is_empty) {
        return Err("write an amount of dollars like 200, or a project and its amount like shop=50".to_owned());
    }
    let usd = dollars(amount).map_err(|wrong| format!("{wrong}, or a project and its amount like shop=50"))?;
    Ok(Budget { project: project.map(str::to_owned), usd })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets() {
        let read = |text: &str| budget(text).map(|budget| (budget.project, budget.usd));
        assert_eq!(read("200"), Ok((None, 200.0)));
        assert_eq!(read("shop=50"), Ok((Some("shop".to_owned()), 50.0)));
        assert_eq!(read("a=b=$0.5"), Ok((Some("a=b".to_owned()), 0.5)));
        for wrong in ["", "shop", "shop=", "=5", "shop=-1", "shop=x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
