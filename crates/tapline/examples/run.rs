//! One prompt: what the agent does while it does it, and one honest verdict.

use std::io::Write as _;
use std::time::Duration;

use tapline::{Agent, Update, What};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    let prompt = std::env::args().nth(1).unwrap_or_else(|| "What does this project do?".to_owned());
    let mut run = Agent::claude().prompt(prompt).timeout(Duration::from_secs(600)).start().await?;
    while let Some(update) = run.next_update().await {
        let Update::Record(seen) = update else { continue };
        for step in seen.steps {
            if let What::Call(call) = step.what {
                writeln!(out, "{}: {}", call.doing, call.title)?;
            }
        }
    }
    let report = run.finish().await;
    writeln!(out, "{}: {}", report.verdict.outcome, report.answer.unwrap_or_default())?;
    Ok(())
}
