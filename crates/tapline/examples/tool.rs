//! A tool: a Rust function that the agent calls like any of its own.

use std::io::Write as _;

use serde_json::json;
use tapline::{Agent, Tool};

#[derive(serde::Deserialize)]
struct Stock {
    article: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = json!({"type": "object", "properties": {"article": {"type": "string"}}, "required": ["article"]});
    let stock = Tool::new("stock", "How many of an article are in stock", schema, |Stock { article }| async move {
        match article.as_str() {
            "bolt" => Ok("42".to_owned()),
            other => Err(format!("there is no article `{other}`")),
        }
    });
    // It needs no permission: it is ours.
    let agent = Agent::claude().tool(stock).allowed_tools(["mcp__tapline__stock"]);
    let answer = agent.prompt("How many bolts are there?").ask().await?;
    writeln!(std::io::stdout(), "{answer}")?;
    Ok(())
}
