//! Permission rules: what an agent may do unasked, what never, and what only if somebody says so. Read from TOML;
//! docs/PERMISSIONS.md describes them.

mod command;
mod path;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tapline_protocol::{Json, Kind, Value};

use crate::policy::Patterns;
use crate::step::{Step, What};
pub use path::resolve;

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
        toml::from_str(text).map_err(|error| WrongRules(error.to_string()))
    }
}

/// Why rules could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongRules(String);

impl std::fmt::Display for WrongRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.trim_end())
    }
}

impl std::error::Error for WrongRules {}

/// Which calls a rule is for. All that is given must hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The tool; `*` stands for any characters.
    #[serde(deserialize_with = "some")]
    pub tool: Patterns,
    /// The command, for tools that run one.
    #[serde(default, deserialize_with = "some_if_any")]
    pub command: Option<Patterns>,
    /// The file or folder, for tools that have one: `*` stops at a slash, `**` does not; `~/` is the home of whoever runs the agent.
    #[serde(default, deserialize_with = "some_paths")]
    pub path: Option<Patterns>,
    /// Why; the agent is told, if it is denied.
    pub reason: Option<String>,
}

/// Patterns, at least one: a rule for nothing is a mistake.
fn some<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Patterns, D::Error> {
    let patterns = Patterns::deserialize(deserializer)?;
    let nothing = patterns.is_empty() || patterns.iter().any(str::is_empty);
    if nothing { Err(serde::de::Error::custom("an empty list, or an empty pattern, is for nothing")) } else { Ok(patterns) }
}

fn some_if_any<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Patterns>, D::Error> {
    some(deserializer).map(Some)
}

fn some_paths<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Patterns>, D::Error> {
    let patterns = some(deserializer)?;
    let of_another = |pattern: &str| pattern.starts_with('~') && pattern != "~" && !pattern.starts_with("~/");
    let unknown = patterns.iter().find(|pattern| of_another(pattern)).map(str::to_owned);
    match unknown {
        Some(pattern) => {
            Err(serde::de::Error::custom(format!("whose home `{pattern}` is in is not known: write the whole path")))
        }
        None => Ok(Some(patterns)),
    }
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

/// A call that is asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// The command that it would run.
    pub command: Option<String>,
    /// The paths that it would touch, resolved: absolute, without `.`, `..` or links, as far as the caller knows.
    pub paths: Vec<String>,
    /// The same as they were written, absolute, with `..` and all.
    pub written: Vec<String>,
    /// Other names of these paths, by links: what is denied under one of them is denied.
    pub aliases: Vec<String>,
    /// It names a path that cannot be resolved.
    pub lost_path: bool,
    /// It has a command that is no text, or more than one.
    pub lost_command: bool,
    /// The folder that the paths of rules are resolved from: where the agent was started, wherever it has gone since.
    pub home: Option<String>,
}

/// Where a call's input has its path, and its command.
const PATHS: &[&str] = &["file_path", "notebook_path", "path"];
const COMMANDS: &[&str] = &["command", "cmd"];
/// Tools whose paths are where they are looked for.
const KNOWN: &[&str] = &[
    "Bash",
    "Read",
    "Write",
    "Edit",
    "MultiEdit",
    "NotebookEdit",
    "NotebookRead",
    "Glob",
    "Grep",
    "LS",
    "WebFetch",
    "WebSearch",
    "Agent",
    "Task",
];

/// Nobody nests a path deeper.
const DEEPEST: usize = 32;
/// No system takes a longer one.
const LONGEST: usize = 4096;

/// The texts of a tool that nobody here knows.
#[derive(Default)]
struct Texts {
    /// Those that look like a path; none for one that cannot be told.
    paths: Vec<Option<String>>,
    /// Those of one word: a file, perhaps.
    words: Vec<String>,
}

impl Texts {
    fn read(&mut self, value: Value<'_>, depth: usize) {
        if let Some(text) = value.as_str() {
            self.text(&text);
        } else if depth == DEEPEST && (value.items().is_some() || value.entries().is_some()) {
            self.paths.push(None);
        } else {
            value.items().into_iter().flatten().for_each(|item| self.read(item, depth + 1));
            for (key, value) in value.entries().into_iter().flatten() {
                // A command is looked at as one.
                if depth > 0 || !COMMANDS.contains(&&*key) {
                    self.text(&key);
                    self.read(value, depth + 1);
                }
            }
        }
    }

    fn text(&mut self, text: &str) {
        let text = text.trim();
        if text.contains('\n') {
            return;
        }
        let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        let is_scheme =
            |scheme: &str| !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        match scheme.filter(|scheme| is_scheme(scheme)) {
            Some(scheme) if scheme == "file" => {
                let path = text[5..].strip_prefix("//").map_or(&text[5..], |path| path.trim_start_matches("localhost"));
                // What is written in another way, nobody here reads.
                self.paths.push((!path.contains('%') && path.starts_with('/')).then(|| path.to_owned()));
            }
            Some(scheme) if text[scheme.len() + 1..].starts_with("//") => {}
            _ if text.len() > LONGEST => self.paths.extend(text.contains('/').then_some(None)),
            _ if text.contains('/') || text == "." || text == ".." || is_a_home(text) => self.paths.push(Some(text.to_owned())),
            _ if !text.is_empty() && !text.contains(char::is_whitespace) => self.words.push(text.to_owned()),
            _ => {}
        }
    }
}

/// `~`, `~/x`, `~name`.
fn is_a_home(text: &str) -> bool {
    let name = text.strip_prefix('~').map(|rest| rest.split('/').next().unwrap_or_default());
    name.is_some_and(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)))
}

/// Tools that look at the folder they are in where they name none.
const AT_HOME: &[&str] = &["Glob", "Grep", "LS"];

impl Call {
    /// What a call's input says. Paths are resolved by their words alone; who can see the files resolves links, too.
    pub fn of(tool: &str, input: Option<&Json>, cwd: Option<&str>) -> Self {
        // Every one of them: a tool may go by another than the first.
        let read = |keys: &[&str]| {
            let all = |value: Value<'_>| {
                let given = keys.iter().filter_map(|key| value.get(key)).filter(|value| value.kind() != Kind::Null);
                given.map(|value| value.as_str().map(Cow::into_owned)).collect::<Vec<_>>()
            };
            input.and_then(|input| input.with(all)).unwrap_or_default()
        };
        let mut written = read(PATHS);
        // Of a tool that nobody here knows, whatever looks like a path may be one; and any word may be what is denied.
        let mut words = Vec::new();
        if !KNOWN.contains(&tool) {
            let mut texts = Texts::default();
            input.and_then(|input| input.with(|value| texts.read(value, 0)));
            written.extend(texts.paths);
            words = texts.words;
        }
        let looked_for = match tool {
            "Glob" => read(&["pattern"]),
            "Grep" => read(&["glob"]),
            _ => Vec::new(),
        };
        // What is looked for says where, unless a folder is named.
        if written.is_empty()
            && AT_HOME.contains(&tool)
            && !(tool == "Glob" && looked_for.iter().flatten().any(|text| text.contains('/')))
        {
            written.extend(cwd.map(|cwd| Some(cwd.to_owned())));
        }
        let mut resolved: Vec<_> = written.iter().map(|path| resolve(path.as_deref()?, cwd)).collect();
        // What is looked for may lead elsewhere: `/etc/**`, `../*`; where it goes up behind a `*`, nobody knows where.
        if let Some(Some(pattern)) = looked_for.first() {
            let fixed = pattern.split(['*', '?', '[', '{']).next().unwrap_or_default();
            let from = resolved.first().cloned().flatten();
            let lost = pattern[fixed.len()..].contains("..");
            resolved.push(if lost { None } else { resolve(fixed, from.as_deref().or(cwd)) });
        }
        let commands = read(COMMANDS);
        let whole = |path: &String| if path.starts_with('/') { Some(path.clone()) } else { Some(format!("{}/{path}", cwd?)) };
        Self {
            tool: tool.to_owned(),
            lost_path: resolved.iter().any(Option::is_none),
            // Which of two would run, nobody knows.
            lost_command: commands.len() > 1 || commands.iter().any(Option::is_none),
            command: commands.into_iter().flatten().next(),
            paths: resolved.into_iter().flatten().collect(),
            written: written.iter().flatten().filter_map(whole).collect(),
            aliases: words.iter().filter_map(|word| resolve(word, cwd)).collect(),
            home: cwd.map(str::to_owned),
        }
    }

    /// The same with the paths of rules resolved from here.
    #[must_use]
    pub fn at_home(mut self, home: Option<&str>) -> Self {
        self.home = home.map(str::to_owned).or(self.home);
        self
    }

    /// The same with its paths as they are behind all links, by who can see the files: behind `link/..` is not where the words
    /// lead.
    #[must_use]
    pub fn behind_links(mut self, real: impl Fn(&str) -> String) -> Self {
        let mut behind: Vec<_> = self.paths.iter().chain(&self.written).map(|path| real(path)).collect();
        behind.sort();
        behind.dedup();
        self.aliases.append(&mut self.paths);
        self.paths = behind;
        self
    }
}

impl Permissions {
    /// What is decided of a call: deny wins over ask, ask over allow; what no rule is for is asked about.
    pub fn decide(&self, call: &Call) -> Decision {
        let lists =
            [("deny", &self.deny, Ruling::Deny), ("ask", &self.ask, Ruling::Ask), ("allow", &self.allow, Ruling::Allow)];
        for (name, rules, ruling) in lists {
            if let Some((at, rule)) = rules.iter().enumerate().find(|(_, rule)| rule.is_for(call, ruling)) {
                return Decision { ruling, rule: Some(format!("{name}[{at}]")), reason: rule.reason.clone() };
            }
        }
        Decision { ruling: Ruling::Ask, rule: None, reason: None }
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
    fn is_for(&self, call: &Call, ruling: Ruling) -> bool {
        let allows = ruling == Ruling::Allow;
        self.tool.match_any(&call.tool) && self.fits_command(call, allows) && self.fits_path(call, allows)
    }

    /// What is allowed is one plain command; what is denied or asked about is found in any part of a longer one.
    fn fits_command(&self, call: &Call, allows: bool) -> bool {
        let Some(patterns) = &self.command else { return true };
        // What cannot be read is not allowed, and may be what is denied.
        if call.lost_command {
            return !allows;
        }
        let Some(command) = &call.command else { return false };
        let inner = command::unwrapped(command);
        if allows {
            return command::is_plain(inner) && patterns.match_any(inner.trim());
        }
        // The shell that runs it may be what is meant, or what it runs.
        let whole = [command.trim(), inner.trim()];
        whole.iter().any(|whole| patterns.match_any(whole))
            || command::parts(command).iter().any(|part| patterns.match_any(part))
    }

    /// What is allowed is allowed for every path; what is denied or asked about, for any.
    fn fits_path(&self, call: &Call, allows: bool) -> bool {
        let Some(patterns) = &self.path else { return true };
        // A command may go anywhere: a path alone allows none.
        if allows && self.command.is_none() && (call.command.is_some() || call.lost_command) {
            return false;
        }
        let fits = |path: &String| patterns.iter().any(|pattern| path::matches(pattern, path, call.home.as_deref()));
        if allows {
            !call.lost_path && !call.paths.is_empty() && call.paths.iter().all(fits)
        } else {
            call.lost_path || call.paths.iter().chain(&call.aliases).any(fits)
        }
    }
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
        Some(Decided { line: step.line, id: call.id.clone(), tool: call.name.clone(), title: call.title.clone(), decision })
    }
}
