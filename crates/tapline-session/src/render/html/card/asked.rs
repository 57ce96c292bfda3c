//! Permissions that the agent asked for, until it is known how they were decided.

use std::collections::VecDeque;

use crate::render::marks::{Mood, Remark};
use crate::step::{CallAnswer, CallStatus, Question};

/// How many are remembered.
const MOST: usize = 64;

/// The questions that are open.
#[derive(Debug, Default)]
pub(super) struct Asked(VecDeque<Open>);

#[derive(Debug)]
struct Open {
    request: Option<String>,
    call: Option<String>,
    about: String,
    /// The number of its card.
    n: usize,
}

/// How a permission was decided.
#[derive(Debug)]
pub(super) struct Decided {
    /// `None`: it is decided, but nothing says how.
    is_allowed: Option<bool>,
    about: String,
    n: usize,
}

impl Decided {
    /// Returns the number of the question's card, and what it says from now on.
    pub(super) fn remark(self) -> (usize, Remark) {
        let Self { is_allowed, about, n } = self;
        let (mood, mark, word) = match is_allowed {
            Some(true) => (Mood::Good, "✓", "allowed"),
            Some(false) => (Mood::Bad, "✗", "denied"),
            None => (Mood::Aside, "·", "asked for permission"),
        };
        (n, Remark { mood, mark, text: format!("{word}: {about}"), took: None })
    }
}

impl Asked {
    pub(super) fn add(&mut self, question: &Question, n: usize) {
        let Some(about) = question.about.clone().filter(|_| question.kind == "can_use_tool") else { return };
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        let (request, call) = (question.request_id.clone(), question.tool_use_id.clone());
        self.0.push_back(Open { request, call, about, n });
    }

    /// Takes the question about a call that has its result. A result that is an error may be that of a call that was denied.
    pub(super) fn answered(&mut self, answer: &CallAnswer) -> Option<Decided> {
        let about = format!("{} {}", answer.name.as_ref()?, answer.title.as_ref()?);
        let is_of = |open: &Open| match (&open.call, &answer.id) {
            (Some(call), Some(id)) => call == id,
            _ => open.about == about,
        };
        let at = self.0.iter().rposition(is_of)?;
        let is_allowed = match answer.status {
            CallStatus::Ok => Some(true),
            CallStatus::Denied => Some(false),
            CallStatus::Error | CallStatus::Pending => None,
        };
        self.take(at, is_allowed)
    }

    /// Takes the question that was decided under this id.
    pub(super) fn decided(&mut self, request: &str, is_allowed: bool) -> Option<Decided> {
        let at = self.0.iter().position(|open| open.request.as_deref() == Some(request))?;
        self.take(at, Some(is_allowed))
    }

    fn take(&mut self, at: usize, is_allowed: Option<bool>) -> Option<Decided> {
        self.0.remove(at).map(|Open { about, n, .. }| Decided { is_allowed, about, n })
    }

    /// Returns the numbers of the cards.
    pub(super) fn cards(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|open| open.n)
    }
}
