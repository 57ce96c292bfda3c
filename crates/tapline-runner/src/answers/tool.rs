//! Tools of this program: a function with a schema, which the agent calls like its own tools.

use std::fmt::Display;
use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tapline_protocol::Json;

use super::callback::{Callback, callback};

/// A tool: a function of this program with a name, a description and a schema.
///
/// ```
/// use serde_json::json;
/// use tapline_runner::Tool;
///
/// #[derive(serde::Deserialize)]
/// struct Add {
///     a: f64,
///     b: f64,
/// }
///
/// let schema = json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]});
/// let add = Tool::new("add", "Adds two numbers", schema, |Add { a, b }| async move { (a + b).to_string() });
/// ```
#[derive(Clone)]
#[must_use = "pass it to `Agent::tool` to offer it"]
pub struct Tool {
    /// The name. The agent sees `mcp__SERVER__NAME`.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The arguments: a JSON schema of an object.
    pub schema: Json,
    pub(super) call: Callback<Json, ToolResult>,
}

impl Tool {
    /// Creates a tool that runs this function.
    ///
    /// Its argument is deserialized from the call's arguments ([`Json`] takes them unchanged); if they do not fit, the
    /// model gets an error. The function returns a text, a [`ToolResult`], or a `Result` of one.
    pub fn new<Arguments, Output, F>(
        name: impl Into<String>,
        description: impl Into<String>,
        schema: impl Into<Json>,
        function: impl Fn(Arguments) -> F + Send + Sync + 'static,
    ) -> Self
    where
        Arguments: DeserializeOwned + 'static,
        Output: Into<ToolResult>,
        F: Future<Output = Output> + Send + 'static,
    {
        let call = callback(move |arguments: Json| {
            // The function is called here, so its borrows end here.
            let called = arguments.to::<Arguments>().map(&function);
            async move {
                match called {
                    Ok(output) => output.await.into(),
                    Err(error) => ToolResult::error(format!("the arguments do not fit: {error}")),
                }
            }
        });
        Self { name: name.into(), description: description.into(), schema: schema.into(), call }
    }
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The result of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
#[must_use = "it reaches the agent only as the answer of a tool"]
pub struct ToolResult {
    /// Content blocks, as in MCP: text, images, and so on.
    pub content: Vec<Json>,
    /// Whether the call failed.
    pub is_error: bool,
    /// The same result as an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Json>,
}

impl ToolResult {
    /// Creates a text result.
    pub fn text(text: impl Into<String>) -> Self {
        let block = serde_json::json!({"type": "text", "text": text.into()});
        Self { content: vec![block.into()], ..Self::default() }
    }

    /// Creates an error for the model to read.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }
}

impl From<String> for ToolResult {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolResult {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl<T: Into<Self>, E: Display> From<Result<T, E>> for ToolResult {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(output) => output.into(),
            Err(error) => Self::error(error.to_string()),
        }
    }
}
