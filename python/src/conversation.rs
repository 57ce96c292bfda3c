//! A conversation with one run per turn, for agents that take one prompt and exit.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::sync::Mutex;

use crate::answers::Asker;
use crate::options;
use crate::run::{Begun, Run, follow, spawn};
use crate::time::seconds;

/// Python's end of a conversation.
#[pyclass(frozen, name = "ConversationHandle", module = "tapline._native")]
pub(crate) struct Conversation(Arc<Mutex<tapline::Conversation>>);

#[pymethods]
impl Conversation {
    #[new]
    #[pyo3(signature = (options, ask))]
    fn new(options: &Bound<'_, PyDict>, ask: Option<Py<PyAny>>) -> PyResult<Self> {
        let agent = options::agent(options, ask.map(Asker::new))?;
        Ok(Self(Arc::new(Mutex::new(tapline::Conversation::new(agent)))))
    }

    /// Starts the next turn, once the one before it has ended. `post` is called as by `start`.
    fn turn(&self, prompt: String, limit: Option<f64>, post: Py<PyAny>) -> PyResult<Run> {
        let limit = limit.map(|limit| seconds("timeout", limit)).transpose()?;
        let conversation = Arc::clone(&self.0);
        spawn(post, |post, asks, stops| async move {
            let mut conversation = conversation.lock_owned().await;
            let begun = Begun::of(&conversation.agent);
            let usual = conversation.agent.limits.timeout;
            conversation.agent.limits.timeout = limit.or(usual);
            let started = conversation.start(prompt).await;
            conversation.agent.limits.timeout = usual;
            follow(begun, started, post, asks, stops, |report| conversation.ended(report)).await;
        })
    }
}
