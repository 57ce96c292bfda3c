//! Permission rules held against a run that was made: what they would have decided of each call, what was decided, and what ran that they deny.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use tapline_protocol::Json;
use tapline_recording::Recording;
use tapline_session::permission::{Decided, Ruling};
use tapline_session::policy::Violation;
use tapline_session::render::Style;
use tapline_session::step::{Denied, Step, What};
use tapline_session::text::one_line;

/// The violation of a call that ran though a rule denies it.
pub(super) const DENIED: &str = "permissions.deny";

/// What was decided of a call when the run was made.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Was {
    ruling: String,
    by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What would be decided of a call, and what was.
#[derive(Debug, Serialize)]
pub(super) struct Decision<'a> {
    #[serde(flatten)]
    decided: &'a Decided,
    /// None where nobody has kept it.
    was: Option<&'a Was>,
}

/// The calls of a run.
#[derive(Debug, Default)]
pub(super) struct Held {
    decided: Vec<Decided>,
    was: BTreeMap<String, Was>,
}

impl Held {
    /// With what the recording keeps of decisions, if it is one.
    pub(super) fn of(path: Option<&Path>) -> Self {
        let decisions = path.and_then(|path| Recording::open(path).ok()).map(|recording| recording.decisions());
        let one = |decision: &Json| {
            let text = |key| decision.text_of(key);
            let was = Was { ruling: text("ruling")?, by: text("by")?, rule: text("rule"), reason: text("reason") };
            Some((text("tool_use_id")?, was))
        };
        let was = decisions.iter().flatten().filter_map(one).collect();
        Self { decided: Vec::new(), was }
    }

    /// Takes the next step, and what the rules say of it. The stream itself may say that a call was denied.
    pub(super) fn accept(&mut self, step: &Step, decided: Option<Decided>) {
        self.decided.extend(decided);
        if let What::Denied(Denied { id: Some(id), message, .. }) = &step.what {
            let denied = || Was { ruling: "deny".to_owned(), by: "agent".to_owned(), rule: None, reason: message.clone() };
            self.was.entry(id.clone()).or_insert_with(denied);
        }
    }

    fn was(&self, decided: &Decided) -> Option<&Was> {
        self.was.get(decided.id.as_ref()?)
    }

    pub(super) fn decisions(&self) -> Vec<Decision<'_>> {
        self.decided.iter().map(|decided| Decision { decided, was: self.was(decided) }).collect()
    }

    /// What ran, or was on its way, though the rules deny it.
    pub(super) fn violations(&self) -> impl Iterator<Item = Violation> {
        let ran = |decided: &&Decided| {
            decided.decision.ruling == Ruling::Deny && self.was(decided).is_none_or(|was| was.ruling != "deny")
        };
        self.decided.iter().filter(ran).map(|decided| {
            let rule = decided.decision.rule.as_deref().unwrap_or("a rule");
            let message = format!("{} {} ran, and {rule} denies it", decided.tool, decided.title);
            Violation { rule: DENIED, message, line: Some(decided.line) }
        })
    }

    /// A line a call.
    pub(super) fn render(&self, style: Style) -> String {
        let Style { red, yellow, green, dim, reset, .. } = style;
        let mut out = String::new();
        for decided in &self.decided {
            let Decided { line, tool, title, decision, .. } = decided;
            let (colour, mark, word) = match decision.ruling {
                Ruling::Allow => (green, "✓", "allow"),
                Ruling::Deny => (red, "✗", "deny"),
                Ruling::Ask => (yellow, "?", "ask"),
            };
            let by = decision.rule.as_deref().unwrap_or("no rule");
            let reason = decision.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let call = one_line(&format!("{tool} {title}"));
            let was = self.was(decided).map(|was| format!("; was {} by {}", was.ruling, was.rule.as_ref().unwrap_or(&was.by)));
            let about = one_line(&format!("{by}{reason}{}", was.unwrap_or_default()));
            let _ = writeln!(out, "{colour}{mark} {word:<5}{reset} line {line}: {call} {dim}({about}){reset}");
        }
        out
    }
}
