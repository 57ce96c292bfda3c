//! What a run was not permitted to do, and what would permit it: a success with denied calls has done less than it was asked.

use std::collections::BTreeSet;

use tapline_protocol::Agent;
use tapline_session::step::{Step, What};
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
}

#[derive(Debug)]
struct Denial {
    tool: String,
    title: Option<String>,
    why: Option<String>,
    times: usize,
}

impl Denials {
    pub(super) fn accept(&mut self, step: &Step) {
        let What::Denied(denied) = &step.what else { return };
        self.count += 1;
        let tool = one_line(denied.name.as_deref().unwrap_or("a tool"));
        let title = denied.title.as_deref().map(one_line);
        if let Some(same) = self.denied.iter_mut().find(|denial| denial.tool == tool && denial.title == title) {
            same.times += 1;
        } else if self.denied.len() < DIFFERENT {
            let why = denied.message.as_deref().map(one_line).filter(|why| !why.is_empty());
            self.denied.push(Denial { tool, title, why, times: 1 });
        }
    }

    /// Lines that name each denied call, and the flag that would allow them.
    pub(super) fn told(&self, args: &Run) -> Vec<String> {
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
            return "to allow this, give Codex more room: -- -s workspace-write".to_owned();
        }
        let tools: BTreeSet<&str> = self.denied.iter().map(|denial| denial.tool.as_str()).collect();
        let (asking, tools): (Vec<&str>, Vec<&str>) =
            tools.into_iter().partition(|tool| matches!(*tool, "AskUserQuestion" | "ExitPlanMode"));
        if tools.is_empty() {
            return format!("{} needs a person who answers: tapline chat", asking.join(", "));
        }
        if let Some(rules) = &args.told.permissions {
            let tools = tools.join("\", \"");
            return format!("to allow this, add a rule to {}: [[allow]] tool = [\"{tools}\"]", rules.display());
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
