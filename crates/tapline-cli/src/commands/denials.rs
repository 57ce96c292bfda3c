//! What a run or a chat was not permitted to do, and why: a success with denied calls has done less than it was asked.

mod advice;

use std::collections::{BTreeMap, BTreeSet};

use tapline_recording::{REDACTED, Redactor};
use tapline_runner::Settled;
use tapline_session::Rejected;
use tapline_session::permission::{self, Ruling, Suggestion};
use tapline_session::step::{Answer, Call, CallStatus, Denied, Step, What};
use tapline_session::text::{count_of, fit, one_line};

pub(super) use advice::Started;

/// So many different denials are told apart.
const DIFFERENT: usize = 256;
/// No more denials are told.
const TOLD: usize = 10;
/// A denial is told on so many columns.
const COLUMNS: usize = 240;

/// What was denied so far.
#[derive(Debug, Default)]
pub(super) struct Denials {
    denied: Vec<Denial>,
    /// All of them.
    count: usize,
    /// What was denied here, by the call. The stream may say so too, or only give an answer that failed.
    settled: BTreeMap<String, Denial>,
    told: BTreeSet<String>,
    /// Calls that have not done well yet.
    calls: BTreeMap<String, permission::Call>,
    /// Where the agent was started.
    home: Option<String>,
}

/// A call that was denied.
#[derive(Clone, Debug, Default)]
struct Denial {
    tool: String,
    title: Option<String>,
    /// What it would have done.
    call: Option<permission::Call>,
    why: Option<String>,
    /// The rule that holds it back.
    rule: Option<String>,
    /// The rule that would allow it, or why none can.
    suggestion: Option<Result<Suggestion, String>>,
    /// A rule for it would hold a secret that is not told.
    is_secret: bool,
    times: usize,
}

impl Denials {
    /// A question of the agent's was settled.
    pub(super) fn settle(&mut self, settled: &Settled) {
        let (Ruling::Deny, Some(id)) = (settled.ruling, &settled.tool_use_id) else { return };
        if self.told.contains(id) {
            return;
        }
        let why = settled.reason.as_deref().unwrap_or("no rule allows it");
        let rule = settled.rule.as_ref().filter(|rule| !why.contains(rule.as_str()));
        let denial = Denial {
            tool: settled.tool.clone(),
            why: Some(format!("{why}{}", rule.map(|rule| format!(" ({rule})")).unwrap_or_default())),
            rule: settled.rule.clone(),
            suggestion: settled.suggestion.clone(),
            ..Denial::default()
        };
        self.settled.insert(id.clone(), denial);
    }

    /// Something happened.
    pub(super) fn accept(&mut self, step: &Step) {
        match &step.what {
            What::Session(info) => self.home = self.home.take().or_else(|| info.setup.cwd.clone()),
            What::Call(Call { id: Some(id), name, input, .. }) if self.calls.len() < DIFFERENT => {
                let call = permission::Call::of(name, input.as_ref(), self.home.as_deref()).at_home(self.home.as_deref());
                self.calls.insert(id.clone(), call);
            }
            What::Denied(Denied { id, name, title, message, .. }) => {
                if id.as_ref().is_some_and(|id| !self.told.insert(id.clone())) {
                    return;
                }
                let here = id.as_ref().and_then(|id| self.settled.remove(id));
                let denial = here.unwrap_or_else(|| Denial {
                    tool: name.clone().unwrap_or_else(|| "a tool".to_owned()),
                    why: message.clone(),
                    ..Denial::default()
                });
                // It may be told at the end, long after the answer.
                let call = id.as_ref().and_then(|id| self.calls.get(id).cloned());
                self.add(Denial { title: title.clone(), call, ..denial });
            }
            What::Answer(Answer { id: Some(id), title, status, .. }) => {
                if let Some(denial) = self.settled.remove(id) {
                    self.told.insert(id.clone());
                    self.add(Denial { title: title.clone(), ..denial });
                }
                if *status == CallStatus::Ok {
                    self.calls.remove(id);
                }
            }
            _ => {}
        }
    }

    /// Calls that Codex rejected without a word in its stream.
    pub(super) fn reject(&mut self, rejected: &[Rejected]) {
        for call in rejected {
            self.add(Denial { tool: call.what.to_owned(), why: Some(call.why.clone()), ..Denial::default() });
        }
    }

    fn add(&mut self, denial: Denial) {
        self.count += 1;
        let (tool, title) = (one_line(&denial.tool), denial.title.as_deref().map(one_line));
        let why = denial.why.as_deref().map(one_line).filter(|why| !why.is_empty());
        // Calls that nothing but the reason is known of are told apart by it.
        let is_same = |known: &Denial| known.tool == tool && known.title == title && (title.is_some() || known.why == why);
        if let Some(same) = self.denied.iter_mut().find(|known| is_same(known)) {
            same.times += 1;
        } else if self.denied.len() < DIFFERENT {
            self.denied.push(Denial { tool, title, why, times: 1, ..denial });
        }
    }

    /// What is told in the end: each denied call, and what would have permitted it. What is to be copied stands on lines of its own.
    /// With a redactor no secret is told: what was settled here, and what rules are made of, is what the agent really said.
    pub(super) fn told(&mut self, started: &Started<'_>, redactor: Option<&Redactor>) -> Told {
        for denial in std::mem::take(&mut self.settled).into_values() {
            self.add(denial);
        }
        if let Some(redactor) = redactor {
            self.denied.iter_mut().for_each(|denial| denial.clean(redactor));
        }
        let mut calls: Vec<String> = self.denied.iter().take(TOLD).map(Denial::told).collect();
        let shown: usize = self.denied.iter().take(TOLD).map(|denial| denial.times).sum();
        if self.count > shown {
            calls.push(format!("denied: {} more", count_of(self.count - shown, "call")));
        }
        Told { calls, advice: advice::advice_on(&self.denied, started) }
    }
}

/// What is told of denied calls.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) calls: Vec<String>,
    pub(super) advice: Vec<String>,
}

impl Denial {
    /// Tool and title.
    fn name(&self) -> String {
        match &self.title {
            Some(title) if title.starts_with(&self.tool) => title.clone(),
            Some(title) => format!("{} {title}", self.tool),
            None => self.tool.clone(),
        }
    }

    /// Takes out secrets, before anything is cut.
    fn clean(&mut self, redactor: &Redactor) {
        let Self { tool, title, call, why, suggestion, is_secret, .. } = self;
        let is_in = |text: &String| text.contains(REDACTED) || redactor.text(text) != text.as_str();
        let of_call = call.iter().flat_map(|call| call.command.iter().chain(&call.paths));
        let of_rule = suggestion.iter().flatten().flat_map(|rule| rule.commands.iter().chain(&rule.paths));
        *is_secret = of_call.chain(of_rule).any(is_in);
        let obstacle = suggestion.as_mut().and_then(|suggestion| suggestion.as_mut().err());
        for text in [Some(tool), title.as_mut(), why.as_mut(), obstacle].into_iter().flatten() {
            *text = redactor.text(text).into_owned();
        }
    }

    fn told(&self) -> String {
        let what = self.name();
        let times = if self.times > 1 { format!(" ({} times)", self.times) } else { String::new() };
        let why = self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        fit(&format!("denied: {what}{times}{why}"), COLUMNS).into_owned()
    }
}
