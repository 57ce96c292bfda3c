//! A conversation with an agent that takes one prompt and exits (Codex): every turn is a separate run that resumes the
//! session. With Claude Code you can talk while it works: see [`Session`](crate::Session).

use tapline_session::Report;

use crate::agent::Agent;
use crate::error::StartError;
use crate::running::Running;
use crate::spec::RecordTo;

/// A conversation with one run per turn.
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
    /// The agent and its options. Changes apply from the next turn on.
    pub agent: Agent,
    turns: u64,
}

impl Conversation {
    /// Starts a conversation with this agent, or continues one with [`Agent::resume`]. Each turn is recorded in its own folder:
    /// the given one, then the same with `-2`, `-3`, …
    pub fn new(agent: Agent) -> Self {
        Self { agent, turns: 0 }
    }

    /// Returns the session that the next turn resumes.
    pub fn session_id(&self) -> Option<&str> {
        self.agent.options.resume.as_deref()
    }

    /// Starts a turn. Pass its report to [`ended`](Self::ended), so that the next turn resumes it.
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

    /// Notes how a turn ended.
    pub fn ended(&mut self, report: &Report) {
        if let Some(id) = &report.session.id {
            let options = &mut self.agent.options;
            options.resume = Some(id.clone());
            options.session_before = Some(report.ledger.so_far());
            // From now on it is this session.
            (options.continue_last, options.fork) = (false, false);
        }
    }

    /// Sends a prompt and waits for the end of the turn. The report has the answer, or the reason for the failure.
    pub async fn turn(&mut self, prompt: impl Into<String>) -> Result<Report, StartError> {
        let report = self.start(prompt).await?.finish().await;
        self.ended(&report);
        Ok(report)
    }
}
