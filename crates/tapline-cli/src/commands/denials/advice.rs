//! What would have allowed the denied calls: a rule to copy into a file, or a flag. Only what would work is suggested.

mod flags;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use tapline_session::permission::{Permissions, Suggestion, runs_code_unasked};
use tapline_session::text::{count_of, fit, one_line};

use super::{COLUMNS, Denial, TOLD};
use crate::agents::habits;
use crate::args::run::{AgentOptions, Whose};
use crate::output;

/// Longer rules and flags are not shown. A person would write one with `*`.
const LONGEST: usize = 2000;

/// How the agent was started.
pub(in crate::commands) struct Started<'a> {
    pub(in crate::commands) whose: &'a Whose,
    pub(in crate::commands) told: &'a AgentOptions,
    pub(in crate::commands) extra: &'a [OsString],
}

/// Returns what would allow these calls. The first line of each text is for people, and the others are to copy.
pub(super) fn advice_on(denied: &[Denial], started: &Started<'_>) -> Vec<String> {
    if denied.is_empty() {
        return Vec::new();
    }
    if let Some(advice) = habits(started.whose.agent).advice {
        let reasons: Vec<_> = denied.iter().filter_map(|denial| denial.why.as_deref()).collect();
        return vec![advice(&reasons, started.extra)];
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
        let more = match forbidden.len().saturating_sub(TOLD) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        advice.push(format!(
            "{names}{more}: the agent's settings, or --disallowed-tools, deny it, and no flag or rule overrides them"
        ));
    }
    if !asking.is_empty() {
        let tools: BTreeSet<&str> = asking.iter().map(|denial| &*denial.tool).collect();
        advice.push(format!("{} needs a person who answers: tapline chat", tools.into_iter().collect::<Vec<_>>().join(", ")));
    }
    advice
}

/// Joins rules for all of these.
fn joined<'d>(suggestions: impl Iterator<Item = &'d Suggestion>) -> Vec<Suggestion> {
    let mut joined: Vec<Suggestion> = Vec::new();
    for suggestion in suggestions {
        if !joined.iter_mut().any(|known| known.join(suggestion)) {
            joined.push(suggestion.clone());
        }
    }
    joined
}

/// Formats rules as one line of a file.
fn in_one_line(rules: &[Suggestion]) -> String {
    let rules: Vec<_> = rules.iter().map(|rule| format!("{{ {} }}", rule.lines().join(", "))).collect();
    format!("allow = [{}]", rules.join(", "))
}

/// Names the rules that allow every call of a tool, so that people know it when they copy them: ` (every call of
/// WebFetch)`, or nothing.
fn as_a_whole(rules: &[Suggestion]) -> String {
    let whole = rules.iter().filter(|rule| rule.commands.is_empty() && rule.paths.is_empty());
    let tools = whole.map(|rule| one_line(&rule.tool)).collect::<Vec<_>>().join(", ");
    if tools.is_empty() { tools } else { format!(" (every call of {})", fit(&tools, COLUMNS)) }
}

fn by_rules(denied: &[&Denial], path: &Path) -> Vec<String> {
    let name = path.display();
    let mut advice = Vec::new();
    let rules = denied.iter().filter_map(|denial| Some((*denial, denial.suggestion.as_ref()?.as_ref().ok()?)));
    let (secret, open): (Vec<_>, Vec<_>) = rules.partition(|(denial, _)| denial.is_secret);
    let suggested = joined(open.into_iter().map(|(_, rule)| rule));
    // Read it again: the lines must fit the current file.
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let fits = |text: &str| text.parse::<Permissions>().is_ok();
    let list = in_one_line(&suggested);
    let whole = as_a_whole(&suggested);
    if suggested.is_empty() {
    } else if list.len() > LONGEST {
        advice.push(format!("to allow this, add [[allow]] rules for these commands or paths to {name}"));
    } else if fits(&format!("{list}\n{text}")) {
        advice.push(format!("to allow this{whole}, add at the top of {name}:\n{list}"));
    } else if fits(&format!("{text}\n[[allow]]\ntool = \"Read\"\n")) {
        let rules: Vec<_> = suggested.iter().map(|rule| format!("[[allow]]\n{}", rule.lines().join("\n"))).collect();
        advice.push(format!("to allow this{whole}, add at the end of {name}:\n{}", rules.join("\n")));
    } else {
        let rules = list.strip_prefix("allow = [").and_then(|list| list.strip_suffix(']')).unwrap_or_default();
        advice.push(format!("to allow this{whole}, add to the list `allow` in {name}:\n{rules}"));
    }
    advice.extend(left_out(secret.into_iter().map(|(denial, _)| denial)));
    let held: BTreeSet<&str> = denied
        .iter()
        .filter(|denial| !matches!(denial.suggestion, Some(Ok(_))))
        .filter_map(|denial| denial.rule.as_deref())
        .collect();
    if !held.is_empty() {
        let held = fit(&held.into_iter().collect::<Vec<_>>().join(", "), COLUMNS).into_owned();
        let chat = if held.contains("ask[") { "; tapline chat asks you" } else { "" };
        advice.push(format!("what {held} prevents is allowed only by changing that rule in {name}{chat}"));
    }
    let open = denied.iter().filter(|denial| denial.rule.is_none());
    let never = open.filter_map(|denial| Some((*denial, denial.suggestion.as_ref()?.as_ref().err()?.as_str())));
    advice.extend(never_allowed(never.map(|(denial, why)| (denial, "no rule", why))));
    if advice.is_empty() {
        advice.push(format!("no rule in {name} would allow this: it was not denied by these rules"));
    }
    advice
}

/// Lists calls whose rule cannot be shown.
fn left_out<'d>(calls: impl Iterator<Item = &'d Denial>) -> Option<String> {
    let names: BTreeSet<String> = calls.map(Denial::name).collect();
    let more = names.len().saturating_sub(TOLD);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown = names.iter().take(TOLD).map(|name| fit(&one_line(name), COLUMNS).into_owned()).collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| format!("the rule that would allow {shown}{more} is left out, because it contains a secret"))
}

/// Lists calls that nothing allows as they are, each with the reason.
fn never_allowed<'d>(calls: impl Iterator<Item = (&'d Denial, &'d str, &'d str)>) -> Vec<String> {
    let calls: Vec<_> = calls.collect();
    let mut lines: Vec<_> =
        // The reason quotes the agent, and its further lines would look like ours.
        calls
            .iter()
            .take(TOLD)
            .map(|(denial, what, why)| {
                fit(&one_line(&format!("{what} can allow {}: {why}", denial.name())), COLUMNS).into_owned()
            })
            .collect();
    if calls.len() > TOLD {
        lines.push(format!("the same applies to {} more", count_of(calls.len() - TOLD, "call")));
    }
    if !lines.is_empty() {
        lines.push(
            "what no rule can allow, a person can: tapline chat asks you (`tapline help permissions` says what rules allow)"
                .to_owned(),
        );
    }
    lines
}

fn by_flags(denied: &[&Denial], told: &AgentOptions) -> Vec<String> {
    if told.permission_mode.as_deref() == Some("plan") {
        return vec!["to allow this, use a --permission-mode other than plan".to_owned()];
    }
    let (by_rule, by_flag): (Vec<&Denial>, Vec<&Denial>) =
        denied.iter().partition(|denial| denial.no_flag_helps(told) || denial.as_agents_rules().is_none());
    let mut advice = Vec::new();
    if !by_flag.is_empty() {
        advice.push(flags(&by_flag));
    }
    let none = Permissions::default();
    let tried: Vec<_> = by_rule.iter().map(|denial| (*denial, denial.rule_without_others(&none))).collect();
    let allowed = || tried.iter().filter_map(|(denial, tried)| Some((*denial, tried.as_ref().ok()?)));
    let (secret, open): (Vec<_>, Vec<_>) = allowed().partition(|(denial, _)| denial.is_secret);
    let rules = joined(open.into_iter().map(|(_, rule)| rule));
    if !rules.is_empty() {
        let what = if by_flag.is_empty() { "this" } else { "the rest" };
        // A flag would not help, or would allow more.
        let no_flag = if allowed().all(|(denial, _)| denial.no_flag_helps(told)) {
            format!("no flag allows {what}: the agent still asks about it")
        } else if allowed().any(|(denial, _)| denial.tool == "Bash") {
            format!("no flag allows just {what} (Bash allows every command)")
        } else {
            format!("no flag allows just {what}")
        };
        let list = in_one_line(&rules);
        advice.push(if list.len() > LONGEST {
            format!("{no_flag}. A rule does, but it is too long to show here: write one into a file and add --permissions FILE")
        } else {
            let whole = as_a_whole(&rules);
            format!("{no_flag}. A rule does{whole}: save the next line as rules.toml and add --permissions rules.toml\n{list}")
        });
    }
    advice.extend(left_out(secret.into_iter().map(|(denial, _)| denial)));
    advice.extend(never_allowed(tried.iter().filter_map(|(denial, tried)| {
        let every = denial.tool == "Bash" && !denial.no_flag_helps(told);
        let what = if every { "no flag narrower than Bash (every command) and no rule" } else { "no flag and no rule" };
        Some((*denial, what, tried.as_ref().err()?.as_str()))
    })));
    advice
}

/// Returns the flag that allows these, as far as it is short enough to copy.
fn flags(denied: &[&Denial]) -> String {
    let all: BTreeSet<String> = denied.iter().filter_map(|denial| denial.as_agents_rules()).flatten().collect();
    let count = all.len();
    let mut left = LONGEST;
    let fits = |rule: &String| {
        let fits = rule.len() < left;
        left -= if fits { rule.len() + 1 } else { 0 };
        fits
    };
    let told: Vec<String> = all.into_iter().filter(fits).collect();
    let mut advice = match (told.is_empty(), count - told.len()) {
        (true, _) => "to allow this, name it with --allowed-tools: it is too long to show here".to_owned(),
        (false, 0) => format!("to allow this: --allowed-tools {}", in_quotes(&told.join(","))),
        (false, more) => {
            format!("to allow this: --allowed-tools {} and {more} more, too long to show", in_quotes(&told.join(",")))
        }
    };
    if denied.iter().all(|denial| denial.edits()) {
        advice += ", or --permission-mode acceptEdits";
    } else if denied.iter().any(|denial| denial.edits()) {
        advice += " (to allow only the edits, use --permission-mode acceptEdits)";
    }
    if denied.iter().any(|denial| denial.is_elsewhere()) {
        advice += "; for files elsewhere: --add-dir DIR";
    }
    let whole = told.iter().filter(|rule| !rule.contains('(')).map(String::as_str).collect::<Vec<_>>().join(", ");
    if !whole.is_empty() {
        advice += "; the flag allows every call of ";
        advice += &fit(&whole, COLUMNS);
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

    /// Returns whether one of the agent's own rules denies it. In the mode `dontAsk`, the agent says the same about
    /// what it would have asked.
    fn is_forbidden(&self, told: &AgentOptions) -> bool {
        told.permission_mode.as_deref() != Some("dontAsk")
            && self.why.as_ref().is_some_and(|why| why.starts_with("Permission to use ") && why.contains(" has been denied"))
    }

    /// Returns whether no flag helps: the agent asks about files that run code, or that it calls sensitive, whatever
    /// its flags allow (tried with 2.1.325), or a flag was given and did not help.
    fn no_flag_helps(&self, told: &AgentOptions) -> bool {
        let Some(call) = &self.call else { return false };
        let why = self.why.as_deref().unwrap_or_default();
        let named = why.split_whitespace().map(|word| word.trim_matches(['\'', '"', '`', ',', '.', ':']));
        let paths =
            call.paths.iter().map(String::as_str).filter(|_| self.edits()).chain(named.filter(|word| word.starts_with('/')));
        let is_guarded =
            why.contains("sensitive file") || paths.into_iter().any(|path| runs_code_unasked(path, call.home.as_deref()));
        let given: BTreeSet<&str> = told.allowed_tools.iter().flat_map(|tools| tools.split(',')).map(str::trim).collect();
        let was_given = given.contains(&*self.tool)
            || self.as_agents_rules().is_some_and(|rules| rules.iter().all(|rule| given.contains(&**rule)))
            || self.edits() && told.permission_mode.as_deref() == Some("acceptEdits");
        is_guarded || was_given && !self.is_elsewhere()
    }

    /// Returns the rule in the agent's own notation, if one allows exactly this.
    fn as_agents_rules(&self) -> Option<Vec<String>> {
        let tool = self.call.as_ref().map_or(&self.tool, |call| &call.tool);
        flags::rules(tool, self.call.as_ref())
    }

    /// Returns the rule that would allow it in a file of its own, or why none can.
    fn rule_without_others(&self, none: &Permissions) -> Result<Suggestion, String> {
        match &self.call {
            Some(call) => none.suggest(call).map_err(|why| why.to_string()),
            None if flags::runs_commands(&self.tool, None) => Err("its command is no longer known".to_owned()),
            None => Err("no flag can name its tool".to_owned()),
        }
    }
}

/// Quotes a word for a shell, with double quotes if they change nothing.
fn in_quotes(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || " _,-:./=@+%()".contains(c));
    if plain { format!("\"{text}\"") } else { output::quoted(text) }
}
