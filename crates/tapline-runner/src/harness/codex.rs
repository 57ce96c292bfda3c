//! Codex. The prompt goes to standard input, which `-` requests. The caller's own arguments come first, so that none of
//! them can take what follows.

use std::ffi::OsString;

use super::invocation::{Harness, Invocation, Wanted, flag_of, refuse};
use crate::error::StartError;
use crate::schema::{self, SchemaFile};

pub(super) const HARNESS: Harness = Harness {
    bin_variable: "TAPLINE_CODEX_BIN",
    package: "@openai/codex",
    sets: &[],
    dialogue: &[],
    no_background_tasks: None,
    tell_of_hooks: None,
    invocation,
};

fn invocation(wanted: &Wanted<'_>) -> Result<Invocation, StartError> {
    let options = wanted.options;
    if wanted.rules {
        let why = "--permissions: codex asks nobody before it runs a command, so rules cannot hold it; its sandbox decides: \
                   -- -s read-only or -- -s workspace-write (tapline check --permissions shows afterwards what rules \
                   would have decided)";
        return Err(StartError::Refused(why.to_owned()));
    }
    if wanted.dialogue {
        let why = "codex exec takes one prompt and asks nothing: it has no messages, permission questions, hooks, tools of yours or \
                   control requests (a chat, or a Conversation in Rust, starts one run per turn); use claude";
        return Err(StartError::Refused(why.to_owned()));
    }
    let sandbox = "use its sandbox instead: `-- -s read-only`";
    let none = "leave it out, or use --agent claude";
    refuse(
        "codex",
        &[
            ("--allowed-tools", !options.allowed_tools.is_empty(), sandbox),
            ("--disallowed-tools", !options.disallowed_tools.is_empty(), sandbox),
            ("--permission-mode", options.permission_mode.is_some(), sandbox),
            ("--max-turns", options.max_turns.is_some(), "use --timeout"),
            ("--max-budget-usd", options.max_budget_usd.is_some(), "use --timeout"),
            (
                "--mcp-config",
                !options.mcp_config.is_empty(),
                "set its servers in its configuration: `-- -c mcp_servers.NAME.command=…`",
            ),
            ("--system-prompt", options.system_prompt.is_some(), none),
            ("--append-system-prompt", options.append_system_prompt.is_some(), none),
            ("--system-prompt-file", options.system_prompt_file.is_some(), none),
            ("--append-system-prompt-file", options.append_system_prompt_file.is_some(), none),
            ("--partial", options.partial, "it writes only complete messages"),
            ("--input stream-json", wanted.messages, "it takes only one prompt"),
        ],
    )?;
    for arg in options.extra.iter().filter_map(|arg| arg.to_str()) {
        let flag = flag_of(arg);
        if ["--json", "--experimental-json"].contains(&flag) {
            return Err(StartError::Refused(format!("{flag} after `--`: tapline already sets it")));
        }
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
            return Err(StartError::Refused("--fork --continue: codex forks only by id; use --resume ID".to_owned()));
        }
        (None, false, true) => return Err(StartError::Refused("--fork: give the session to copy with --resume ID".to_owned())),
        (None, false, false) => {}
    }
    args.push("-".into());
    Ok(Invocation { args, _schema: schema })
}
