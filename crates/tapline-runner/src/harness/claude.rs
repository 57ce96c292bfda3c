//! Claude Code. Every value is passed as `--flag=value`, so that none can be mistaken for a flag and no variadic flag
//! can take another. The prompt goes to standard input.

use std::ffi::OsString;

use super::invocation::{Harness, Invocation, Wanted, flag_of};
use crate::error::StartError;
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
    tell_of_hooks: Some("--include-hook-events"),
    invocation,
};

/// Flags that tapline sets itself, or that would break the stream. They may not be given after `--`.
const RESERVED: &[(&str, &str)] = &[
    ("--output-format", "tapline reads stream-json: use --format for what you want to see"),
    ("--bg", "the agent would run in the background, where tapline cannot read its stream"),
    ("--background", "the agent would run in the background, where tapline cannot read its stream"),
    ("--sdk-url", "tapline would not get the stream"),
    ("--cloud", "tapline would not get the stream"),
    ("--desktop", "tapline would not get the stream"),
];

fn invocation(wanted: &Wanted<'_>) -> Result<Invocation, StartError> {
    let mut args = arguments(wanted.options, wanted.messages || wanted.dialogue)?;
    answering(wanted, &mut args)?;
    Ok(Invocation { args, _schema: None })
}

fn arguments(options: &Options, messages: bool) -> Result<Vec<OsString>, StartError> {
    let extra = checked_extra(&options.extra, messages)?;
    if options.fork && options.resume.is_none() && !options.continue_last {
        return Err(StartError::Refused("--fork: give the session to copy with --resume ID or --continue".to_owned()));
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
    let Options { model, resume, permission_mode, system_prompt, append_system_prompt, .. } = options;
    let texts = [
        ("--model", model),
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
        let flags = options.extra.iter().filter_map(|arg| arg.to_str()).map(flag_of);
        let elsewhere = ["--permission-prompt-tool", "--permission-prompts", "--dangerously-skip-permissions", "--bare"];
        let mine = options.extra.iter().filter_map(|arg| arg.to_str()).any(|arg| flag_of(arg) == "--settings");
        if mine {
            let why = "it could remove the hook of the permission rules; put it into one of the agent's settings files";
            return Err(StartError::Refused(format!("--settings after `--`: {why}")));
        }
        // A setting with this name would have the same effect.
        args.push(r#"--settings={"env":{"CLAUDE_CODE_SIMPLE":""}}"#.into());
        let unasked = match options.permission_mode.as_deref() {
            Some("bypassPermissions") => Some("--permission-mode bypassPermissions"),
            // The agent denies what it would ask about, even what a rule allows (tried with 2.1.325).
            Some("dontAsk") => Some("--permission-mode dontAsk"),
            _ => None,
        };
        if let Some(flag) = flags.into_iter().find(|flag| elsewhere.contains(flag)).or(unasked) {
            let why = "the agent would not ask for permission; leave out this flag, or the permission rules";
            return Err(StartError::Refused(format!("{flag}: {why}")));
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

/// Checks the arguments that the caller gave after `--`: they must not break the stream. Flags that tapline sets itself
/// are left out.
fn checked_extra(extra: &[OsString], messages: bool) -> Result<Vec<OsString>, StartError> {
    let refused = |flag: &str, why: &str| Err(StartError::Refused(format!("{flag} after `--`: {why}")));
    let mut kept = Vec::new();
    let mut args = extra.iter();
    while let Some(arg) = args.next() {
        let text = arg.to_str().unwrap_or_default();
        let flag = flag_of(text);
        if let Some((flag, why)) = RESERVED.iter().find(|(reserved, _)| flag == *reserved) {
            return refused(flag, why);
        }
        if flag == "--replay-user-messages" && !messages {
            return refused(flag, "it needs --input stream-json; without it the agent exits");
        }
        if flag != "--input-format" {
            kept.push(arg.clone());
            continue;
        }
        let value = text.split_once('=').map(|(_, value)| value);
        let value = value.or_else(|| args.next().and_then(|next| next.to_str()));
        if !messages || value != Some("stream-json") {
            return refused(flag, "use --input stream-json, which also passes on the messages");
        }
    }
    Ok(kept)
}
