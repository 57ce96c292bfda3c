//! Tools that are written with the official MCP SDK (`cargo test -p tapline-runner --features rmcp mcp_sdk`).

use std::convert::Infallible;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool as Described,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;
use tapline_runner::{Tool, ToolServer};

use crate::answers::asked;

fn described() -> Described {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    Described::new("greet", "Greets", Arc::new(schema.as_object().cloned().unwrap_or_default()))
}

fn greet(arguments: &JsonObject) -> CallToolResult {
    let name = arguments["name"].as_str().unwrap_or("nobody");
    CallToolResult::success(vec![ContentBlock::text(format!("Hello {name}"))])
}

#[derive(Clone)]
struct House;

impl ServerHandler for House {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![described()]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(greet(&request.arguments.unwrap_or_default()).into())
    }
}

/// What the server answers to these messages, one after the other, in one session.
async fn served(server: ToolServer, messages: &[serde_json::Value]) -> Vec<serde_json::Value> {
    let requests: Vec<_> = messages
        .iter()
        .map(|message| json!({"subtype": "mcp_message", "server_name": "house", "message": message}).to_string())
        .collect();
    let answers = asked(&requests.iter().map(String::as_str).collect::<Vec<_>>(), |agent| agent.tools(server)).await.0;
    answers.iter().map(|answer| answer["response"]["mcp_response"].clone()).collect()
}

fn conversation() -> [serde_json::Value; 4] {
    let about = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "greet", "arguments": {"name": "Eve"}}}),
    ]
}

#[tokio::test]
async fn a_whole_server() {
    // Some versions begin twice, with the same ids.
    let twice = [conversation(), conversation()].concat();
    let answers = served(ToolServer::rmcp("house", || House), &twice).await;
    for half in answers.chunks(4) {
        assert_eq!(half[0]["result"]["protocolVersion"], "2025-06-18", "{half:?}");
        assert_eq!(half[1]["result"], json!({}), "a notification is acknowledged");
        assert_eq!(half[2]["result"]["tools"][0]["name"], "greet");
        assert_eq!(half[3]["result"]["content"][0]["text"], "Hello Eve");
    }
}

#[tokio::test]
async fn its_types() {
    let tool = Tool::rmcp(&described(), |arguments: JsonObject| async move { Ok::<_, Infallible>(greet(&arguments)) });
    let answers = served(ToolServer::new("house").tool(tool), &conversation()).await;
    assert_eq!(answers[2]["result"]["tools"][0]["inputSchema"]["properties"]["name"]["type"], "string");
    assert_eq!(answers[3]["result"]["content"][0]["text"], "Hello Eve");
}
