//! Structured output: the answer follows a schema, and becomes a value.

use std::io::Write as _;

use serde_json::json;
use tapline::Agent;

#[derive(serde::Deserialize, Debug)]
struct Review {
    verdict: String,
    problems: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = json!({
        "type": "object",
        "properties": {"verdict": {"type": "string"}, "problems": {"type": "array", "items": {"type": "string"}}},
        "required": ["verdict", "problems"],
    });
    let answer = Agent::claude().json_schema(schema.to_string()).prompt("Review the last commit.").ask().await?;
    let review: Review = answer.to()?;
    writeln!(std::io::stdout(), "{}: {}", review.verdict, review.problems.join(", "))?;
    Ok(())
}
