//! What would have permitted the calls that a run was denied: a rule to copy into the file, or a flag. Nothing is suggested that would not work.

mod codex;

use std::collections::BTreeSet;
use std::path::Path;

use tapline_protocol::Agent;
use tapline_session::permission::{Permissions, Suggestion};

use super::denials::Denial;
use crate::args::run::Run;
use crate::output;

/// A longer rule is not told: whoever wants it writes one with `*`.
const LONGEST: usize = 2000;

/// What would permit these calls, in lines.
pub(super) fn advice_on(denied: &[Denial], args: &Run) -> Vec<String> {
    if denied.is_empty() {
        return Vec::new();
    }
    if Agent::from(args.whose.agent) == Agent::Codex {
        return vec![codex::advice(denied.iter().filter_map(|denial| denial.why.as_deref()), &args.extra)];
    }
    let asks = |denial: &&Denial| matches!(&*denial.tool, "AskUserQuestion" | "ExitPlanMode");
    let (asking, others): (Vec<&Denial>, Vec<&Denial>) = denied.iter().partition(asks);
    if others.is_empty() {
        let tools: BTreeSet<&str> = asking.iter().map(|denial| &*denial.tool).collect();
        return vec![format!("{} needs a person who answers: tapline chat", tools.into_iter().collect::<Vec<_>>().join(", "))];
    }
    match &args.told.permissions {
        Some(path) => by_rules(&others, path),
        None => vec![by_flags(&others, args)],
    }
}

fn by_rules(denied: &[&Denial], path: &Path) -> Vec<String> {
    let name = path.display();
    let mut lines = Vec::new();
    let mut suggested: Vec<Suggestion> = Vec::new();
    for suggestion in denied.iter().filter_map(|denial| denial.suggestion.as_ref()) {
        if !suggested.iter_mut().any(|known| known.join(suggestion)) {
            suggested.push(suggestion.clone());
        }
    }
    // Read again: the lines must fit what is there.
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let fits = |text: &str| text.parse::<Permissions>().is_ok();
    let rules: Vec<_> = suggested.iter().map(|rule| format!("{{ {} }}", rule.lines().join(", "))).collect();
    let list = format!("allow = [{}]", rules.join(", "));
    if list.len() > LONGEST {
        lines.push(format!("to allow this, add [[allow]] rules for these commands or paths to {name}"));
    } else if !rules.is_empty() && fits(&format!("{list}\n{text}")) {
        lines.push(format!("to allow this, add at the top of {name}: {list}"));
    } else if !rules.is_empty() && fits(&format!("{text}\n[[allow]]\ntool = \"Read\"\n")) {
        lines.push(format!("to allow this, add at the end of {name}:"));
        for rule in &suggested {
            lines.push("[[allow]]".to_owned());
            lines.extend(rule.lines());
        }
    } else if !rules.is_empty() {
        lines.push(format!("to allow this, add to the list `allow` in {name}: {}", rules.join(", ")));
    }
    let held: BTreeSet<&str> =
        denied.iter().filter(|denial| denial.suggestion.is_none()).filter_map(|denial| denial.rule.as_deref()).collect();
    if !held.is_empty() {
        let held = held.into_iter().collect::<Vec<_>>().join(", ");
        let chat = if held.contains("ask[") { "; tapline chat asks you" } else { "" };
        lines.push(format!("what {held} holds back is allowed only by changing that rule in {name}{chat}"));
    }
    if lines.is_empty() {
        lines.push(format!("no rule in {name} can allow this as it stands (docs/PERMISSIONS.md says what can be allowed)"));
    }
    lines
}

fn by_flags(denied: &[&Denial], args: &Run) -> String {
    if args.told.permission_mode.as_deref() == Some("plan") {
        return "to allow this, give another --permission-mode than plan".to_owned();
    }
    let edits = |tool: &str| matches!(tool, "Edit" | "Write" | "MultiEdit" | "NotebookEdit");
    let elsewhere = |denial: &&&Denial| denial.why.as_ref().is_some_and(|why| why.contains("allowed working directories"));
    let tools: BTreeSet<String> = denied.iter().map(|denial| denial.as_agents_rule()).collect();
    let mut advice = format!("to allow this: --allowed-tools {}", in_quotes(&tools.into_iter().collect::<Vec<_>>().join(",")));
    if denied.iter().all(|denial| edits(&denial.tool)) {
        advice += ", or --permission-mode acceptEdits";
    } else if denied.iter().any(|denial| edits(&denial.tool)) {
        advice += " (the edits alone: --permission-mode acceptEdits)";
    }
    if denied.iter().any(|denial| elsewhere(&denial)) {
        advice += "; for files elsewhere: --add-dir DIR";
    }
    advice
}

impl Denial {
    /// In the words of the agent's own rules: one plain command, else the tool. What else may stand in a command, they read in ways of their own.
    fn as_agents_rule(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || " _-./=@+%".contains(c);
        match &self.command {
            Some(command) if self.tool == "Bash" && command.chars().all(plain) => format!("Bash({})", command.trim()),
            _ => self.tool.clone(),
        }
    }
}

/// A word for a shell, in double quotes where they change nothing.
fn in_quotes(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || " _,-:./=@+%()".contains(c));
    if plain { format!("\"{text}\"") } else { output::quoted(text) }
}
