//! Permissions that the agent asked for, until it is known how they were decided.

use std::collections::VecDeque;

use crate::render::marks::{Mood, Remark};
use crate::step::{CallAnswer, CallStatus, Question};

/// How many are remembered.
const MOST: usize = 64;

/// The questions that are open.
#[derive(Debug, Default)]
pub(super) struct Asked(VecDeque<Open>);

/// A question, and the number of its card.
#[derive(Debug)]
struct Open {
    question: Question,
    n: usize,
}

impl Asked {
    pub(super) fn add(&mut self, question: &Question, n: usize) {
        if question.kind == "can_use_tool" {
            if self.0.len() >= MOST {
                self.0.pop_front();
            }
            self.0.push_back(Open { question: Question { input: None, ..question.clone() }, n });
        }
    }

    /// Takes the question about a call that has its result. A result that is an error may be that of a call that was denied.
    pub(super) fn answered(&mut self, answer: &CallAnswer) -> Option<(usize, Remark)> {
        let is_allowed = match answer.status {
            CallStatus::Ok => Some(true),
            CallStatus::Denied => Some(false),
            CallStatus::Error | CallStatus::Pending => None,
        };
        let call = answer.id.as_ref()?;
        self.take(is_allowed, |question| question.tool_use_id.as_ref() == Some(call))
    }

    /// Takes the question that was decided under this id.
    pub(super) fn decided(&mut self, request: &str, is_allowed: bool) -> Option<(usize, Remark)> {
        self.take(Some(is_allowed), |question| question.request_id.as_deref() == Some(request))
    }

    /// Returns the number of the question's card, and what it says from now on. If nothing says how it was decided, `is_allowed` is `None`.
    fn take(&mut self, is_allowed: Option<bool>, is_it: impl Fn(&Question) -> bool) -> Option<(usize, Remark)> {
        let at = self.0.iter().position(|open| is_it(&open.question))?;
        let Open { question, n } = self.0.remove(at)?;
        let (mood, mark, word) = match is_allowed {
            Some(true) => (Mood::Good, "✓", "allowed"),
            Some(false) => (Mood::Bad, "✗", "denied"),
            None => (Mood::Aside, "·", "asked for permission"),
        };
        let text = format!("{word}: {}", question.about.unwrap_or_default());
        Some((n, Remark { mood, mark, text, took: None }))
    }

    /// Returns the numbers of the cards.
    pub(super) fn cards(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|open| open.n)
    }
}
