//! What a run or a chat was not permitted to do, and why. A success with denied calls has done less than it was asked.

mod advice;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tapline_recording::{REDACTED, Redactor};
use tapline_runner::Settled;
use tapline_session::Rejected;
use tapline_session::permission::{self, Ruling, Suggestion};
use tapline_session::step::{Call, CallAnswer, CallStatus, Denied, Step, What};
use tapline_session::text::{count_of, fit, one_line};

pub(super) use advice::Started;

/// How many different denials are distinguished, and how many calls are kept until they succeed.
const DIFFERENT: usize = 256;
/// How many denials are listed.
const TOLD: usize = 10;
/// The width of the line for a denial.
const COLUMNS: usize = 240;
/// How much of it the name may take, so that there is room for the reason.
const NAME: usize = 120;
/// How much of a failed result is kept as the reason.
const REASON: usize = 2000;

/// What was denied so far.
#[derive(Debug, Default)]
pub(super) struct Denials {
    denied: Vec<Denial>,
    /// The number of all of them.
    count: usize,
    /// Denials that were decided here, by call. The stream may report them, too, or only have a failed result.
    settled: BTreeMap<String, Denial>,
    told: BTreeSet<String>,
    /// The last calls that have not succeeded yet.
    calls: VecDeque<Made>,
    /// The folder where the agent was started.
    home: Option<String>,
}

/// A call.
#[derive(Debug)]
struct Made {
    id: String,
    call: permission::PendingCall,
    /// The error that the agent got instead of a result.
    failure: Option<String>,
}

/// A call that was denied.
#[derive(Clone, Debug, Default)]
struct Denial {
    id: Option<String>,
    tool: String,
    title: Option<String>,
    /// What it would have done.
    call: Option<permission::PendingCall>,
    why: Option<String>,
    /// The rule that prevents it.
    rule: Option<String>,
    /// The rule that would allow it, or why none can.
    suggestion: Option<Result<Suggestion, String>>,
    /// Whether a rule for it would contain a secret that is not shown.
    is_secret: bool,
    times: usize,
}

impl Denials {
    /// Notes a permission decision.
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
            suggestion: settled.suggestion.clone().map(|rule| rule.map_err(|why| why.to_string())),
            ..Denial::default()
        };
        self.settled.insert(id.clone(), denial);
    }

    /// Takes a step.
    pub(super) fn accept(&mut self, step: &Step) {
        match &step.what {
            What::Session(info) => self.home = self.home.take().or_else(|| info.setup.cwd.clone()),
            What::Call(Call { id: Some(id), name, input, .. }) => {
                let call =
                    permission::PendingCall::of(name, input.as_ref(), self.home.as_deref()).at_home(self.home.as_deref());
                self.calls.retain(|made| made.id != *id);
                self.calls.push_back(Made { id: id.clone(), call, failure: None });
                if self.calls.len() > DIFFERENT {
                    self.calls.pop_front();
                }
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
                // It may be reported at the end, long after the result.
                let made = id.as_ref().and_then(|id| self.calls.iter().find(|made| made.id == *id));
                let why = denial.why.clone().or_else(|| made?.failure.clone());
                let call = made.map(|made| made.call.clone());
                self.add(Denial { id: id.clone(), title: title.clone(), call, why, ..denial });
            }
            What::Answer(CallAnswer { id: Some(id), title, status, text, .. }) => {
                if let Some(denial) = self.settled.remove(id) {
                    self.told.insert(id.clone());
                    self.add(Denial { title: title.clone(), ..denial });
                }
                if *status == CallStatus::Ok {
                    self.calls.retain(|made| made.id != *id);
                } else if let Some(failure) = reason_in(text) {
                    // Some versions give the reason only here, before or after they report the denial.
                    if let Some(made) = self.calls.iter_mut().find(|made| made.id == *id) {
                        made.failure = Some(failure.clone());
                    }
                    let is_same = |denial: &&mut Denial| denial.id.as_ref() == Some(id) && denial.why.is_none();
                    if let Some(denial) = self.denied.iter_mut().find(is_same) {
                        denial.why = Some(failure);
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds calls that Codex rejected without reporting them in its stream.
    pub(super) fn reject(&mut self, rejected: &[Rejected]) {
        for call in rejected {
            self.add(Denial { tool: call.what.to_owned(), why: Some(call.why.clone()), ..Denial::default() });
        }
    }

    fn add(&mut self, denial: Denial) {
        self.count += 1;
        let (tool, title) = (one_line(&denial.tool), denial.title.as_deref().map(one_line));
        let why = denial.why.as_deref().map(one_line).filter(|why| !why.is_empty());
        // If only the reason is known, calls are distinguished by it.
        let is_same = |known: &Denial| known.tool == tool && known.title == title && (title.is_some() || known.why == why);
        if let Some(same) = self.denied.iter_mut().find(|known| is_same(known)) {
            same.times += 1;
        } else if self.denied.len() < DIFFERENT {
            self.denied.push(Denial { tool, title, why, times: 1, ..denial });
        }
    }

    /// Returns what is shown at the end: each denied call, and what would have allowed it. Text to copy is on lines of
    /// its own. With a redactor no secrets are shown, because decisions made here and suggested rules contain what the
    /// agent really said.
    pub(super) fn told(&mut self, started: &Started<'_>, redactor: Option<&Redactor>) -> DenialNotes {
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
        DenialNotes { count: self.count, calls, advice: advice::advice_on(&self.denied, started) }
    }
}

/// What is shown about denied calls.
#[derive(Debug, Default)]
pub(super) struct DenialNotes {
    /// How many calls were denied.
    pub(super) count: usize,
    pub(super) calls: Vec<String>,
    pub(super) advice: Vec<String>,
}

impl DenialNotes {
    /// Returns the calls, or only how many there are if a view in the same log has shown them.
    pub(super) fn told(&self, shown: bool) -> Vec<String> {
        if shown && self.count > 0 {
            return vec![format!("{} denied, as shown above", count_of(self.count, "call"))];
        }
        self.calls.clone()
    }
}

/// Returns the reason in a failed result. It may quote a whole command, so only its start and end are kept.
fn reason_in(text: &str) -> Option<String> {
    let text = one_line(text);
    let cut = |at: usize| text.char_indices().map(|(place, _)| place).take_while(|place| *place <= at).last().unwrap_or(0);
    let short = if text.len() > REASON {
        format!("{} … {}", &text[..cut(REASON / 2)], &text[cut(text.len() - REASON / 2)..])
    } else {
        text
    };
    Some(short).filter(|text| !text.is_empty())
}

impl Denial {
    /// Returns the tool and the title.
    fn name(&self) -> String {
        let name = match &self.title {
            Some(title) if title.starts_with(&self.tool) => title.clone(),
            Some(title) => format!("{} {title}", self.tool),
            None => self.tool.clone(),
        };
        fit(&name, NAME).into_owned()
    }

    /// Removes secrets, before anything is cut.
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
