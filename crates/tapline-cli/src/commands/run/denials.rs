//! What a run was not permitted to do, and what would permit it: a success with denied calls has done less than it was asked.

mod codex;

use std::collections::{BTreeMap, BTreeSet};

use tapline_protocol::Agent;
use tapline_runner::Settled;
use tapline_session::Rejected;
use tapline_session::permission::Ruling;
use tapline_session::step::{Answer, Denied, Step, What};
use tapline_session::text::{count_of, fit, one_line};

use crate::args::run::Run;
use crate::output;

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
    /// What a rule has denied, by the call: its tool, and why. The stream may say so too, or only give an answer that failed.
    settled: BTreeMap<String, (String, String)>,
    told: BTreeSet<String>,
}

#[derive(Debug)]
struct Denial {
    tool: String,
    title: Option<String>,
    why: Option<String>,
    times: usize,
}

impl Denials {
    /// A question of the agent's was settled.
    pub(super) fn settle(&mut self, settled: &Settled) {
        if let (Ruling::Deny, Some(id)) = (settled.ruling, &settled.tool_use_id) {
            let rule = settled.rule.as_ref().map(|rule| format!(" ({rule})")).unwrap_or_default();
            let why = format!("{}{rule}", settled.reason.as_deref().unwrap_or("no rule allows it"));
            self.settled.insert(id.clone(), (settled.tool.clone(), why));
        }
    }

    /// Something happened.
    pub(super) fn accept(&mut self, step: &Step) {
        match &step.what {
            What::Denied(Denied { id, name, title, message, .. }) => {
                if id.as_ref().is_some_and(|id| self.told.contains(id)) {
                    return;
                }
                let rule = id.as_ref().and_then(|id| self.settled.remove(id)).map(|(_, why)| why);
                self.add(name.as_deref(), title.as_deref(), rule.as_deref().or(message.as_deref()));
            }
            What::Answer(Answer { id: Some(id), title, .. }) => {
                if let Some((tool, why)) = self.settled.remove(id) {
                    self.told.insert(id.clone());
                    self.add(Some(&tool), title.as_deref(), Some(&why));
                }
            }
            _ => {}
        }
    }

    /// Calls that Codex rejected without a word in its stream.
    pub(super) fn reject(&mut self, rejected: &[Rejected]) {
        for call in rejected {
            self.add(Some(&call.to_string()), None, None);
        }
    }

    /// Whether any call was denied.
    pub(super) fn any(&self) -> bool {
        self.count > 0
    }

    fn add(&mut self, tool: Option<&str>, title: Option<&str>, why: Option<&str>) {
        self.count += 1;
        let (tool, title) = (one_line(tool.unwrap_or("a tool")), title.map(one_line));
        if let Some(same) = self.denied.iter_mut().find(|denial| denial.tool == tool && denial.title == title) {
            same.times += 1;
        } else if self.denied.len() < DIFFERENT {
            let why = why.map(one_line).filter(|why| !why.is_empty());
            self.denied.push(Denial { tool, title, why, times: 1 });
        }
    }

    /// Lines that name each denied call, and the flag that would allow them.
    pub(super) fn told(&mut self, args: &Run) -> Vec<String> {
        for (tool, why) in std::mem::take(&mut self.settled).into_values() {
            self.add(Some(&tool), None, Some(&why));
        }
        let mut lines: Vec<String> = self.denied.iter().take(TOLD).map(Denial::told).collect();
        let shown: usize = self.denied.iter().take(TOLD).map(|denial| denial.times).sum();
        if self.count > shown {
            lines.push(format!("denied: {} more", count_of(self.count - shown, "call")));
        }
        lines.extend((!lines.is_empty()).then(|| self.advice(args)));
        lines
    }

    fn advice(&self, args: &Run) -> String {
        if Agent::from(args.whose.agent) == Agent::Codex {
            return codex::advice(self.denied.iter().map(|denial| denial.tool.as_str()), &args.extra);
        }
        let tools: BTreeSet<&str> = self.denied.iter().map(|denial| denial.tool.as_str()).collect();
        let (asking, tools): (Vec<&str>, Vec<&str>) =
            tools.into_iter().partition(|tool| matches!(*tool, "AskUserQuestion" | "ExitPlanMode"));
        if tools.is_empty() {
            return format!("{} needs a person who answers: tapline chat", asking.join(", "));
        }
        if let Some(rules) = &args.told.permissions {
            // The whole tool would be too much: whoever writes the rule says which command or path.
            let (tools, rules) = (tools.join(", "), rules.display());
            return format!(
                "to allow this, add an [[allow]] rule for {tools} to {rules}, or change the rule that is named above"
            );
        }
        if args.told.permission_mode.as_deref() == Some("plan") {
            return "to allow this, give another --permission-mode than plan".to_owned();
        }
        let edits = |tool: &&str| matches!(*tool, "Edit" | "Write" | "MultiEdit" | "NotebookEdit");
        let elsewhere = |denial: &Denial| denial.why.as_ref().is_some_and(|why| why.contains("allowed working directories"));
        let mut advice = format!("to allow this: --allowed-tools {}", in_quotes(&tools.join(",")));
        if tools.iter().all(edits) {
            advice += ", or --permission-mode acceptEdits";
        } else if tools.iter().any(edits) {
            advice += " (the edits alone: --permission-mode acceptEdits)";
        }
        if self.denied.iter().any(elsewhere) {
            advice += "; for files elsewhere: --add-dir DIR";
        }
        advice
    }
}

impl Denial {
    fn told(&self) -> String {
        let what = match &self.title {
            Some(title) if title.starts_with(&self.tool) => title.clone(),
            Some(title) => format!("{} {title}", self.tool),
            None => self.tool.clone(),
        };
        let times = if self.times > 1 { format!(" ({} times)", self.times) } else { String::new() };
        let why = self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        fit(&format!("denied: {what}{times}{why}"), COLUMNS).into_owned()
    }
}

/// Words for a shell, in double quotes where they mean nothing to it.
fn in_quotes(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_,-:.".contains(c));
    if plain { format!("\"{text}\"") } else { output::quoted(text) }
}
