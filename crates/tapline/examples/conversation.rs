//! A conversation: one process, turn after turn, and what it costs in between.

use std::io::Write as _;

use tapline::Agent;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    let mut session = Agent::claude().session().await?;
    for prompt in ["What does this project do?", "Who would use it?"] {
        let turn = session.turn(prompt).await?;
        writeln!(out, "> {prompt}\n{}", turn.answer)?;
    }
    let context = session.context_usage().await?;
    writeln!(out, "{} tokens in use", context.total_tokens.unwrap_or(0))?;
    let report = session.finish().await;
    writeln!(out, "{} turns, ${:.4}", report.turns.len(), report.ledger.cost_usd.unwrap_or(0.0))?;
    Ok(())
}
