//! Steering: a turn is interrupted from another task, callbacks share a counter, and the session is gone on with later.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tapline::{Agent, Permission, SessionError};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let agent = Agent::claude().on_permission(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Permission::allow() }
    });

    let mut session = agent.again().session().await?;
    let control = session.control();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        control.interrupt().await
    });
    match session.turn("Count very slowly.").await {
        Ok(turn) => writeln!(out, "{}", turn.answer)?,
        Err(SessionError::Interrupted(turn)) => writeln!(out, "interrupted: {}…", turn.answer)?,
        Err(error) => return Err(error.into()),
    }
    let id = session.id().map(str::to_owned);
    session.finish().await;

    // Another time, perhaps another program: the same agent goes on with the session.
    let mut session = agent.resume(id.ok_or("it has no id")?).session().await?;
    writeln!(out, "{}", session.turn("Leave a note instead.").await?.answer)?;
    session.finish().await;
    writeln!(out, "asked for permission {} times", asked.load(Ordering::Relaxed))?;
    Ok(())
}
