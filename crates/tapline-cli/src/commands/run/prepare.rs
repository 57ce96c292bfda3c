//! Turns the command line into an agent that can be started.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use tapline_archive::{list_price, used_before};
use tapline_runner::{Agent, AgentInput, Environment, Options, SubAgent};
use tapline_session::What;
use tapline_session::permission::Permissions;
use tapline_session::policy::unknown_mode;
use tapline_session::text::{count_of, nearest};

use super::context;
use super::messages::{Messages, WrongInput};
use super::signals::NotBegun;
use super::signals::Signals;
use super::stdin::{self, Piped};
use crate::agents::habits;
use crate::args::did_you_mean;
use crate::args::run::{AgentOptions, InputKind, Run, RunFormat, span};
use crate::commands::check::read_permissions;
use crate::{output, source};

/// What every attempt of a run has in common.
pub(super) struct Plan {
    pub(super) kind: tapline_protocol::Agent,
    pub(super) format: RunFormat,
    /// The prompt, with the context before it and the piped input after it.
    pub(super) prompt: Option<Vec<u8>>,
    stdin: Stdin,
    options: Options,
    permissions: Option<Permissions>,
    /// stdin has an agent's output where messages for one were expected.
    pub(super) wrong_input: WrongInput,
}

/// What stdin is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stdin {
    /// The prompt itself.
    Prompt,
    /// Text after the prompt, if there is any.
    Beside,
    /// Nothing, or something that is read elsewhere.
    Other,
}

/// Reads everything that the run needs from files.
pub(super) fn plan(args: &Run) -> Result<Plan> {
    let kind = args.whose.agent;
    let live = if output::is_capable() { RunFormat::Live } else { RunFormat::Lines };
    let implied = match (args.shown.messages, args.shown.only.is_empty()) {
        (true, _) => RunFormat::Json,
        (false, false) => RunFormat::StreamJson,
        (false, true) => live,
    };
    let format = args.shown.format.unwrap_or(implied);
    ensure!(!args.shown.messages || format == RunFormat::Json, "--messages works only with --format json");
    check_only(&args.shown.only, format)?;
    ensure!(
        args.input.is_none() || args.ending.retry == 0,
        "--retry with --input stream-json: messages from stdin cannot be sent again"
    );
    let told = &args.told;
    if format != RunFormat::Quiet {
        doubt_mode(told, kind);
    }
    let watched = args.shown.get.is_empty() && format == RunFormat::Live && output::is_capable();
    let options = options(told, &args.extra, told.partial || watched && habits(kind).writes_partial)?;
    let permissions = told.permissions.as_deref().map(read_permissions).transpose()?;
    let why = "the program that sends the messages answers the questions";
    ensure!(permissions.is_none() || args.input.is_none(), "--permissions with --input stream-json: {why}");
    let (prompt, stdin) = prompt(args)?;
    Ok(Plan { kind, format, prompt, stdin, options, permissions, wrong_input: WrongInput::default() })
}

/// Rejects names that `--only` cannot mean. Only names of steps are checked: an agent may write lines of any type.
fn check_only(only: &[String], format: RunFormat) -> Result<()> {
    match format {
        RunFormat::Steps => {
            if let Some(name) = only.iter().find(|name| !What::NAMES.contains(&name.as_str())) {
                let meant = did_you_mean(nearest(name, What::NAMES.iter().copied()));
                bail!("--only: no step is called `{name}`. {meant}The steps are {}", What::NAMES.join(", "));
            }
        }
        RunFormat::StreamJson => {}
        _ => ensure!(only.is_empty(), "--only works only with --format stream-json or --format steps"),
    }
    Ok(())
}

/// Warns that a permission mode is most likely a mistake. The agent itself rejects it, unless a future version knows
/// it.
pub(in crate::commands) fn doubt_mode(told: &AgentOptions, kind: tapline_protocol::Agent) {
    let unknown = told.permission_mode.as_deref().and_then(unknown_mode);
    if let Some(unknown) = unknown.filter(|_| habits(kind).has_modes) {
        output::tell(&format!("--permission-mode: {unknown}"));
    }
}

/// Returns the agent's options from the flags. Files that it needs are checked here.
pub(in crate::commands) fn options(told: &AgentOptions, extra: &[OsString], partial: bool) -> Result<Options> {
    for folder in &told.add_dir {
        ensure!(folder.is_dir(), "--add-dir: {} is not a folder", folder.display());
    }
    for plugin in &told.plugin_dir {
        ensure!(plugin.exists(), "--plugin-dir: {} does not exist", plugin.display());
    }
    for file in [&told.system_prompt_file, &told.append_system_prompt_file].into_iter().flatten() {
        ensure!(file.is_file(), "{} is not a file", file.display());
    }
    for config in told.mcp_config.iter().filter(|config| !config.trim_start().starts_with('{')) {
        ensure!(Path::new(config).is_file(), "--mcp-config: {config} is not a file");
    }
    // The agent may run in another folder, so paths are made absolute here.
    let here = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let config = |text: &String| {
        let file = !text.trim_start().starts_with('{');
        if file { here(&PathBuf::from(text)).display().to_string() } else { text.clone() }
    };
    ensure!(told.env.iter().all(|text| !text.is_empty() && !text.starts_with('=')), "--env: write it like NAME=VALUE or NAME");
    Ok(Options {
        model: told.model.clone(),
        fallback_model: told.fallback_model.clone(),
        effort: told.effort.clone(),
        resume: told.resume.clone(),
        continue_last: told.continue_last,
        fork: told.fork,
        allowed_tools: told.allowed_tools.clone(),
        disallowed_tools: told.disallowed_tools.clone(),
        permission_mode: told.permission_mode.clone(),
        max_turns: told.max_turns,
        max_budget_usd: told.max_budget_usd,
        json_schema: told.json_schema.as_deref().map(|text| json("--json-schema", text)).transpose()?,
        mcp_config: told.mcp_config.iter().map(config).collect(),
        agents: told.agents.as_deref().map(sub_agents).transpose()?.unwrap_or_default(),
        setting_sources: told.setting_sources.clone(),
        plugin_dir: told.plugin_dir.iter().map(here).collect(),
        add_dir: told.add_dir.iter().map(here).collect(),
        system_prompt: told.system_prompt.clone(),
        append_system_prompt: told.append_system_prompt.clone(),
        system_prompt_file: told.system_prompt_file.as_ref().map(here),
        append_system_prompt_file: told.append_system_prompt_file.as_ref().map(here),
        partial,
        session_before: None,
        extra: extra.to_vec(),
    })
}

impl Plan {
    /// Reads stdin for the prompt. Returns a note about it, or why it could not be read to its end.
    pub(super) async fn read_stdin(
        &mut self,
        args: &Run,
        until: Option<Instant>,
        signals: &Signals,
    ) -> Result<Result<Option<String>, NotBegun>> {
        let stdin = match self.stdin {
            Stdin::Other => None,
            Stdin::Prompt => Some(stdin::any().context("cannot read the prompt from stdin")?),
            Stdin::Beside => stdin::meant(),
        };
        let Some(stdin) = stdin else { return Ok(Ok(None)) };
        if self.stdin == Stdin::Prompt {
            source::tell_of_typing("the prompt");
        }
        let wait = Some(args.stdin_wait).filter(|_| self.stdin == Stdin::Beside);
        let reading = tokio::task::spawn_blocking(move || stdin::read(&stdin, wait, until));
        let piped = tokio::select! {
            piped = reading => piped.context("cannot read stdin")?,
            () = signals.came() => return Ok(Err(NotBegun::Interrupted)),
        };
        let prompt = self.prompt.take().unwrap_or_default();
        let without = |why: &str, advice: &str| Ok(Ok(Some(format!("{why}: continuing without it ({advice})"))));
        if self.stdin == Stdin::Prompt {
            let text = match piped.context("cannot read the prompt from stdin")? {
                Piped::All(text) => text,
                Piped::Endless => bail!("the prompt on stdin does not end (over 1 GiB)"),
                Piped::Late | Piped::Silent => return Ok(Err(NotBegun::Late)),
            };
            refuse_empty(&text)?;
            self.prompt = Some([prompt, text].concat());
            return Ok(Ok(None));
        }
        if let Ok(Piped::All(piped)) = &piped {
            let joined = (habits(self.kind).behind)(&prompt, piped);
            // A loop that reads its tasks from stdin loses them here.
            let is_told =
                joined != prompt && matches!(self.format, RunFormat::Live | RunFormat::Lines) && args.shown.get.is_empty();
            self.prompt = Some(joined);
            let bytes = count_of(piped.len(), "byte");
            return Ok(Ok(is_told.then(|| format!("added {bytes} from stdin after the prompt (--no-stdin ignores stdin)"))));
        }
        self.prompt = Some(prompt);
        match piped {
            Ok(Piped::Late) => Ok(Err(NotBegun::Late)),
            Ok(Piped::Endless) => without("WARNING: stdin does not end", "over 1 GiB; --no-stdin ignores it"),
            Err(error) => without("WARNING: stdin cannot be read", &error.to_string()),
            Ok(Piped::Silent | Piped::All(_)) => {
                let why = format!("nothing arrived on stdin within {}", span(args.stdin_wait));
                without(&why, "--stdin-wait TIME waits longer, --no-stdin not at all")
            }
        }
    }

    /// Returns an agent for the next attempt. A resumed agent is told what the task was.
    pub(super) fn agent(&self, args: &Run, resume: Option<String>) -> Agent {
        let mut agent = Agent::new(self.kind);
        agent.options = self.options.clone();
        agent.input = match (args.input, self.prompt.clone()) {
            (Some(InputKind::StreamJson), prompt) => {
                AgentInput::Messages { prompt, lines: Box::pin(Messages::new(tokio::io::stdin(), &self.wrong_input)) }
            }
            (None, Some(prompt)) => AgentInput::Prompt(prompt),
            (None, None) => AgentInput::Nothing,
        };
        agent.answers.permissions.clone_from(&self.permissions);
        agent.bin.clone_from(&args.whose.bin);
        agent.cwd.clone_from(&args.whose.cwd);
        agent.environment = environment(&args.told);
        let ending = &args.ending;
        (agent.limits.timeout, agent.limits.idle) = (ending.timeout, ending.idle_timeout);
        (agent.limits.linger, agent.limits.grace) = (ending.linger, ending.grace);
        agent.label.clone_from(&args.shown.label);
        agent.no_heuristics = ending.no_heuristics;
        let mut agent = match resume {
            Some(session) => agent.go_on(session),
            None => agent,
        };
        note_costs(&mut agent);
        agent
    }
}

/// Adds what the archive knows: prices, and what the session that is resumed has used so far, where its agent counts that again.
pub(in crate::commands) fn note_costs(agent: &mut Agent) {
    agent.pricing = Some(list_price);
    let variable = |name: &str| agent.variable(name).map(PathBuf::from);
    let before = agent.options.resume.as_deref().and_then(|id| used_before(agent.kind, id, &variable));
    agent.options.session_before = before;
}

/// Returns the agent's environment.
pub(in crate::commands) fn environment(told: &AgentOptions) -> Environment {
    let mut set: Vec<_> = told.env.iter().map(|text| variable(text)).collect();
    set.extend(crate::push::kept_from_agents());
    Environment { clean: told.clean_env, set, remove: Vec::new() }
}

/// Parses `NAME=VALUE`, or `NAME` alone.
pub(in crate::commands) fn variable(text: &str) -> (OsString, Option<OsString>) {
    match text.split_once('=') {
        Some((name, value)) => (name.into(), Some(value.into())),
        None => (text.into(), None),
    }
}

/// Returns the given prompt, if there is one, with the context before it, and what stdin is for.
fn prompt(args: &Run) -> Result<(Option<Vec<u8>>, Stdin)> {
    let context_on_stdin = args.context.as_ref().is_some_and(|path| source::is_stdin(Some(path)));
    let prompt_on_stdin = args.prompt.as_deref() == Some("-");
    let taken = [context_on_stdin, prompt_on_stdin, args.input.is_some()].into_iter().filter(|taken| *taken).count();
    ensure!(taken < 2, "stdin can only be one of these: the prompt (-), --context -, or --input stream-json");
    ensure!(taken == 0 || !args.no_stdin, "--no-stdin conflicts with reading the prompt (-) or --context - from stdin");
    let given = match (args.any_prompt.as_ref().or(args.prompt.as_ref().filter(|text| *text != "-")), &args.prompt_file) {
        (Some(text), _) => Some(text.clone().into_bytes()),
        (None, Some(file)) => Some(std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?),
        (None, None) => None,
    };
    // With an empty prompt, stdin is the prompt, as with the agents themselves.
    let given = given.filter(|text| !text.trim_ascii().is_empty());
    let piped = taken == 0 && !args.no_stdin && !std::io::stdin().is_terminal();
    let stdin = match &given {
        None if prompt_on_stdin || piped => Stdin::Prompt,
        Some(_) if piped => Stdin::Beside,
        _ => Stdin::Other,
    };
    if args.input.is_none() && stdin != Stdin::Prompt {
        refuse_empty(given.as_deref().unwrap_or_default())?;
    }
    let Some(path) = &args.context else { return Ok((given, stdin)) };
    let context = context::told(path)?;
    Ok((Some([context, given.unwrap_or_default()].concat()), stdin))
}

fn refuse_empty(prompt: &[u8]) -> Result<()> {
    let advice = "give it as an argument, with --prompt-file, or on stdin (tapline run --help)";
    ensure!(!prompt.trim_ascii().is_empty(), "no prompt: {advice}");
    Ok(())
}

/// JSON: itself, or the file that holds it.
fn json(flag: &str, text: &str) -> Result<String> {
    if text.trim_start().starts_with(['{', '[']) {
        return Ok(text.to_owned());
    }
    std::fs::read_to_string(text).with_context(|| format!("{flag}: cannot read {text}"))
}

fn sub_agents(text: &str) -> Result<BTreeMap<String, SubAgent>> {
    let text = json("--agents", text)?;
    serde_json::from_str(&text).context("--agents: write it like {\"NAME\": {\"description\": \"…\", \"prompt\": \"…\"}}")
}
