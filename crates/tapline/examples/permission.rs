//! Permission: rules decide what they can; this program is asked about the rest.

use std::io::Write as _;

use tapline::{Agent, Permission, Permissions, Update};

const RULES: &str = r#"
allow = [{ tool = "Bash", command = ["ls *", "git status"] }, { tool = "Read", path = "**" }]
deny = [{ tool = "Bash", command = "rm *", reason = "nothing is deleted here" }]
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    let rules: Permissions = RULES.parse()?;
    let mut session = Agent::claude()
        .permissions(rules)
        .on_permission(|question| async move {
            // A person could be asked here, for as long as it takes.
            if question.tool == "Write" { Permission::allow() } else { Permission::deny("only files may be written") }
        })
        .session()
        .await?;
    let mut turn = session.turn("Tidy up, and leave a note.");
    while let Some(update) = turn.next().await {
        if let Update::Settled(settled) = update {
            writeln!(out, "{}: {:?} by {:?}", settled.tool, settled.ruling, settled.by)?;
        }
    }
    writeln!(out, "{}", turn.await?.answer)?;
    session.finish().await;
    Ok(())
}
