//! Questions about one line alone. They never fail: a line that is not what is asked for has no answer.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use tapline::protocol::{Kind, Tape};
use tapline::{AgentKind, Decoder, Fold, Value, What};

use crate::json::{build, to_python};
use crate::source::bytes;

/// Reads a line and asks it something; nothing if it is not a JSON object.
fn ask<T>(line: &Bound<'_, PyAny>, ask: impl FnOnce(Value<'_>) -> PyResult<T>) -> PyResult<Option<T>> {
    let Ok(bytes) = bytes(line) else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    match Tape::default().parse(text) {
        Ok(value) if value.kind() == Kind::Object => ask(value).map(Some),
        _ => Ok(None),
    }
}

fn is(value: Value<'_>, kind: &str) -> bool {
    value.get("type").and_then(Value::as_str).as_deref() == Some(kind)
}

/// The content blocks of this type in a message of this type.
fn blocks<'t>(line: Value<'t>, message: &str, block: &'t str) -> impl Iterator<Item = Value<'t>> + use<'t> {
    let content = if is(line, message) { line.get("message").and_then(|message| message.get("content")) } else { None };
    content.and_then(Value::items).into_iter().flatten().filter(move |item| item.kind() == Kind::Object && is(*item, block))
}

/// The text of an assistant message: its text blocks that are not empty, joined with newlines. None for every other line.
#[pyfunction]
pub(crate) fn extract_text(line: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let texts = ask(line, |value| {
        let texts = blocks(value, "assistant", "text").filter_map(|block| Some(block.get("text")?.as_str()?.into_owned()));
        Ok(texts.filter(|text| !text.is_empty()).collect::<Vec<_>>())
    })?;
    Ok(texts.filter(|texts| !texts.is_empty()).map(|texts| texts.join("\n")))
}

/// The `tool_use` blocks of an assistant message, each as a dict.
#[pyfunction]
pub(crate) fn extract_tool_uses<'py>(line: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    extract(line, "assistant", "tool_use")
}

/// The `tool_result` blocks of a user message, each as a dict.
#[pyfunction]
pub(crate) fn extract_tool_results<'py>(line: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    extract(line, "user", "tool_result")
}

fn extract<'py>(line: &Bound<'py, PyAny>, message: &str, block: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = line.py();
    let found = ask(line, |value| blocks(value, message, block).map(|block| build(py, block)).collect::<PyResult<Vec<_>>>())?;
    Ok(found.unwrap_or_default())
}

/// The text of a `tool_result` block: its content, or the first text in the list that it holds.
#[pyfunction]
pub(crate) fn extract_tool_result_content(tool_result: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let text_of = |value: &Bound<'_, PyAny>| value.cast::<PyString>().ok().map(|text| text.to_string_lossy().into_owned());
    let Ok(block) = tool_result.cast::<PyDict>() else { return Ok(None) };
    let Some(content) = block.get_item("content")? else { return Ok(None) };
    if let Some(text) = text_of(&content) {
        return Ok(Some(text));
    }
    let Ok(items) = content.cast::<PyList>() else { return Ok(None) };
    for item in items {
        let Ok(item) = item.cast::<PyDict>() else { continue };
        if item.get_item("type")?.and_then(|kind| text_of(&kind)).as_deref() == Some("text") {
            return Ok(item.get_item("text")?.and_then(|text| text_of(&text)));
        }
    }
    Ok(None)
}

/// The line's `session_id`, at the top level and not in the message.
#[pyfunction]
pub(crate) fn extract_session_id(line: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let id = ask(line, |value| Ok(value.get("session_id").and_then(Value::as_str).map(std::borrow::Cow::into_owned)))?;
    Ok(id.flatten().filter(|id| !id.is_empty()))
}

/// What the tool calls of a line do, in a person's words, one line each: "running: `ls -la`".
#[pyfunction]
pub(crate) fn summary_of_line(line: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let Ok(bytes) = bytes(line) else { return Ok(None) };
    // One line need not say which agent wrote it. To the others it has no calls.
    let said = AgentKind::ALL.iter().map(|agent| calls_of(*agent, bytes.clone()));
    Ok(said.into_iter().find(|said| !said.is_empty()).map(|said| said.join("\n")))
}

fn calls_of(agent: AgentKind, line: Vec<u8>) -> Vec<String> {
    let record = Decoder::default().for_agent(Some(agent)).decode_line(1, line);
    let steps = Fold::for_agent(Some(agent)).apply(&record);
    let said = steps.iter().filter_map(|step| match &step.what {
        What::Call(call) => Some(format!("{}: {}", call.doing, call.title)),
        _ => None,
    });
    said.collect()
}

/// A JSON text as Python objects, read as leniently as tapline reads lines; None if it is not JSON.
#[pyfunction]
pub(crate) fn loads<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, text)
}
