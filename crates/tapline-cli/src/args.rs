//! The command line.

pub(crate) mod archive;
pub(crate) mod batch;
pub(crate) mod chat;
pub(crate) mod collect;
pub(crate) mod engine;
pub(crate) mod export;
pub(crate) mod offline;
pub(crate) mod parquet;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod stats;
pub(crate) mod worker;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use tapline_protocol::Agent;
use tapline_session::Category;
use tapline_session::render::Style;
use tapline_session::text::visible;

use crate::topics::{self, TOPICS};
use crate::{agents, exit, features, output};

/// Run headless coding agents; read, convert, query and check what they write.
#[derive(Debug, Parser)]
#[command(name = "tapline", version, long_about = agents::about(), max_term_width = 100, after_help = exit::codes(), disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command that guards a run, for tapline itself to start.
pub(crate) const GUARD: &str = "__guard";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(name = GUARD, hide = true)]
    Guard {
        mark: String,
    },
    Run(Box<run::Run>),
    Chat(Box<chat::Chat>),
    Batch(Box<batch::Batch>),
    Worker(Box<worker::Worker>),
    Collect(Box<collect::Collect>),
    Inspect(Inspect),
    View(View),
    Convert(Convert),
    Check(Check),
    Stats(Box<stats::Stats>),
    Sessions(Box<sessions::Sessions>),
    Statusline(stats::Statusline),
    Search(search::Search),
    Serve(serve::Serve),
    Export(Box<export::Export>),
    Archive(archive::Archive),
    Sim(offline::Sim),
    Tee(offline::Tee),
    Shim(offline::Shim),
    Replay(offline::Replay),
    Demo(Demo),
    Doctor(Doctor),
    Completions(Completions),
    Man(Man),
    Schema(Schema),
    Help(Help),
}

/// Summarize a stream: verdict, session, tools, cost
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) stream: Stream,
    /// Print the report, one JSON object (`tapline help report` describes it)
    #[arg(long, conflicts_with = "get")]
    pub(crate) json: bool,
    /// Print one value of the report, such as session.id, answer, ledger.cost_usd or tools.calls[].name; can be repeated
    ///
    /// Each value starts on its own line. In GitHub Actions, tapline changes text that the runner would take for a command
    /// (`::error::` becomes `: :error::`). A script that needs the exact value can use `x=$(GITHUB_ACTIONS= tapline …)`.
    #[arg(long, value_name = "PATH")]
    pub(crate) get: Vec<String>,
    /// Replace secrets: keys, tokens, passwords, private keys (`tapline help redact`)
    #[arg(long)]
    pub(crate) redact: bool,
    /// Exit with the verdict: 1 the agent failed, 4 no result, 124 timeout, 130 interrupted
    #[arg(long)]
    pub(crate) exit_status: bool,
    /// Like --exit-status, and exit with 1 if a successful run has one of these warnings, separated by commas: denied, max-tokens, …
    /// (`tapline help report` lists them)
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = tapline_session::warning_code)]
    pub(crate) fail_on: Vec<&'static str>,
    #[arg(long, help = exit::about_clean("Like --exit-status, and exit"))]
    pub(crate) require_clean: bool,
    #[command(flatten)]
    pub(crate) look: Look,
    #[command(flatten)]
    pub(crate) facts: Facts,
}

/// Show a stream in readable form, live or from a file
#[derive(Debug, Args)]
pub(crate) struct View {
    /// Files, recordings, transcripts, or ids of recordings and sessions (the beginning of an id is enough; `last` is the newest
    /// recording); without any, or with `-`, tapline reads stdin
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Wait for more lines, like `tail -F`, even if the file is truncated or replaced; takes one file
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Show what the agent thinks
    #[arg(long)]
    pub(crate) thinking: bool,
    /// Show the whole output of tool calls, and the whole texts of edits and new files
    ///
    /// Otherwise the output of failed calls is shown in a few lines, and so are edits on a terminal with colours.
    #[arg(long)]
    pub(crate) full: bool,
    /// Show text while the agent writes it (needs partial messages in the stream)
    #[arg(long)]
    pub(crate) partial: bool,
    /// Show when each step arrived, counted from the start of the run, and how long each tool call took (recordings, transcripts, and
    /// pipes, whose times count from the first step)
    #[arg(long)]
    pub(crate) times: bool,
    /// Replace secrets: keys, tokens, passwords, private keys (`tapline help redact`)
    #[arg(long)]
    pub(crate) redact: bool,
    /// Exit with the verdict, like `inspect --exit-status`
    #[arg(long)]
    pub(crate) exit_status: bool,
    #[command(flatten)]
    pub(crate) look: Look,
    #[command(flatten)]
    pub(crate) facts: Facts,
}

/// Convert a stream to another format
///
/// The exit code says whether the conversion worked. It is 0 even if the run failed (use `inspect --exit-status` to check that), and
/// 4 if `text` or `json` found no result.
#[derive(Debug, Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) stream: Stream,
    /// The format to write
    #[arg(long, value_enum, required_unless_present = "messages")]
    pub(crate) to: Option<Target>,
    /// Write to this file instead of stdout
    ///
    /// A regular file is replaced only if the conversion succeeds. A device, FIFO or socket is written to directly.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Add the conversation as `messages`; the format is json
    #[arg(long)]
    pub(crate) messages: bool,
    /// Replace secrets: keys, tokens, passwords, private keys (`tapline help redact`)
    #[arg(long)]
    pub(crate) redact: bool,
    #[command(flatten)]
    pub(crate) facts: Facts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// The answer, as the agent prints it without --output-format; the error if the run failed
    Text,
    /// The result, as `--output-format json` prints it
    Json,
    /// All events in one array, as `--output-format json --verbose` prints them
    JsonVerbose,
    /// The unchanged bytes
    StreamJson,
    /// A transcript in Markdown
    Markdown,
    /// A transcript as one self-contained HTML page
    Html,
    /// The steps, one JSON object per line (`tapline help steps` describes them)
    Steps,
}

/// Find problems in a stream, and check it against a policy
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) stream: Stream,
    /// Check the run against the rules in this file (TOML; `tapline help policy`); exit with 3 if it breaks one
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Show what the permission rules in this file would have decided about every tool call (TOML; `tapline help permissions`); exit
    /// with 3 if a call ran that they deny
    #[arg(long, value_name = "FILE")]
    pub(crate) permissions: Option<PathBuf>,
    /// Exit with 3 if there is any finding
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print the findings as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Replace secrets in the output: keys, tokens, passwords, private keys (`tapline help redact`). Rules are checked against the original
    #[arg(long)]
    pub(crate) redact: bool,
    #[command(flatten)]
    pub(crate) look: Look,
    #[command(flatten)]
    pub(crate) facts: Facts,
}

/// Play a recorded session; needs no account
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Set the speed: 1 is the speed of a real agent, 0 does not wait (the default if stdout is not a terminal)
    #[arg(long, value_name = "FACTOR")]
    pub(crate) speed: Option<f64>,
    /// Print the lines of the session as the agent wrote them, for use as input of other commands
    #[arg(long)]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// Check your setup: which agents are installed, what does not work, and what to do about it
///
/// With `--engine` (or $TAPLINE_ENGINE), doctor also checks the NATS server that machines share. Then this machine needs no agent, because
/// workers run the jobs of its batches: a missing agent is a hint. Without a NATS server, one agent is enough. The exit code is 1 if a
/// finding is marked with ✗, and otherwise 0.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print the findings as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) look: Look,
    #[command(flatten)]
    pub(crate) engine: engine::Engine,
    /// Make the streams and buckets that tapline needs on the NATS server and that are missing
    #[arg(long, help_heading = "Many machines")]
    pub(crate) setup: bool,
}

/// Print completions for a shell
#[derive(Debug, Args)]
pub(crate) struct Completions {
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, or write all manual pages into a folder
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write tapline.1, tapline-inspect.1, … into this folder
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

/// Print a JSON Schema (2020-12) of what tapline writes
#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// What to describe
    #[arg(value_enum, value_name = "WHAT")]
    pub(crate) of: Described,
}

/// What has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Described {
    /// The report: `inspect --json`, `run --format report`
    Report,
    /// One line of `convert --to steps` and `run --format steps`
    Steps,
}

/// Show the help of a command, or a page of the documentation
#[derive(Debug, Args)]
pub(crate) struct Help {
    /// A command or a topic; without it, tapline lists both
    pub(crate) name: Option<String>,
}

/// A stream.
#[derive(Debug, Args)]
pub(crate) struct Stream {
    /// A file, a recording, a transcript, or the id of a recording or session (the beginning of an id is enough; `last` is the newest
    /// recording); without it, or with `-`, tapline reads stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "About the stream")]
pub(crate) struct Facts {
    /// The agent that wrote the stream; needed only if tapline cannot recognise it
    #[arg(long, value_parser = agents::named())]
    pub(crate) agent: Option<Agent>,
    /// The format of the input
    #[arg(long, value_enum, default_value_t = Shape::Auto, hide_default_value = true)]
    pub(crate) input_format: Shape,
    /// Treat lines longer than this as malformed; tapline still passes them on unchanged [default: 67108864]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) line_limit: Option<u64>,
    /// The agent's exit code
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) exit_code: Option<i32>,
    /// The signal that ended the agent, like SIGTERM
    #[arg(long, value_name = "NAME", value_parser = signal_name)]
    pub(crate) signal: Option<String>,
    /// A file with what the agent wrote to stderr
    #[arg(long, value_name = "FILE")]
    pub(crate) stderr: Option<PathBuf>,
    /// Treat the run as stopped by a timeout
    #[arg(long)]
    pub(crate) timed_out: bool,
    /// Do not mark a success as `interactive` or `background_task`
    #[arg(long)]
    pub(crate) no_heuristics: bool,
    /// The file that `codex exec --output-last-message` wrote
    #[arg(long, value_name = "FILE")]
    pub(crate) last_message: Option<PathBuf>,
}

/// Starts an error with what was probably meant, if that is known.
pub(crate) fn did_you_mean(meant: Option<&str>) -> String {
    meant.map(|meant| format!("did you mean `{meant}`? ")).unwrap_or_default()
}

/// A verdict's category.
fn category(text: &str) -> Result<Category, String> {
    text.parse().map_err(|unknown: tapline_session::UnknownWord| {
        let meant = tapline_session::text::nearest(text, unknown.known().iter().copied());
        format!("{}The categories are {}", did_you_mean(meant), unknown.known().join(", "))
    })
}

/// How many of something: not none.
fn at_least_one(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if number == 0 { Err("it must be at least 1".to_owned()) } else { Ok(number) }
}

/// `TERM`, `SIGTERM`, `sigterm` or `15`.
fn signal_name(text: &str) -> Result<String, String> {
    let known = tapline_session::parse_signal(text).map(str::to_owned);
    known.ok_or_else(|| "unknown signal: write it like SIGTERM or 15".to_owned())
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// Detect the format
    #[default]
    Auto,
    /// One event per line (claude --output-format stream-json)
    StreamJson,
    /// One document (claude --output-format json, with or without --verbose)
    Json,
    /// One event per line (codex exec --json)
    ExecJson,
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Look {
    /// When to use colour
    #[arg(long, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    pub(crate) color: When,
}

impl Look {
    pub(crate) fn is_coloured(self) -> bool {
        match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => output::is_capable() && !is_plain(),
        }
    }

    /// The colours, or none, where it is not a terminal that shows them.
    pub(crate) fn style_for_a_reader(self) -> Style {
        let look = if self.color == When::Auto && !is_plain() { Self { color: When::Always } } else { self };
        look.style()
    }

    /// The colours, or none.
    pub(crate) fn style(self) -> Style {
        if self.is_coloured() { Style::ansi() } else { Style::plain() }
    }
}

/// Whether the user wants no colours.
fn is_plain() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

/// Reads the command line. Help and version are printed here, and bad usage told.
pub(crate) fn parse() -> Result<Command, ExitCode> {
    match read(std::env::args_os()) {
        Ok(command) => Ok(command),
        // Help and version are ours alone; what is wrong has words of somebody else's in it.
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            Err(ExitCode::SUCCESS)
        }
        Err(error) => {
            let error = told_visibly(std::env::args_os()).unwrap_or(error);
            let text = with_tip(&error);
            let why = match error.kind() {
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "no command was given",
                _ => text.lines().next().unwrap_or_default().trim_start_matches("error: "),
            };
            output::refuse(&text, why);
            Err(ExitCode::from(exit::USAGE))
        }
    }
}

/// What is wrong, and what to write where a prompt was given as several words.
fn with_tip(error: &clap::Error) -> String {
    let text = error.to_string();
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.take_while(|word| word != "--").collect();
    let Some((command, rest)) = words.split_first() else { return text };
    let text = with_agent_tip(command, text);
    let surplus = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::UnknownArgument => !word.starts_with('-'),
        _ => false,
    };
    if !surplus || !["run", "chat"].contains(&command.as_str()) {
        return text;
    }
    let is_option = |word: &&str| word.starts_with('-');
    let prompt = rest.iter().map(String::as_str).skip_while(is_option).take_while(|word| !is_option(word));
    let prompt = output::quoted(&prompt.collect::<Vec<_>>().join(" "));
    let tip = format!("  tip: put the prompt in quotes: tapline {command} {prompt}");
    text.replacen("\n\nUsage:", &format!("\n\n{tip}\n\nUsage:"), 1)
}

/// Behind `--` stands what the agent is given (`sim`: the command), not what clap takes it for.
fn with_agent_tip(command: &str, text: String) -> String {
    let whose = match command {
        "run" | "chat" | "tee" => "the agent",
        "sim" => "the command",
        _ => return text,
    };
    let told = |line: &str| {
        let option = line.trim_start().strip_prefix("tip: to pass '")?.split_once('\'')?.0;
        Some(format!("  tip: to pass '{option}' to {whose}, put it at the end, after `--`: tapline {command} … -- {option}"))
    };
    text.split('\n').map(|line| told(line).unwrap_or_else(|| line.to_owned())).collect::<Vec<_>>().join("\n")
}

/// What is wrong with a command line, with its words made visible: an error's text leaves out what steers a terminal.
fn told_visibly(words: impl Iterator<Item = OsString>) -> Option<clap::Error> {
    read(words.map(|word| visible(&word.to_string_lossy()).into_owned().into())).err()
}

/// Refuses what `tapline replay` would refuse.
pub(crate) fn check_replay(recording: &std::path::Path, args: &[OsString]) -> anyhow::Result<()> {
    let words = ["tapline".into(), "replay".into(), recording.into()].into_iter().chain(args.iter().cloned());
    read(words).map(drop).map_err(|error| anyhow::anyhow!("{}", error.to_string().trim_end()))
}

/// Prints what `--help` prints, of a command or of all.
pub(crate) fn print_help(command: Option<&str>) -> std::io::Result<()> {
    let words = ["tapline"].into_iter().chain(command).chain(["--help"]);
    read(words.map(OsString::from)).map_or_else(|help| help.print(), |_| Ok(()))
}

fn read(words: impl Iterator<Item = OsString>) -> Result<Command, clap::Error> {
    let mut words: Vec<_> = words.collect();
    if words.get(1).is_some_and(|command| command == "search") {
        // What is quoted as one word, as in `'-retry timeout'`, is no option. A blank does nothing to a search.
        let is_quoted = |word: &OsString| {
            word.to_str().is_some_and(|word| word.starts_with('-') && word.contains(' ') && !word.contains('='))
        };
        for word in words.iter_mut().take_while(|word| *word != "--").filter(|word| is_quoted(word)) {
            *word = [OsStr::new(" "), word].into_iter().collect();
        }
    }
    match read_quickly(&words) {
        Some(command) => Ok(command),
        None => Ok(Cli::from_arg_matches(&command_line().try_get_matches_from(words)?)?.command),
    }
}

/// Reads the command line of a command that scripts, hooks and status lines start all the time. The other commands and their options are not
/// built for it, which would take longer than to read a short stream. Returns nothing where there is anything to tell: help, or a mistake.
fn read_quickly(words: &[OsString]) -> Option<Command> {
    let augment: fn(clap::Command) -> clap::Command = match words.get(1)?.to_str()? {
        "run" => run::Run::augment_args,
        "inspect" => Inspect::augment_args,
        "view" => View::augment_args,
        "convert" => Convert::augment_args,
        "check" => Check::augment_args,
        "stats" => stats::Stats::augment_args,
        "statusline" => stats::Statusline::augment_args,
        "search" => search::Search::augment_args,
        "tee" => offline::Tee::augment_args,
        _ => return None,
    };
    let one = augment(clap::Command::new(words[1].to_str()?.to_owned()));
    let matches = clap::Command::new("tapline").subcommand(one).try_get_matches_from(words).ok()?;
    Command::from_arg_matches(&matches).ok()
}

/// The whole command line. `help` takes the name of any command and of any topic, and lists them.
pub(crate) fn command_line() -> clap::Command {
    let command = Cli::command();
    let commands = command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(|sub| sub.get_name().to_owned());
    let topics = TOPICS.iter().map(|topic| PossibleValue::new(topic.name).help(topic.about).aliases(topic.also));
    let names = PossibleValuesParser::new(commands.map(PossibleValue::new).chain(topics).collect::<Vec<_>>());
    let pages: Vec<_> = TOPICS.iter().map(|topic| format!("\n  {:<12} {}", topic.name, topic.about)).collect();
    let pages = pages.concat();
    let explained = |command: clap::Command| {
        let topic = topics::about(command.get_name());
        // Some say more about their page themselves.
        let told = |name: &str| {
            command.get_long_about().is_some_and(|about| about.to_string().contains(&format!("tapline help {name}")))
        };
        match topic.filter(|topic| !told(topic.name)) {
            Some(topic) => {
                let more = format!("`tapline help {}` has more: {}", topic.name, topic.about);
                let before = command.get_after_long_help().or(command.get_after_help()).map(|help| format!("{help}\n\n"));
                command.after_long_help(before.unwrap_or_default() + &more)
            }
            None => command,
        }
    };
    features::marked(command)
        .mut_subcommands(explained)
        .after_long_help(format!("{}\n\nTopics, for `tapline help TOPIC`:{pages}", exit::codes()))
        .mut_subcommand("help", |help| help.mut_arg("name", |name| name.value_parser(names)))
}
