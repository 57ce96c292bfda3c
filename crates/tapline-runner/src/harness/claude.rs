//! Claude Code. Every value is passed as `--flag=value`, so that none can be mistaken for a flag and no variadic flag
//! can take another. The prompt goes to standard input.

use std::ffi::OsString;

use super::invocation::{Harness, Invocation, Wanted, flag_of};
use crate::error::StartError;
use crate::refusal::{Refusal, RunOption};
use crate::schema;
use crate::spec::Options;

pub(super) const HARNESS: Harness = Harness {
    bin_variable: "TAPLINE_CLAUDE_BIN",
    package: "@anthropic-ai/claude-code",
    sets: &["CLAUDECODE"],
    dialogue: &[
        // Makes it report when it is idle, the only sign that nothing more comes.
        ("CLAUDE_CODE_SDK_READS_SESSION_STATE", Some("1")),
        // With it there are no hooks, so the rules could not be checked for calls that need no permission.
        ("CLAUDE_CODE_SIMPLE", None),
    ],
    no_background_tasks: Some("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"),
    waits_for_tasks: Some("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"),
    tell_of_hooks: Some("--include-hook-events"),
    without_session,
    invocation,
};

/// Flags that tapline sets itself, or that would break the stream. They may not be given after `--`.
const RESERVED: &[(&str, &str)] = &[
    ("--output-format", "tapline reads stream-json"),
    ("--bg", "the agent would run in the background, where tapline cannot read its stream"),
    ("--background", "the agent would run in the background, where tapline cannot read its stream"),
    ("--sdk-url", "tapline would not get the stream"),
    ("--cloud", "tapline would not get the stream"),
    ("--desktop", "tapline would not get the stream"),
];

/// Removes the arguments that name a session.
fn without_session(extra: &[OsString]) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut args = extra.iter();
    while let Some(arg) = args.next() {
        match arg.to_str().unwrap_or_default() {
            "--continue" | "-c" | "--fork-session" => {}
            "--resume" | "-r" | "--session-id" => drop(args.next()),
            text if text.starts_with("--resume=") || text.starts_with("--session-id=") => {}
            _ => kept.push(arg.clone()),
        }
    }
    kept
}

fn invocation(wanted: &Wanted<'_>) -> Result<Invocation, StartError> {
    let mut args = arguments(wanted.options, wanted.messages || wanted.dialogue)?;
    answering(wanted, &mut args)?;
    Ok(Invocation { args, _schema: None })
}

fn arguments(options: &Options, messages: bool) -> Result<Vec<OsString>, StartError> {
    let extra = checked_extra(&options.extra, messages)?;
    if options.fork && options.resume.is_none() && !options.continue_last {
        let refusal = Refusal::new(RunOption::Fork, "it needs a session to copy");
        return Err(refusal.instead(RunOption::Resume).instead(RunOption::ContinueLast).into());
    }
    let mut args: Vec<OsString> = vec!["-p".into(), "--output-format=stream-json".into(), "--verbose".into()];
    if messages {
        args.push("--input-format=stream-json".into());
    }
    let mut value = |flag: &str, value: &dyn AsRef<std::ffi::OsStr>| {
        let mut arg = OsString::from(flag);
        arg.push("=");
        arg.push(value);
        args.push(arg);
    };
    let Options { model, fallback_model, effort, resume, permission_mode, system_prompt, append_system_prompt, .. } = options;
    let texts = [
        ("--model", model),
        ("--fallback-model", fallback_model),
        ("--effort", effort),
        ("--resume", resume),
        ("--permission-mode", permission_mode),
        ("--system-prompt", system_prompt),
        ("--append-system-prompt", append_system_prompt),
    ];
    for (flag, text) in texts {
        if let Some(text) = text {
            value(flag, text);
        }
    }
    for tool in &options.allowed_tools {
        value("--allowedTools", tool);
    }
    for tool in &options.disallowed_tools {
        value("--disallowedTools", tool);
    }
    for config in &options.mcp_config {
        value("--mcp-config", config);
    }
    if !options.agents.is_empty() {
        value("--agents", &serde_json::to_string(&options.agents).unwrap_or_default());
    }
    if let Some(sources) = &options.setting_sources {
        let names: Vec<_> = sources.iter().map(|source| source.name()).collect();
        value("--setting-sources", &names.join(","));
    }
    for folder in &options.plugin_dir {
        value("--plugin-dir", folder);
    }
    for folder in &options.add_dir {
        value("--add-dir", folder);
    }
    let files = [
        ("--system-prompt-file", &options.system_prompt_file),
        ("--append-system-prompt-file", &options.append_system_prompt_file),
    ];
    for (flag, file) in files {
        if let Some(file) = file {
            value(flag, file);
        }
    }
    if let Some(turns) = options.max_turns {
        value("--max-turns", &turns.to_string());
    }
    if let Some(budget) = options.max_budget_usd {
        value("--max-budget-usd", &budget.to_string());
    }
    if let Some(text) = &options.json_schema {
        value("--json-schema", &schema::checked(text)?);
    }
    let switches = [
        ("--continue", options.continue_last),
        ("--fork-session", options.fork),
        ("--include-partial-messages", options.partial),
    ];
    args.extend(switches.iter().filter(|(_, on)| *on).map(|(flag, _)| OsString::from(flag)));
    args.extend(extra);
    Ok(args)
}

/// Adds the arguments that make the agent ask here.
fn answering(wanted: &Wanted<'_>, args: &mut Vec<OsString>) -> Result<(), StartError> {
    let options = wanted.options;
    if wanted.rules {
        let flags = || options.extra.iter().filter_map(|arg| arg.to_str()).map(flag_of);
        if flags().any(|flag| flag == "--settings") {
            let why = "it could remove the hook of the permission rules; put it into one of the agent's settings files";
            return Err(Refusal::argument("--settings", why).into());
        }
        // A setting with this name would have the same effect.
        args.push(r#"--settings={"env":{"CLAUDE_CODE_SIMPLE":""}}"#.into());
        let elsewhere = ["--permission-prompt-tool", "--permission-prompts", "--dangerously-skip-permissions", "--bare"];
        let why = "the agent would not ask for permission; leave it out, or the permission rules";
        if let Some(flag) = flags().find(|flag| elsewhere.contains(flag)) {
            return Err(Refusal::argument(flag, why).into());
        }
        // With `dontAsk` the agent denies what it would ask about, also what a rule allows (tried with 2.1.325).
        let of_agent = options.permission_mode.as_deref().map(|mode| (RunOption::PermissionMode, mode));
        let of_others =
            options.agents.values().filter_map(|agent| Some((RunOption::Agents, agent.more.get("permissionMode")?.as_str()?)));
        if let Some((option, mode)) =
            of_agent.into_iter().chain(of_others).find(|(_, mode)| ["bypassPermissions", "dontAsk"].contains(mode))
        {
            return Err(Refusal::new(option, format!("with `{mode}` {why}")).into());
        }
    }
    if wanted.asks {
        args.push("--permission-prompt-tool=stdio".into());
    }
    if let Some(config) = &wanted.servers {
        args.push(format!("--mcp-config={config}").into());
    }
    Ok(())
}

/// Returns the caller's own arguments, unless one of them would break the stream. Those that tapline sets itself are left out.
fn checked_extra(extra: &[OsString], messages: bool) -> Result<Vec<OsString>, Refusal> {
    let mut kept = Vec::new();
    let mut args = extra.iter();
    while let Some(arg) = args.next() {
        let text = arg.to_str().unwrap_or_default();
        let flag = flag_of(text);
        if let Some((flag, why)) = RESERVED.iter().find(|(reserved, _)| flag == *reserved) {
            return Err(Refusal::argument(flag, *why));
        }
        if flag == "--replay-user-messages" && !messages {
            return Err(Refusal::argument(flag, "without messages on its stdin the agent exits").instead(RunOption::Messages));
        }
        if flag != "--input-format" {
            kept.push(arg.clone());
            continue;
        }
        let value = text.split_once('=').map(|(_, value)| value);
        let value = value.or_else(|| args.next().and_then(|next| next.to_str()));
        if !messages || value != Some("stream-json") {
            return Err(Refusal::argument(flag, "tapline sets it where there are messages").instead(RunOption::Messages));
        }
    }
    Ok(kept)
}
