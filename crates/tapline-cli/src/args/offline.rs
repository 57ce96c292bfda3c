//! The command lines of `sim`, `tee`, `shim` and `replay`: agents without a model, and between host and agent.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use tapline_protocol::Agent;
use tapline_sim::Speed;

use crate::agents;

/// Run an agent against a scripted model: offline, deterministic, free
///
/// The scenario (TOML or JSON; `tapline help scenarios`) lists the model's answers, turn by turn. The command after `--` runs with a
/// fresh HOME, inherits only PATH, TERM and LANG, and can use only the scripted model. tapline exits with the command's exit code, or
/// with 3 if the command succeeded but the scenario's expectations were not met.
#[derive(Debug, Args)]
#[command(after_long_help = SIM_EXAMPLES)]
pub(crate) struct Sim {
    /// The scenario file; `-` reads stdin
    #[arg(value_name = "SCENARIO", required_unless_present = "example")]
    pub(crate) scenario: Option<PathBuf>,
    /// Print an example scenario
    #[arg(long, conflicts_with_all = ["scenario", "listen", "log", "home", "env", "command"])]
    pub(crate) example: bool,
    /// Serve on this address, such as 127.0.0.1:8123, and print the variables to export
    ///
    /// Port 0 picks a free port. Without a command, tapline serves until Ctrl-C.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Append every request to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// After a signal, wait this long for the command to exit; then kill it and every process that it started
    #[arg(long, value_name = "TIME", value_parser = super::run::duration, default_value = "5s")]
    pub(crate) grace: Duration,
    /// Print one line on stderr for every request
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Use this folder as HOME and keep it, to resume sessions
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Set an environment variable for the command (NAME=VALUE), or keep one (NAME); can be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// The command to run, after `--`
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
3 the scenario's expectations were not met; 126 and 127 the command cannot be started.";

/// An address: `127.0.0.1:8123`, `localhost:0`.
fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| "write it like 127.0.0.1:8123; port 0 picks a free port".to_owned())
}

/// Record what an agent and the program that starts it (the host) send each other
///
/// The host is the program that talks to the agent: an SDK, a bot, an editor. It starts `tapline tee` in place of the agent. tee starts
/// the real agent and passes everything on unchanged, in both directions. Arguments after `--` go to the agent. A link to tapline
/// that has an agent's name, such as `claude`, does the same; `tapline shim` creates one.
#[derive(Debug, Args)]
#[command(after_long_help = TEE_EXAMPLES)]
pub(crate) struct Tee {
    /// The agent to start [default: the one that the program is named after, else claude]
    #[arg(long, value_parser = agents::named())]
    pub(crate) agent: Option<Agent>,
    #[arg(long, value_name = "PATH", help = agents::about_program())]
    pub(crate) bin: Option<PathBuf>,
    /// Record into this new folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) record: Option<PathBuf>,
    /// Record under this folder, each session in its own new folder
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

Without --record and --record-in, recordings go where `tapline run` puts them.
Exit codes: the agent's (or its signal); 126 agent not executable, 127 agent not found.";

impl Tee {
    /// What a link of an agent's name means.
    pub(crate) fn standing_in(agent: Agent, args: Vec<OsString>) -> Self {
        Self { agent: Some(agent), bin: None, record: None, record_in: None, args }
    }
}

/// Create a program with an agent's name, such as `claude`, that records the real agent, or replays a recording
///
/// The host (the program that starts the agent: an SDK, a bot, an editor) then starts this stand-in. Put its folder first in PATH, or
/// give the host the path of the stand-in (cli_path, pathToClaudeCodeExecutable).
#[derive(Debug, Args)]
#[command(after_long_help = SHIM_EXAMPLES)]
pub(crate) struct Shim {
    /// The folder to create the stand-in in
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The agent to stand in for [default: claude, or the recorded one]
    #[arg(long, value_parser = agents::named())]
    pub(crate) agent: Option<Agent>,
    /// The real agent's program
    #[arg(long, value_name = "PATH", conflicts_with = "replay")]
    pub(crate) bin: Option<PathBuf>,
    /// Record under this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "replay")]
    pub(crate) record_in: Option<PathBuf>,
    /// Play this recording instead of starting the agent; in a folder of recordings, play the one with the same arguments
    #[arg(long, value_name = "RECORDING")]
    pub(crate) replay: Option<PathBuf>,
    /// With --replay: more arguments for `tapline replay`, after `--`
    #[arg(last = true, value_name = "REPLAY ARGS", requires = "replay")]
    pub(crate) args: Vec<OsString>,
}

const SHIM_EXAMPLES: &str = "\
Examples:
  CLAUDE=$(tapline shim ~/tap --record-in ./recordings) && my-bot --claude \"$CLAUDE\"
  CLAUDE=$(tapline shim ./fake --replay RECORDING -- --speed instant) && my-bot --claude \"$CLAUDE\"

It prints the path of the stand-in. Without --record-in, recordings go where `tapline run`
puts them.";

/// Play a recorded agent: the same output, the same exit code or signal
///
/// A host (the program that starts the agent: an SDK, a bot, an editor) can talk to the replay as it talks to the agent. The replay waits for the
/// host's messages where the agent waited for them, and answers control requests from the recording. Recordings are plain files, which you can
/// edit.
#[derive(Debug, Args)]
#[command(after_long_help = REPLAY_EXAMPLES)]
pub(crate) struct Replay {
    /// A recording (`last` is the newest), or a folder of recordings: tapline plays the one that was made with the same ARGS
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Set the speed: real, a factor such as 10, or instant
    #[arg(long, value_name = "SPEED", default_value = "real", value_parser = speed)]
    pub(crate) speed: Speed,
    /// Write at most this many bytes at a time
    #[arg(long, value_name = "BYTES")]
    pub(crate) chunks: Option<NonZeroUsize>,
    /// Fault: end after N lines of output
    #[arg(long, value_name = "N")]
    pub(crate) stop_after: Option<u64>,
    /// Fault: print nothing more after N lines of output, but keep running
    #[arg(long, value_name = "N")]
    pub(crate) hang_at: Option<u64>,
    /// Fault: leave out the lines that end a turn (result; turn.completed, turn.failed)
    #[arg(long)]
    pub(crate) drop_result: bool,
    /// Exit with 3 if the host's arguments or input differ from the recording, and say where
    #[arg(long)]
    pub(crate) strict: bool,
    /// The agent's arguments, after `--`; compared with --strict, and used to choose a recording
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<OsString>,
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  tapline replay RECORDING --speed 10
  tapline replay RECORDING --speed instant --chunks 1 | my-parser
  CLAUDE=$(tapline shim DIR --replay RECORDING -- --speed instant) && my-bot --claude \"$CLAUDE\"

Exit codes: the recorded agent's (or its signal); 3 the host did something else (--strict);
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
