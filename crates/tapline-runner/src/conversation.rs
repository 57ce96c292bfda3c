//! A conversation with an agent that takes one prompt and ends (Codex): every turn is a run of its own that goes on with the
//! session of the one before. Claude Code can be spoken to while it works: see [`Session`](crate::Session).

use tapline_session::Report;

use crate::agent::{Agent, RecordTo};
use crate::error::StartError;
use crate::running::Running;

/// A conversation, a run a turn.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tapline_runner::{Agent, Conversation};
///
/// let mut conversation = Conversation::new(Agent::codex());
/// let first = conversation.turn("What does this project do?").await?;
/// let second = conversation.turn("And who uses it?").await?;
/// println!("{:?} {:?}", first.answer, second.answer);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a conversation does nothing until you start a turn"]
pub struct Conversation {
    /// Who is spoken to, and how: what is changed here holds from the next turn on.
    pub agent: Agent,
    turns: u64,
}

impl Conversation {
    /// A conversation with this agent; with [`Agent::resume`] one that goes on. What it is to record is kept a folder a turn:
    /// the one that was given, then the same with `-2`, `-3`, …
    pub fn new(agent: Agent) -> Self {
        Self { agent, turns: 0 }
    }

    /// The session that the next turn goes on with.
    pub fn session_id(&self) -> Option<&str> {
        self.agent.options.resume.as_deref()
    }

    /// Begins a turn. Hand its report to [`ended`](Self::ended), so that the next goes on with it.
    pub async fn start(&mut self, prompt: impl Into<String>) -> Result<Running, StartError> {
        let mut agent = self.agent.again().prompt(prompt);
        self.turns += 1;
        if let (Some(to), 2..) = (&mut agent.record, self.turns) {
            let mut folder = std::mem::take(&mut to.folder).into_os_string();
            folder.push(format!("-{}", self.turns));
            *to = RecordTo { folder: folder.into(), ..to.clone() };
        }
        agent.start().await
    }

    /// A turn ended so.
    pub fn ended(&mut self, report: &Report) {
        if let Some(id) = &report.session.id {
            let options = &mut self.agent.options;
            options.resume = Some(id.clone());
            // From now on it is this one.
            (options.continue_last, options.fork) = (false, false);
        }
    }

    /// Says something and waits for the end of the turn: its report says what was answered, or why not.
    pub async fn turn(&mut self, prompt: impl Into<String>) -> Result<Report, StartError> {
        let report = self.start(prompt).await?.finish().await;
        self.ended(&report);
        Ok(report)
    }
}
