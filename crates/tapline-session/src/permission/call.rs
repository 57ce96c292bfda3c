//! A call that is asked about: the tool, and what of its input rules look at.

use std::borrow::Cow;

use tapline_protocol::{Json, Kind, Value};

use super::path::resolve;
use super::tools;

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
    /// Where the agent is now: a command is run there.
    pub cwd: Option<String>,
}

/// Where a call's input has its path, and its command.
const PATHS: &[&str] = &["file_path", "notebook_path", "path"];
const COMMANDS: &[&str] = &["command", "cmd"];
/// Tools whose paths are where they are looked for.
const KNOWN: &[&str] = &[
    "Bash",
    "Monitor",
    "PowerShell",
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
            cwd: cwd.map(str::to_owned),
        }
    }

    /// It does not say what it would run, or which file it is about: a rule for its tool alone would allow everything.
    pub(super) fn is_bare(&self) -> bool {
        let names_none = tools::names_files(&self.tool) && self.paths.is_empty();
        self.command.is_none() && (tools::runs_commands(&self.tool) || names_none)
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
