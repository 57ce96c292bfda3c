//! Every path that a report can have, so that a mistake is found before a run is paid for. A test keeps it equal to
//! actual reports.

use tapline_protocol::{Json, Kind, Value};

use super::path::{GetError, Part, parse};
use crate::agents::profiles;
use crate::text::distance;

/// A report with every key. `"*"` is a value from the agent, with any content; a list has one item.
const SHAPE: &str = r#"{
"schema": 1, "agent": "", "format": "",
"run": {"started_at": "", "duration_ms": 0, "attempts": 0, "label": "", "recording": ""},
"session": {"id": "", "ids": [""], "inits": 0, "model": "", "cwd": "", "cli_version": "", "permission_mode": "", "api_key_source": "",
  "tools": [""], "mcp_servers": ["*"], "agents": ["*"], "skills": ["*"], "plugins": ["*"], "output_style": "", "fast_mode_state": ""},
"verdict": {"outcome": "", "category": "", "error": "", "clean": true, "denials": 0, "retry": {"advice": "", "at": ""},
  "warnings": [{"code": "", "message": "", "line": 0}], "exit": {"code": 0, "signal": "", "class": ""},
  "clock": {"name": "", "ms": 0}},
"answer": "", "text": "", "main_text": "", "last_text": "", "structured": "*", "thinking": [""], "prompts": [""],
"tools": {"calls": [{"id": "", "name": "", "input": "*", "parent": "", "title": "", "status": "",
    "ended": "", "denial": {"by": "", "reason": ""}, "result": {"text": "", "is_error": true, "line": 0, "block": 0}, "duration_ms": 0}],
  "orphan_results": [{"tool_use_id": "", "text": "", "is_error": true, "parent": "", "line": 0, "block": 0}],
  "server_calls": [{"id": "", "name": "", "input": "*"}], "server_results": [{"tool_use_id": "", "content": "*"}]},
"turns": [{"index": 0, "subtype": "", "is_error": true, "result": "", "errors": "*", "stop_reason": "", "terminal_reason": "",
  "api_error_status": 0, "num_turns": 0, "duration_ms": 0, "duration_api_ms": 0, "permission_denials": ["*"], "structured_output": "*",
  "deferred_tool_use": "*", "uuid": "", "origin": "*", "error": "*", "failed": true, "usage": "*", "total_cost_usd": 0, "model_usage": "*",
  "cost_usd": 0, "elapsed_ms": 0, "own": "*"}],
"ledger": {"cost_usd": 0, "tokens": {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0, "cache_write_1h": 0, "reasoning": 0}, "web_searches": 0,
  "exact": true, "by_model": "*", "basis": "", "at_least": true,
  "session": {"cost_usd": 0, "tokens": {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0, "cache_write_1h": 0, "reasoning": 0}, "exact": true}},
"retries": [{"attempt": 0, "max": 0, "delay_ms": 0, "status": 0, "error": ""}], "rate_limit": "*", "rate_limit_events": 0,
"tasks": [{"id": "", "status": "", "terminal": true, "description": "", "type": "", "duration_ms": 0}],
"hooks": [{"id": "", "name": "", "event": "", "outcome": "", "exit_code": 0}], "assistant_errors": [""],
"partial": {"text": "", "thinking": "", "json": ""}, "background_launches": 0,
"codex": {"items": ["*"], "reasoning": [""], "turns": {"started": 0, "completed": 0, "failed": 0}, "turn_failures": ["*"],
  "stream_errors": ["*"], "reconnects": [[0]], "item_errors": ["*"], "dropped_events": 0, "usage": "*"},
"stream": {"lines": {"total": 0, "objects": 0, "malformed": 0, "non_object": 0, "blank": 0, "untyped": 0}, "malformed_at": [0],
  "types": "*", "unknown_types": [""], "bytes": 0}
}"#;

/// Checks whether a report can have a value at this path. Values from the agent (inputs, structured output, usage) may
/// contain anything and are not checked.
///
/// ```
/// assert!(tapline_session::check_path("session.id").is_ok());
/// assert!(tapline_session::check_path("structured.verdict").is_ok());
/// let wrong = tapline_session::check_path("sesion.id").unwrap_err();
/// assert!(wrong.to_string().contains("did you mean `session.id`?"));
/// ```
pub fn check_path(path: &str) -> Result<(), GetError> {
    let parts = parse(path).ok_or(GetError::Syntax)?;
    let shape = Json::parse(SHAPE).map_err(|_| GetError::Nothing)?;
    shape.with(|value| follow(value, &parts)).unwrap_or(Ok(()))
}

fn follow(mut value: Value<'_>, parts: &[Part<'_>]) -> Result<(), GetError> {
    for (at, part) in parts.iter().enumerate() {
        if value.as_str().as_deref() == Some("*") {
            return Ok(());
        }
        let before = written(&parts[..at]);
        value = match (part, value.kind()) {
            (Part::Key(key), Kind::Object) => {
                if let Some(value) = value.get(key) {
                    value
                } else {
                    let meant = meant(parts);
                    let is_near = meant.as_ref().is_some_and(|meant| meant.starts_with(&before));
                    if !is_near && value.get("own").is_some() {
                        // The agent may have it here, whatever has the same name elsewhere.
                        return Ok(());
                    }
                    let known = value.entries().into_iter().flatten().map(|(key, _)| key.into_owned()).collect();
                    return Err(GetError::NoKey { key: (*key).to_owned(), known, meant });
                }
            }
            (Part::Key(_), Kind::Array) => {
                let rest = written(&parts[at..]);
                return Err(GetError::List { meant: format!("{before}[].{rest}"), path: before });
            }
            (Part::Key(key), _) => {
                return Err(GetError::NoKey { key: (*key).to_owned(), known: Vec::new(), meant: Some(before) });
            }
            (Part::At(_) | Part::FromEnd(_) | Part::Each, _) => {
                value.items().and_then(|mut items| items.next()).ok_or(GetError::NoList { path: before })?
            }
        };
    }
    Ok(())
}

/// Formats a path.
fn written(parts: &[Part<'_>]) -> String {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Key(key) => {
                out.extend((!out.is_empty()).then_some('.'));
                out.push_str(key);
            }
            Part::At(index) => out.extend(["[", &index.to_string(), "]"]),
            Part::FromEnd(index) => out.extend(["[-", &index.to_string(), "]"]),
            Part::Each => out.push_str("[]"),
        }
    }
    out
}

/// Suggests the path that was probably meant: the agent's own name for a value; the same path with one or two similar
/// keys; a similar path; or else the shortest path with the same last key.
fn meant(parts: &[Part<'_>]) -> Option<String> {
    let keys = || parts.iter().filter_map(|part| if let Part::Key(key) = part { Some(*key) } else { None });
    let named = keys().collect::<Vec<_>>().join(".");
    let of_the_agent =
        |called: &str| profiles().flat_map(|profile| profile.names).find(|(known, _)| *known == called).map(|(_, path)| *path);
    if let Some(path) = of_the_agent(&named) {
        return Some(path.to_owned());
    }
    if let Some(path) = mended(parts) {
        return Some(path);
    }
    // What the value contains is not known.
    if let Some((first, path)) = keys().next().and_then(|first| Some((first, of_the_agent(first)?)))
        && first != named
    {
        return Some(path.to_owned());
    }
    let mut all = Vec::new();
    let shape = Json::parse(SHAPE).ok()?;
    shape.with(|value| every_path(value, String::new(), &mut all));
    let plain = |path: &str| path.replace("[]", "");
    let wanted = named;
    let near = all.iter().map(|known| (distance(&plain(known), &wanted), known)).min_by_key(|(distance, _)| *distance);
    if let Some((distance, known)) = near
        && distance <= (wanted.chars().count() / 4).max(1)
    {
        return Some(known.clone());
    }
    let words = |path: &str| format!(".{}.", plain(path).replace('_', "."));
    let last = words(wanted.rsplit('.').next()?);
    let found = all.iter().filter(|known| words(known).contains(&last));
    found.min_by_key(|known| (known.matches("[]").count(), known.len())).cloned()
}

/// Replaces each unknown key of a path with a similar one.
fn mended(parts: &[Part<'_>]) -> Option<String> {
    let shape = Json::parse(SHAPE).ok()?;
    let keys = shape.with(|mut value| {
        let mut keys = Vec::new();
        for part in parts {
            let is_free = value.as_str().as_deref() == Some("*");
            let (next, key) = match part {
                Part::Key(key) if is_free => (value, (*key).to_owned()),
                Part::Key(key) => {
                    let known = value.entries()?.map(|(key, _)| key.into_owned()).collect::<Vec<_>>();
                    let near = known.iter().map(|known| (distance(known, key), known)).min_by_key(|(distance, _)| *distance)?;
                    let near = Some(near).filter(|(distance, _)| *distance <= (key.chars().count() / 4).max(1))?.1;
                    (value.get(near)?, near.clone())
                }
                Part::At(_) | Part::FromEnd(_) | Part::Each if is_free => (value, String::new()),
                Part::At(_) | Part::FromEnd(_) | Part::Each => (value.items()?.next()?, String::new()),
            };
            value = next;
            keys.push(key);
        }
        Some(keys)
    })??;
    let with_keys = parts.iter().zip(&keys).map(|(part, key)| match part {
        Part::Key(_) => Part::Key(key),
        Part::At(index) => Part::At(*index),
        Part::FromEnd(index) => Part::FromEnd(*index),
        Part::Each => Part::Each,
    });
    Some(written(&with_keys.collect::<Vec<_>>()))
}

fn every_path(value: Value<'_>, path: String, all: &mut Vec<String>) {
    for (key, value) in value.entries().into_iter().flatten() {
        let gap = if path.is_empty() { "" } else { "." };
        every_path(value, format!("{path}{gap}{key}"), all);
    }
    if let Some(item) = value.items().and_then(|mut items| items.next()) {
        every_path(item, format!("{path}[]"), all);
    }
    if !path.is_empty() {
        all.push(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_checked_without_a_report() {
        for path in [
            "session.id",
            ".session.id",
            "turns[-1].result",
            "turns[0].usage.iterations[0].x",
            "tools.calls[].input.file_path",
            "codex.items[].id",
            "structured",
            "structured.verdict",
            "structured.list[3].a",
            "ledger.by_model.any-model.input",
            "codex.reconnects[0][1]",
            "rate_limit.status",
            "turns",
        ] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        for (path, told) in [
            ("sesion.id", "did you mean `session.id`?"),
            ("session.ids.", "a path is like"),
            ("session_id", "did you mean `session.id`?"),
            ("cost_usd", "did you mean `ledger.cost_usd`?"),
            ("cost", "did you mean `ledger.cost_usd`?"),
            ("verdict.outcom", "did you mean `verdict.outcome`?"),
            ("turns[-1].reslut", "did you mean `turns[-1].result`?"),
            // The agent's own names.
            ("result", "did you mean `answer`?"),
            (".result", "did you mean `answer`?"),
            ("total_cost_usd", "did you mean `ledger.cost_usd`?"),
            ("is_error", "did you mean `verdict.outcome`?"),
            ("usage.input_tokens", "did you mean `ledger.tokens.input`?"),
            ("usage.iterations[0].x", "did you mean `ledger.tokens`?"),
            ("modelUsage", "did you mean `ledger.by_model`?"),
            ("structured_output", "did you mean `structured`?"),
            ("thread_id", "did you mean `session.id`?"),
            // Small mistakes within a longer path.
            ("strctured.verdict", "did you mean `structured.verdict`?"),
            ("tools.call[0].name", "did you mean `tools.calls[0].name`?"),
            ("tool.calls[].nme", "did you mean `tools.calls[].name`?"),
            ("turn[-1].usag.input_tokens", "did you mean `turns[-1].usage.input_tokens`?"),
            ("tools.calls.name", "write tools.calls[].name"),
            ("session[0]", "`session` is not a list"),
            ("session.id.x", "there is no `x`"),
            ("structurd.verdict", "there is no `structurd`"),
            ("zzz", "the keys are schema, agent"),
            ("a..b", "a path is like"),
            ("", "a path is like"),
        ] {
            let error = check_path(path).map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|error| error.contains(told)), "{path}: {error:?}");
        }
    }
}
