//! A hook: told before a tool runs, and able to hold it back or to change what it does.

use std::io::Write as _;

use serde_json::json;
use tapline::{Agent, HookEvent, HookReply};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let report = Agent::claude()
        .hook_for(HookEvent::PreToolUse, "Bash", |question| async move {
            let command = question.input.tool_input.and_then(|input| input.text_of("command")).unwrap_or_default();
            // One file and nothing else: who rewrites a command must know all of it.
            let file =
                command.strip_prefix("rm ").filter(|file| file.chars().all(|c| c.is_alphanumeric() || "._-".contains(c)));
            match file {
                Some(file) => {
                    let gentler = json!({"command": format!("mv -- {file} {file}.old"), "description": "Keep it"});
                    HookReply::allow_tool_with(&gentler.into())
                }
                None if command.contains("rm ") => HookReply::deny_tool("one file at a time"),
                None => HookReply::pass(),
            }
        })
        .prompt("Delete draft.txt")
        .start()
        .await?
        .finish()
        .await;
    writeln!(std::io::stdout(), "{}: {}", report.verdict.outcome, report.answer.unwrap_or_default())?;
    Ok(())
}
