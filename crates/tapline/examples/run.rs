//! Runs Claude on a prompt, says what it does, and what became of it: `cargo run -p tapline --example run -- "PROMPT"`.

use std::io::Write as _;
use std::time::Duration;

use tapline::{Agent, Update};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    let prompt = std::env::args().nth(1).unwrap_or_else(|| "What does this project do?".to_owned());
    let mut run = Agent::claude().prompt(prompt).timeout(Duration::from_secs(600)).start().await?;
    while let Some(update) = run.next_update().await {
        if let Update::Record(seen) = update {
            for step in seen.steps {
                writeln!(out, "{step:?}")?;
            }
        }
    }
    let report = run.finish().await;
    writeln!(out, "{}: {}", report.verdict.outcome, report.answer.unwrap_or_default())?;
    Ok(())
}
