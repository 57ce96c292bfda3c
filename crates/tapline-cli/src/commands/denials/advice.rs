//! What would have permitted the calls that an agent was denied: a rule to copy into a file, or a flag. Nothing is suggested that would not work.

mod codex;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use tapline_protocol::Agent;
use tapline_session::permission::{Permissions, Suggestion, runs_code_unasked};
use tapline_session::text::{fit, one_line};

use super::{COLUMNS, Denial, TOLD};
use crate::args::run::{Told, Whose};
use crate::output;

/// A longer rule is not told: whoever wants it writes one with `*`.
const LONGEST: usize = 2000;

/// How the agent was started.
pub(in crate::commands) struct Started<'a> {
    pub(in crate::commands) whose: &'a Whose,
    pub(in crate::commands) told: &'a Told,
    pub(in crate::commands) extra: &'a [OsString],
}

/// What would permit these calls: texts of which the first line is for people, and the others are to be copied.
pub(super) fn advice_on(denied: &[Denial], started: &Started<'_>) -> Vec<String> {
    if denied.is_empty() {
        return Vec::new();
    }
    if Agent::from(started.whose.agent) == Agent::Codex {
        return vec![codex::advice(denied.iter().filter_map(|denial| denial.why.as_deref()), started.extra)];
    }
    let asks = |denial: &&Denial| matches!(&*denial.tool, "AskUserQuestion" | "ExitPlanMode");
    let (asking, others): (Vec<&Denial>, Vec<&Denial>) = denied.iter().partition(asks);
    let (forbidden, others): (Vec<&Denial>, Vec<&Denial>) =
        others.into_iter().partition(|denial| denial.is_forbidden(started.told));
    let mut advice = match &started.told.permissions {
        _ if others.is_empty() => Vec::new(),
        Some(path) => by_rules(&others, path),
        None => by_flags(&others, started.told),
    };
    if !forbidden.is_empty() {
        let names: BTreeSet<String> = forbidden.iter().take(TOLD).map(|denial| denial.name()).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        advice
            .push(format!("{names}: the agent's settings, or --disallowed-tools, deny it, and no flag or rule is above them"));
    }
    if !asking.is_empty() {
        let tools: BTreeSet<&str> = asking.iter().map(|denial| &*denial.tool).collect();
        advice.push(format!("{} needs a person who answers: tapline chat", tools.into_iter().collect::<Vec<_>>().join(", ")));
    }
    advice
}

/// Rules that take in all of these.
fn joined<'d>(suggestions: impl Iterator<Item = &'d Suggestion>) -> Vec<Suggestion> {
    let mut joined: Vec<Suggestion> = Vec::new();
    for suggestion in suggestions {
        if !joined.iter_mut().any(|known| known.join(suggestion)) {
            joined.push(suggestion.clone());
        }
    }
    joined
}

/// Rules as one line of a file.
fn in_one_line(rules: &[Suggestion]) -> String {
    let rules: Vec<_> = rules.iter().map(|rule| format!("{{ {} }}", rule.lines().join(", "))).collect();
    format!("allow = [{}]", rules.join(", "))
}

fn by_rules(denied: &[&Denial], path: &Path) -> Vec<String> {
    let name = path.display();
    let mut advice = Vec::new();
    let rules = denied.iter().filter_map(|denial| Some((*denial, denial.suggestion.as_ref()?.as_ref().ok()?)));
    let (secret, open): (Vec<_>, Vec<_>) = rules.partition(|(denial, _)| denial.is_secret);
    let suggested = joined(open.into_iter().map(|(_, rule)| rule));
    // Read again: the lines must fit what is there.
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let fits = |text: &str| text.parse::<Permissions>().is_ok();
    let list = in_one_line(&suggested);
    if suggested.is_empty() {
    } else if list.len() > LONGEST {
        advice.push(format!("to allow this, add [[allow]] rules for these commands or paths to {name}"));
    } else if fits(&format!("{list}\n{text}")) {
        advice.push(format!("to allow this, add at the top of {name}:\n{list}"));
    } else if fits(&format!("{text}\n[[allow]]\ntool = \"Read\"\n")) {
        let rules: Vec<_> = suggested.iter().map(|rule| format!("[[allow]]\n{}", rule.lines().join("\n"))).collect();
        advice.push(format!("to allow this, add at the end of {name}:\n{}", rules.join("\n")));
    } else {
        let rules = list.strip_prefix("allow = [").and_then(|list| list.strip_suffix(']')).unwrap_or_default();
        advice.push(format!("to allow this, add to the list `allow` in {name}:\n{rules}"));
    }
    advice.extend(left_out(secret.into_iter().map(|(denial, _)| denial)));
    let held: BTreeSet<&str> = denied
        .iter()
        .filter(|denial| !matches!(denial.suggestion, Some(Ok(_))))
        .filter_map(|denial| denial.rule.as_deref())
        .collect();
    if !held.is_empty() {
        let held = held.into_iter().collect::<Vec<_>>().join(", ");
        let chat = if held.contains("ask[") { "; tapline chat asks you" } else { "" };
        advice.push(format!("what {held} holds back is allowed only by changing that rule in {name}{chat}"));
    }
    let open = denied.iter().filter(|denial| denial.rule.is_none());
    let never = open.filter_map(|denial| Some((*denial, denial.suggestion.as_ref()?.as_ref().err()?.as_str())));
    advice.extend(never_allowed(never, "no rule"));
    if advice.is_empty() {
        advice.push(format!("no rule in {name} would allow this: it was not denied by these rules"));
    }
    advice
}

/// Calls whose rule cannot be told.
fn left_out<'d>(calls: impl Iterator<Item = &'d Denial>) -> Option<String> {
    let names: BTreeSet<String> = calls.map(Denial::name).collect();
    let more = names.len().saturating_sub(TOLD);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown = names.iter().take(TOLD).map(|name| fit(&one_line(name), COLUMNS).into_owned()).collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| format!("the rule that would allow {shown}{more} is left out, because it holds a secret"))
}

/// Calls that nothing allows as they are, each with the reason.
fn never_allowed<'d>(calls: impl Iterator<Item = (&'d Denial, &'d str)>, what: &str) -> Vec<String> {
    let calls: Vec<_> = calls.collect();
    let mut lines: Vec<_> =
        // The reason quotes the agent, and the lines below the first would look like ours.
        calls
            .iter()
            .take(TOLD)
            .map(|(denial, why)| fit(&one_line(&format!("{what} can allow {}: {why}", denial.name())), COLUMNS).into_owned())
            .collect();
    if calls.len() > TOLD {
        lines.push(format!("{what} can allow {} more", calls.len() - TOLD));
    }
    if !lines.is_empty() {
        lines.push(
            "what no rule can allow, a person can: tapline chat asks you (docs/PERMISSIONS.md says what rules allow)"
                .to_owned(),
        );
    }
    lines
}

fn by_flags(denied: &[&Denial], told: &Told) -> Vec<String> {
    if told.permission_mode.as_deref() == Some("plan") {
        return vec!["to allow this, give another --permission-mode than plan".to_owned()];
    }
    let (by_rule, by_flag): (Vec<&Denial>, Vec<&Denial>) = denied.iter().partition(|denial| denial.needs_a_rule(told));
    let mut advice = Vec::new();
    if !by_flag.is_empty() {
        advice.push(flags(&by_flag));
    }
    let none = Permissions::default();
    let tried: Vec<_> = by_rule.iter().map(|denial| (*denial, denial.call.as_ref().map(|call| none.suggest(call)))).collect();
    let found = tried.iter().filter_map(|(denial, tried)| Some((*denial, tried.as_ref()?.as_ref().ok()?)));
    let (secret, open): (Vec<_>, Vec<_>) = found.partition(|(denial, _)| denial.is_secret);
    let rules = joined(open.into_iter().map(|(_, rule)| rule));
    if !rules.is_empty() {
        let what = if by_flag.is_empty() { "this" } else { "the rest" };
        advice.push(format!(
            "no flag allows {what}: the agent asks about it all the same. A rule does: put this line into a file, and give --permissions FILE\n{}",
            in_one_line(&rules)
        ));
    }
    advice.extend(left_out(secret.into_iter().map(|(denial, _)| denial)));
    advice.extend(never_allowed(
        tried.iter().filter_map(|(denial, tried)| Some((*denial, tried.as_ref()?.as_ref().err()?.as_str()))),
        "no flag and no rule",
    ));
    advice
}

fn flags(denied: &[&Denial]) -> String {
    let mut tools: BTreeSet<String> = denied.iter().map(|denial| denial.as_agents_rule()).collect();
    let every_command = tools.contains("Bash");
    // The tool by itself covers each of its commands.
    tools.retain(|tool| !every_command || !tool.starts_with("Bash("));
    let mut advice = format!("to allow this: --allowed-tools {}", in_quotes(&tools.into_iter().collect::<Vec<_>>().join(",")));
    if every_command {
        advice += " (Bash allows every command)";
    }
    if denied.iter().all(|denial| denial.edits()) {
        advice += ", or --permission-mode acceptEdits";
    } else if denied.iter().any(|denial| denial.edits()) {
        advice += " (the edits alone: --permission-mode acceptEdits)";
    }
    if denied.iter().any(|denial| denial.is_elsewhere()) {
        advice += "; for files elsewhere: --add-dir DIR";
    }
    advice
}

impl Denial {
    fn edits(&self) -> bool {
        matches!(&*self.tool, "Edit" | "Write" | "MultiEdit" | "NotebookEdit")
    }

    fn is_elsewhere(&self) -> bool {
        self.why.as_ref().is_some_and(|why| why.contains("allowed working directories"))
    }

    /// A rule of the agent's own denies it. In the mode `dontAsk` it says the same of what it would have asked about.
    fn is_forbidden(&self, told: &Told) -> bool {
        told.permission_mode.as_deref() != Some("dontAsk")
            && self.why.as_ref().is_some_and(|why| why.starts_with("Permission to use ") && why.contains(" has been denied"))
    }

    /// Whether no flag helps: the agent asks about files that run code, or that it calls sensitive, whatever its flags allow (tried with 2.1.325);
    /// and a flag that was given did not help.
    fn needs_a_rule(&self, told: &Told) -> bool {
        let Some(call) = &self.call else { return false };
        let why = self.why.as_deref().unwrap_or_default();
        let named = why.split_whitespace().map(|word| word.trim_matches(['\'', '"', '`', ',', '.', ':']));
        let paths =
            call.paths.iter().map(String::as_str).filter(|_| self.edits()).chain(named.filter(|word| word.starts_with('/')));
        let is_guarded =
            why.contains("sensitive file") || paths.into_iter().any(|path| runs_code_unasked(path, call.home.as_deref()));
        let given = told.allowed_tools.iter().flat_map(|tools| tools.split(',')).map(str::trim);
        let was_given = given.into_iter().any(|given| given == self.tool || given == self.as_agents_rule())
            || self.edits() && told.permission_mode.as_deref() == Some("acceptEdits");
        is_guarded || was_given && !self.is_elsewhere()
    }

    /// In the words of the agent's own rules: one plain command, else the tool. What else may stand in a command, they read in ways of their own.
    fn as_agents_rule(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || " _-./=@+%".contains(c);
        match self.call.as_ref().and_then(|call| call.command.as_ref()) {
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
