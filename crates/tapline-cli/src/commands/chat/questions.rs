//! The agent's requests to the user: whether a tool may run, or a question.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tapline_runner::{Agent, Permission, PermissionQuestion};
use tapline_session::render::{Current, Proposal, Style};
use tapline_session::text::{fit, one_line, visible};
use tapline_session::{Inquiry, InquiryAnswers};
use tokio::sync::{mpsc, oneshot};

use super::choices::chosen;
use super::file::{self, File};
use crate::push::PageAnswer;

/// A file that takes longer to read is not shown.
const READ_WITHIN: Duration = Duration::from_secs(1);
/// How many lines of a proposal are shown.
const LINES: usize = 24;
/// How many answers are kept whose requests have not arrived.
const EARLY: usize = 16;
/// How many requests with an answer are remembered.
const SETTLED: usize = 64;
/// All lines.
const ALL: usize = usize::MAX / 2;

/// A request, the current file that it is about, and where the answer goes.
pub(super) struct Asked {
    pub(super) question: PermissionQuestion,
    file: File,
    /// What it is about, to recognise it again.
    about: (String, String),
    /// Restores the order of requests, because reading their files takes different times.
    number: u64,
    reply: oneshot::Sender<Permission>,
}

/// Lets the agent ask here. Its requests arrive in the channel. Without an answer in time, the answer is no.
pub(super) fn asking(agent: Agent, within: Duration) -> (Agent, mpsc::UnboundedReceiver<Asked>) {
    let (ask, asked) = mpsc::unbounded_channel();
    let cwd = agent.cwd.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default();
    let next = AtomicU64::new(0);
    let agent = agent.answer_within(within).on_permission(move |question| {
        let (ask, cwd) = (ask.clone(), cwd.clone());
        let number = next.fetch_add(1, Ordering::Relaxed);
        async move {
            let path = Proposal::writes(&question.tool, &question.input).map(|path| cwd.join(path));
            let look = move || (path.as_deref().map_or(File::Absent, file::read), path.as_deref().map(file::place));
            let looked = tokio::time::timeout(READ_WITHIN, tokio::task::spawn_blocking(look)).await;
            // A file that cannot be read in time exists, but is not shown.
            let (file, place) = looked.ok().and_then(Result::ok).unwrap_or((File::NotShown, None));
            let about = (question.tool.clone(), place.unwrap_or_else(|| whole(&question)));
            let (reply, answer) = oneshot::channel();
            let sent = ask.send(Asked { question, file, about, number, reply });
            let nobody = || Permission::deny("the chat has ended, so nobody can answer");
            if sent.is_err() { nobody() } else { answer.await.unwrap_or_else(|_| nobody()) }
        }
    });
    (agent, asked)
}

/// The open requests, in order, and what need not be asked again.
#[derive(Default)]
pub(super) struct Questions {
    waiting: VecDeque<Asked>,
    always: Vec<(String, String)>,
    /// The answers so far, if one request asks several questions.
    answers: InquiryAnswers,
    /// Answers from elsewhere to requests that have not arrived here yet.
    early: VecDeque<(String, PageAnswer)>,
    /// Requests that have their answer, the latest first.
    settled: VecDeque<String>,
}

/// An answer that was given elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// To the request that is shown.
    Shown,
    /// To one behind it, or to one that has not arrived here yet.
    Behind,
}

/// What the user must enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// A key.
    Key,
    /// A text.
    Text,
}

/// A decision, to be shown.
pub(super) enum Decided {
    Allowed(&'static str),
    Denied,
    Answered,
}

impl Questions {
    /// Adds a request. What is always allowed is not asked. Returns `true` if it must be shown now.
    pub(super) fn add(&mut self, asked: Asked) -> bool {
        if let Some(at) = self.early.iter().position(|(id, _)| *id == asked.question.id) {
            let answer = self.early.remove(at).and_then(|(_, answer)| answer.permission(&asked.question));
            if let Some(answer) = answer {
                self.reply(asked, answer);
                return false;
            }
        }
        if self.always.contains(&asked.about) {
            self.reply(asked, Permission::allow());
            return false;
        }
        // After the one that is shown, in order.
        let behind = self.waiting.iter().skip(1).filter(|other| other.number < asked.number).count();
        let place = self.waiting.len().min(1 + behind);
        self.waiting.insert(place, asked);
        self.waiting.len() == 1
    }

    /// Takes an answer to a request that was given elsewhere. Whoever answers first has answered.
    pub(super) fn settle(&mut self, id: &str, answer: PageAnswer) -> Elsewhere {
        let Some(at) = self.waiting.iter().position(|asked| asked.question.id == id) else {
            // The request may be on its way: its file is being read. One that has its answer is not asked again.
            if !self.settled.iter().any(|settled| settled == id) {
                self.early.truncate(EARLY - 1);
                self.early.push_front((id.to_owned(), answer));
            }
            return Elsewhere::Behind;
        };
        let Some(said) = answer.permission(&self.waiting[at].question) else { return Elsewhere::Behind };
        if let Some(asked) = self.waiting.remove(at) {
            self.reply(asked, said);
        }
        if at > 0 {
            return Elsewhere::Behind;
        }
        self.answers.clear();
        Elsewhere::Shown
    }

    /// Forgets answers to requests that never arrived: an agent asks within its turns.
    pub(super) fn end_turn(&mut self) {
        self.early.clear();
    }

    fn reply(&mut self, asked: Asked, answer: Permission) {
        self.note_settled(asked.question.id);
        let _ = asked.reply.send(answer);
    }

    fn note_settled(&mut self, id: String) {
        self.settled.truncate(SETTLED - 1);
        self.settled.push_front(id);
    }

    /// Returns the request that must be answered.
    pub(super) fn current(&self) -> Option<&PermissionQuestion> {
        self.waiting.front().map(|asked| &asked.question)
    }

    /// Waits until the agent withdraws the current request.
    pub(super) async fn withdrawn(&mut self) {
        match self.waiting.front_mut() {
            Some(asked) => asked.reply.closed().await,
            None => std::future::pending().await,
        }
    }

    /// Removes requests that the agent has withdrawn. Returns `true` if the next must be shown.
    pub(super) fn drop_withdrawn(&mut self) -> bool {
        let withdrawn = self.waiting.iter().filter(|asked| asked.reply.is_closed());
        let withdrawn: Vec<String> = withdrawn.map(|asked| asked.question.id.clone()).collect();
        for id in withdrawn {
            self.note_settled(id);
        }
        self.waiting.retain(|asked| !asked.reply.is_closed());
        self.answers.clear();
        !self.waiting.is_empty()
    }

    /// Returns what the current request wants.
    pub(super) fn wants(&self) -> Wants {
        if self.current().is_some_and(|question| !question.inquiries().is_empty()) { Wants::Text } else { Wants::Key }
    }

    /// Returns the current request as it is shown.
    pub(super) fn shown(&self, style: Style, columns: usize, whole: bool) -> String {
        let Some(question) = self.current() else { return String::new() };
        let inquiries = question.inquiries();
        if !inquiries.is_empty() {
            return self.asks(&inquiries, style);
        }
        let file = self.waiting.front().map_or(Current::Absent, |asked| asked.file.current());
        let reason = question.decision.reason.as_deref().or(question.request.decision_reason.as_deref());
        let most = if whole { ALL } else { LINES };
        let proposal = Proposal { tool: &question.tool, input: &question.input, file, reason, most };
        let who = question.request.agent_id.as_ref().map(|_| format!("  {}(a sub-agent){}\n", style.dim, style.reset));
        let shown = proposal.render(style, columns);
        let all = Proposal { most: ALL, ..proposal }.render(style, columns);
        let more = if shown == all { "" } else { " · v view all" };
        let shown = shown + &who.unwrap_or_default();
        let always = fit(&words(question), columns.saturating_sub(60).max(12)).into_owned();
        let Style { bold, reset, .. } = style;
        let key = |key: &str, text: &str| format!("{bold}{key}{reset} {text}");
        let keys = [
            key("y", "once"),
            key("a", &format!("always for {}", visible(&always))),
            key("n", "no"),
            key("w", "no, and say why"),
        ];
        format!("{shown}  {}{more}\n", keys.join(" · "))
    }

    /// Returns whether a key answers a request.
    pub(super) fn is_answer(key: char) -> bool {
        "yanwv".contains(key)
    }

    /// Takes a key. Returns `None` if it means nothing here.
    pub(super) fn press(&mut self, key: char) -> Option<Decided> {
        self.current()?;
        let (answer, decided) = match key {
            'y' => (Permission::allow(), Decided::Allowed("once")),
            'a' => {
                self.always.extend(self.waiting.front().map(|asked| asked.about.clone()));
                (Permission::allow(), Decided::Allowed("always"))
            }
            'n' => (Permission::deny("the person said no"), Decided::Denied),
            _ => return None,
        };
        self.answer(answer);
        // Other requests that wait here may be for what was just allowed for good.
        let waiting = std::mem::take(&mut self.waiting);
        for asked in waiting {
            self.add(asked);
        }
        Some(decided)
    }

    /// Takes a text: the answer, or the reason for a denial.
    pub(super) fn say(&mut self, text: &str) -> Option<Decided> {
        let question = self.current()?;
        let words = text.trim();
        let asked = question.inquiries();
        if asked.is_empty() {
            let why = if words.is_empty() { "the person said no".to_owned() } else { words.to_owned() };
            self.answer(Permission::deny(why));
            return Some(Decided::Denied);
        }
        if words.is_empty() {
            self.answer(Permission::deny("the person did not want to answer"));
            return Some(Decided::Denied);
        }
        let inquiry = asked.get(self.answers.len())?;
        // A number without an option is a slip, so it is asked again.
        let chosen = chosen(inquiry, words)?;
        self.answers.push((inquiry.question.clone(), chosen));
        if self.answers.len() < asked.len() {
            return None;
        }
        let answers = std::mem::take(&mut self.answers);
        let answer = self.current()?.answered(&answers);
        self.answer(answer);
        Some(Decided::Answered)
    }

    fn answer(&mut self, answer: Permission) {
        self.answers.clear();
        if let Some(asked) = self.waiting.pop_front() {
            self.reply(asked, answer);
        }
    }

    fn asks(&self, inquiries: &[Inquiry], style: Style) -> String {
        let Style { yellow, bold, dim, reset, .. } = style;
        let Some(inquiry) = inquiries.get(self.answers.len()) else { return String::new() };
        let mut out = format!("{yellow}?{reset} {bold}{}{reset}\n", one_line(&inquiry.question));
        for (number, option) in (1..).zip(&inquiry.options) {
            let about = one_line(&option.description);
            let about = if about.is_empty() { about } else { format!(" {dim}{about}{reset}") };
            let _ = writeln!(out, "  {bold}{number}{reset} {}{about}", one_line(&option.label));
        }
        let several = if inquiry.several { " (several: 1,3)" } else { "" };
        out + &format!("  {dim}a number{several}, or your own words; Enter alone: no answer{reset}\n")
    }
}

/// Returns the whole input except for the words for the user, because "always" allows only exactly the same call.
fn whole(question: &PermissionQuestion) -> String {
    let mut input: serde_json::Map<String, serde_json::Value> = question.input.to().unwrap_or_default();
    // For a command, this is only a comment.
    if question.tool == "Bash" {
        input.remove("description");
    }
    serde_json::Value::from(input).to_string()
}

/// Describes what "always" would allow.
fn words(question: &PermissionQuestion) -> String {
    let command = question.input.text_of("command").filter(|_| question.tool == "Bash");
    match command.or_else(|| Proposal::writes(&question.tool, &question.input)) {
        Some(what) => one_line(&what),
        None => "just this".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::page::Said;

    fn said() -> PageAnswer {
        PageAnswer { digest: None, said: Said::Allow }
    }

    #[test]
    fn an_answer_waits_for_its_request_until_the_turn_ends() {
        let mut questions = Questions::default();
        for n in 0..2 * EARLY {
            assert_eq!(questions.settle(&n.to_string(), said()), Elsewhere::Behind);
        }
        assert_eq!(questions.early.len(), EARLY);
        questions.end_turn();
        assert!(questions.early.is_empty());
        // Somebody was faster.
        questions.note_settled("asked".to_owned());
        questions.settle("asked", said());
        assert!(questions.early.is_empty());
    }
}
