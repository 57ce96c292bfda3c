//! Steering: a turn is interrupted from another task, callbacks share a counter, and the session is gone on with later.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tapline::session::step::Partial;
use tapline::{Agent, Permission, SessionError, Update, What};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let agent = Agent::claude().partial().on_permission(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Permission::allow() }
    });

    let mut session = agent.again().session().await?;
    let control = session.control();
    let mut turn = session.turn("Count very slowly.");
    let mut told = false;
    while let Some(update) = turn.next().await {
        let Update::Record(seen) = update else { continue };
        let typed = seen.steps.iter().any(|step| matches!(step.what, What::Partial(Partial::Delta { .. })));
        if typed && !std::mem::replace(&mut told, true) {
            // From another task, as a button would: whoever waits for the turn goes on waiting.
            let control = control.clone();
            tokio::spawn(async move { control.interrupt().await });
        }
    }
    match turn.await {
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
