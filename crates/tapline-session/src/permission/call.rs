//! A call that needs a decision: the tool, and the parts of its input that rules look at.

use std::borrow::Cow;

use tapline_protocol::{Json, Kind, Value};

use super::path::resolve;
use super::tools;

/// A call that needs a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingCall {
    /// The tool.
    pub tool: String,
    /// The command that it would run.
    pub command: Option<String>,
    /// The paths that it would access, resolved: absolute, and without `.`, `..` or links, as far as the caller knows.
    pub paths: Vec<String>,
    /// The same paths as written, but absolute. They may contain `..`.
    pub written: Vec<String>,
    /// Other names of these paths, through links. A deny rule for one of them applies.
    pub aliases: Vec<String>,
    /// Other commands in its input: at any depth, in lists, and in JSON that is written as text.
    pub commands_within: Vec<String>,
    /// Whether it names a path that cannot be resolved.
    pub lost_path: bool,
    /// Whether its command is not a text, or there is more than one.
    pub lost_command: bool,
    /// The folder that paths in rules are relative to: where the agent was started, wherever it is now.
    pub home: Option<String>,
    /// The agent's current folder, in which a command runs.
    pub cwd: Option<String>,
}

/// The keys of paths and commands in a call's input.
const PATHS: &[&str] = &["file_path", "notebook_path", "path"];
const COMMANDS: &[&str] = &["command", "cmd"];
/// Keys of commands in the input of other tools, in lower case and without `_` and `-`.
const COMMANDS_OF_OTHERS: &str = "command commands cmd cmds commandline cmdline shellcommand bashcommand bash shell script scripts exec \
    execute run runs runcommand program executable argv input stdin line lines steps";
/// Keys of the arguments of a command beside them.
const ARGUMENTS: &str = "args arguments argv params parameters";
/// Tools whose paths are all at those keys.
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

/// How deep a path may be nested in the input.
const DEEPEST: usize = 32;
/// The most commands in one input that are looked at.
const MOST: usize = 1024;
/// The longest path that any system accepts.
const LONGEST: usize = 4096;

/// The texts in the input of an unknown tool.
#[derive(Default)]
struct Texts {
    /// Texts that look like a path. `None` for one that cannot be determined.
    paths: Vec<Option<String>>,
    /// Single words, which may be files.
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
                // A command is checked as a command.
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
                // Any other notation cannot be read here.
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

/// Collects the commands in the input of a tool that is not known.
fn commands_within(value: Value<'_>, is_command: bool, depth: usize, found: &mut Vec<String>) {
    if depth == DEEPEST || found.len() == MOST {
        return;
    }
    if let Some(text) = value.as_str() {
        // JSON may be written as text.
        if text.trim_start().starts_with(['{', '['])
            && let Ok(json) = Json::parse(&text)
        {
            json.with(|value| commands_within(value, is_command, depth + 1, found));
        }
        if is_command {
            found.push(text.into_owned());
        }
    } else if let Some(items) = value.items() {
        let items: Vec<_> = items.collect();
        found.extend(words_of(value).filter(|_| is_command && items.len() > 1));
        for item in items {
            commands_within(item, is_command, depth + 1, found);
        }
    }
    let entries: Vec<_> = value.entries().into_iter().flatten().collect();
    let is = |key: &str, known: &str| known.split(' ').any(|known| known == key.to_lowercase().replace(['_', '-'], ""));
    // `{"command": "rm", "args": ["x"]}`
    let args: Vec<_> = entries.iter().filter(|(key, _)| is(key, ARGUMENTS)).filter_map(|(_, value)| words_of(*value)).collect();
    for (key, value) in entries {
        let is_command = is_command || is(&key, COMMANDS_OF_OTHERS);
        if is_command && let Some(name) = value.as_str() {
            found.extend(args.iter().map(|args| format!("{name} {args}")));
        }
        commands_within(value, is_command, depth + 1, found);
    }
}

/// Returns the words of a list of texts, or the text itself.
fn words_of(value: Value<'_>) -> Option<String> {
    let words = value.items().map(|items| items.filter_map(|item| Some(item.as_str()?.into_owned())).collect::<Vec<_>>());
    words.map(|words| words.join(" ")).or_else(|| Some(value.as_str()?.into_owned()))
}

/// Returns whether this is `~`, `~/x` or `~name`.
fn is_a_home(text: &str) -> bool {
    let name = text.strip_prefix('~').map(|rest| rest.split('/').next().unwrap_or_default());
    name.is_some_and(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)))
}

/// Tools that use the current folder if none is given.
const AT_HOME: &[&str] = &["Glob", "Grep", "LS"];

impl PendingCall {
    /// Reads a call's input. Paths are resolved by their text; a caller that can see the files resolves links, too.
    pub fn of(tool: &str, input: Option<&Json>, cwd: Option<&str>) -> Self {
        // Collect all of them: a tool may use another than the first.
        let read = |keys: &[&str]| {
            let all = |value: Value<'_>| {
                let given = keys.iter().filter_map(|key| value.get(key)).filter(|value| value.kind() != Kind::Null);
                given.map(|value| value.as_str().map(Cow::into_owned)).collect::<Vec<_>>()
            };
            input.and_then(|input| input.with(all)).unwrap_or_default()
        };
        let mut written = read(PATHS);
        // For an unknown tool, everything that looks like a path may be one, and any word may be a file that is denied.
        let (mut words, mut within) = (Vec::new(), Vec::new());
        if !KNOWN.contains(&tool) {
            let mut texts = Texts::default();
            input.and_then(|input| input.with(|value| texts.read(value, 0)));
            input.and_then(|input| input.with(|value| commands_within(value, false, 0, &mut within)));
            written.extend(texts.paths);
            words = texts.words;
        }
        let looked_for = match tool {
            "Glob" => read(&["pattern"]),
            "Grep" => read(&["glob"]),
            _ => Vec::new(),
        };
        // The pattern itself may say where to search. If not, it is the current folder.
        if written.is_empty()
            && AT_HOME.contains(&tool)
            && !(tool == "Glob" && looked_for.iter().flatten().any(|text| text.contains('/')))
        {
            written.extend(cwd.map(|cwd| Some(cwd.to_owned())));
        }
        let mut resolved: Vec<_> = written.iter().map(|path| resolve(path.as_deref()?, cwd)).collect();
        // The pattern may lead elsewhere: `/etc/**`, `../*`. If `..` comes after a `*`, the place is unknown.
        if let Some(Some(pattern)) = looked_for.first() {
            let fixed = pattern.split(['*', '?', '[', '{']).next().unwrap_or_default();
            let from = resolved.first().cloned().flatten();
            let lost = pattern[fixed.len()..].contains("..");
            resolved.push(if lost { None } else { resolve(fixed, from.as_deref().or(cwd)) });
        }
        let commands = read(COMMANDS);
        // Its command itself is not another one.
        if let [Some(command)] = &commands[..] {
            within.retain(|text| text != command);
        }
        let whole = |path: &String| if path.starts_with('/') { Some(path.clone()) } else { Some(format!("{}/{path}", cwd?)) };
        Self {
            tool: tool.to_owned(),
            lost_path: resolved.iter().any(Option::is_none),
            // If there are two commands, it is unknown which one would run.
            lost_command: commands.len() > 1 || commands.iter().any(Option::is_none),
            command: commands.into_iter().flatten().next(),
            commands_within: within,
            paths: resolved.into_iter().flatten().collect(),
            written: written.iter().flatten().filter_map(whole).collect(),
            aliases: words.iter().filter_map(|word| resolve(word, cwd)).collect(),
            home: cwd.map(str::to_owned),
            cwd: cwd.map(str::to_owned),
        }
    }

    /// Returns whether the call names neither its command nor its file, so that a rule for its tool would allow
    /// everything.
    pub(super) fn is_bare(&self) -> bool {
        let names_none = tools::names_files(&self.tool) && self.paths.is_empty();
        self.command.is_none() && (tools::runs_commands(&self.tool) || names_none)
    }

    /// Resolves the paths of rules relative to this folder.
    #[must_use]
    pub fn at_home(mut self, home: Option<&str>) -> Self {
        self.home = home.map(str::to_owned).or(self.home);
        self
    }

    /// Replaces paths with their real ones behind all links, for a caller that can see the files. The text alone is not
    /// enough: `link/..` is elsewhere.
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
