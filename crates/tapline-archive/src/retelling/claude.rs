//! Claude Code's transcripts as its stream. A sub-agent's lines stand in a file of their own beside the transcript; in
//! the stream they stand where their times put them. A turn ends where the model says `end_turn`, or with an error of the API.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use tapline_protocol::{DEFAULT_LINE_LIMIT, Kind, Moment, Tape, Value, line_text};
use tapline_recording::Beneath;
use tapline_session::SessionPhase;

use super::telling::{About, StreamPart, Teller, json, line_of, text, written};
use crate::packed;

/// Reasons of the model to stop that end a turn.
const ENDS: [&str; 4] = ["end_turn", "stop_sequence", "max_tokens", "refusal"];
/// The model of messages that no model wrote.
const SYNTHETIC: &str = "<synthetic>";
/// How much is read of what stands beside a sub-agent's file.
const MOST_META: u64 = 64 << 10;
/// How many files of sub-agents are open at once.
const OPEN: usize = 64;

/// A transcript that is being turned into a stream.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    about: About,
    session: Option<String>,
    /// Whether the stream has the start of the session.
    began: bool,
    /// Whether the whole file is a sub-agent's.
    is_subagent: bool,
    /// Files of sub-agents, each under the call that started it.
    subagents: HashMap<String, Vec<PathBuf>>,
    /// The transcript, and the folder that it is in.
    path: Option<PathBuf>,
    folder: Option<Beneath>,
    /// Calls whose sub-agents were started.
    started: HashSet<String>,
    /// Sub-agents that write.
    running: Vec<Subagent>,
    /// Calls of the main agent that have no result yet, for sub-agents in the same file.
    open: Vec<String>,
    turn: Turn,
    is_interrupted: bool,
}

/// The turn of the main agent.
#[derive(Debug, Default)]
struct Turn {
    /// The last message, if it ends the turn: its text, and why it ended.
    end: Option<End>,
    /// The requests so far.
    requests: HashSet<String>,
    /// How long the turn took, if a line says so.
    duration: Option<String>,
}

#[derive(Debug, Default)]
struct End {
    text: String,
    reason: String,
    uuid: String,
    at: Option<Moment>,
    /// Whether the API failed.
    failed: bool,
    /// The status with which it failed, as JSON.
    status: Option<String>,
}

/// A file of a sub-agent.
struct Subagent {
    /// The call that started it.
    parent: String,
    lines: BufReader<Box<dyn Read + Send>>,
    /// Its next line, and when it was written.
    next: Option<(String, Option<Moment>)>,
}

impl fmt::Debug for Subagent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subagent").field("parent", &self.parent).finish_non_exhaustive()
    }
}

impl Subagent {
    fn open(folder: &Beneath, path: &Path, parent: &str) -> Option<Self> {
        let lines = BufReader::new(packed::unpacked(folder.file(path).ok()?, path).ok()?);
        let mut subagent = Self { parent: parent.to_owned(), lines, next: None };
        subagent.advance();
        Some(subagent)
    }

    /// Reads the next line that is JSON.
    fn advance(&mut self) {
        self.next = None;
        let mut bytes = Vec::new();
        // A longer line is no line of a session, nor is any part of it.
        let longest = DEFAULT_LINE_LIMIT as u64;
        while (&mut self.lines).take(longest).read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let line = line_text(&bytes, false).into_owned();
            if let Ok(value) = Tape::default().parse(&line) {
                self.next = Some((line.clone(), written(value)));
                return;
            }
            bytes.clear();
        }
    }
}

/// Where a line stands.
struct Place<'t> {
    line: Value<'t>,
    /// The call that started the sub-agent, if it is one's.
    parent: Option<&'t str>,
    at: Option<Moment>,
}

impl Transcript {
    /// Tells the transcript at this path, and its sub-agents.
    pub(super) fn beside(path: Option<&Path>) -> Self {
        let name = path.and_then(Path::file_name).and_then(|name| name.to_str());
        let is_subagent = name.is_some_and(|name| name.starts_with("agent-"));
        let Some((path, inside)) = path.and_then(|path| Some((path, packed::folder_of(path).ok()?))) else {
            return Self { is_subagent, ..Self::default() };
        };
        let mut transcript = Self { is_subagent, path: Some(path.to_owned()), ..Self::default() };
        let folder = packed::unpacked_name(path).with_extension("").join("subagents");
        let mut entries: Vec<_> = inside
            .resolve(&folder)
            .and_then(fs::read_dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| packed::unpacked_name(path).extension().is_some_and(|ending| ending == "jsonl"))
            .collect();
        entries.sort();
        for path in entries {
            let plain = packed::unpacked_name(&path);
            let Some(name) = plain.file_stem().and_then(|name| name.to_str()) else { continue };
            let about = packed::beside(&path, &format!("{name}.meta.json"));
            let about = inside.file(&about).and_then(|file| packed::unpacked(file, &about));
            let about = about.and_then(|about| io::read_to_string(about.take(MOST_META)));
            let mut tape = Tape::default();
            let call = tape.parse(&about.unwrap_or_default()).ok().and_then(|about| text(about.get("toolUseId")));
            // Without it, the result of the call names the sub-agent.
            if let Some(key) = call.or_else(|| name.strip_prefix("agent-").map(str::to_owned)) {
                transcript.subagents.entry(key).or_default().push(path);
            }
        }
        transcript.folder = Some(inside);
        transcript
    }

    /// Starts the sub-agent whose result this is, if nothing else says which call started it.
    fn start_of_result(&mut self, line: Value<'_>) {
        let Some(agent) = line.get("toolUseResult").and_then(|result| text(result.get("agentId"))) else { return };
        let content = line.get("message").and_then(|message| message.get("content"));
        let call = content.and_then(Value::items).into_iter().flatten().find_map(|block| text(block.get("tool_use_id")));
        let Some(call) = call.filter(|call| self.started.insert(call.clone())) else { return };
        // Versions before 2.1 keep sub-agents beside the transcripts of all sessions.
        let is_plain = agent.chars().all(|c| c.is_ascii_alphanumeric());
        let beside = self.path.as_ref().filter(|_| is_plain).map(|path| packed::beside(path, &format!("agent-{agent}.jsonl")));
        if let Some(path) = beside.filter(|path| path.is_file()) {
            self.subagents.entry(agent.clone()).or_default().push(path);
        }
        self.start(&agent, &call);
    }

    /// Starts the sub-agents of a call.
    fn start(&mut self, key: &str, call: &str) {
        for path in self.subagents.remove(key).unwrap_or_default() {
            self.started.insert(call.to_owned());
            if let Some(folder) = self.folder.as_ref().filter(|_| self.running.len() < OPEN) {
                self.running.extend(Subagent::open(folder, &path, call));
            }
        }
    }

    /// Tells what sub-agents wrote until then. Without a time: everything.
    fn subagents_until(&mut self, until: Option<Moment>, clean: &dyn Fn(String) -> String, told: &mut Vec<StreamPart>) {
        loop {
            let is_due = |at: Option<Moment>| until.is_none_or(|until| at.is_none_or(|at| at <= until));
            let next = |agent: &Subagent| agent.next.as_ref().map(|(_, at)| *at);
            let due = self.running.iter().enumerate().filter_map(|(place, agent)| Some((next(agent)?, place)));
            let Some((_, place)) = due.filter(|(at, _)| is_due(*at)).min_by_key(|(at, place)| (*at, *place)) else { break };
            let agent = &mut self.running[place];
            let (line, at) = agent.next.take().unwrap_or_default();
            let parent = agent.parent.clone();
            agent.advance();
            let line = clean(line);
            let mut tape = Tape::default();
            if let Ok(line) = tape.parse(&line) {
                self.start_of_result(line);
                self.message(&Place { line, parent: Some(&parent), at }, told);
            }
        }
        self.running.retain(|agent| agent.next.is_some());
    }

    /// Tells a message of the main agent or of a sub-agent.
    fn message(&mut self, place: &Place<'_>, told: &mut Vec<StreamPart>) {
        let line = place.line;
        match text(line.get("type")).as_deref() {
            Some("user") => self.user(place, told),
            Some("assistant") => self.assistant(place, told),
            Some("system") => self.system(place, told),
            _ => {}
        }
    }

    fn tell(&mut self, kind: &str, place: &Place<'_>, more: &[(&str, Option<&str>)], told: &mut Vec<StreamPart>) {
        let line = place.line;
        let raw = |key: &str| line.get(key).filter(|value| value.kind() != Kind::Null).map(Value::raw);
        let kind = json(kind);
        let (session, parent) = (self.session.as_deref().map(json), place.parent.map(json));
        let mut pairs = vec![("type", Some(&*kind))];
        pairs.extend_from_slice(more);
        pairs.extend([
            ("parent_tool_use_id", parent.as_deref()),
            ("session_id", session.as_deref()),
            ("uuid", raw("uuid")),
            ("timestamp", raw("timestamp")),
        ]);
        told.push(StreamPart::Line(line_of(&pairs), place.at));
    }

    /// The first line of a stream says what was started.
    fn begin(&mut self, place: &Place<'_>, told: &mut Vec<StreamPart>) {
        if std::mem::replace(&mut self.began, true) {
            return;
        }
        let value = |text: &Option<String>| text.as_deref().map(json);
        let (model, cwd, version) = (value(&self.about.model), value(&self.about.cwd), value(&self.about.version));
        let session = self.session.as_deref().map(json);
        let pairs = [
            ("type", Some("\"system\"")),
            ("subtype", Some("\"init\"")),
            ("session_id", session.as_deref()),
            ("model", model.as_deref()),
            ("cwd", cwd.as_deref()),
            ("claude_code_version", version.as_deref()),
            ("permissionMode", place.line.get("permissionMode").filter(|mode| mode.kind() == Kind::String).map(Value::raw)),
        ];
        told.push(StreamPart::Line(line_of(&pairs), place.at));
    }

    fn user(&mut self, place: &Place<'_>, told: &mut Vec<StreamPart>) {
        let line = place.line;
        let is = |key: &str| line.get(key).and_then(Value::as_bool) == Some(true);
        let Some(message) = line.get("message").filter(|_| !is("isMeta") && !is("isCompactSummary")) else { return };
        let Some(content) = message.get("content") else { return };
        let blocks = || content.items().into_iter().flatten();
        let first = blocks().find_map(|block| block.get("text").and_then(Value::as_str));
        let prompt = content.as_str().or(first).unwrap_or_default();
        let results: Vec<String> = blocks().filter_map(|block| text(block.get("tool_use_id"))).collect();
        self.open.retain(|call| !results.contains(call));
        if place.parent.is_none() && results.is_empty() {
            self.end_turn(told);
            self.is_interrupted = prompt.starts_with("[Request interrupted");
            if self.is_interrupted || prompt.starts_with("<command-name>") || prompt.starts_with("<local-command") {
                return;
            }
            told.push(StreamPart::Turn);
            if prompt.starts_with("<task-notification>") {
                return self.notified(&prompt, place, told);
            }
        }
        self.begin(place, told);
        self.launched(line, results.first(), place, told);
        let decision = line.get("permissionDecision").filter(|decision| decision.kind() == Kind::Object);
        let decided = results.first().zip(decision);
        let decided = decided.map(|(call, how)| format!(r#"[{{"id":{},"permission_decision":{}}}]"#, json(call), how.raw()));
        self.tell("user", place, &[("message", Some(message.raw())), ("tool_result_meta", decided.as_deref())], told);
    }

    /// A sub-agent goes on in the background. Its call has a result at once; a stream says with an event what that means.
    fn launched(&mut self, line: Value<'_>, call: Option<&String>, place: &Place<'_>, told: &mut Vec<StreamPart>) {
        let Some(result) =
            line.get("toolUseResult").filter(|result| result.get("isAsync").and_then(Value::as_bool) == Some(true))
        else {
            return;
        };
        let Some((task, call)) = text(result.get("agentId")).zip(call) else { return };
        let (task, call, description) = (json(&task), json(call), text(result.get("description")).as_deref().map(json));
        let more = [
            ("subtype", Some("\"task_started\"")),
            ("task_id", Some(&*task)),
            ("tool_use_id", Some(&*call)),
            ("description", description.as_deref()),
            ("task_type", Some("\"local_agent\"")),
        ];
        self.tell("system", place, &more, told);
    }

    /// There is news of a background task. The agent is told in words; a stream says it with an event. Only a status tells an end.
    fn notified(&mut self, prompt: &str, place: &Place<'_>, told: &mut Vec<StreamPart>) {
        let within = |tag: &str| {
            let (_, rest) = prompt.split_once(&format!("<{tag}>"))?;
            Some(json(rest.split_once(&format!("</{tag}>"))?.0))
        };
        let (task, call) = (within("task-id"), within("tool-use-id"));
        // What a task printed may look like a status.
        let is_event = prompt.split_once("<event>").is_some_and(|(head, _)| !head.contains("<status>"));
        let (status, summary) = (within("status").filter(|_| !is_event), within("summary"));
        let more = [
            ("subtype", Some("\"task_notification\"")),
            ("task_id", task.as_deref()),
            ("tool_use_id", call.as_deref()),
            ("status", status.as_deref()),
            ("summary", summary.as_deref()),
        ];
        self.tell("system", place, &more, told);
    }

    fn assistant(&mut self, place: &Place<'_>, told: &mut Vec<StreamPart>) {
        let line = place.line;
        let Some(message) = line.get("message") else { return };
        self.begin(place, told);
        let raw = |key: &str| line.get(key).filter(|value| value.kind() != Kind::Null).map(Value::raw);
        let more = [
            ("message", Some(message.raw())),
            ("error", raw("error")),
            ("api_error_status", raw("apiErrorStatus")),
            ("api_error_type", raw("apiErrorType")),
        ];
        self.tell("assistant", place, &more, told);
        let blocks = || message.get("content").and_then(Value::items).into_iter().flatten();
        let is_call = |block: &Value<'_>| text(block.get("type")).is_some_and(|kind| kind == "tool_use");
        let calls: Vec<String> = blocks().filter(is_call).filter_map(|block| text(block.get("id"))).collect();
        for call in &calls {
            self.start(call, call);
        }
        if place.parent.is_some() {
            return;
        }
        self.is_interrupted = false;
        let has_calls = !calls.is_empty();
        self.open.extend(calls);
        let is_error = line.get("isApiErrorMessage").and_then(Value::as_bool) == Some(true);
        let is_synthetic = text(message.get("model")).is_some_and(|model| model == SYNTHETIC);
        if !is_synthetic {
            self.turn.requests.extend(text(message.get("id")));
        }
        let said: Vec<String> = blocks().filter_map(|block| text(block.get("text"))).collect();
        let reason = text(message.get("stop_reason")).unwrap_or_default();
        let ends = !has_calls && (is_error || !is_synthetic && ENDS.contains(&&*reason));
        let earlier = self.turn.end.take();
        self.turn.end = ends.then(|| End {
            // One message stands on several lines. Its text need not be on the last.
            text: if said.is_empty() { earlier.map(|end| end.text).unwrap_or_default() } else { said.join("\n") },
            reason,
            uuid: text(line.get("uuid")).unwrap_or_default(),
            at: place.at,
            failed: is_error,
            status: raw("apiErrorStatus").filter(|_| is_error).map(str::to_owned),
        });
    }

    fn system(&mut self, place: &Place<'_>, told: &mut Vec<StreamPart>) {
        let line = place.line;
        let raw =
            |value: Option<Value<'_>>| value.filter(|value| value.kind() != Kind::Null).map(|value| value.raw().to_owned());
        match text(line.get("subtype")).as_deref() {
            Some("turn_duration") if place.parent.is_none() => {
                self.turn.duration = raw(line.get("durationMs"));
                self.end_turn(told);
            }
            Some("compact_boundary") => {
                let data = line.get("compactMetadata");
                let count = |key: &str| raw(data.and_then(|data| data.get(key)));
                let (before, after, trigger) = (count("preTokens"), count("postTokens"), count("trigger"));
                let pairs =
                    [("trigger", trigger.as_deref()), ("pre_tokens", before.as_deref()), ("post_tokens", after.as_deref())];
                let data = line_of(&pairs);
                self.tell(
                    "system",
                    place,
                    &[("subtype", Some("\"compact_boundary\"")), ("compact_metadata", Some(&data))],
                    told,
                );
            }
            Some("api_error") => {
                let error = line.get("error");
                let status = raw(error.and_then(|error| error.get("status")));
                let said = error.and_then(|error| text(error.get("formatted")).or_else(|| text(error.get("message"))));
                let said = said.as_deref().map(json);
                let (attempt, max) = (raw(line.get("retryAttempt")), raw(line.get("maxRetries")));
                let delay = raw(line.get("retryInMs"));
                let more = [
                    ("subtype", Some("\"api_retry\"")),
                    ("attempt", attempt.as_deref()),
                    ("max_retries", max.as_deref()),
                    ("retry_delay_ms", delay.as_deref()),
                    ("error_status", status.as_deref()),
                    ("error", said.as_deref()),
                ];
                self.tell("system", place, &more, told);
            }
            _ => {}
        }
    }

    /// Tells that the turn has ended, if the transcript shows it.
    fn end_turn(&mut self, told: &mut Vec<StreamPart>) {
        let Turn { end, requests, duration } = std::mem::take(&mut self.turn);
        let Some(end) = end else { return };
        let (said, reason, session) = (json(&end.text), json(&end.reason), self.session.as_deref().map(json));
        let uuid = json(&format!("{} (end of turn)", end.uuid));
        let turns = requests.len().to_string();
        let pairs = [
            ("type", Some("\"result\"")),
            ("subtype", Some("\"success\"")),
            ("is_error", Some(if end.failed { "true" } else { "false" })),
            ("result", Some(&*said)),
            ("stop_reason", Some(&*reason)),
            ("api_error_status", end.status.as_deref()),
            ("num_turns", Some(&*turns).filter(|_| !requests.is_empty())),
            ("duration_ms", duration.as_deref()),
            ("session_id", session.as_deref()),
            ("uuid", Some(&*uuid)),
        ];
        told.push(StreamPart::Line(line_of(&pairs), end.at));
    }
}

impl Teller for Transcript {
    fn line(&mut self, line: Value<'_>, clean: &dyn Fn(String) -> String, told: &mut Vec<StreamPart>) {
        let at = written(line);
        self.start_of_result(line);
        if let Some(at) = at {
            self.subagents_until(Some(at), clean, told);
        }
        if self.session.is_none() {
            self.session = text(line.get("sessionId"));
        }
        // Older versions write sub-agents into the same file, without the call.
        let is_side = !self.is_subagent && line.get("isSidechain").and_then(Value::as_bool) == Some(true);
        let parent = if is_side { Some(self.open.last().map_or("side chain", String::as_str).to_owned()) } else { None };
        self.message(&Place { line, parent: parent.as_deref(), at }, told);
    }

    fn end(&mut self, clean: &dyn Fn(String) -> String, told: &mut Vec<StreamPart>) {
        self.subagents_until(None, clean, told);
        // Those whose call is not known.
        let mut rest: Vec<String> = self.subagents.keys().cloned().collect();
        rest.sort();
        for call in rest {
            self.start(&call, &call);
            self.subagents_until(None, clean, told);
        }
        self.end_turn(told);
    }

    fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    fn untold_end(&self) -> Option<SessionPhase> {
        self.turn.end.as_ref().map(|end| if end.failed { SessionPhase::Failed } else { SessionPhase::Finished })
    }

    fn infers(&self) -> Option<&'static str> {
        Some("a transcript has no result: how its turns ended is read from their last messages")
    }

    fn look(&mut self, line: Value<'_>) {
        let About { model, cwd, version, .. } = &mut self.about;
        *cwd = cwd.take().or_else(|| text(line.get("cwd")));
        *version = version.take().or_else(|| text(line.get("version")));
        let is_side = !self.is_subagent && line.get("isSidechain").and_then(Value::as_bool) == Some(true);
        let said = line.get("message").and_then(|message| text(message.get("model")));
        *model = model.take().or_else(|| said.filter(|model| model != SYNTHETIC && !is_side));
    }

    fn looks_on(&self) -> bool {
        self.about.model.is_none()
    }

    fn about(&self) -> About {
        self.about.clone()
    }
}
