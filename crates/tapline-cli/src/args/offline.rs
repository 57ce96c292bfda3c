//! The command lines of `sim`, `tee`, `shim` and `replay`: agents without a model, and between host and agent.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::AgentName;
use tapline_sim::Speed;

/// Run an agent against a model that follows a script: offline, deterministic, free
///
/// The scenario (TOML or JSON; docs/SIM.md describes it) says what the model answers, turn by turn. The command after `--` runs
/// with a fresh HOME, nothing inherited but PATH, TERM and LANG, and the scripted model as the only one it knows. The exit code is the
/// command's; 3 if it was 0 and the scenario's expectations did not hold.
#[derive(Debug, Args)]
#[command(after_long_help = SIM_EXAMPLES)]
pub(crate) struct Sim {
    /// What the model answers; `-` reads it from stdin
    #[arg(value_name = "SCENARIO", required_unless_present = "example")]
    pub(crate) scenario: Option<PathBuf>,
    /// Print a scenario to start from
    #[arg(long, conflicts_with_all = ["scenario", "listen", "log", "home", "env", "command"])]
    pub(crate) example: bool,
    /// Serve here, like 127.0.0.1:8123, and print the variables to export; without a command until Ctrl-C. Port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Append every request to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// When a signal is to end the command, wait this long; then kill it and everything that it has started
    #[arg(long, value_name = "TIME", value_parser = super::run::duration, default_value = "5s")]
    pub(crate) grace: Duration,
    /// Print a line on stderr for every request
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Use this folder as HOME and keep it, to resume sessions
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// One more variable for the command: NAME=VALUE, or NAME to pass on; may be given several times
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// The command, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

const SIM_EXAMPLES: &str = "\
Examples:
  tapline sim --example > look.toml
  tapline sim look.toml -- claude -p \"look around\" --dangerously-skip-permissions
  tapline sim look.toml --log requests.jsonl -- tapline run \"look around\"
  tapline sim codex.toml -- codex exec --json --skip-git-repo-check \"look around\"
  tapline sim look.toml --listen 127.0.0.1:8123 > sim.env &   # then: . ./sim.env

Exit codes: the command's (128 + the signal that ended it); 2 bad usage or scenario;
3 the scenario's expectations did not hold; 126 and 127 the command cannot be started.";

/// An address: `127.0.0.1:8123`, `localhost:0`.
fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| "write it like 127.0.0.1:8123; port 0 takes any that is free".to_owned())
}

/// Sit between a host and the real agent: both directions pass untouched, and are recorded
///
/// What follows `--` goes to the agent. A link named `claude` or `codex` to tapline does the same; `tapline shim` makes one.
#[derive(Debug, Args)]
#[command(after_long_help = TEE_EXAMPLES)]
pub(crate) struct Tee {
    /// Which agent [default: by the program's name, else claude]
    #[arg(long, value_enum)]
    pub(crate) agent: Option<AgentName>,
    /// Its program [default: $TAPLINE_CLAUDE_BIN or $TAPLINE_CODEX_BIN, else on PATH]
    #[arg(long, value_name = "PATH")]
    pub(crate) bin: Option<PathBuf>,
    /// Keep the recording in this new folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) record: Option<PathBuf>,
    /// Keep recordings under this folder, each in one of its own
    #[arg(long, value_name = "FOLDER", conflicts_with = "record")]
    pub(crate) record_in: Option<PathBuf>,
    /// The agent's arguments, after `--`
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<OsString>,
}

const TEE_EXAMPLES: &str = "\
Examples:
  tapline tee --record ./session -- -p \"look around\" --output-format stream-json --verbose
  ln -s \"$(command -v tapline)\" ~/tap/claude && PATH=~/tap:$PATH my-bot

Recordings are kept where `tapline run` keeps them, unless you say otherwise.
Exit codes: the agent's (or its signal); 126 it cannot be executed, 127 it was not found.";

impl Tee {
    /// What a link of an agent's name means.
    pub(crate) fn standing_in(agent: AgentName, args: Vec<OsString>) -> Self {
        Self { agent: Some(agent), bin: None, record: None, record_in: None, args }
    }
}

/// Make a stand-in for an agent: hosts that start it are recorded, or get a replay
///
/// Put the folder first in PATH, or give the program's path to the host (cli_path, pathToClaudeCodeExecutable).
#[derive(Debug, Args)]
#[command(after_long_help = SHIM_EXAMPLES)]
pub(crate) struct Shim {
    /// The folder to make it in
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Which agent [default: claude, or the one of the recording]
    #[arg(long, value_enum)]
    pub(crate) agent: Option<AgentName>,
    /// The real program behind it
    #[arg(long, value_name = "PATH", conflicts_with = "replay")]
    pub(crate) bin: Option<PathBuf>,
    /// Keep recordings under this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "replay")]
    pub(crate) record_in: Option<PathBuf>,
    /// Play this recording instead of starting the agent; of a folder of them the one with the host's arguments
    #[arg(long, value_name = "RECORDING")]
    pub(crate) replay: Option<PathBuf>,
    /// With --replay: more arguments of `tapline replay`, behind `--`
    #[arg(last = true, value_name = "REPLAY ARGS", requires = "replay")]
    pub(crate) args: Vec<OsString>,
}

const SHIM_EXAMPLES: &str = "\
Examples:
  CLAUDE=$(tapline shim ~/tap --record-in ./recordings) && my-bot --claude \"$CLAUDE\"
  CLAUDE=$(tapline shim ./fake --replay RECORDING -- --speed instant) && my-bot --claude \"$CLAUDE\"

It prints the path of what it made. Recordings are kept where `tapline run` keeps them,
unless you say otherwise.";

/// Play a recorded agent back to any host: the same bytes, the same exit code or signal
///
/// What the host sends is awaited where it was awaited in the recording; control requests are answered from it, with the host's own
/// ids. Recordings are plain files and can be edited by hand.
#[derive(Debug, Args)]
#[command(after_long_help = REPLAY_EXAMPLES)]
pub(crate) struct Replay {
    /// The recording's folder, or a folder of recordings: then the one that was made with the same ARGS
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// How fast: real, a factor like 10, or instant
    #[arg(long, value_name = "SPEED", default_value = "real", value_parser = speed)]
    pub(crate) speed: Speed,
    /// Write at most so many bytes at once
    #[arg(long, value_name = "BYTES")]
    pub(crate) chunks: Option<NonZeroUsize>,
    /// Fault: end after so many lines of output
    #[arg(long, value_name = "N")]
    pub(crate) stop_after: Option<u64>,
    /// Fault: say nothing more after so many lines of output, and stay
    #[arg(long, value_name = "N")]
    pub(crate) hang_at: Option<u64>,
    /// Fault: leave out what ends a turn (result; turn.completed, turn.failed)
    #[arg(long)]
    pub(crate) drop_result: bool,
    /// Fail where the host departs from what was recorded, and say where (exit code 3)
    #[arg(long)]
    pub(crate) strict: bool,
    /// What a host gives its agent, behind `--`; looked at with --strict, and to choose among recordings
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<OsString>,
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  tapline replay RECORDING --speed 10
  tapline replay RECORDING --speed instant --chunks 1 | my-parser
  CLAUDE=$(tapline shim DIR --replay RECORDING -- --speed instant) && my-bot --claude \"$CLAUDE\"

Exit codes: the recorded agent's (or its signal); 3 the host departed (--strict);
4 the recording has no end.";

fn speed(text: &str) -> Result<Speed, String> {
    match text {
        "real" => Ok(Speed::Times(1.0)),
        "instant" => Ok(Speed::Instant),
        _ => {
            let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
            factor.map(Speed::Times).ok_or_else(|| "write real, instant, or a factor above 0 like 10".to_owned())
        }
    }
}
