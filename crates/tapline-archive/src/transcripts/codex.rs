//! Codex's rollouts and streams: where they are stored, and what their lines say.

mod prompt;
mod said;

use std::path::PathBuf;

use tapline_protocol::{Kind, Value};
use tapline_session::SessionPhase;

use self::prompt::prompt_in;
use super::{Environment, Figures, Format, Line, Needle, Reading, Total, cut_title, homes, number, text};
use crate::facts::{Call, CallEnd, Limit, Marks, Message, ModelReport, Reported, Scope, hash, note_limit};
use crate::lines::value_starts_with;
use crate::prices::Speed;
use tapline_protocol::Tokens;

pub(super) const FORMAT: Format = Format {
    needles: NEEDLES,
    is_one,
    read,
    quick: |_, _| false,
    said: said::said,
    home: HOME,
    places,
    subagent: |_| None,
    is_side,
    adds_up_runs: true,
    prompt_in,
};

const HOME: &str = "CODEX_HOME";

/// What makes a line matter.
const NEEDLES: &[Needle] = &[
    ("\"token_usage_record\"", |_| true),
    ("\"token_count\"", |_| true),
    ("\"turn_context\"", |_| true),
    ("\"thread_settings_applied\"", |_| true),
    ("\"session_meta\"", |_| true),
    ("\"function_call\"", |_| true),
    ("\"custom_tool_call\"", |_| true),
    ("\"local_shell_call\"", |_| true),
    ("\"exit_code\"", |behind| !value_starts_with(behind, b'0')),
    ("\"task_started\"", |_| true),
    ("\"task_complete\"", |_| true),
    ("\"turn_aborted\"", |_| true),
    ("\"user_message\"", |_| true),
    ("\"UserMessage\"", |_| true),
    ("\"thread.started\"", |_| true),
    ("\"turn.completed\"", |_| true),
    ("\"turn.failed\"", |_| true),
];

fn places(environment: Environment<'_>) -> Vec<PathBuf> {
    let homes = homes(environment, HOME).or_else(|| Some(vec![environment("HOME")?.join(".codex")])).unwrap_or_default();
    homes.iter().flat_map(|home| [home.join("sessions"), home.join("archived_sessions")]).collect()
}

/// Returns whether a line is of a rollout.
fn is_one(line: Value<'_>) -> bool {
    line.get("payload").is_some_and(|payload| payload.kind() == Kind::Object)
        && line.get("type").is_some_and(|kind| kind.kind() == Kind::String)
}

fn read(line: Line<'_>, into: &mut Reading) {
    let kind = line.value.get("type").map(text).unwrap_or_default();
    let time = line.value.get("timestamp").map_or(0, super::time);
    into.written(time);
    let Some(payload) = line.value.get("payload") else {
        return stream(&kind, line.value, into);
    };
    let inner = payload.get("type").map(text).unwrap_or_default();
    match (&*kind, &*inner) {
        ("session_meta", _) => meta(payload, into),
        ("turn_context", _) => {
            into.facts.so_far.model = into.facts.names.add(&payload.get("model").map(text).unwrap_or_default());
            let folder = payload.get("cwd").map(text).unwrap_or_default();
            into.facts.folder = into.facts.names.add(&folder);
        }
        ("token_usage_record", _) => record(payload, time, line.bytes, into),
        ("event_msg", "thread_settings_applied") => {
            let tier = payload.get("thread_settings").and_then(|settings| settings.get("service_tier")).map(text);
            into.tiered(tier_named(&tier.unwrap_or_default()));
        }
        ("event_msg", "token_count") => count(payload, time, into),
        ("event_msg", "task_started") => into.facts.phase = SessionPhase::Working,
        ("event_msg", "task_complete") => {
            let duration = payload.get("duration_ms").map_or(0, number);
            into.facts.busy_ms = into.facts.busy_ms.saturating_add(duration);
            let failed = payload.get("error").is_some_and(|error| error.kind() == Kind::Object);
            into.facts.phase = if failed { SessionPhase::Failed } else { SessionPhase::Finished };
        }
        ("event_msg", "turn_aborted") => into.facts.phase = SessionPhase::Interrupted,
        ("event_msg", "user_message") => prompt(&payload.get("message").map(text).unwrap_or_default(), into),
        ("event_msg", "item_completed") => {
            if let Some(item) = payload.get("item") {
                completed(item, into);
            }
        }
        ("response_item", "function_call" | "custom_tool_call" | "local_shell_call") => {
            let tool = payload.get("name").map(text).filter(|name| !name.is_empty());
            let id = payload.get("call_id").map(text).unwrap_or_default();
            let tool = into.facts.names.add(tool.as_deref().unwrap_or("shell"));
            into.facts.phase = SessionPhase::InCall;
            into.facts.so_far.made.push(Call { id: hash(&id), tool, ended: CallEnd::Ok });
        }
        _ => {}
    }
}

/// Returns the marks of the requests at a service tier.
fn tier_named(name: &str) -> Marks {
    match (name, Speed::named(name)) {
        ("" | "default" | "standard" | "auto", _) => Marks::default(),
        (_, Speed::Standard) => Marks::TIER,
        (_, Speed::Fast) => Marks(Marks::TIER.0 | Marks::FAST.0),
        (_, Speed::Ultrafast) => Marks(Marks::TIER.0 | Marks::ULTRAFAST.0),
        (_, Speed::Flex) => Marks(Marks::TIER.0 | Marks::FLEX.0),
    }
}

/// Returns whether a line says that its file is a sub-agent's: the first one does.
fn is_side(line: Value<'_>) -> Option<bool> {
    let payload = line.get("payload").filter(|payload| payload.get("cli_version").is_some())?;
    Some(payload.get("source").and_then(|source| source.get("subagent")).is_some())
}

/// The first line about the session is the file's own. Others are copies of the session that it was forked from.
fn meta(payload: Value<'_>, into: &mut Reading) {
    let facts = &mut into.facts;
    let name = |key: &str| payload.get(key).map(text).unwrap_or_default();
    let id = name("id");
    if facts.session != 0 {
        facts.so_far.root = hash(&id);
        return;
    }
    let from = payload.get("forked_from_id").map(text).filter(|from| !from.is_empty());
    facts.so_far.root = hash(from.as_deref().unwrap_or(&id));
    let session = name("session_id");
    facts.session = facts.names.add(if session.is_empty() { &id } else { &session });
    facts.version = facts.names.add(&name("cli_version"));
    facts.folder = facts.names.add(&name("cwd"));
    let branch = payload.get("git").and_then(|git| git.get("branch")).map(text).unwrap_or_default();
    facts.branch = facts.names.add(&branch);
    let spawn = payload.get("source").and_then(|source| source.get("subagent"));
    if let Some(spawn) = spawn {
        let spawn = spawn.get("thread_spawn").unwrap_or(spawn);
        let role = spawn.get("agent_role").or_else(|| spawn.get("agent_path")).map(text).unwrap_or_default();
        facts.subagent = facts.names.add(if role.is_empty() { "subagent" } else { &role });
    }
}

/// Reads tokens. Those that cannot be true make their line a damaged one.
fn tokens(usage: Value<'_>, into: &mut Reading) -> Option<Tokens> {
    let mut figures = Figures::default();
    let mut count = |key| usage.get(key).map_or(0, |value| figures.tokens(value));
    let (cached, written) = (count("cached_input_tokens"), count("cache_write_input_tokens"));
    let tokens = Tokens {
        // The input includes what was read from the cache and written to it.
        input: count("input_tokens").saturating_sub(cached).saturating_sub(written),
        output: count("output_tokens"),
        cache_read: cached,
        cache_write_5m: written,
        cache_write_1h: 0,
        reasoning: count("reasoning_output_tokens"),
    };
    into.facts.damaged += u64::from(figures.implausible);
    (!figures.implausible).then_some(tokens)
}

/// One answer of the model.
fn record(payload: Value<'_>, time: u64, bytes: usize, into: &mut Reading) {
    let Some(usage) = payload.get("usage") else { return };
    let id = payload.get("response_id").map(text).unwrap_or_default();
    let id = if id.is_empty() { hash(payload.raw()) } else { hash(&id) };
    into.facts.so_far.has_records = true;
    let Some(tokens) = tokens(usage, into) else { return };
    into.answer(id, time, tokens, bytes);
}

/// The total of the thread so far. It is repeated, so only its growth counts, and only where no line says what each
/// answer used.
fn count(payload: Value<'_>, time: u64, into: &mut Reading) {
    let usage = |key| payload.get("info").and_then(|info| info.get(key));
    let total = usage("total_token_usage").and_then(|total| tokens(total, into));
    if let Some(total) = total {
        let last = usage("last_token_usage").and_then(|last| tokens(last, into)).unwrap_or_default();
        let model = into.facts.so_far.model;
        into.totals.push(Total { total, last, time, model, tier: into.facts.so_far.tier });
    }
    let limits = payload.get("rate_limits");
    let window = |name| {
        let window = limits?.get(name)?;
        let used = window.get("used_percent")?.as_number()?.parse::<f64>().ok()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast from float to integer saturates")]
        let used = Some((used * 10.0).round() as u64);
        let count = |key| window.get(key).map_or(0, number);
        Some(Limit { time, minutes: count("window_minutes"), used, resets: count("resets_at").saturating_mul(1_000) })
    };
    for limit in ["primary", "secondary"].into_iter().filter_map(window) {
        note_limit(&mut into.facts.limits, limit);
    }
}

fn completed(item: Value<'_>, into: &mut Reading) {
    let kind = item.get("type").map(text).unwrap_or_default();
    if kind == "UserMessage" {
        let said = item.get("content").and_then(Value::items).into_iter().flatten().find_map(|part| part.get("text")?.as_str());
        return prompt(&said.unwrap_or_default(), into);
    }
    let failed = item.get("exit_code").map_or(0, number) != 0;
    let declined = item.get("status").map(text).is_some_and(|status| status == "declined");
    if failed || declined {
        let id = item.get("id").map(text).unwrap_or_default();
        into.ended(hash(&id), if declined { CallEnd::Denied } else { CallEnd::Failed });
    }
}

fn prompt(said: &str, into: &mut Reading) {
    into.facts.prompts += 1;
    if into.facts.title.is_empty() {
        into.facts.title = cut_title(said);
    }
}

/// A line of `codex exec --json`. It has neither times nor models, and only totals.
fn stream(kind: &str, line: Value<'_>, into: &mut Reading) {
    match kind {
        "thread.started" => {
            let id = line.get("thread_id").map(text).unwrap_or_default();
            into.facts.session = into.facts.names.add(&id);
        }
        "turn.completed" => {
            into.facts.phase = SessionPhase::Finished;
            let Some(usage) = line.get("usage") else { return };
            let Some(tokens) = tokens(usage, into) else { return };
            let models = vec![ModelReport { tokens, ..ModelReport::default() }];
            let session = into.facts.session;
            into.report(Reported { session, of: Scope::Only, models, ..Reported::default() });
        }
        "turn.failed" => into.facts.phase = SessionPhase::Failed,
        _ => {}
    }
}

impl Reading {
    /// Adds one answer of a model that the file names elsewhere.
    fn answer(&mut self, id: u64, time: u64, tokens: Tokens, bytes: usize) {
        let facts = &mut self.facts;
        let message = Message {
            id,
            time,
            session: facts.session,
            model: facts.so_far.model,
            folder: facts.folder,
            branch: facts.branch,
            subagent: facts.subagent,
            tokens,
            marks: Marks(Marks::FINAL.0 | facts.so_far.tier.unwrap_or_default().0),
            bytes: bytes as u64,
            calls: std::mem::take(&mut facts.so_far.made),
            ..Message::default()
        };
        self.add(message);
    }
}
