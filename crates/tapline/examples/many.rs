//! Many agents at once: each with its own question, all in one program, none left behind.

use std::io::Write as _;

use tapline::Agent;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let questions = ["What could go wrong?", "What is missing?", "What could be removed?"];
    let asked: Vec<_> =
        questions.map(|question| tokio::spawn(Agent::claude().prompt(question).label(question).ask())).into_iter().collect();
    let mut out = std::io::stdout();
    for (question, asked) in questions.iter().zip(asked) {
        match asked.await? {
            Ok(answer) => writeln!(out, "{question} {answer}")?,
            Err(failure) => writeln!(out, "{question} ({failure})")?,
        }
    }
    Ok(())
}
