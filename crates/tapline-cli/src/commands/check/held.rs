//! Checks permission rules against a finished run: what they say about each call, what happened, and whether the two
//! agree.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use tapline_protocol::Json;
use tapline_recording::Recording;
use tapline_session::permission::{Decided, Ruling};
use tapline_session::policy::Violation;
use tapline_session::render::Style;
use tapline_session::step::{CallAnswer, CallStatus, Denied, Step, What};
use tapline_session::text::one_line;

use super::clean::CleanCheck;

/// The violation of a call that ran although a rule denies it.
pub(super) const DENIED: &str = "permissions.deny";

/// What was decided about a call during the run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Was {
    ruling: String,
    by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What would be decided about a call, and what was.
#[derive(Debug, Serialize)]
pub(super) struct Decision<'a> {
    #[serde(flatten)]
    decided: &'a Decided,
    /// `None` if it was not recorded.
    was: Option<&'a Was>,
    /// Whether it ran. `None` if the stream does not say.
    ran: Option<bool>,
    /// Whether what happened is what the rules say. `None` if they leave it to the agent, or it is not known.
    agrees: Option<bool>,
}

/// The outcome of a call, from its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Ran,
    Denied,
    /// The agent rejected it before it did anything: there is no such tool, or the input was wrong.
    Refused,
    /// It failed, and may or may not have done something.
    Unknown,
}

impl Fate {
    fn of(answer: &CallAnswer) -> Self {
        // A tool's own error message has no such tag.
        let refusal = answer.text.trim_start().strip_prefix("<tool_use_error>").filter(|_| answer.status != CallStatus::Ok);
        match refusal {
            _ if answer.status == CallStatus::Denied => Self::Denied,
            Some(why)
                if ["Error calling tool", "Cancelled", "Sibling tool call"].iter().any(|other| why.starts_with(other)) =>
            {
                Self::Unknown
            }
            Some(_) => Self::Refused,
            None => Self::Ran,
        }
    }
}

/// The calls of a run.
#[derive(Debug, Default)]
pub(super) struct Held {
    decided: Vec<Decided>,
    was: BTreeMap<String, Was>,
    /// The calls with a result, and their outcome.
    fates: BTreeMap<String, Fate>,
}

impl Held {
    /// Starts with the decisions in the recording, if it is one.
    pub(super) fn of(path: Option<&Path>) -> Self {
        let decisions = path.and_then(|path| Recording::open(path).ok()).map(|recording| recording.decisions());
        let one = |decision: &Json| {
            let text = |key| decision.text_of(key);
            let was = Was { ruling: text("ruling")?, by: text("by")?, rule: text("rule"), reason: text("reason") };
            Some((text("tool_use_id")?, was))
        };
        let was = decisions.iter().flatten().filter_map(one).collect();
        Self { decided: Vec::new(), was, fates: BTreeMap::new() }
    }

    /// Takes the next step, and what the rules say about it. The stream itself may report a denied call.
    pub(super) fn accept(&mut self, step: &Step, decided: Option<Decided>) {
        self.decided.extend(decided);
        if let What::Answer(answer @ CallAnswer { id: Some(id), .. }) = &step.what {
            self.fates.insert(id.clone(), Fate::of(answer));
        }
        if let What::Denied(Denied { id: Some(id), message, .. }) = &step.what {
            let denied = || Was { ruling: "deny".to_owned(), by: "agent".to_owned(), rule: None, reason: message.clone() };
            self.was.entry(id.clone()).or_insert_with(denied);
        }
    }

    fn was(&self, decided: &Decided) -> Option<&Was> {
        self.was.get(decided.id.as_ref()?)
    }

    /// Returns the outcome of a call. `None` if it has no result.
    fn fate(&self, decided: &Decided) -> Option<Fate> {
        let denied = self.was(decided).is_some_and(|was| was.ruling == "deny");
        if denied { Some(Fate::Denied) } else { self.fates.get(decided.id.as_ref()?).copied() }
    }

    /// Returns whether a call ran. `None` if that is not known.
    fn ran(&self, decided: &Decided) -> Option<bool> {
        match self.fate(decided)? {
            Fate::Ran => Some(true),
            Fate::Denied | Fate::Refused => Some(false),
            Fate::Unknown => None,
        }
    }

    fn agrees(&self, decided: &Decided) -> Option<bool> {
        match (decided.decision.ruling, &decided.decision.rule, self.ran(decided)) {
            // A call that the agent rejected was not decided by anybody.
            (Ruling::Allow, ..) if self.fate(decided) == Some(Fate::Refused) => None,
            (Ruling::Allow, _, ran) => ran,
            // A call that was still running is one too many.
            (Ruling::Deny, _, ran) => Some(ran == Some(false)),
            (Ruling::Ask, Some(_), Some(true)) => Some(self.was(decided)?.by == "callback"),
            (Ruling::Ask, Some(_), Some(false)) => Some(true),
            (Ruling::Ask, ..) => None,
        }
    }

    /// Removes secrets from what is printed about the calls.
    pub(super) fn clean(&mut self, told: &CleanCheck) {
        told.calls(&mut self.decided);
        for was in self.was.values_mut() {
            for text in [Some(&mut was.by), was.rule.as_mut(), was.reason.as_mut()].into_iter().flatten() {
                *text = told.text(text);
            }
        }
    }

    pub(super) fn decisions(&self) -> Vec<Decision<'_>> {
        let one = |decided| Decision { decided, was: self.was(decided), ran: self.ran(decided), agrees: self.agrees(decided) };
        self.decided.iter().map(one).collect()
    }

    /// Returns the calls that ran, or were running, although the rules deny them.
    pub(super) fn violations(&self) -> impl Iterator<Item = Violation> {
        self.decided.iter().filter(|decided| self.is_broken(decided)).map(|decided| {
            let rule = decided.decision.rule.as_deref().unwrap_or("a rule");
            let known = if self.ran(decided) == Some(true) { "ran" } else { "was called (whether it ran is not known)" };
            let message = format!("{} {} {known}, and {rule} denies it", decided.tool, decided.title);
            Violation { rule: DENIED, message, line: Some(decided.line) }
        })
    }

    fn is_broken(&self, decided: &Decided) -> bool {
        decided.decision.ruling == Ruling::Deny && self.agrees(decided) == Some(false)
    }

    /// Returns how many calls the rules would have decided differently.
    pub(super) fn differing(&self) -> usize {
        self.decided.iter().filter(|decided| self.agrees(decided) == Some(false)).count()
    }

    /// Writes a sentence for each call: what the rules say, what happened, and with `and` or `but` whether the two
    /// agree.
    pub(super) fn render(&self, style: Style) -> String {
        let Style { red, yellow, green, dim, reset, .. } = style;
        let mut out = String::new();
        for decided in &self.decided {
            let (colour, mark) = match self.agrees(decided) {
                Some(true) => (green, "✓"),
                Some(false) if self.is_broken(decided) => (red, "✗"),
                Some(false) => (yellow, "!"),
                None => (dim, "·"),
            };
            let rule = if self.is_broken(decided) { format!("{DENIED}: ") } else { String::new() };
            let word = if self.agrees(decided) == Some(false) { "but" } else { "and" };
            let call = one_line(&format!("{rule}{} {}", decided.tool, decided.title));
            let said = one_line(&format!("{}, {word} {}", rules_say(decided), self.happened(decided)));
            let _ = writeln!(out, "{colour}{mark}{reset} line {}: {call}: {said}", decided.line);
        }
        out
    }

    /// Says what happened to a call in the run.
    fn happened(&self, decided: &Decided) -> String {
        let was = self.was(decided);
        let by = was.map(|was| was.rule.as_deref().unwrap_or(&was.by));
        let by = match by {
            Some("callback") => "by the person or program that was asked",
            Some("nobody") => "there was nobody to ask",
            Some("deadline" | "panic") => "the one who was asked gave no answer",
            Some("agent") => "by the agent",
            Some("hook") => "by a hook",
            Some("withdrawn") => "the agent withdrew its request",
            Some(rule) => &format!("by {rule}"),
            None => "",
        };
        let (what, by) = match self.fate(decided) {
            Some(Fate::Denied) => ("it was denied in the run", by.to_owned()),
            Some(Fate::Refused) => ("it did not run: the agent rejected it as invalid", String::new()),
            Some(Fate::Ran) if by.is_empty() => ("it ran", String::new()),
            Some(Fate::Ran) => ("it ran", format!("allowed {by}")),
            Some(Fate::Unknown) => ("it failed, and whether it did anything is not known", String::new()),
            None => ("the stream does not say what happened to it", String::new()),
        };
        if by.is_empty() { what.to_owned() } else { format!("{what} ({by})") }
    }
}

/// Says what the rules say about a call.
fn rules_say(decided: &Decided) -> String {
    let decision = &decided.decision;
    let reason = decision.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let Some(rule) = &decision.rule else { return format!("no rule matches it{reason}, so the agent decides") };
    match decision.ruling {
        Ruling::Allow => format!("the rules allow it ({rule}{reason})"),
        Ruling::Deny => format!("the rules deny it ({rule}{reason})"),
        Ruling::Ask => format!("the rules require asking a person ({rule}{reason})"),
    }
}
