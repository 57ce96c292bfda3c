//! Codex. The prompt goes to standard input, which `-` requests. The caller's own arguments come first, so that none of
//! them can take what follows.

use std::ffi::OsString;

use tapline_protocol::Agent as Kind;

use super::invocation::{Harness, Invocation, Wanted, flag_of};
use crate::error::StartError;
use crate::refusal::{Refusal, RunOption};
use crate::schema::{self, SchemaFile};

pub(super) const HARNESS: Harness = Harness {
    bin_variable: "TAPLINE_CODEX_BIN",
    package: "@openai/codex",
    sets: &[],
    dialogue: &[],
    no_background_tasks: None,
    waits_for_tasks: None,
    tell_of_hooks: None,
    without_session: <[OsString]>::to_vec,
    invocation,
};

fn invocation(wanted: &Wanted<'_>) -> Result<Invocation, StartError> {
    let options = wanted.options;
    if let Some(refusal) = refused(wanted) {
        return Err(refusal.into());
    }
    let mut args: Vec<OsString> = vec!["exec".into()];
    args.extend(options.extra.iter().cloned());
    args.push("--json".into());
    let mut schema = None;
    if let Some(text) = &options.json_schema {
        let file = SchemaFile::write("codex", schema::checked(text)?)?;
        args.extend(["--output-schema".into(), file.path().as_os_str().to_owned()]);
        schema = Some(file);
    }
    if let Some(model) = &options.model {
        args.push(format!("--model={model}").into());
    }
    if let Some(effort) = &options.effort {
        // The value is a TOML string, so that nothing in it can be another setting.
        args.extend(["-c".into(), format!("model_reasoning_effort={}", serde_json::Value::from(effort.as_str())).into()]);
    }
    for folder in &options.add_dir {
        let mut arg = OsString::from("--add-dir=");
        arg.push(folder);
        args.push(arg);
    }
    match (&options.resume, options.continue_last, options.fork) {
        (Some(id), _, true) => args.extend(["fork".into(), id.into()]),
        (Some(id), _, false) => args.extend(["resume".into(), id.into()]),
        (None, true, false) => args.extend(["resume".into(), "--last".into()]),
        (None, true, true) => {
            let why = "codex copies a session by its id, not the last one";
            return Err(Refusal::new(RunOption::Fork, why).instead(RunOption::Resume).into());
        }
        (None, false, true) => {
            return Err(Refusal::new(RunOption::Fork, "it needs a session to copy").instead(RunOption::Resume).into());
        }
        (None, false, false) => {}
    }
    args.push("-".into());
    Ok(Invocation { args, _schema: schema })
}

/// Returns the first option that Codex does not have.
fn refused(wanted: &Wanted<'_>) -> Option<Refusal> {
    use RunOption as O;

    let options = wanted.options;
    let sandboxed = |mode: &'static str| O::Argument(mode.into());
    if wanted.rules {
        let why = "codex asks nobody before it runs a command, so no rule can stop it; its sandbox decides";
        let refusal = Refusal::new(O::Permissions, why);
        return Some(refusal.instead(sandboxed("-s read-only")).instead(sandboxed("-s workspace-write")));
    }
    if wanted.dialogue {
        let why = "codex takes one prompt and asks nothing: it has no messages, permission questions, hooks, tools of yours or \
                   control requests (a `Conversation` starts one run per turn)";
        return Some(Refusal::new(O::Dialogue, why).instead_agent(Kind::Claude));
    }
    if wanted.messages {
        return Some(Refusal::new(O::Messages, "codex takes only one prompt"));
    }
    let json = |arg: &&str| ["--json", "--experimental-json"].contains(arg);
    if let Some(flag) = options.extra.iter().filter_map(|arg| arg.to_str()).map(flag_of).find(json) {
        return Some(Refusal::argument(flag, "tapline already sets it"));
    }
    let none = "codex has no such option";
    let sandbox = |option| Refusal::new(option, "codex has no such option, but a sandbox").instead(sandboxed("-s read-only"));
    let time = |option| Refusal::new(option, none).instead(O::Timeout);
    let other = |option| Refusal::new(option, none).instead_agent(Kind::Claude);
    let servers = |option| {
        let why = "codex has no such option: its servers are in its configuration";
        Refusal::new(option, why).instead(O::Argument("-c mcp_servers.NAME.command=…".into()))
    };
    let whole = |option| Refusal::new(option, "codex writes only complete messages");
    let given = [
        (!options.allowed_tools.is_empty(), sandbox(O::AllowedTools)),
        (!options.disallowed_tools.is_empty(), sandbox(O::DisallowedTools)),
        (options.permission_mode.is_some(), sandbox(O::PermissionMode)),
        (options.max_turns.is_some(), time(O::MaxTurns)),
        (options.max_budget_usd.is_some(), time(O::MaxBudgetUsd)),
        (!options.mcp_config.is_empty(), servers(O::McpConfig)),
        (options.fallback_model.is_some(), other(O::FallbackModel)),
        (!options.agents.is_empty(), other(O::Agents)),
        (options.setting_sources.is_some(), other(O::SettingSources)),
        (!options.plugin_dir.is_empty(), other(O::PluginDir)),
        (options.system_prompt.is_some(), other(O::SystemPrompt)),
        (options.append_system_prompt.is_some(), other(O::AppendSystemPrompt)),
        (options.system_prompt_file.is_some(), other(O::SystemPromptFile)),
        (options.append_system_prompt_file.is_some(), other(O::AppendSystemPromptFile)),
        (options.partial, whole(O::Partial)),
    ];
    given.into_iter().find(|(given, _)| *given).map(|(_, refusal)| refusal)
}
