//! Calls that the host refused when it was asked. Some agents list them only at the end of the turn, long after their results.

use std::collections::VecDeque;

use crate::recent::Recent;

/// How many requests may wait for an answer of the host.
const ASKED: usize = 1_024;

/// How the agent is told that one of our rules denies a call: `denied by deny[0]: no pushing`.
pub(crate) const DENIED_BY: &str = "denied by ";

/// Returns whether the result of a denied call says that one of our rules denied it, and the rule's reason.
#[expect(clippy::option_option, reason = "a rule may have no reason")]
pub(super) fn of_own_rule(text: &str) -> Option<Option<&str>> {
    let rule = &text[text.find(DENIED_BY)? + DENIED_BY.len()..];
    let number = rule.strip_prefix("ceiling.").unwrap_or(rule).strip_prefix("deny[")?;
    let (_, rest) = number.split_once(']').filter(|(number, _)| number.parse::<usize>().is_ok())?;
    Some(rest.strip_prefix(": "))
}

/// What the host was asked, and what it refused.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Requests of the agent, each with the call that it is about.
    asked: VecDeque<(String, String)>,
    refused: Recent,
}

impl Refusals {
    /// Notes that the agent asks about a call.
    pub(super) fn ask(&mut self, request: &str, call: &str) {
        self.asked.push_back((request.to_owned(), call.to_owned()));
        if self.asked.len() > ASKED {
            self.asked.pop_front();
        }
    }

    /// Returns whether a request is about this call.
    pub(super) fn is_asked(&self, call: &str) -> bool {
        self.asked.iter().any(|(_, asked)| asked == call)
    }

    /// Notes that the host refused a request.
    pub(super) fn refuse(&mut self, request: &str) {
        if let Some((_, call)) = self.asked.iter().find(|(known, _)| known == request) {
            self.refused.insert(call);
        }
    }

    /// Returns whether the host refused a call. A result of it that failed says so.
    pub(super) fn is_refused(&self, call: &str) -> bool {
        self.refused.contains(call)
    }
}
