//! Describes a step in a few words. The terminal and the transcripts share it.

use std::borrow::Cow;

use tapline_protocol::{Agent, Number};

use super::Style;
use crate::signals::ended_by;
use crate::step::{
    Call, CallAnswer, Denied, Hook, Level, Odd, Partial, Question, RateLimit, Retry, Said, SessionInfo, Step, Task, Turn, What,
};
use crate::text::count_of;
use crate::time::duration;

/// Texts that a program adds, if it can show the rest of something that is shown in part: `: --json lists all`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// Follows the number of warnings that are not shown.
    pub warnings: &'static str,
    /// Follows the number of lines of the answer that are not shown.
    pub answer: &'static str,
    /// Follows the number of prompts that are not shown.
    pub prompts: &'static str,
    /// Follows the number of lines of an earlier run that precede a prompt.
    pub earlier_run: &'static str,
}

/// The tone of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Good,
    Bad,
    Warn,
    Aside,
}

impl Mood {
    pub(super) fn colour(self, style: Style) -> &'static str {
        match self {
            Self::Good => style.green,
            Self::Bad => style.red,
            Self::Warn => style.yellow,
            Self::Aside => style.dim,
        }
    }
}

/// A thought that is not shown whole.
pub(super) fn thought(said: &Said) -> String {
    format!("thought ({})", count_of(said.text.split_whitespace().count(), "word"))
}

/// The output of a failed call. If a signal ended its command, the exit code is followed by what that means.
pub(super) fn output_of(answer: &CallAnswer) -> Cow<'_, str> {
    let text = answer.text.trim();
    let first = text.lines().next().unwrap_or_default();
    let code = first.strip_prefix("Exit code ").and_then(|code| code.parse().ok());
    match code.and_then(ended_by) {
        Some(why) => format!("{first} ({why}){}", &text[first.len()..]).into(),
        None => text.into(),
    }
}

/// A line about a step that is neither text nor a call.
pub(super) struct Remark {
    pub(super) mood: Mood,
    pub(super) mark: &'static str,
    pub(super) text: String,
    /// How long it took, if it is the end of something.
    pub(super) took: Option<u64>,
}

#[expect(clippy::unnecessary_wraps, reason = "it stands where a step may say nothing")]
fn remark(mood: Mood, mark: &'static str, text: String) -> Option<Remark> {
    Some(Remark { mood, mark, text, took: None })
}

/// What is shown of a step, in any format.
pub(super) enum Shown<'s> {
    Session(&'s SessionInfo),
    Prompt(&'s str),
    Text(&'s Said),
    Thinking(&'s Said),
    Call(&'s Call),
    Answer(&'s CallAnswer),
    Partial(&'s Partial),
    Turn(&'s Turn),
    Remark(Remark),
    Nothing,
}

pub(super) fn show(step: &Step) -> Shown<'_> {
    match &step.what {
        What::Session(info) if info.first => Shown::Session(info),
        What::Prompt { text } if !text.trim().is_empty() && !is_interrupt(text) => Shown::Prompt(text.trim()),
        What::Text(said) => Shown::Text(said),
        What::Thinking(said) if !said.text.trim().is_empty() => Shown::Thinking(said),
        What::Call(call) => Shown::Call(call),
        What::Answer(answer) => Shown::Answer(answer),
        What::Partial(part) => Shown::Partial(part),
        What::Turn(turn) => Shown::Turn(turn),
        What::Session(_) | What::Prompt { .. } | What::Thinking(_) => Shown::Nothing,
        What::Orphan(_)
        | What::ServerCall(_)
        | What::ServerAnswer(_)
        | What::Retracted { .. }
        | What::Retry(_)
        | What::RateLimit(_)
        | What::Task(_)
        | What::Hook(_)
        | What::Denied(_)
        | What::Question(_)
        | What::Progress(_)
        | What::Item(_)
        | What::Error { .. }
        | What::Notice(_)
        | What::Quiet { .. }
        | What::Odd(_) => remark_on(&step.what, step.line).map_or(Shown::Nothing, Shown::Remark),
    }
}

/// Returns the line for a step that needs only one.
fn remark_on(what: &What, line: u64) -> Option<Remark> {
    match what {
        What::Retry(retry) => remark(Mood::Warn, "↻", retry_text(retry)),
        What::RateLimit(limit) => rate_limit(limit),
        What::Task(task) => task_text(task),
        What::Hook(hook) => hook_text(hook),
        What::Denied(denied) if denied.answer_follows => None,
        What::Denied(denied) => remark(Mood::Bad, "✗", denied_text(denied)),
        What::Question(question) => remark(Mood::Warn, "?", question_text(question)),
        What::Error { text } => remark(Mood::Bad, "✗", api_error(text)),
        What::Notice(notice) => match notice.level {
            Level::Info => remark(Mood::Aside, "·", notice.text.clone()),
            Level::Warning => remark(Mood::Warn, "!", notice.text.clone()),
            Level::Error => remark(Mood::Bad, "✗", notice.text.clone()),
        },
        What::Odd(Odd { text: Some(text), .. }) => remark(Mood::Aside, "·", text.clone()),
        What::Odd(odd) => remark(Mood::Warn, "!", format!("line {line}: {}", odd.message)),
        What::Orphan(answer) => {
            let id = answer.id.as_deref().unwrap_or("(none)");
            remark(Mood::Warn, "!", format!("line {line}: a result for {id}, but there is no such call"))
        }
        What::Retracted { uuids } => remark(Mood::Aside, "↶", format!("{} withdrawn", count_of(uuids.len(), "message"))),
        What::ServerCall(call) => {
            let name = call.name.as_deref().unwrap_or("a tool");
            let title = crate::call::describe(name, call.input.as_ref()).title;
            let about = title.strip_prefix(name).map_or(title.as_str(), |about| about.trim_start_matches(": "));
            let gap = if about.is_empty() { "" } else { ": " };
            remark(Mood::Aside, "·", format!("{name} (run by the API){gap}{about}"))
        }
        What::Session(_)
        | What::Prompt { .. }
        | What::Text(_)
        | What::Thinking(_)
        | What::Call(_)
        | What::Answer(_)
        | What::ServerAnswer(_)
        | What::Partial(_)
        | What::Turn(_)
        | What::Progress(_)
        | What::Item(_)
        | What::Quiet { .. } => None,
    }
}

/// Returns whether a prompt only says that somebody interrupted the agent, who knows it.
fn is_interrupt(prompt: &str) -> bool {
    prompt.starts_with("[Request interrupted by user") && prompt.trim_end().ends_with(']')
}

/// Returns why a turn failed, for people. The agent's own diagnostics about an interrupted turn help nobody.
pub(super) fn failure_of(turn: &Turn) -> Option<&String> {
    let is_noise = |message: &String| {
        message.starts_with("[ede_diagnostic]") && (turn.is_aborted() || message.contains("result_type=user"))
    };
    turn.message.as_ref().filter(|message| !is_noise(message))
}

/// Rewords an agent's one-word name of an API error.
fn api_error(said: &str) -> String {
    if said == "unknown" { "API error".to_owned() } else { said.to_owned() }
}

/// Describes an earlier run that was put before a prompt.
pub(super) fn behind_earlier_run(lines: usize, hints: Hints) -> String {
    format!("(after {} of an earlier run{})", count_of(lines, "line"), hints.earlier_run)
}

fn retry_text(retry: &Retry) -> String {
    let number = |value: &Option<Number>| value.as_ref().map_or_else(|| "?".to_owned(), Number::to_string);
    let wait = retry.delay_ms.as_ref().map(|ms| format!(" in {}", duration(ms.as_f64()))).unwrap_or_default();
    let status = retry.status.as_ref().map(|status| format!(" ({status})")).unwrap_or_default();
    let why = retry.error.as_deref().unwrap_or("no reason given");
    format!("retry {}/{}{wait}: {why}{status}", number(&retry.attempt), number(&retry.max))
}

fn rate_limit(limit: &RateLimit) -> Option<Remark> {
    let which = limit.limit_type.as_deref().unwrap_or("rate").replace('_', "-");
    let resets = limit.resets_at.as_ref().map(|at| format!(", resets at {at}")).unwrap_or_default();
    match limit.status.as_deref()? {
        "allowed" => None,
        "rejected" => remark(Mood::Bad, "✗", format!("{which} limit reached{resets}")),
        status => {
            let used = limit.utilization.map(|used| format!("{:.0}% of the ", used * 100.0)).unwrap_or_default();
            let said = if used.is_empty() { format!(" ({status})") } else { " is used".to_owned() };
            remark(Mood::Warn, "!", format!("{used}{which} limit{said}{resets}"))
        }
    }
}

fn task_text(task: &Task) -> Option<Remark> {
    let what = task.description.as_deref().unwrap_or(&task.id);
    let told = match task.status.as_str() {
        "completed" => remark(Mood::Good, "✓", format!("task completed: {what}")),
        _ if task.terminal => {
            let why = task.summary.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            remark(Mood::Bad, "✗", format!("task {}: {what}{why}", task.status))
        }
        _ if task.summary.is_none() => remark(Mood::Aside, "◌", format!("task {}: {what}", task.status)),
        _ => None,
    };
    told.map(|told| Remark { took: task.duration_ms, ..told })
}

fn hook_text(hook: &Hook) -> Option<Remark> {
    let outcome = hook.outcome.as_deref().filter(|outcome| *outcome != "success")?;
    let name = hook.name.as_deref().or(hook.event.as_deref()).unwrap_or("a hook");
    let code = hook.exit_code.as_ref().map(|code| format!(", exit code {code}")).unwrap_or_default();
    remark(Mood::Bad, "✗", format!("hook {name}: {outcome}{code}"))
}

fn denied_text(denied: &Denied) -> String {
    let why = denied.message.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let title = denied.title.as_ref().map(|title| format!(" {title}")).unwrap_or_default();
    format!("denied: {}{title}{why}", denied.name.as_deref().unwrap_or("a tool"))
}

fn question_text(question: &Question) -> String {
    let about = question.about.as_deref().unwrap_or_default();
    match question.kind.as_str() {
        "can_use_tool" => format!("asks for permission: {about}"),
        kind => format!("asks ({kind}): {about}"),
    }
}

/// The lines about the start of a session.
pub(super) struct SessionLines {
    pub(super) id: String,
    pub(super) about: String,
    pub(super) has: String,
    pub(super) not_connected: Vec<String>,
}

pub(super) fn session_lines(info: &SessionInfo) -> SessionLines {
    let agent = info.agent.map_or("agent", Agent::name);
    let version = info.setup.cli_version.as_ref().map(|version| format!("{agent} {version}"));
    let about = [info.setup.model.clone(), version, info.setup.permission_mode.clone(), info.setup.cwd.clone()];
    let counts = [
        (info.setup.tools.len(), "tool"),
        (info.setup.agents.len(), "agent"),
        (info.setup.skills.len(), "skill"),
        (info.setup.plugins.len(), "plugin"),
        (info.setup.mcp_servers.len(), "MCP server"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, noun)| count_of(count, noun));
    let down = info.setup.mcp_servers.iter().filter(|server| server.status.as_deref() != Some("connected"));
    SessionLines {
        id: info.id.clone().unwrap_or_else(|| "(no id)".to_owned()),
        about: about.into_iter().flatten().collect::<Vec<_>>().join(" · "),
        has: counts.collect::<Vec<_>>().join(" · "),
        not_connected: down
            .map(|server| {
                let name = server.name.as_deref().unwrap_or("(no name)");
                format!("MCP server {name}: {}", server.status.as_deref().unwrap_or("unknown"))
            })
            .collect(),
    }
}
