//! How a turn of Claude's ends: what `result` says, what the turn cost, why it failed.

use tapline_protocol::claude::message::{Assistant, User};
use tapline_protocol::claude::result::TurnResult;
use tapline_protocol::{Json, Kind, Number, Read as _, Value};

use super::{around, usage};
use crate::fold::turns::{NO_DETAIL, words_of};
use crate::fold::{Fold, Steps};
use crate::plausible::is_cost;
use crate::step::{Denial, Turn};
use crate::time::rfc3339;

impl Fold {
    /// Handles the older document: its messages, then its result.
    pub(in crate::fold) fn document(&mut self, document: &TurnResult, out: &mut Steps<'_>) {
        // The messages of a document share its uuid.
        self.in_document = true;
        for message in &document.messages {
            let kind = message.text_of("type").or_else(|| message.text_of("role"));
            match kind.as_deref() {
                Some("assistant") => {
                    if let Some(event) = message.with(Assistant::read).flatten() {
                        // A document has no start of the session that names it.
                        let model = &mut self.session.info.setup.model;
                        *model = model.take().or_else(|| event.model().cloned());
                        self.assistant(&event, out);
                    }
                }
                Some("user") => {
                    if let Some(event) = message.with(User::read).flatten() {
                        self.user(&event, out);
                    }
                }
                _ => {}
            }
        }
        self.in_document = false;
        self.result(document, out);
    }

    pub(in crate::fold) fn result(&mut self, turn: &TurnResult, out: &mut Steps<'_>) {
        let uuid = &out.record.envelope.uuid;
        let repeated = !self.turns.seen.insert(("result", turn.fingerprint));
        let line = Some(out.record.line);
        if repeated {
            self.warnings.add("duplicate-result", line, "this result repeats an earlier one");
        }
        self.expect_index(turn, line);
        self.warn_of_figures(out);
        for denial in turn.denials() {
            self.deny(denial.tool_use_id, denial.tool_name, denial.tool_input.as_ref(), None, Denial::default(), out);
        }
        let cost_usd =
            self.ledger.result(usage::of_result(turn, out.record), out.record.envelope.session_id.as_deref(), repeated);
        let subtype = turn.subtype.as_deref().unwrap_or_default();
        let failed = turn.failed();
        let mut facts = std::mem::take(&mut self.sides.claude.facts);
        let is_null = |value: Value<'_>| value.get("api_error_status").is_some_and(|status| status.kind() == Kind::Null);
        facts.says_no_status = failed && out.record.with(is_null) == Some(true);
        // A session that could not be resumed, for example: nothing was sent to a model.
        facts.never_began = subtype == "error_during_execution"
            && !self.sides.claude.requested
            && turn.num_turns.as_ref().is_some_and(|turns| turns.as_u64() == Some(0));
        let message = failed.then(|| error_text(turn));
        self.turns.failure = message.clone().map(|text| (facts.category(turn, &text), text));
        if let Some(at) = message.as_deref().and_then(limit_until) {
            self.limit_resets_at = Some(at);
        }
        let turns = &mut self.turns;
        turns.foreign_end = false;
        turns.open = false;
        let whole = turn.num_turns.as_ref().and_then(Number::as_u64);
        if whole == Some(0) {
            self.warnings.add(
                "zero-turns",
                line,
                "no request was sent to the model: a hook or a command may have ended the turn",
            );
        }
        turns.num_turns = whole.or(turns.num_turns);
        if turn.stop_reason.is_some() {
            turns.stop_reason.clone_from(&turn.stop_reason);
        }
        let stopped = turn.stop_reason.as_ref().or(turns.this_stop.as_ref());
        if stopped.is_some_and(|reason| reason == "max_tokens") {
            self.warnings.add("max-tokens", line, "the model ran out of tokens: the answer is incomplete");
        }
        turns.this_stop = None;
        if !repeated {
            for (code, text) in around::troubles(turn) {
                self.warnings.add(code, line, text);
            }
            turns.all_num_turns = turns.all_num_turns.saturating_add(whole.unwrap_or(0));
        }
        let typed = self.typing.get(&None).map(|typed| typed.trim());
        let repeats = |text: &str| typed == Some(text.trim()) || self.spoken.repeat(text);
        let repeats_text = turn.result.as_deref().is_some_and(repeats);
        let said = turn.result.clone().filter(|text| !text.is_empty());
        turns.answered_by = (!failed && said.is_none()).then(|| self.spoken.count());
        let words = |count| self.spoken.answer(count).map(str::to_owned);
        turns.answer = if failed { Some(String::new()) } else { said.or_else(|| turns.answered_by.and_then(words)) };
        turns.failed += usize::from(failed);
        let ended = Turn {
            index: turns.count,
            subtype: turn.subtype.clone(),
            is_error: turn.is_error == Some(true),
            result: turn.result.clone(),
            errors: turn.errors.clone(),
            stop_reason: turn.stop_reason.clone(),
            terminal_reason: turn.terminal_reason.clone(),
            api_error_status: turn.api_error_status.clone(),
            num_turns: turn.num_turns.clone(),
            duration_ms: turn.duration_ms.clone(),
            duration_api_ms: turn.duration_api_ms.clone(),
            permission_denials: turn.permission_denials.clone(),
            structured_output: turn.structured_output.clone(),
            deferred_tool_use: turn.deferred_tool_use.clone(),
            uuid: uuid.clone(),
            origin: turn.origin.clone(),
            error: turn.error.clone(),
            failed,
            usage: usage::without_implausible(turn.usage.clone().unwrap_or_default()),
            total_cost_usd: turn.total_cost().filter(|cost| is_cost(cost.usd)).cloned(),
            model_usage: turn.model_usage.clone(),
            cost_usd,
            message,
            repeats_text,
            category: turns.failure.as_ref().map(|(category, _)| *category),
            own: if self.in_document { Vec::new() } else { out.record.with(own).unwrap_or_default() },
            ..Turn::default()
        };
        turns.count += 1;
        self.push_turn(ended, repeated, out);
    }

    /// Warns if the agent counts its results, and one of them is missing.
    fn expect_index(&mut self, turn: &TurnResult, line: Option<u64>) {
        if let Some(index) = turn.result_index {
            let expected = self.turns.result_index.map_or(0, |last| last.saturating_add(1));
            if index > expected {
                self.warnings.add(
                    "result-gap",
                    line,
                    format!("result {index} came where {expected} was expected: a result is missing"),
                );
            }
            self.turns.result_index = Some(index);
        }
    }
}

/// Returns what a result says beside what the report has under names of its own.
fn own(line: Value<'_>) -> Vec<(String, Json)> {
    const TOLD: [&str; 26] = [
        "type",
        "subtype",
        "is_error",
        "result",
        "errors",
        "error",
        "stop_reason",
        "terminal_reason",
        "api_error_status",
        "num_turns",
        "duration_ms",
        "duration_api_ms",
        "permission_denials",
        "structured_output",
        "deferred_tool_use",
        "uuid",
        "session_id",
        "timestamp",
        "origin",
        "usage",
        "total_cost_usd",
        "cost_usd",
        "cost",
        "modelUsage",
        "messages",
        "parent_tool_use_id",
    ];
    let others = line.entries().into_iter().flatten().filter(|(key, _)| !TOLD.contains(&&**key));
    others.map(|(key, value)| (key.into_owned(), value.to_json())).collect()
}

/// Returns when a limit resets, from the text of claude 1.0: `Claude AI usage limit reached|1763200000`.
fn limit_until(error: &str) -> Option<String> {
    let (_, behind) = error.split_once("usage limit reached|")?;
    let digits = behind.split(|c: char| !c.is_ascii_digit()).next()?;
    rfc3339(digits.parse().ok()?)
}

/// Returns the text that people read about a failed turn.
fn error_text(turn: &TurnResult) -> String {
    let filled = |text: &str| !text.trim().is_empty();
    let errors = turn.errors.as_ref().map(|errors| {
        let texts = errors.texts().iter().map(String::as_str).filter(|text| filled(text));
        texts.collect::<Vec<_>>().join("; ")
    });
    let errors = errors.filter(|text| !text.is_empty());
    let named = || turn.error.as_ref().and_then(words_of).filter(|text| filled(text));
    let status = || {
        turn.api_error_status
            .as_ref()
            .map(|status| status.as_whole().map_or_else(|| status.to_string(), |code| code.to_string()))
    };
    errors
        .or_else(|| turn.result.clone().filter(|text| filled(text)))
        .or_else(named)
        .or_else(|| status().map(|status| format!("API error (HTTP {status})")))
        .or_else(|| turn.subtype.clone().filter(|subtype| subtype.starts_with("error_")))
        .unwrap_or_else(|| NO_DETAIL.to_owned())
}
