//! An MCP server inside this program: the agent's messages to it arrive over the control protocol, one JSON-RPC message each.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tapline_protocol::Json;

use super::callback::{Callback, callback, guarded};
use super::tool::{Tool, ToolResult};

/// The MCP version, if the agent names none.
const MCP_VERSION: &str = "2025-06-18";
/// JSON-RPC's error codes.
const NO_SUCH_METHOD: i64 = -32601;
const WRONG_PARAMETERS: i64 = -32602;
const BROKEN: i64 = -32603;

/// Tools of this program under one server name. The agent calls them `mcp__NAME__TOOL`.
#[derive(Clone)]
#[must_use = "a server is offered by `Agent::tools`"]
pub struct ToolServer {
    pub(crate) name: String,
    version: String,
    serves: Serves,
}

#[derive(Clone)]
enum Serves {
    Tools(Vec<Tool>),
    /// Code that answers JSON-RPC messages itself.
    Messages(Callback<Json, Option<Json>>),
}

impl std::fmt::Debug for ToolServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolServer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ToolServer {
    /// Creates a server without tools.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), version: "1.0.0".to_owned(), serves: Serves::Tools(Vec::new()) }
    }

    /// Creates a server that answers JSON-RPC messages itself. It returns `None` for a notification.
    pub fn of_messages<F>(name: impl Into<String>, answer: impl Fn(Json) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<Json>> + Send + 'static,
    {
        Self { serves: Serves::Messages(callback(answer)), ..Self::new(name) }
    }

    /// Adds a tool. It replaces an earlier one with the same name.
    pub fn tool(mut self, tool: Tool) -> Self {
        if let Serves::Tools(tools) = &mut self.serves {
            tools.retain(|known| known.name != tool.name);
            tools.push(tool);
        }
        self
    }

    /// Answers one message of the agent. Also returns what went wrong here, if anything did.
    pub(crate) async fn answer(&self, message: Json, within: Duration) -> (Json, Option<String>) {
        let id = message.get("id").filter(|id| id.as_str() != "null");
        let tools = match &self.serves {
            Serves::Tools(tools) => tools,
            Serves::Messages(callback) => {
                return match guarded(callback, message, within).await {
                    Ok(answer) => (answer.unwrap_or_else(acknowledged), None),
                    Err(failed) => {
                        let why = format!("the server `{}` {failed}", self.name);
                        (error(id.as_ref(), BROKEN, &why), Some(why))
                    }
                };
            }
        };
        let Some(id) = id else { return (acknowledged(), None) };
        let method = message.text_of("method").unwrap_or_default();
        let parameters = message.get("params");
        let parameter = |name: &str| parameters.as_ref().and_then(|parameters| parameters.get(name));
        let answer = match method.as_str() {
            "initialize" => {
                let version = parameters.as_ref().and_then(|parameters| parameters.text_of("protocolVersion"));
                let about = json!({
                    "protocolVersion": version.as_deref().unwrap_or(MCP_VERSION),
                    "capabilities": {"tools": {"listChanged": false}},
                    "serverInfo": {"name": self.name, "version": self.version},
                });
                result(&id, &about)
            }
            "ping" => result(&id, &json!({})),
            "tools/list" => {
                let shown = |tool: &Tool| Shown {
                    name: tool.name.clone(),
                    description: tool.description.clone(),
                    input_schema: tool.schema.clone(),
                };
                result(&id, &Tools { tools: tools.iter().map(shown).collect() })
            }
            "tools/call" => {
                let name = parameter("name").and_then(|name| name.to::<String>().ok()).unwrap_or_default();
                let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
                    return (error(Some(&id), WRONG_PARAMETERS, &format!("there is no tool `{name}`")), None);
                };
                let arguments = parameter("arguments").unwrap_or_else(|| json!({}).into());
                match guarded(&tool.call, arguments, within).await {
                    Ok(called) => result(&id, &called),
                    Err(failed) => {
                        let why = format!("the tool `{name}` {failed}");
                        return (result(&id, &ToolResult::error(why.clone())), Some(why));
                    }
                }
            }
            _ => error(Some(&id), NO_SUCH_METHOD, &format!("no such method: {method}")),
        };
        (answer, None)
    }
}

#[derive(Serialize)]
struct Tools {
    tools: Vec<Shown>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    name: String,
    description: String,
    input_schema: Json,
}

#[derive(Serialize)]
struct Answered<'a, T> {
    jsonrpc: &'static str,
    id: &'a Json,
    result: &'a T,
}

fn result(id: &Json, result: &impl Serialize) -> Json {
    Json::of(&Answered { jsonrpc: "2.0", id, result })
}

fn error(id: Option<&Json>, code: i64, message: &str) -> Json {
    let mut error = json!({"jsonrpc": "2.0", "error": {"code": code, "message": message}});
    error["id"] = id.and_then(|id| id.to().ok()).unwrap_or_default();
    error.into()
}

/// Returns the answer to a notification: JSON-RPC wants none, but the control protocol does.
fn acknowledged() -> Json {
    json!({"jsonrpc": "2.0", "result": {}}).into()
}
