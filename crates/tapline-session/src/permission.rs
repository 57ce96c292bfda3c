//! Permission rules: what an agent may do without asking, never, or only after asking. They are read from TOML;
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

use crate::fold::DENIED_BY;
use crate::pattern::Patterns;
use crate::rulefile;
pub use crate::rulefile::{RuleFile, WrongRules};
use crate::step::{Step, What};
pub use call::PendingCall;
use covers::Covering;
pub use path::resolve;
use runs::Runs;
use shell::Unreadable;
pub use suggest::{NoRule, Suggestion};
pub use unasked::runs_code_unasked;

/// Permission rules. A call that no rule matches needs permission.
///
/// ```
/// use tapline_protocol::Json;
/// use tapline_session::permission::{PendingCall, Permissions, Ruling};
///
/// let rules: Permissions = r#"allow = [{ tool = "Bash", command = "git status" }]"#.parse()?;
/// let input = Json::parse(r#"{"command":"git status && rm -r src"}"#)?;
/// let decision = rules.decide(&PendingCall::of("Bash", Some(&input), None));
/// assert_eq!(decision.ruling, Ruling::Ask);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Permissions {
    /// What the agent may do without asking.
    pub allow: Vec<Rule>,
    /// What the agent may never do. These rules take precedence.
    pub deny: Vec<Rule>,
    /// What needs permission even if it is allowed.
    pub ask: Vec<Rule>,
    /// Rules of somebody else, which these cannot loosen.
    #[serde(skip)]
    ceiling: Option<Box<Permissions>>,
}

/// Reads rules from TOML. An error names its line.
impl std::str::FromStr for Permissions {
    type Err = WrongRules;

    fn from_str(text: &str) -> Result<Self, WrongRules> {
        rulefile::read(text, &read::FILE)
    }
}

/// The calls that a rule applies to. All given conditions must hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "read::Written")]
pub struct Rule {
    /// The tool. `*` stands for any characters.
    pub tool: Patterns,
    /// The command, for tools that run one.
    pub command: Option<Patterns>,
    /// The file or folder, for tools that have one. `*` stops at a slash, `**` does not, and `~/` is the home of the
    /// user who runs the agent.
    pub path: Option<Patterns>,
    /// The reason. The agent is told it if the call is denied.
    pub reason: Option<String>,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// The call is allowed.
    Allow,
    /// The call is denied.
    Deny,
    /// The call needs permission. If nobody can be asked, it is denied.
    Ask,
}

/// The decision about a call, and the rule that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The decision.
    pub ruling: Ruling,
    /// The rule, such as `deny[0]`. `None` if no rule matched.
    pub rule: Option<String>,
    /// The reason, as the rule gives it.
    pub reason: Option<String>,
}

impl Decision {
    /// Returns what the agent is told about a call that a rule denies: `denied by deny[0]: no pushing`.
    pub fn denial(&self) -> String {
        let by = self.rule.as_deref().map_or_else(|| "a permission rule".to_owned(), |rule| format!("{DENIED_BY}{rule}"));
        match (&self.rule, &self.reason) {
            (None, Some(reason)) => reason.clone(),
            (None, None) => format!("{by} denies it"),
            (Some(_), None) => by,
            (Some(_), Some(reason)) => format!("{by}: {reason}"),
        }
    }

    /// Returns how strict it is: 0 allows the call, 1 matches no rule, 2 asks because of a rule, and 3 denies.
    pub fn strictness(&self) -> u8 {
        match (self.ruling, &self.rule) {
            (Ruling::Allow, _) => 0,
            (Ruling::Ask, None) => 1,
            (Ruling::Ask, Some(_)) => 2,
            (Ruling::Deny, _) => 3,
        }
    }
}

impl Permissions {
    /// Puts these rules beneath others: of two decisions about a call, the stricter one counts.
    #[must_use]
    pub fn beneath(mut self, ceiling: Self) -> Self {
        self.ceiling = Some(Box::new(ceiling));
        self
    }

    /// Decides about a call: deny takes precedence over ask, and ask over allow. A call that no rule matches needs
    /// permission.
    pub fn decide(&self, call: &PendingCall) -> Decision {
        let own = self.decide_alone(call);
        let Some(ceiling) = &self.ceiling else { return own };
        let held = ceiling.decide(call);
        if held.strictness() <= own.strictness() {
            return own;
        }
        Decision { rule: held.rule.map(|rule| format!("ceiling.{rule}")), ..held }
    }

    fn decide_alone(&self, call: &PendingCall) -> Decision {
        let runs = match &call.command {
            _ if call.lost_command => Err(Unreadable),
            Some(command) => runs::runs(command),
            None => Ok(Runs::default()),
        };
        // The command may run something that a rule is about.
        let may_apply = |name: &str, rules: &[Rule], ruling| {
            let at = rules.iter().position(|rule| rule.command.is_some() && rule.is_of(call, false))?;
            let rule = format!("{name}[{at}]");
            let reason = format!("it cannot be known in advance what the command runs: {rule} may apply to it");
            Some(Decision { ruling, rule: Some(rule), reason: Some(reason) })
        };
        let others: Vec<_> = call.commands_within.iter().filter_map(|text| runs::runs(text).ok()).collect();
        let held = [("deny", &self.deny, Ruling::Deny), ("ask", &self.ask, Ruling::Ask)];
        for (name, rules, ruling) in held {
            let holds =
                |rule: &Rule| rule.is_of(call, false) && rule.holds_path(call) && rule.holds_command(call, &runs, &others);
            if let Some((at, rule)) = rules.iter().enumerate().find(|(_, rule)| holds(rule)) {
                return Decision { ruling, rule: Some(format!("{name}[{at}]")), reason: rule.reason.clone() };
            }
            // What is hidden may be what is denied.
            if runs.as_ref().is_ok_and(|runs| runs.hidden)
                && let Some(decision) = may_apply(name, rules, ruling)
            {
                return decision;
            }
        }
        if runs.as_ref().is_ok_and(|runs| runs.unknown)
            && let Some(decision) = held.iter().find_map(|(name, rules, _)| may_apply(name, rules, Ruling::Ask))
        {
            return decision;
        }
        self.allows(call, runs.is_ok())
    }

    /// Decides whether a call is allowed. If not, it needs permission.
    fn allows(&self, call: &PendingCall, is_readable: bool) -> Decision {
        let open = |reason: Option<&str>| Decision { ruling: Ruling::Ask, rule: None, reason: reason.map(str::to_owned) };
        if !is_readable {
            return open(Some("the command cannot be read"));
        }
        let fitting = || self.allow.iter().enumerate().filter(|(_, rule)| rule.is_of(call, true) && rule.allows_path(call));
        if let Some((at, rule)) = fitting().find(|(_, rule)| rule.command.is_none()) {
            return Decision { ruling: Ruling::Allow, rule: Some(format!("allow[{at}]")), reason: rule.reason.clone() };
        }
        let Some(command) = call.command.as_ref().filter(|_| call.commands_within.is_empty()) else { return open(None) };
        let rules = fitting().filter_map(|(at, rule)| Some((at, rule.command.as_ref()?))).collect();
        let covering = Covering { rules, at_home: call.cwd.is_some() && call.cwd == call.home };
        let covered = if tools::is_powershell(&call.tool) { covering.cover_words(command) } else { covering.cover(command) };
        let Some(used) = covered else { return open(None) };
        let names: Vec<_> = used.iter().map(|at| format!("allow[{at}]")).collect();
        let reason = used.first().and_then(|at| self.allow.get(*at)?.reason.clone());
        Decision { ruling: Ruling::Allow, rule: Some(names.join(", ")), reason }
    }

    /// Replaces `~/` in paths with this folder.
    #[must_use]
    pub fn with_home(mut self, home: &str) -> Self {
        for rule in self.allow.iter_mut().chain(&mut self.deny).chain(&mut self.ask) {
            if let Some(patterns) = &mut rule.path {
                patterns.change(|pattern| Some(format!("{}{}", home.trim_end_matches('/'), pattern.strip_prefix('~')?)));
            }
        }
        self.ceiling = self.ceiling.map(|ceiling| Box::new(ceiling.with_home(home)));
        self
    }

    /// Applies deny and ask rules for the path of a link also to its target. Allow rules are not extended, because the
    /// agent may have made the link.
    #[must_use]
    pub fn behind_links(self, cwd: Option<&str>, real: impl Fn(&str) -> String) -> Self {
        self.with_targets(cwd, &real)
    }

    fn with_targets(mut self, cwd: Option<&str>, real: &dyn Fn(&str) -> String) -> Self {
        for rule in self.deny.iter_mut().chain(&mut self.ask) {
            if let Some(patterns) = &mut rule.path {
                patterns.extend_with(|pattern| path::behind_links(pattern, cwd, real));
            }
        }
        self.ceiling = self.ceiling.map(|ceiling| Box::new(ceiling.with_targets(cwd, real)));
        self
    }
}

impl Rule {
    /// Returns whether the rule applies to this tool. A deny or ask rule about commands applies to every tool that runs
    /// one.
    fn is_of(&self, call: &PendingCall, allows: bool) -> bool {
        let runs_one = call.command.is_some() || call.lost_command || !call.commands_within.is_empty();
        tools::names(&call.tool).any(|name| self.tool.match_any(name))
            || (!allows && runs_one && self.command.is_some() && tools::of_commands().any(|name| self.tool.match_any(name)))
    }

    /// Returns whether the rule matches any part of a command, including what it runs in turn.
    fn holds_command(&self, call: &PendingCall, runs: &Result<Runs, Unreadable>, others: &[Runs]) -> bool {
        let Some(patterns) = &self.command else { return true };
        // A pattern for a command with arguments also matches the command without any.
        let is_for = |text: &str| patterns.match_any(text) || patterns.match_any(&format!("{text} "));
        let finds = |runs: &Runs| {
            runs.written.iter().any(|text| is_for(text))
                || runs.commands.iter().any(|words| names(words).iter().any(|name| is_for(&with_name(name, words))))
                || patterns.iter().any(|pattern| runs.may_run(pattern))
        };
        if others.iter().any(finds) {
            return true;
        }
        // A command that cannot be read may be what is denied. For a tool that the rule does not name, it may not be a
        // shell command at all.
        let Ok(runs) = runs else { return tools::names(&call.tool).any(|name| self.tool.match_any(name)) };
        call.command.as_ref().is_some_and(|command| is_for(command.trim()) || finds(runs))
    }

    /// Returns whether the rule matches any path of the call.
    fn holds_path(&self, call: &PendingCall) -> bool {
        let Some(patterns) = &self.path else { return true };
        let fits = |path: &String| patterns.iter().any(|pattern| path::matches(pattern, path, call.home.as_deref()));
        call.lost_path || call.paths.iter().chain(&call.aliases).any(fits)
    }

    /// Returns whether the rule allows every path of the call. A file that runs code by itself is allowed only if the
    /// rule names it.
    fn allows_path(&self, call: &PendingCall) -> bool {
        let Some(patterns) = &self.path else {
            let unnamed = |path: &String| unasked::is_unnamed(path, "", call.home.as_deref());
            return tools::only_reads(&call.tool) || !call.paths.iter().any(unnamed);
        };
        // A command can access any path, so a rule with only a path allows none.
        if self.command.is_none() && (call.command.is_some() || call.lost_command || !call.commands_within.is_empty()) {
            return false;
        }
        let home = call.home.as_deref();
        let named = |pattern: &str, path: &str| tools::only_reads(&call.tool) || !unasked::is_unnamed(path, pattern, home);
        let fits = |path: &String| patterns.iter().any(|pattern| path::matches(pattern, path, home) && named(pattern, path));
        !call.lost_path && !call.paths.is_empty() && call.paths.iter().all(fits)
    }
}

/// Returns the names that a command may have: as written, its file name, and in lower case (as some file systems
/// compare names).
fn names(words: &[String]) -> Vec<String> {
    let Some(name) = words.first() else { return Vec::new() };
    let file = name.rsplit('/').next().unwrap_or_default();
    let file = file.strip_prefix('=').unwrap_or(file);
    let mut names = vec![name.clone(), file.to_owned(), file.to_lowercase()];
    names.dedup();
    names
}

fn with_name(name: &str, words: &[String]) -> String {
    [name].into_iter().chain(words.iter().skip(1).map(String::as_str)).collect::<Vec<_>>().join(" ")
}

/// What the rules would have decided about a call in a finished run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decided {
    /// The line of the call in the stream.
    pub line: u64,
    /// The id of the call.
    pub id: Option<String>,
    /// The tool.
    pub tool: String,
    /// The input that describes the call, on one line.
    pub title: String,
    /// The decision.
    #[serde(flatten)]
    pub decision: Decision,
}

/// Checks rules against a finished run.
#[derive(Clone, Debug)]
pub struct PermissionChecker {
    permissions: Permissions,
    /// Where the agent was started, and where it is now.
    home: Option<String>,
    cwd: Option<String>,
}

impl PermissionChecker {
    /// Creates a checker for one run.
    pub fn new(permissions: Permissions) -> Self {
        Self { permissions, home: None, cwd: None }
    }

    /// Takes the next step. If it is a call, returns the decision.
    pub fn accept(&mut self, step: &Step) -> Option<Decided> {
        if let What::Session(info) = &step.what {
            self.cwd.clone_from(&info.setup.cwd);
            self.home = self.home.take().or_else(|| self.cwd.clone());
        }
        let What::Call(call) = &step.what else { return None };
        let asked = PendingCall::of(&call.name, call.input.as_ref(), self.cwd.as_deref()).at_home(self.home.as_deref());
        let decision = self.permissions.decide(&asked);
        // The agent's shell stays in the folder that a command has changed to. The stream does not say which that is.
        if asked.tool == "Bash" && asked.command.as_deref().is_some_and(|command| runs::leaves(command, self.cwd.as_deref())) {
            self.cwd = None;
        }
        Some(Decided { line: step.line, id: call.id.clone(), tool: call.name.clone(), title: call.title.clone(), decision })
    }
}
