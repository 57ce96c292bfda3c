//! Claude Code's transcripts: where they are stored, and what their lines say.

mod prompt;
mod quick;
mod said;

use std::borrow::Cow;
use std::io::Read as _;

use tapline_protocol::claude::content::ToolResult;
use tapline_protocol::{Agent, Kind, Tape, Value};
use tapline_session::{SessionPhase, denied_by_words, needs_a_person};

use std::path::{Path, PathBuf};

use self::prompt::prompt_in;
use super::{Environment, Figures, Format, Line, Needle, Reading, cut_title, homes, number, text};
use crate::facts::{Call, CallEnd, Limit, Marks, Message, ModelReport, Reported, Scope, hash, note_limit};
use crate::lines::value_starts_with;
use crate::money::Money;
use crate::packed;
use tapline_protocol::Tokens;

pub(super) const FORMAT: Format = Format {
    needles: NEEDLES,
    is_one,
    read,
    quick: quick::read,
    said: said::said,
    home: HOME,
    places,
    subagent,
    is_side,
    adds_up_runs: false,
    prompt_in,
};

const HOME: &str = "CLAUDE_CONFIG_DIR";

/// What makes a line matter.
const NEEDLES: &[Needle] = &[
    ("\"usage\"", |behind| value_starts_with(behind, b'{')),
    ("\"is_error\"", |behind| value_starts_with(behind, b't')),
    ("\"cost-state\"", |_| true),
    ("\"turn_duration\"", |_| true),
    ("\"custom-title\"", |_| true),
    ("\"ai-title\"", |_| true),
    ("\"total_cost_usd\"", |_| true),
    ("\"permissionMode\"", |_| true),
    ("\"role\":\"user\",\"content\":\"", |_| true),
    ("\"role\":\"user\",\"content\":[{\"type\":\"text\"", |_| true),
    ("<tool_use_error>", |_| true),
    ("\"Exit code", |_| true),
    ("\"Error:", |_| true),
    ("\"rate_limit_event\"", |_| true),
    ("\"can_use_tool\"", |_| true),
];

/// The most that is read of the file beside a sub-agent's transcript.
const MOST_META: u64 = 64 << 10;

/// How Claude Code's own line begins where a person interrupted it.
const INTERRUPTED: &str = "[Request interrupted";

/// The model of messages that no model wrote.
const SYNTHETIC: &str = "<synthetic>";

fn places(environment: Environment<'_>) -> Vec<PathBuf> {
    if let Some(homes) = homes(environment, HOME) {
        return homes.iter().map(|home| home.join("projects")).collect();
    }
    let home = environment("HOME");
    let config = environment("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    [home.map(|home| home.join(".claude")), config.map(|config| config.join("claude"))]
        .into_iter()
        .flatten()
        .map(|folder| folder.join("projects"))
        .collect()
}

/// Returns the kind of sub-agent that a transcript is of: `agent-ID.meta.json` beside it says so.
fn subagent(path: &Path) -> Option<String> {
    let plain = packed::unpacked_name(path);
    let stem = plain.file_name()?.to_str()?.strip_suffix(".jsonl").filter(|stem| stem.starts_with("agent-"))?;
    let mut text = String::new();
    let beside = packed::beside(path, &format!("{stem}.meta.json"));
    let file = packed::folder_of(path).and_then(|folder| packed::unpacked(folder.file(&beside)?, &beside)).ok()?;
    file.take(MOST_META).read_to_string(&mut text).ok()?;
    let mut tape = Tape::default();
    let kind = text_of(tape.parse(text.trim()).ok()?, "agentType");
    (!kind.is_empty()).then_some(kind)
}

fn text_of(value: Value<'_>, key: &str) -> String {
    value.get(key).map(text).unwrap_or_default().into_owned()
}

/// Returns whether a line says that its file is a sub-agent's: it names the agent. Older versions write sub-agents into the file of the
/// session, or into files of their own in which every line is of a side chain.
fn is_side(line: Value<'_>) -> Option<bool> {
    line.get("isSidechain").and_then(Value::as_bool)
}

/// Returns whether a line is of such a transcript.
fn is_one(line: Value<'_>) -> bool {
    line.get("sessionId").is_some_and(|id| id.kind() == Kind::String)
        || ["leafUuid", "isSnapshotUpdate"].into_iter().any(|key| line.get(key).is_some())
}

/// What the lines have in common.
#[derive(Default)]
struct Envelope<'t> {
    kind: Cow<'t, str>,
    subtype: Cow<'t, str>,
    session: Cow<'t, str>,
    time: u64,
    folder: Cow<'t, str>,
    branch: Cow<'t, str>,
    version: Cow<'t, str>,
    agent: Cow<'t, str>,
    uuid: Cow<'t, str>,
    side: bool,
    error: bool,
    /// The line is not a person's prompt, but looks like one.
    meta: bool,
    message: Option<Value<'t>>,
    /// What the message cost: old versions wrote that.
    cost: Option<Value<'t>>,
    /// It is of a stream, not of a transcript.
    streamed: bool,
    /// The call whose sub-agent wrote it.
    parent: Cow<'t, str>,
}

impl<'t> Envelope<'t> {
    fn of(line: Value<'t>) -> Self {
        let mut it = Self::default();
        let mut kept = false;
        for (key, value) in line.entries().unwrap_or_default() {
            match &*key {
                "type" => it.kind = text(value),
                "subtype" => it.subtype = text(value),
                "sessionId" => (it.session, kept) = (text(value), true),
                "session_id" => {
                    if !kept {
                        it.session = text(value);
                    }
                    it.streamed = true;
                }
                "parent_tool_use_id" => {
                    it.parent = text(value);
                    it.side |= !it.parent.is_empty();
                }
                "timestamp" => it.time = super::time(value),
                "cwd" => it.folder = text(value),
                // Without a repository or a branch, it is `HEAD`.
                "gitBranch" => it.branch = Some(text(value)).filter(|branch| branch != "HEAD").unwrap_or_default(),
                "version" => it.version = text(value),
                "agentId" => it.agent = text(value),
                "uuid" => it.uuid = text(value),
                "isSidechain" => it.side = value.as_bool() == Some(true),
                "isApiErrorMessage" => it.error = value.as_bool() == Some(true),
                "isMeta" | "isCompactSummary" | "isSynthetic" => it.meta |= value.as_bool() == Some(true),
                "message" => it.message = Some(value),
                "costUSD" => it.cost = Some(value),
                _ => {}
            }
        }
        // In a terminal, the lines of a transcript have both ids.
        it.streamed &= !kept;
        it
    }
}

/// Reads one line.
fn read(line: Line<'_>, into: &mut Reading) {
    let envelope = Envelope::of(line.value);
    quick::forget(into);
    envelope_read(&envelope, into);
    let facts = &mut into.facts;
    match &*envelope.kind {
        "assistant" => drop(answer(&envelope, line.bytes, None, into)),
        "user" => user(&envelope, line.value, into),
        "cost-state" => {
            let reported = totals(&envelope, line.value, line.value.get("modelUsage"), "totalCostUSD", into);
            if let Some(reported) = reported {
                into.report(reported);
            }
        }
        "result" => result_of_turn(&envelope, line.value, into),
        "stream_event" => partial(&envelope, line.value, into),
        "rate_limit_event" => limit(&envelope, line.value, into),
        "control_request" => facts.phase = SessionPhase::Asking,
        "system" if envelope.subtype == "turn_duration" => {
            facts.busy_ms = facts.busy_ms.saturating_add(line.value.get("durationMs").map_or(0, number));
            facts.phase = SessionPhase::Finished;
        }
        "custom-title" | "ai-title" => {
            let title = ["customTitle", "aiTitle", "title"].into_iter().find_map(|key| line.value.get(key)).map(text);
            if let Some(title) = title.filter(|title| !title.is_empty() && (!facts.titled || envelope.kind == "custom-title")) {
                facts.title = cut_title(&title);
                facts.titled = true;
            }
        }
        _ => {}
    }
}

/// Takes over what lines have in common.
fn envelope_read(envelope: &Envelope<'_>, into: &mut Reading) {
    into.written(envelope.time);
    into.is_untitled |= envelope.side && !envelope.streamed;
    let facts = &mut into.facts;
    if facts.session == 0 && !envelope.session.is_empty() {
        facts.session = facts.names.add(&envelope.session);
    }
    for (place, name) in
        [(&mut facts.folder, &envelope.folder), (&mut facts.branch, &envelope.branch), (&mut facts.version, &envelope.version)]
    {
        if !name.is_empty() {
            *place = facts.names.add(name);
        }
    }
}

/// Reads a line of an answer, `bytes` long. `found` is the id and the tool of a call that is not in the content. Returns the
/// message without its calls.
fn answer(envelope: &Envelope<'_>, bytes: usize, found: Option<(&str, &str)>, into: &mut Reading) -> Option<Message> {
    let message = envelope.message?;
    let (mut id, mut model, mut usage, mut content, mut ended) = (Cow::default(), Cow::default(), None, None, Cow::default());
    for (key, value) in message.entries().unwrap_or_default() {
        match &*key {
            "id" => id = text(value),
            "model" => model = text(value),
            "usage" => usage = Some(value),
            "content" => content = Some(value),
            "stop_reason" => ended = text(value),
            _ => {}
        }
    }
    let (mut tokens, searches, mut marks) = usage.map_or_else(Default::default, |usage| usage_of(usage, into));
    if envelope.streamed {
        // A stream has a placeholder where the output is counted: the output is not known.
        marks = Marks(marks.0 & !Marks::FINAL.0);
        (tokens.output, tokens.reasoning) = (0, 0);
    }
    marks.set(Marks::SIDE, envelope.side);
    marks.set(Marks::ERROR, envelope.error || model == SYNTHETIC);
    let facts = &mut into.facts;
    // A sub-agent that starts while its session is resumed begins with the id of a session that never comes to be.
    if envelope.side && !envelope.streamed && facts.messages.first().is_none_or(|first| first.marks.has(Marks::SIDE)) {
        facts.session = facts.names.add(&envelope.session);
    }
    // A message without an id is one of its own.
    let id = hash(if id.is_empty() { &envelope.uuid } else { &id });
    let mut call = |id: &str, tool: &str| {
        into.asks |= needs_a_person(tool);
        Call { id: hash(id), tool: facts.names.add(tool), ended: CallEnd::Ok }
    };
    let listed = content.and_then(Value::items).unwrap_or_default().filter(|block| {
        let kind = block.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| kind == "tool_use")
    });
    let mut calls: Vec<Call> = found.map(|(id, tool)| call(id, tool)).into_iter().collect();
    calls.extend(listed.map(|block| {
        let [id, tool] = ["id", "name"].map(|key| block.get(key).map(text).unwrap_or_default());
        call(&id, &tool)
    }));
    let mut figures = Figures::default();
    // Nothing is no price.
    let cost = envelope.cost.and_then(|cost| figures.cost(cost)).filter(|cost| *cost > Money::ZERO);
    facts.damaged += u64::from(figures.implausible);
    let message = Message {
        id,
        time: envelope.time,
        session: facts.names.add(&envelope.session),
        model: facts.names.add(&model),
        folder: facts.names.add(&envelope.folder),
        branch: facts.names.add(&envelope.branch),
        subagent: if envelope.agent.is_empty() { 0 } else { facts.names.add(&envelope.agent) },
        tokens,
        searches,
        marks,
        bytes: bytes as u64,
        calls,
        cost,
    };
    facts.phase = ended_with(&message, std::mem::take(&mut into.asks), &ended);
    let without_calls = Message { calls: Vec::new(), ..message.clone() };
    into.add(message);
    if let Some(usage) = usage.filter(|_| !envelope.streamed) {
        hidden_requests(usage, &without_calls, into);
    }
    Some(without_calls)
}

/// Adds the requests behind a message that its own counts leave out: the API compacted the context on the way, or asked an advisor, which may be
/// another model.
fn hidden_requests(usage: Value<'_>, message: &Message, into: &mut Reading) {
    let all = usage.get("iterations").and_then(Value::items).into_iter().flatten();
    let is_hidden = |request: &Value<'_>| request.get("type").map(text).is_some_and(|kind| kind != "message");
    for (number, request) in (1..).zip(all.filter(is_hidden)) {
        let (tokens, searches, mut marks) = usage_of(request, into);
        marks.set(Marks::SIDE, message.marks.has(Marks::SIDE));
        let model = request.get("model").map_or(message.model, |model| into.facts.names.add(&text(model)));
        let id = hash(&format!("{:x}/{number}", message.id));
        into.add(Message { id, model, tokens, searches, marks, bytes: 0, cost: None, ..message.clone() });
    }
}

/// Returns how a session stands after a line of a message.
fn ended_with(message: &Message, asks: bool, reason: &str) -> SessionPhase {
    match (message.marks.has(Marks::ERROR), message.calls.is_empty(), reason) {
        (true, ..) => SessionPhase::Failed,
        (_, false, _) if asks => SessionPhase::Asking,
        (_, false, _) => SessionPhase::InCall,
        (_, _, "end_turn" | "stop_sequence" | "max_tokens" | "refusal") => SessionPhase::Finished,
        _ => SessionPhase::Working,
    }
}

/// Reads the tokens of a message. Those that cannot be true make its line a damaged one.
fn usage_of(usage: Value<'_>, into: &mut Reading) -> (Tokens, u32, Marks) {
    let (mut tokens, mut searches, mut marks) = (Tokens::default(), 0, Marks::FINAL);
    let mut writes = 0;
    let mut figures = Figures::default();
    for (key, value) in usage.entries().unwrap_or_default() {
        match &*key {
            "input_tokens" => tokens.input = figures.tokens(value),
            "output_tokens" => tokens.output = figures.tokens(value),
            "cache_read_input_tokens" => tokens.cache_read = figures.tokens(value),
            "cache_creation_input_tokens" => writes = figures.tokens(value),
            "cache_creation" => {
                let mut count = |key| value.get(key).map_or(0, |value| figures.tokens(value));
                tokens.cache_write_5m = count("ephemeral_5m_input_tokens");
                tokens.cache_write_1h = count("ephemeral_1h_input_tokens");
            }
            "output_tokens_details" => {
                tokens.reasoning = value.get("thinking_tokens").map_or(0, |value| figures.tokens(value));
            }
            "server_tool_use" => {
                let count = value.get("web_search_requests").map_or(0, |value| figures.searches(value));
                searches = u32::try_from(count).unwrap_or(u32::MAX);
            }
            "inference_geo" => marks.set(Marks::US, text(value) == "us"),
            "speed" => marks.set(Marks::FAST, text(value) == "fast"),
            _ => {}
        }
    }
    if figures.implausible {
        into.facts.damaged += 1;
        return (Tokens::default(), 0, Marks(marks.0 & !Marks::FINAL.0));
    }
    // What has no duration was written for five minutes, the API's default.
    tokens.cache_write_5m += writes.saturating_sub(tokens.cache_write());
    (tokens, searches, marks)
}

/// The end of a turn in a stream.
fn result_of_turn(envelope: &Envelope<'_>, line: Value<'_>, into: &mut Reading) {
    let subtype = line.get("subtype").map(text).unwrap_or_default();
    let failed =
        line.get("is_error").and_then(Value::as_bool) == Some(true) || subtype == "error" || subtype.starts_with("error_");
    let is_aborted = line.get("terminal_reason").map(text).is_some_and(|reason| reason.starts_with("aborted_"));
    into.facts.phase = match failed {
        true if is_aborted => SessionPhase::Interrupted,
        true => SessionPhase::Failed,
        false => SessionPhase::Finished,
    };
    into.facts.busy_ms = into.facts.busy_ms.saturating_add(line.get("duration_ms").map_or(0, number));
    for denial in line.get("permission_denials").and_then(Value::items).into_iter().flatten() {
        if let Some(call) = denial.get("tool_use_id") {
            into.ended(hash(&text(call)), CallEnd::Denied);
        }
    }
    // Newer versions tell what the turn used, and totals that include what the session, or the one it was forked from,
    // used before. Older ones tell only totals, of this process.
    let since = line.get("model_usage_since_last_result");
    let last = into.facts.reported.last().filter(|last| since.is_some() && last.of == Scope::File);
    let mut sum = last.map_or_else(Vec::new, |last| last.models.clone());
    let models = since.or_else(|| line.get("modelUsage"));
    let Some(mut reported) = totals(envelope, line, models, "total_cost_usd", into) else { return };
    if since.is_some() {
        for model in &reported.models {
            match sum.iter_mut().find(|known| known.model == model.model) {
                Some(known) => *known += *model,
                None => sum.push(*model),
            }
        }
        reported.cost = sum.iter().map(|model| model.cost).sum();
        reported.models = sum;
    }
    into.facts.reported.retain(|other| other.of != Scope::File || other.session != reported.session);
    into.report(Reported { of: Scope::File, ..reported });
}

/// What is left of the account's limit. Such a line has no time of its own: it is that of the line before it, or else of the
/// next one.
fn limit(envelope: &Envelope<'_>, line: Value<'_>, into: &mut Reading) {
    let Some(limit) = line.get("rate_limit_info") else { return };
    // Other limits are of some models only, or of what is paid for in addition.
    let minutes = match limit.get("rateLimitType").map(text).as_deref() {
        Some("five_hour") => 5 * 60,
        Some("seven_day") => 7 * 24 * 60,
        _ => return,
    };
    let used = limit.get("utilization").and_then(|used| used.as_number()?.parse::<f64>().ok());
    let rejected = limit.get("status").map(text).is_some_and(|status| status == "rejected");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast from float to integer saturates")]
    let used = used.map(|used| (used * 1_000.0).round() as u64).or(rejected.then_some(1_000));
    if rejected {
        into.facts.phase = SessionPhase::Limited;
    }
    let time = if envelope.time == 0 { into.facts.last.unwrap_or(0) } else { envelope.time };
    let resets = limit.get("resetsAt").map_or(0, number).saturating_mul(1_000);
    note_limit(&mut into.facts.limits, Limit { time, minutes, used, resets });
}

/// A piece of a message. It has the true count of output, which the message in the stream has not.
fn partial(envelope: &Envelope<'_>, line: Value<'_>, into: &mut Reading) {
    let Some(event) = line.get("event") else { return };
    match event.get("type").map(text).as_deref() {
        Some("message_start") => {
            let Some(message) = event.get("message") else { return };
            let id = hash(&message.get("id").map(text).unwrap_or_default());
            into.started.insert(hash(&envelope.parent), id);
            // If the agent is stopped, nothing else says what its last request has read.
            let Some(usage) = message.get("usage") else { return };
            let (tokens, searches, marks) = usage_of(usage, into);
            let (tokens, marks) = (Tokens { output: 0, reasoning: 0, ..tokens }, Marks(marks.0 & !Marks::FINAL.0));
            let session = into.facts.names.add(&envelope.session);
            let model = into.facts.names.add(&message.get("model").map(text).unwrap_or_default());
            into.add(Message { id, session, model, tokens, searches, marks, ..Message::default() });
        }
        Some("message_delta") => {
            let (Some(&id), Some(usage)) = (into.started.get(&hash(&envelope.parent)), event.get("usage")) else { return };
            let (tokens, searches, marks) = usage_of(usage, into);
            let session = into.facts.names.add(&envelope.session);
            into.add(Message { id, session, tokens, searches, marks, ..Message::default() });
        }
        _ => {}
    }
}

fn user(envelope: &Envelope<'_>, line: Value<'_>, into: &mut Reading) {
    let Some(content) = envelope.message.and_then(|message| message.get("content")) else { return };
    into.facts.phase = SessionPhase::Working;
    let mut prompt = (content.kind() == Kind::String).then(|| text(content));
    for block in content.items().unwrap_or_default() {
        match block.get("type").map(text).as_deref() {
            Some("tool_result") => result(block, line, into),
            Some("text") if prompt.is_none() => prompt = block.get("text").map(text),
            _ => {}
        }
    }
    let is_own = !envelope.side && envelope.agent.is_empty() && envelope.parent.is_empty();
    let Some(prompt) = prompt.filter(|_| !envelope.meta && is_own) else { return };
    if is_command(&prompt) {
        let is_interrupt = prompt.starts_with(INTERRUPTED);
        into.facts.phase = if is_interrupt { SessionPhase::Interrupted } else { SessionPhase::Finished };
        return;
    }
    let facts = &mut into.facts;
    // A resumed session repeats its prompts with the same ids.
    facts.prompts += 1;
    if facts.title.is_empty() {
        facts.title = cut_title(&prompt);
    }
}

/// Returns whether a prompt is the program's own words about a command or an interrupt.
fn is_command(prompt: &str) -> bool {
    ["<command-name>", "<local-command", INTERRUPTED].iter().any(|start| prompt.starts_with(start))
}

fn result(block: Value<'_>, line: Value<'_>, into: &mut Reading) {
    let Some(id) = block.get("tool_use_id").map(text) else { return };
    let content = block.get("content");
    // Results can be long: only their beginning is looked at, as it is written.
    let said = content.and_then(|content| {
        let first = content.items().and_then(|mut parts| parts.find_map(|part| part.get("text")));
        first.unwrap_or(content).raw().strip_prefix('"')
    });
    let said = said.unwrap_or_default();
    let is_denied = is_denied(line, &id);
    let failed = || ToolResult::is_failure(block.get("is_error").and_then(Value::as_bool), said);
    let ended = match is_denied {
        Some(true) => CallEnd::Denied,
        _ if !failed() => return,
        None if denied_by_words(Agent::Claude, said).is_some() => CallEnd::Denied,
        _ => CallEnd::Failed,
    };
    into.ended(hash(&id), ended);
}

/// Returns whether the call of a result was denied, if the line says so in its own fields: in a stream for each result, in a transcript for its
/// only one.
fn is_denied(line: Value<'_>, call: &str) -> Option<bool> {
    let about = |of: &Value<'_>| of.get("id").is_some_and(|id| text(id) == call);
    let said = match line.get("tool_result_meta").and_then(Value::items) {
        Some(mut all) => all.find(about)?.get("permission_decision"),
        None if line.get("toolDenialKind").is_some() => return Some(true),
        None => line.get("permissionDecision"),
    };
    said?.get("decision").map(|decision| text(decision) == "reject")
}

/// Reads totals: for each model, and the cost of all. If a figure of one model cannot be true, those of none count. Returns
/// `None` if nothing is left.
fn totals(
    envelope: &Envelope<'_>,
    line: Value<'_>,
    models: Option<Value<'_>>,
    cost: &str,
    into: &mut Reading,
) -> Option<Reported> {
    let names = &mut into.facts.names;
    let mut figures = Figures::default();
    let unknown = line.get("hasUnknownModelCost").and_then(Value::as_bool) == Some(true);
    let models = models.and_then(Value::entries).unwrap_or_default().map(|(model, used)| {
        let mut count = |key| used.get(key).map_or(0, |value| figures.tokens(value));
        let (five, hour) = (count("cacheCreationEphemeral5mInputTokens"), count("cacheCreationEphemeral1hInputTokens"));
        let writes = count("cacheCreationInputTokens");
        let tokens = Tokens {
            input: count("inputTokens"),
            output: count("outputTokens"),
            cache_read: count("cacheReadInputTokens"),
            cache_write_5m: five + writes.saturating_sub(five + hour),
            cache_write_1h: hour,
            reasoning: count("thinkingTokens"),
        };
        let searches = used.get("webSearchRequests").map_or(0, |value| figures.searches(value));
        let cost = used.get("costUSD").and_then(|value| figures.cost(value)).filter(|_| !unknown);
        let splits_writes = five + hour == writes;
        ModelReport { model: names.add(&model), tokens, splits_writes, searches, cost }
    });
    let mut models: Vec<_> = models.collect();
    if figures.implausible {
        models.clear();
    }
    let cost = line.get(cost).and_then(|value| figures.cost(value)).filter(|_| !unknown);
    into.facts.damaged += u64::from(figures.implausible);
    let reported = Reported {
        session: into.facts.names.add(&envelope.session),
        time: into.facts.last.unwrap_or(0),
        until: 0,
        of: Scope::Session,
        cost,
        models,
    };
    let is_something = !figures.implausible || cost.is_some() || !reported.models.is_empty();
    is_something.then_some(reported)
}
