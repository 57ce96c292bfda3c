//! Python functions that answer what the agent asks. The question goes to Python, which hands the answer over from wherever it
//! runs the function; who is not answered, or gets an exception, is answered by the runner's own rules for callbacks that fail.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tapline::protocol::Read as _;
use tapline::runner::Raised;
use tapline::{
    Agent, ElicitationReply, HookEvent, HookReply, Inquiry, InquiryAnswers, Json, Permission, PermissionQuestion,
    PermissionUpdate, Tool, ToolResult, ToolServer,
};
use tokio::sync::oneshot;

use crate::json::{Raw, raw};
use crate::runtime::in_python;
use crate::time::seconds;

/// Python's end: `ask(key, question, reply)` has the function of this key called and returns how to cancel it.
#[derive(Clone)]
pub(crate) struct Asker(Arc<Py<PyAny>>);

impl Asker {
    pub(crate) fn new(ask: Py<PyAny>) -> Self {
        Self(Arc::new(ask))
    }

    /// Asks, and waits for the answer: JSON. A function that raises unwinds, in Python's words.
    async fn ask(self, key: String, question: Raw) -> Json {
        let (tell, told) = oneshot::channel();
        let reply = Reply(Mutex::new(Some(tell)));
        let (tell_cancel, cancel) = oneshot::channel();
        let ask = self.0;
        in_python(move |py| {
            // If nobody waits any more, it is cancelled at once.
            if let Err(Ok(cancel)) = tell_cancel.send(ask.call1(py, (key, question, reply))) {
                let _ = cancel.call0(py);
            }
        });
        let mut waiting = match cancel.await {
            Ok(Ok(cancel)) => Waiting(Some(cancel)),
            Ok(Err(error)) => raise(format!("could not be called: {error}")),
            Err(_) => raise("could not be called: the interpreter exits".to_owned()),
        };
        let answer = told.await;
        waiting.0 = None;
        match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => raise(why),
            Err(_) => raise("was cancelled".to_owned()),
        }
    }
}

/// Ends a callback without an answer. What it says follows the name of the callback.
fn raise(how: String) -> ! {
    resume_unwind(Box::new(Raised(how)))
}

/// A question that is waited for. When nobody waits any more, Python's task is cancelled.
struct Waiting(Option<Py<PyAny>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(cancel) = self.0.take() {
            in_python(move |py| drop(cancel.call0(py)));
        }
    }
}

type Told = Result<Json, String>;

/// Where Python puts its answer.
#[pyclass(frozen, module = "tapline._native")]
pub(crate) struct Reply(Mutex<Option<oneshot::Sender<Told>>>);

impl Reply {
    fn tell(&self, told: Told) {
        if let Some(tell) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = tell.send(told);
        }
    }
}

#[pymethods]
impl Reply {
    /// The answer, as JSON.
    fn set(&self, text: &str) {
        self.tell(Json::parse(text).map_err(|error| format!("gave an answer that is not JSON: {error}")));
    }

    /// There is no answer, and why: `raised …`, `was cancelled`.
    fn fail(&self, why: String) {
        self.tell(Err(why));
    }
}

/// Adds who answers by one keyword argument. Python calls its functions by the keys that are made here.
pub(crate) fn answer(agent: Agent, key: &str, value: &Bound<'_, PyAny>, asker: Option<&Asker>) -> PyResult<Agent> {
    let unexpected = || PyTypeError::new_err(format!("unexpected keyword argument '{key}'"));
    let asker = asker.ok_or_else(unexpected)?.clone();
    Ok(match key {
        "can_use_tool" => {
            let key = key.to_owned();
            agent.on_permission(move |question| {
                let answer = asker.clone().ask(key.clone(), raw(&question.request));
                async move { permission(&answer.await, &question) }
            })
        }
        "on_elicitation" => {
            let key = key.to_owned();
            agent.on_elicitation(move |question| {
                let answer = asker.clone().ask(key.clone(), raw(&question));
                async move { elicitation(&answer.await) }
            })
        }
        // (event, matcher or None, seconds or None), in the order of their keys: hook/0, hook/1, ...
        "hooks" => {
            let hooks: Vec<(String, Option<String>, Option<f64>)> = value.extract()?;
            let mut agent = agent;
            for (place, (event, matcher, limit)) in hooks.into_iter().enumerate() {
                agent = hook(agent, &asker, place, event, matcher);
                if let Some(limit) = limit {
                    agent = agent.hook_within(seconds("timeout", limit)?);
                }
            }
            agent
        }
        // Servers of tools: {server: [(name, description, schema)]}, by the keys tool/SERVER/NAME.
        "tool_servers" => {
            let mut agent = agent;
            for (server, tools) in value.cast::<PyDict>()? {
                let server: String = server.extract()?;
                let mut made = ToolServer::new(server.clone());
                for (name, description, schema) in tools.extract::<Vec<(String, String, String)>>()? {
                    made = made.tool(tool(&asker, &server, name, description, &schema)?);
                }
                agent = agent.tools(made);
            }
            agent
        }
        _ => return Err(unexpected()),
    })
}

fn hook(agent: Agent, asker: &Asker, place: usize, event: String, matcher: Option<String>) -> Agent {
    let known = HookEvent::ALL.iter().find(|known| known.name() == event).cloned();
    let event = known.unwrap_or(HookEvent::Other(event));
    let (asker, key) = (asker.clone(), format!("hook/{place}"));
    let told = move |question: tapline::HookQuestion| {
        let about = serde_json::json!({"tool_use_id": question.tool_use_id}).to_string();
        // The input stays as it came, whatever is in it.
        let whole = format!("{},\"input\":{}}}", about.trim_end_matches('}'), question.all.as_str());
        let answer = asker.clone().ask(key.clone(), Raw::of(whole));
        async move { answer.await.with(HookReply::read).flatten().unwrap_or_default() }
    };
    match matcher {
        Some(tools) => agent.hook_for(event, tools, told),
        None => agent.hook(event, told),
    }
}

fn tool(asker: &Asker, server: &str, name: String, description: String, schema: &str) -> PyResult<Tool> {
    let wrong = |error| PyTypeError::new_err(format!("the schema of the tool {name} is not JSON: {error}"));
    let schema = Json::parse(schema).map_err(wrong)?;
    let (asker, key) = (asker.clone(), format!("tool/{server}/{name}"));
    Ok(Tool::new(name, description, schema, move |arguments: Json| {
        let answer = asker.clone().ask(key.clone(), raw(&arguments));
        async move { tool_result(&answer.await) }
    }))
}

fn is_true(json: &Json, key: &str) -> bool {
    json.get(key).is_some_and(|value| value.as_str() == "true")
}

/// A value that is there and not null.
fn given(json: &Json, key: &str) -> Option<Json> {
    json.get(key).filter(|value| value.as_str() != "null")
}

fn items(json: Option<Json>) -> Vec<Json> {
    let items =
        json.and_then(|json| json.with(|value| value.items().map(|items| items.map(tapline::Value::to_json).collect())));
    items.flatten().unwrap_or_default()
}

fn permission(answer: &Json, question: &PermissionQuestion) -> Permission {
    if let Some(answers) = given(answer, "answers").and_then(|answers| answers.to::<BTreeMap<String, Vec<String>>>().ok()) {
        let answers: InquiryAnswers = answers.into_iter().collect();
        if let Some(mistake) = Inquiry::mistake(&question.inquiries(), &answers) {
            raise(format!("gave answers that do not fit: {mistake}"));
        }
        return question.answered(&answers);
    }
    if answer.text_of("behavior").as_deref() == Some("allow") {
        let remember = items(answer.get("updatedPermissions"));
        let remember = remember.iter().filter_map(|update| update.with(PermissionUpdate::read).flatten()).collect();
        return Permission::Allow { input: given(answer, "updatedInput"), remember };
    }
    let message = answer.text_of("message").unwrap_or_default();
    Permission::Deny { message, interrupt: is_true(answer, "interrupt") }
}

fn elicitation(answer: &Json) -> ElicitationReply {
    match answer.text_of("action").as_deref() {
        Some("accept") => {
            ElicitationReply::Accept { content: given(answer, "content").unwrap_or_else(|| serde_json::json!({}).into()) }
        }
        Some("cancel") => ElicitationReply::Cancel,
        _ => ElicitationReply::Decline,
    }
}

fn tool_result(answer: &Json) -> ToolResult {
    let mut result = ToolResult::default();
    result.content = items(answer.get("content"));
    result.is_error = is_true(answer, "isError");
    result.structured_content = given(answer, "structuredContent");
    result
}
