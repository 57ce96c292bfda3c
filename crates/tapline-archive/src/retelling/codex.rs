//! Codex's rollouts as the stream of `codex exec --json`. Prompts, which such a stream does not have, are added. A
//! turn ends where the rollout says so; versions before 0.100 or so do not say it.

use std::collections::HashSet;

use tapline_protocol::{Json, Kind, Moment, Tape, Value};

use super::telling::{About, StreamPart, Teller, json, line_of, text, written};

/// Functions that run a command.
const SHELLS: [&str; 5] = ["exec_command", "shell_command", "shell", "container.exec", "local_shell"];

/// The functions for sub-agents are in this namespace.
const COLLABORATION: &str = "collaboration";
/// How many sub-agents are told apart.
const AGENTS: usize = 4_096;

/// A rollout that is being turned into a stream.
#[derive(Debug, Default)]
pub(super) struct Rollout {
    about: About,
    began: bool,
    /// Calls whose end is in the stream.
    done: HashSet<String>,
    /// Calls that are in the stream, and the kind of each.
    open: Vec<(String, &'static str)>,
    /// The last total of the thread, as JSON.
    usage: Option<String>,
    is_interrupted: bool,
    /// The threads of sub-agents, and the calls that started them.
    agents: Vec<(String, String)>,
    /// Calls that start sub-agents, until these begin, and what they ask for.
    prompts: Vec<(String, String)>,
    /// A number for items without an id.
    items: u64,
}

impl Rollout {
    fn tell(pairs: &[(&str, Option<&str>)], at: Option<Moment>, told: &mut Vec<StreamPart>) {
        told.push(StreamPart::Line(line_of(pairs), at));
    }

    fn item(phase: &str, item: &[(&str, Option<&str>)], at: Option<Moment>, told: &mut Vec<StreamPart>) {
        let (kind, item) = (json(&format!("item.{phase}")), line_of(item));
        Self::tell(&[("type", Some(&kind)), ("item", Some(&item))], at, told);
    }

    fn id(&mut self, payload: Value<'_>) -> String {
        self.items += 1;
        json(&text(payload.get("id")).unwrap_or_else(|| format!("item_{}", self.items)))
    }

    fn meta(&mut self, payload: Value<'_>, at: Option<Moment>, told: &mut Vec<StreamPart>) {
        // Others are copies of the session that it was forked from.
        if std::mem::replace(&mut self.began, true) {
            return;
        }
        self.about.goes_on = text(payload.get("forked_from_id")).is_some_and(|from| !from.is_empty());
        let id = text(payload.get("id")).as_deref().map(json);
        Self::tell(&[("type", Some("\"thread.started\"")), ("thread_id", id.as_deref())], at, told);
    }

    fn said(&mut self, payload: Value<'_>, at: Option<Moment>, told: &mut Vec<StreamPart>) {
        if text(payload.get("role")).is_none_or(|role| role != "assistant") {
            return;
        }
        let parts = payload.get("content").and_then(Value::items).into_iter().flatten();
        let parts: Vec<_> = parts.filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
        let (id, said) = (self.id(payload), json(&parts.join("\n")));
        let phase = text(payload.get("phase")).as_deref().map(json);
        let item =
            [("id", Some(&*id)), ("type", Some("\"agent_message\"")), ("text", Some(&*said)), ("phase", phase.as_deref())];
        Self::item("completed", &item, at, told);
    }

    fn thought(&mut self, payload: Value<'_>, at: Option<Moment>, told: &mut Vec<StreamPart>) {
        let parts = payload.get("summary").and_then(Value::items).into_iter().flatten();
        let parts: Vec<_> = parts.filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
        if parts.is_empty() {
            return;
        }
        let (id, said) = (self.id(payload), json(&parts.join("\n")));
        Self::item("completed", &[("id", Some(&*id)), ("type", Some("\"reasoning\"")), ("text", Some(&said))], at, told);
    }

    /// A call begins.
    fn call(&mut self, payload: Value<'_>, at: Option<Moment>, told: &mut Vec<StreamPart>) {
        let Some(call) = text(payload.get("call_id")).or_else(|| text(payload.get("id"))) else { return };
        let name = text(payload.get("name")).unwrap_or_else(|| "local_shell".to_owned());
        let given = payload.get("arguments").or_else(|| payload.get("input")).and_then(Value::as_str).unwrap_or_default();
        let mut tape = Tape::default();
        let arguments = tape.parse(&given).ok().filter(|given| given.kind() == Kind::Object);
        let id = json(&call);
        if name == "update_plan" {
            return Self::plan(&id, arguments, at, told);
        }
        let kind = if SHELLS.contains(&&*name) {
            let action = payload.get("action");
            let command = arguments.and_then(|given| given.get("cmd").or_else(|| given.get("command")));
            let command = command.or_else(|| action.and_then(|action| action.get("command")));
            let command = json(&command.map_or_else(|| given.clone().into_owned(), command_of));
            let item = [
                ("id", Some(&*id)),
                ("type", Some("\"command_execution\"")),
                ("command", Some(&*command)),
                ("status", Some("\"in_progress\"")),
            ];
            Self::item("started", &item, at, told);
            "command_execution"
        } else if name == "apply_patch" {
            let patch = arguments.and_then(|given| text(given.get("input"))).unwrap_or_else(|| given.clone().into_owned());
            let changes = changes_of(&patch);
            let item = [
                ("id", Some(&*id)),
                ("type", Some("\"file_change\"")),
                ("changes", Some(&*changes)),
                ("status", Some("\"in_progress\"")),
            ];
            Self::item("started", &item, at, told);
            "file_change"
        } else if text(payload.get("namespace")).is_some_and(|space| space == COLLABORATION) {
            let tool = json(if name == "wait_agent" { "wait" } else { &name });
            let prompt = arguments.and_then(|given| text(given.get("message"))).as_deref().map(json);
            let item = [
                ("id", Some(&*id)),
                ("type", Some("\"collab_tool_call\"")),
                ("tool", Some(&*tool)),
                ("prompt", prompt.as_deref()),
                ("status", Some("\"in_progress\"")),
            ];
            Self::item("started", &item, at, told);
            if let Some(prompt) = prompt.filter(|_| name == "spawn_agent" && self.prompts.len() < AGENTS) {
                self.prompts.push((call.clone(), prompt));
            }
            "collab_tool_call"
        } else {
            // `mcp__server__tool`, or a tool of Codex itself.
            let (server, tool) = name.strip_prefix("mcp__").and_then(|name| name.split_once("__")).unwrap_or(("codex", &name));
            let (server, tool) = (json(server), json(tool));
            let input = arguments.map_or_else(|| format!("{{\"input\":{}}}", json(&given)), |given| given.raw().to_owned());
            let item = [
                ("id", Some(&*id)),
                ("type", Some("\"mcp_tool_call\"")),
                ("server", Some(&*server)),
                ("tool", Some(&*tool)),
                ("arguments", Some(&*input)),
                ("status", Some("\"in_progress\"")),
            ];
            Self::item("started", &item, at, told);
            "mcp_tool_call"
        };
        self.open.push((call, kind));
    }

    fn plan(id: &str, arguments: Option<Value<'_>>, at: Option<Moment>, told: &mut Vec<StreamPart>) {
        let plan = arguments.and_then(|given| given.get("plan")).and_then(Value::items).into_iter().flatten();
        let entry = |entry: Value<'_>| {
            let is_done = text(entry.get("status")).is_some_and(|status| status == "completed");
            let step = json(&text(entry.get("step")).unwrap_or_default());
            format!("{{\"text\":{step},\"completed\":{is_done}}}")
        };
        let items = format!("[{}]", plan.map(entry).collect::<Vec<_>>().join(","));
        Self::item("completed", &[("id", Some(id)), ("type", Some("\"todo_list\"")), ("items", Some(&items))], at, told);
    }

    /// A call has ended, as the model was told.
    fn output(&mut self, payload: Value<'_>, at: Option<Moment>, told: &mut Vec<StreamPart>) {
        let Some(call) = text(payload.get("call_id")) else { return };
        let Some(kind) = self.open.iter().rfind(|(open, _)| *open == call).map(|(_, kind)| *kind) else { return };
        if !self.done.insert(call.clone()) {
            return;
        }
        let output = payload.get("output").map(output_of).unwrap_or_default();
        let (code, said) = exit_of(&output);
        let failed = code.is_some_and(|code| code != 0);
        let (id, kind) = (json(&call), json(kind));
        let (said, code) = (json(said), code.map(|code| code.to_string()));
        let item = [
            ("id", Some(&*id)),
            ("type", Some(&*kind)),
            ("aggregated_output", Some(&*said)),
            ("exit_code", code.as_deref()),
            ("status", Some(if failed { "\"failed\"" } else { "\"completed\"" })),
        ];
        Self::item("completed", &item, at, told);
        self.open.retain(|(open, _)| *open != call);
    }

    /// A call has ended, as Codex saw it: newer versions write this before what the model was told.
    fn completed(&mut self, item: Value<'_>, at: Option<Moment>, told: &mut Vec<StreamPart>) {
        let kind = text(item.get("type")).unwrap_or_default();
        if kind == "UserMessage" {
            let parts = item.get("content").and_then(Value::items).into_iter().flatten();
            let parts: Vec<_> = parts.filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
            return self.prompt(&parts.join("\n"), at, told);
        }
        if kind == "SubAgentActivity" {
            return self.sub_agent(item, at, told);
        }
        let Some(call) = text(item.get("id")).filter(|_| kind == "CommandExecution") else { return };
        if !self.done.insert(call.clone()) {
            return;
        }
        let raw = |key: &str| item.get(key).filter(|value| value.kind() != Kind::Null).map(Value::raw);
        let (id, command) = (json(&call), item.get("command").map(command_of).as_deref().map(json));
        let pairs = [
            ("id", Some(&*id)),
            ("type", Some("\"command_execution\"")),
            ("command", command.as_deref()),
            ("aggregated_output", raw("aggregated_output")),
            ("exit_code", raw("exit_code")),
            ("status", raw("status")),
        ];
        Self::item("completed", &pairs, at, told);
        self.open.retain(|(open, _)| *open != call);
    }

    /// A sub-agent has begun, or ended. The call that started it says so.
    fn sub_agent(&mut self, item: Value<'_>, at: Option<Moment>, told: &mut Vec<StreamPart>) {
        let Some((thread, how)) = text(item.get("agent_thread_id")).zip(text(item.get("kind"))) else { return };
        let has_begun = how == "started";
        if let Some(call) = text(item.get("id")).filter(|_| has_begun && self.agents.len() < AGENTS) {
            self.agents.push((thread.clone(), call));
        }
        let Some((_, call)) = self.agents.iter().rfind(|(known, _)| *known == thread) else { return };
        let asked = self.prompts.iter().position(|(asking, _)| has_begun && asking == call);
        let prompt = asked.map(|at| self.prompts.swap_remove(at).1);
        let (id, thread, how) = (json(call), json(&thread), json(if has_begun { "running" } else { &how }));
        let (threads, states) = (format!("[{thread}]"), format!("{{{thread}:{{\"status\":{how}}}}}"));
        let item = [
            ("id", Some(&*id)),
            ("type", Some("\"collab_tool_call\"")),
            ("tool", Some("\"spawn_agent\"")),
            ("prompt", prompt.as_deref()),
            ("receiver_thread_ids", Some(&*threads)),
            ("agents_states", Some(&*states)),
        ];
        Self::item("updated", &item, at, told);
    }

    fn prompt(&mut self, said: &str, at: Option<Moment>, told: &mut Vec<StreamPart>) {
        self.is_interrupted = false;
        told.push(StreamPart::Prompt(said.to_owned(), at));
    }

    fn event(&mut self, kind: &str, payload: Value<'_>, at: Option<Moment>, told: &mut Vec<StreamPart>) {
        match kind {
            "task_started" => {
                self.is_interrupted = false;
                Self::tell(&[("type", Some("\"turn.started\""))], at, told);
            }
            "task_complete" => {
                if let Some(error) = payload.get("error").filter(|error| error.kind() == Kind::Object) {
                    Self::tell(&[("type", Some("\"turn.failed\"")), ("error", Some(error.raw()))], at, told);
                } else {
                    let usage = self.usage.as_deref();
                    Self::tell(&[("type", Some("\"turn.completed\"")), ("usage", usage)], at, told);
                }
            }
            "turn_aborted" => {
                self.is_interrupted = true;
                let why = text(payload.get("reason")).unwrap_or_else(|| "aborted".to_owned());
                let error = format!("{{\"message\":{}}}", json(&why));
                Self::tell(&[("type", Some("\"turn.failed\"")), ("error", Some(&error))], at, told);
            }
            "error" => {
                let said = text(payload.get("message")).as_deref().map(json);
                Self::tell(&[("type", Some("\"error\"")), ("message", said.as_deref())], at, told);
            }
            "user_message" => self.prompt(&text(payload.get("message")).unwrap_or_default(), at, told),
            "item_completed" => {
                if let Some(item) = payload.get("item") {
                    self.completed(item, at, told);
                }
            }
            "token_count" => {
                let total = payload.get("info").and_then(|info| info.get("total_token_usage"));
                self.usage = total.map(|total| total.raw().to_owned()).or_else(|| self.usage.take());
            }
            _ => {}
        }
    }
}

/// Returns a command as one text. In a list, the shell that runs it is left out.
fn command_of(command: Value<'_>) -> String {
    if let Some(text) = command.as_str() {
        return text.into_owned();
    }
    let words: Vec<_> = command.items().into_iter().flatten().filter_map(Value::as_str).collect();
    match words.as_slice() {
        [shell, flag, script] if shell.ends_with("sh") && flag.starts_with('-') && flag.ends_with('c') => {
            script.clone().into_owned()
        }
        words => words.join(" "),
    }
}

/// Returns the files that a patch changes, as a list of changes.
fn changes_of(patch: &str) -> String {
    const VERBS: [(&str, &str); 3] =
        [("*** Add File: ", "add"), ("*** Update File: ", "update"), ("*** Delete File: ", "delete")];
    let change = |line: &str| {
        let (file, kind) = VERBS.iter().find_map(|(start, kind)| Some((line.strip_prefix(start)?, kind)))?;
        Some(format!("{{\"path\":{},\"kind\":{}}}", json(file), json(kind)))
    };
    format!("[{}]", patch.lines().filter_map(change).collect::<Vec<_>>().join(","))
}

/// Returns the text of an output: a string, an object with `content` or `output`, or a list of texts.
fn output_of(output: Value<'_>) -> String {
    if let Some(said) = output.as_str() {
        // Older versions put the text into JSON.
        return Json::parse(&said).ok().and_then(|inner| inner.text_of("output")).unwrap_or_else(|| said.into_owned());
    }
    let inner = ["content", "output"].into_iter().find_map(|key| output.get(key)).unwrap_or(output);
    if let Some(said) = inner.as_str() {
        return said.into_owned();
    }
    let parts = inner.items().into_iter().flatten().filter_map(|part| part.get("text").and_then(Value::as_str));
    parts.collect::<Vec<_>>().join("\n")
}

/// Reads the exit code from what the model was told about a command, and returns the command's own output.
fn exit_of(output: &str) -> (Option<i64>, &str) {
    let head = output.split("\nOutput:\n").next().unwrap_or_default();
    let code = head.lines().take(6).find_map(|line| {
        ["Exit code: ", "Process exited with code "].iter().find_map(|start| line.strip_prefix(start)?.trim().parse().ok())
    });
    let said = output.split_once("\nOutput:\n").filter(|_| code.is_some()).map_or(output, |(_, said)| said);
    (code, said)
}

impl Teller for Rollout {
    fn line(&mut self, line: Value<'_>, _clean: &dyn Fn(String) -> String, told: &mut Vec<StreamPart>) {
        let at = written(line);
        let Some(payload) = line.get("payload") else { return };
        let inner = text(payload.get("type")).unwrap_or_default();
        match (text(line.get("type")).as_deref(), &*inner) {
            (Some("session_meta"), _) => self.meta(payload, at, told),
            (Some("response_item"), "message") => self.said(payload, at, told),
            (Some("response_item"), "reasoning") => self.thought(payload, at, told),
            (Some("response_item"), "function_call" | "custom_tool_call" | "local_shell_call") => self.call(payload, at, told),
            (Some("response_item"), "function_call_output" | "custom_tool_call_output") => self.output(payload, at, told),
            (Some("response_item"), "web_search_call") => {
                let id = self.id(payload);
                let query = payload.get("action").and_then(|action| text(action.get("query"))).as_deref().map(json);
                let item = [("id", Some(&*id)), ("type", Some("\"web_search\"")), ("query", query.as_deref())];
                Self::item("completed", &item, at, told);
            }
            (Some("event_msg"), kind) => self.event(kind, payload, at, told),
            _ => {}
        }
    }

    fn end(&mut self, _clean: &dyn Fn(String) -> String, _told: &mut Vec<StreamPart>) {}

    fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    fn infers(&self) -> Option<&'static str> {
        None
    }

    fn look(&mut self, line: Value<'_>) {
        let Some(payload) = line.get("payload") else { return };
        let About { model, cwd, version, .. } = &mut self.about;
        match text(line.get("type")).as_deref() {
            Some("session_meta") => {
                *cwd = cwd.take().or_else(|| text(payload.get("cwd")));
                *version = version.take().or_else(|| text(payload.get("cli_version")));
            }
            Some("turn_context") => *model = model.take().or_else(|| text(payload.get("model"))),
            _ => {}
        }
    }

    fn looks_on(&self) -> bool {
        self.about.model.is_none()
    }

    fn about(&self) -> About {
        self.about.clone()
    }
}
