//! Permission rules: what an agent may do unasked, what never, and what only if somebody says so. Read from TOML;
//! docs/PERMISSIONS.md describes them.

mod call;
mod covers;
pub(crate) mod naming;
mod obstacle;
mod path;
mod read;
mod runs;
mod shell;
mod suggest;
mod tools;
mod unasked;

use serde::{Deserialize, Serialize};

use crate::pattern::Patterns;
use crate::rulefile;
pub use crate::rulefile::{RuleFile, WrongRules};
use crate::step::{Step, What};
pub use call::Call;
use covers::Covering;
pub use path::resolve;
use runs::Runs;
use shell::Unreadable;
pub use suggest::{NoRule, Suggestion};
pub use unasked::runs_code_unasked;

/// Rules. A call that none is for is asked about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Permissions {
    /// What may be done unasked.
    pub allow: Vec<Rule>,
    /// What may never be done, whatever else says so.
    pub deny: Vec<Rule>,
    /// What is asked about, even if it is allowed.
    pub ask: Vec<Rule>,
}

/// From TOML; what is wrong is said with its line.
impl std::str::FromStr for Permissions {
    type Err = WrongRules;

    fn from_str(text: &str) -> Result<Self, WrongRules> {
        rulefile::read(text, &read::FILE)
    }
}

/// Which calls a rule is for. All that is given must hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "read::Written")]
pub struct Rule {
    /// The tool; `*` stands for any characters.
    pub tool: Patterns,
    /// The command, for tools that run one.
    pub command: Option<Patterns>,
    /// The file or folder, for tools that have one: `*` stops at a slash, `**` does not; `~/` is the home of whoever runs the agent.
    pub path: Option<Patterns>,
    /// Why; the agent is told, if it is denied.
    pub reason: Option<String>,
}

/// What is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// It may be done.
    Allow,
    /// It may not.
    Deny,
    /// Somebody is to say; where nobody is there, it may not.
    Ask,
}

/// What is decided of a call, and by which rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What.
    pub ruling: Ruling,
    /// The rule: `deny[0]`; none if there is none for it.
    pub rule: Option<String>,
    /// Why, as the rule says.
    pub reason: Option<String>,
}

impl Permissions {
    /// What is decided of a call: deny wins over ask, ask over allow; what no rule is for is asked about.
    pub fn decide(&self, call: &Call) -> Decision {
        let runs = match &call.command {
            _ if call.lost_command => Err(Unreadable),
            Some(command) => runs::runs(command),
            None => Ok(Runs::default()),
        };
        let held = [("deny", &self.deny, Ruling::Deny), ("ask", &self.ask, Ruling::Ask)];
        for (name, rules, ruling) in held {
            if let Some((at, rule)) = rules.iter().enumerate().find(|(_, rule)| rule.holds(call, &runs)) {
                return Decision { ruling, rule: Some(format!("{name}[{at}]")), reason: rule.reason.clone() };
            }
        }
        // What it runs may be what is denied.
        if runs.as_ref().is_ok_and(|runs| runs.unknown) {
            let about = |rule: &Rule| rule.command.is_some() && rule.is_of(call, false);
            for (name, rules, _) in held {
                if let Some(at) = rules.iter().position(about) {
                    let rule = format!("{name}[{at}]");
                    let reason = format!("what the command runs cannot be known beforehand: it may be what {rule} is for");
                    return Decision { ruling: Ruling::Ask, rule: Some(rule), reason: Some(reason) };
                }
            }
        }
        self.allows(call, runs.as_ref().ok())
    }

    /// What is allowed; what is not is asked about.
    fn allows(&self, call: &Call, runs: Option<&Runs>) -> Decision {
        let open = |reason: Option<&str>| Decision { ruling: Ruling::Ask, rule: None, reason: reason.map(str::to_owned) };
        let Some(runs) = runs else { return open(Some("the command cannot be read")) };
        let fitting = || self.allow.iter().enumerate().filter(|(_, rule)| rule.is_of(call, true) && rule.allows_path(call));
        if let Some((at, rule)) = fitting().find(|(_, rule)| rule.command.is_none()) {
            return Decision { ruling: Ruling::Allow, rule: Some(format!("allow[{at}]")), reason: rule.reason.clone() };
        }
        let Some(command) = &call.command else { return open(None) };
        let rules = fitting().filter_map(|(at, rule)| Some((at, rule.command.as_ref()?))).collect();
        let covering = Covering { rules, at_home: call.cwd.is_some() && call.cwd == call.home };
        let covered = if tools::is_powershell(&call.tool) { covering.cover_words(command) } else { covering.cover(command) };
        let goes = |words: &Vec<String>| words.first().is_some_and(|name| matches!(&**name, "cd" | "pushd" | "popd"));
        let moved = runs.commands.iter().any(goes);
        let covered = covered.filter(|_| runs.by_option.iter().all(|option| covering.covers_option(option, moved)));
        let Some(used) = covered else { return open(None) };
        let names: Vec<_> = used.iter().map(|at| format!("allow[{at}]")).collect();
        let reason = used.first().and_then(|at| self.allow.get(*at)?.reason.clone());
        Decision { ruling: Ruling::Allow, rule: Some(names.join(", ")), reason }
    }

    /// The same with `~/` in its paths as this folder.
    #[must_use]
    pub fn with_home(mut self, home: &str) -> Self {
        for rule in self.allow.iter_mut().chain(&mut self.deny).chain(&mut self.ask) {
            if let Some(patterns) = &mut rule.path {
                patterns.change(|pattern| Some(format!("{}{}", home.trim_end_matches('/'), pattern.strip_prefix('~')?)));
            }
        }
        self
    }

    /// The same with what is denied or asked about under a link's name denied behind it, too. What is allowed is not: a link
    /// may be the agent's.
    #[must_use]
    pub fn behind_links(mut self, cwd: Option<&str>, real: impl Fn(&str) -> String) -> Self {
        for rule in self.deny.iter_mut().chain(&mut self.ask) {
            if let Some(patterns) = &mut rule.path {
                patterns.extend_with(|pattern| path::behind_links(pattern, cwd, &real));
            }
        }
        self
    }
}

impl Rule {
    /// Whether it is for this tool. A rule about commands is held against every tool that runs one.
    fn is_of(&self, call: &Call, allows: bool) -> bool {
        let runs_one = call.command.is_some() || call.lost_command;
        tools::names(&call.tool).any(|name| self.tool.match_any(name))
            || (!allows && runs_one && self.command.is_some() && tools::of_commands().any(|name| self.tool.match_any(name)))
    }

    /// Whether what it denies, or wants asked, is in the call.
    fn holds(&self, call: &Call, runs: &Result<Runs, Unreadable>) -> bool {
        self.is_of(call, false) && self.holds_command(call, runs) && self.holds_path(call)
    }

    /// Found in any part of a command, and behind what runs it.
    fn holds_command(&self, call: &Call, runs: &Result<Runs, Unreadable>) -> bool {
        let Some(patterns) = &self.command else { return true };
        // What cannot be read may be what is denied; of a tool that the rule does not name, it may be no shell's command at all.
        let Ok(runs) = runs else { return tools::names(&call.tool).any(|name| self.tool.match_any(name)) };
        let Some(command) = &call.command else { return false };
        // A pattern for a command with more words is for the command without, too.
        let is_for = |text: &str| patterns.match_any(text) || patterns.match_any(&format!("{text} "));
        is_for(command.trim())
            || runs.written.iter().any(|text| is_for(text))
            || runs.commands.iter().any(|words| names(words, patterns).iter().any(|name| is_for(&with_name(name, words))))
    }

    /// Whether it is about any path of the call.
    fn holds_path(&self, call: &Call) -> bool {
        let Some(patterns) = &self.path else { return true };
        let fits = |path: &String| patterns.iter().any(|pattern| path::matches(pattern, path, call.home.as_deref()));
        call.lost_path || call.paths.iter().chain(&call.aliases).any(fits)
    }

    /// Whether it allows every path of the call. What runs code unasked is allowed only by its name.
    fn allows_path(&self, call: &Call) -> bool {
        let Some(patterns) = &self.path else {
            let unnamed = |path: &String| unasked::is_unnamed(path, "", call.home.as_deref());
            return tools::only_reads(&call.tool) || !call.paths.iter().any(unnamed);
        };
        // A command may go anywhere: a path alone allows none.
        if self.command.is_none() && (call.command.is_some() || call.lost_command) {
            return false;
        }
        let home = call.home.as_deref();
        let named = |pattern: &str, path: &str| tools::only_reads(&call.tool) || !unasked::is_unnamed(path, pattern, home);
        let fits = |path: &String| patterns.iter().any(|pattern| path::matches(pattern, path, home) && named(pattern, path));
        !call.lost_path && !call.paths.is_empty() && call.paths.iter().all(fits)
    }
}

/// The names that a command may go by: as written, its file's, in small letters (as some file systems see it), what a pattern of files may be.
fn names(words: &[String], patterns: &Patterns) -> Vec<String> {
    let Some(name) = words.first() else { return Vec::new() };
    let file = name.rsplit('/').next().unwrap_or_default();
    let file = file.strip_prefix('=').unwrap_or(file);
    let mut names = vec![name.clone(), file.to_owned(), file.to_lowercase()];
    names.dedup();
    names.extend(patterns.iter().filter_map(runs::literal_name).filter(|known| runs::could_be(name, known)).map(str::to_owned));
    names
}

fn with_name(name: &str, words: &[String]) -> String {
    [name].into_iter().chain(words.iter().skip(1).map(String::as_str)).collect::<Vec<_>>().join(" ")
}

/// What the rules would have decided of a call that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decided {
    /// Where the call stands in the stream.
    pub line: u64,
    /// The call.
    pub id: Option<String>,
    /// The tool.
    pub tool: String,
    /// Its key input, on one line.
    pub title: String,
    /// What is decided.
    #[serde(flatten)]
    pub decision: Decision,
}

/// Holds rules against a run that was made.
#[derive(Clone, Debug)]
pub struct PermissionChecker {
    permissions: Permissions,
    /// Where the agent was started, and where it is.
    home: Option<String>,
    cwd: Option<String>,
}

impl PermissionChecker {
    /// A checker for one run.
    pub fn new(permissions: Permissions) -> Self {
        Self { permissions, home: None, cwd: None }
    }

    /// Takes the next step; a call is decided.
    pub fn accept(&mut self, step: &Step) -> Option<Decided> {
        if let What::Session(info) = &step.what {
            self.cwd.clone_from(&info.setup.cwd);
            self.home = self.home.take().or_else(|| self.cwd.clone());
        }
        let What::Call(call) = &step.what else { return None };
        let asked = Call::of(&call.name, call.input.as_ref(), self.cwd.as_deref()).at_home(self.home.as_deref());
        let decision = self.permissions.decide(&asked);
        // The agent's shell stays where a command has gone; how far it got, the stream does not say.
        if asked.tool == "Bash" && asked.command.as_deref().is_some_and(|command| runs::leaves(command, self.cwd.as_deref())) {
            self.cwd = None;
        }
        Some(Decided { line: step.line, id: call.id.clone(), tool: call.name.clone(), title: call.title.clone(), decision })
    }
}
