//! What the page of `tapline serve` asks of a run or a chat that is pushed to it: answers, messages, interrupt, stop. The server never reaches
//! out: it is asked again and again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::Value;
use tapline_http::BlockingClient;
use tapline_protocol::Json;
use tapline_runner::{Control, Permission, PermissionQuestion};
use tapline_server::question_digest;
use tapline_session::InquiryAnswers;
use tokio::sync::{mpsc, oneshot};

use super::{BACKOFF, Target};

/// Something that somebody asks for on the page.
#[derive(Debug)]
pub(crate) enum PageCommand {
    /// An answer to a question of the agent.
    Answer {
        /// The id of the question.
        question: String,
        answer: PageAnswer,
    },
    /// A message to the agent.
    Message(String),
    /// The turn must end.
    Interrupt,
}

/// What somebody answered on the page.
#[derive(Clone, Debug)]
pub(crate) struct PageAnswer {
    /// That of the question that the page showed. `None`: nobody can compare it.
    pub(crate) digest: Option<String>,
    pub(crate) said: Said,
}

/// An answer, whatever it was to.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Allow,
    Deny(String),
    /// What was chosen or said for each question.
    Answers(InquiryAnswers),
}

impl PageAnswer {
    /// Returns the answer to this question. `None` if the page showed another one: whoever else may push could have sent it one with the same id.
    pub(crate) fn permission(&self, question: &PermissionQuestion) -> Option<Permission> {
        let input = question.request.input.as_ref().map_or("null", Json::as_str);
        if self.digest.as_ref().is_some_and(|digest| *digest != question_digest(&question.tool, input)) {
            return None;
        }
        Some(match &self.said {
            Said::Allow => Permission::allow(),
            Said::Deny(why) => Permission::deny(why),
            Said::Answers(answers) => question.answered(answers),
        })
    }
}

/// Who takes what is asked for on the page. A stop is a signal to this program, whatever it does.
pub(crate) trait Page: Send + Sync + 'static {
    /// Returns whether the agent takes messages now.
    fn takes_messages(&self) -> bool;

    /// Takes a command. Nobody may be left to do it.
    fn take(&self, command: PageCommand);
}

/// Asks the server for commands for as long as this program runs.
pub(super) fn obey(client: &BlockingClient, target: &Target, run: &Mutex<String>, page: &impl Page, redacts: bool) {
    let mut last = (String::new(), 0);
    loop {
        let name = run.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if last.0 != name {
            last = (name, 0);
        }
        let told = if last.0.is_empty() {
            None
        } else {
            target.get(client, &format!("{}/commands?after={}&messages={}", last.0, last.1, page.takes_messages())).ok()
        };
        let told = told.filter(|answer| answer.status == 200).and_then(|answer| serde_json::from_slice(&answer.body).ok());
        let Some(told): Option<Value> = told else {
            // It is away, or does not know the run yet.
            std::thread::sleep(BACKOFF.0);
            continue;
        };
        if told["allowed"] != true {
            return;
        }
        for command in told["commands"].as_array().into_iter().flatten() {
            last.1 = command["n"].as_u64().unwrap_or(last.1);
            match command["command"].as_str() {
                Some("answer") => page.take(answer_of(command, redacts)),
                Some("message") => page.take(PageCommand::Message(command["text"].as_str().unwrap_or_default().to_owned())),
                Some("interrupt") => page.take(PageCommand::Interrupt),
                Some("stop") => signal(Signal::TERM),
                _ => {}
            }
        }
    }
}

/// Reads an answer. What the page shows without its secrets has another digest than what the agent asks.
fn answer_of(command: &Value, redacts: bool) -> PageCommand {
    let texts =
        |chosen: &Value| chosen.as_array().into_iter().flatten().filter_map(|one| Some(one.as_str()?.to_owned())).collect();
    let said = match (command["decision"].as_str(), command["answers"].as_object()) {
        (Some("allow"), None) => Said::Allow,
        (Some("allow"), Some(all)) => {
            Said::Answers(all.iter().map(|(question, chosen)| (question.clone(), texts(chosen))).collect())
        }
        _ => Said::Deny(command["message"].as_str().unwrap_or("denied on the page of tapline serve").to_owned()),
    };
    let digest = command["digest"].as_str().filter(|_| !redacts).map(str::to_owned);
    let question = command["question"].as_str().unwrap_or_default().to_owned();
    PageCommand::Answer { question, answer: PageAnswer { digest, said } }
}

fn signal(signal: Signal) {
    let _ = kill_process(getpid(), signal);
}

/// The page of a run, where nobody else answers.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    /// Questions of the agent that wait for an answer.
    open: Mutex<HashMap<String, (PermissionQuestion, oneshot::Sender<Permission>)>>,
    /// The agent that runs, if it takes messages.
    agent: Mutex<Option<Control>>,
}

impl Asks {
    fn open(&self) -> MutexGuard<'_, HashMap<String, (PermissionQuestion, oneshot::Sender<Permission>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn agent(&self) -> MutexGuard<'_, Option<Control>> {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes which agent runs.
    pub(crate) fn reach(&self, agent: Option<Control>) {
        *self.agent() = agent;
    }

    /// Lets an agent ask here. Without an answer in time, the answer is no.
    pub(crate) fn answer(self: &Arc<Self>, agent: tapline_runner::Agent, within: Duration) -> tapline_runner::Agent {
        let asks = Arc::clone(self);
        let asked = move |question: PermissionQuestion| {
            let (answer, answered) = oneshot::channel();
            asks.open().insert(question.id.clone(), (question, answer));
            async move { answered.await.unwrap_or_else(|_| Permission::deny("nobody answered")) }
        };
        agent.on_permission(asked).answer_within(within)
    }
}

impl Page for Asks {
    fn takes_messages(&self) -> bool {
        self.agent().is_some()
    }

    fn take(&self, command: PageCommand) {
        match command {
            PageCommand::Answer { question, answer } => {
                let mut open = self.open();
                let said = open.get(&question).and_then(|(asked, _)| answer.permission(asked));
                // Whoever asked may have given up.
                let _ = said.and_then(|said| Some(open.remove(&question)?.1.send(said)));
            }
            // If the agent has ended meanwhile, nobody reads it.
            PageCommand::Message(text) => drop(self.agent().as_ref().map(|agent| agent.send(text))),
            // As if somebody had pressed Ctrl-C here.
            PageCommand::Interrupt => signal(Signal::INT),
        }
    }
}

/// The page of a chat, which does in its own loop what is asked for.
#[derive(Debug)]
pub(crate) struct PageQueue(mpsc::UnboundedSender<PageCommand>);

impl PageQueue {
    /// Returns the page, and where its commands arrive.
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<PageCommand>) {
        let (queue, commands) = mpsc::unbounded_channel();
        (Arc::new(Self(queue)), commands)
    }
}

impl Page for PageQueue {
    fn takes_messages(&self) -> bool {
        true
    }

    fn take(&self, command: PageCommand) {
        let _ = self.0.send(command);
    }
}
