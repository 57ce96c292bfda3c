//! Finds what a command may run: every simple command in it, and what those run in turn. It follows what a shell would
//! do as far as the text shows (variables, functions, aliases, text passed to shells), and rather finds too much: it is
//! used to deny or ask, never to allow.

mod expand;
mod options;
mod output;
mod wrappers;

use std::collections::HashMap;
use std::rc::Rc;

use super::shell::{self, Node, Piece, Redirect, Script, Simple, Unreadable, Word};
use expand::{SPLIT, UNKNOWN, is_pattern, unmarked};
pub(super) use expand::{could_be, literal_name};
pub(super) use options::{by_option, runs_by_option};
pub(super) use wrappers::{Inner, SHELLS, inner, runs_others};

/// The most steps that are followed.
const STEPS: usize = 50_000;
/// The deepest nesting of shells, functions and brackets together. A recursive walk needs a limit.
const NESTED: usize = 160;
/// How many values of a variable are distinguished.
const VALUES: usize = 6;

/// What a command may run.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// The words of each command, without quotes. The first one may contain pattern marks (see `could_be`).
    pub(super) commands: Vec<Vec<String>>,
    /// The commands as they are written.
    pub(super) written: Vec<String>,
    /// Whether some of what it runs cannot be known from the text: `$CMD x`, `curl … | sh`.
    pub(super) unknown: bool,
    /// What programs run through an option.
    pub(super) by_option: Vec<ByOption>,
}

/// A program with its words, and what it runs because of an option or word of its own: `git bisect run ls`.
#[derive(Debug)]
pub(super) struct ByOption {
    /// Shared, because one program may have thousands of them.
    pub(super) words: Rc<Vec<String>>,
    pub(super) inner: Inner,
}

/// Reads a command and follows it.
pub(super) fn runs(text: &str) -> Result<Runs, Unreadable> {
    let mut walk = Walk::default();
    walk.text(text)?;
    // A shell joins continued lines before it reads them, even inside `$(`.
    let joined = joined_lines(text);
    if joined != text {
        walk.text(&joined)?;
    }
    let unknown = walk.found.unknown;
    if let Some(script) = in_dash(&joined) {
        walk.script(&script, &Input::Inherited)?;
    }
    walk.found.unknown = unknown;
    Ok(walk.found)
}

/// Returns whether a shell may be in another folder after a command.
pub(super) fn leaves(text: &str, cwd: Option<&str>) -> bool {
    let goes = |words: &Vec<String>| match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["cd", folder] => cwd.is_none() || super::resolve(folder, cwd).as_deref() != cwd,
        ["cd" | "chdir" | "pushd" | "popd", ..] => true,
        _ => false,
    };
    runs(text).map_or(true, |runs| runs.unknown || runs.commands.iter().any(goes))
}

/// Reads a command as dash does, if bash reads it differently. In dash, `ls &>f rm x` is `ls & >f rm x`, `[[` and `((` start
/// commands, which a line end finishes, and `$'a\'` ends there.
fn in_dash(text: &str) -> Option<Script> {
    let other = text.replace("&>", "& >").replace("((", "( (").replace("$( (", "$((").replace("[[", "[").replace("$'", "'");
    if other == text { None } else { shell::read(&other).ok() }
}

fn joined_lines(text: &str) -> String {
    let mut joined = String::new();
    let mut escaped = false;
    for c in text.chars() {
        if escaped && c == '\n' {
            joined.pop();
        } else {
            joined.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    joined
}

/// The standard input of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Input {
    Inherited,
    Known(String),
    Unknown,
}

/// The values that a variable may have. Each is a list, as in an array.
type Values = Vec<Vec<String>>;

#[derive(Default)]
struct Walk {
    found: Runs,
    variables: HashMap<String, Values>,
    functions: HashMap<String, Rc<Node>>,
    aliases: HashMap<String, String>,
    /// Names that refer to others, from `declare -n`.
    references: HashMap<String, String>,
    /// The output of each `<(…)`, if it is known.
    processes: Vec<Option<String>>,
    steps: usize,
    depth: usize,
    /// Whether this is a function that has not been called, so its parameters are unknown.
    uncalled: bool,
}

impl Walk {
    fn text(&mut self, text: &str) -> Result<(), Unreadable> {
        let script = shell::read(text)?;
        self.script(&script, &Input::Inherited)?;
        Ok(())
    }

    /// Follows commands, and returns what they write, if it is known.
    fn script(&mut self, script: &Script, input: &Input) -> Result<Option<String>, Unreadable> {
        let mut written = Some(String::new());
        for node in &script.nodes {
            let output = self.node(node, input)?;
            written = written.zip(output).map(|(one, other)| one + &other);
        }
        Ok(written)
    }

    fn node(&mut self, node: &Node, input: &Input) -> Result<Option<String>, Unreadable> {
        if self.depth >= NESTED {
            return Err(Unreadable);
        }
        self.depth += 1;
        let output = self.follow(node, input);
        self.depth -= 1;
        output
    }

    fn follow(&mut self, node: &Node, input: &Input) -> Result<Option<String>, Unreadable> {
        match node {
            Node::Simple(simple) => self.simple(simple, input),
            Node::Pipe(stages) => {
                let mut input = input.clone();
                for stage in stages {
                    input = self.node(stage, &input)?.map_or(Input::Unknown, Input::Known);
                }
                Ok(match input {
                    Input::Known(text) => Some(text),
                    Input::Inherited | Input::Unknown => None,
                })
            }
            Node::Group { body, words, names, redirects, again } => {
                for word in words {
                    self.expanded_again(word)?;
                }
                if let Some((name, values)) = names {
                    for value in values {
                        for fields in self.fields(value)? {
                            for field in fields {
                                self.set(name, vec![unmarked(&field)]);
                            }
                        }
                    }
                }
                let input = self.redirected(redirects, input)?;
                let mut written = Some(String::new());
                // A variable that is set in a loop is set when the loop runs again.
                for _ in 0..=usize::from(*again) {
                    for script in body {
                        let output = self.script(script, &input)?;
                        written = written.zip(output).map(|(one, other)| one + &other);
                    }
                }
                Ok(written.filter(|_| !again))
            }
            Node::Function { name, body } => {
                self.functions.insert(name.clone(), Rc::new((**body).clone()));
                let before = std::mem::replace(&mut self.uncalled, true);
                self.step(0)?;
                self.node(body, &Input::Inherited)?;
                self.uncalled = before;
                Ok(Some(String::new()))
            }
        }
    }

    fn step(&mut self, bytes: usize) -> Result<(), Unreadable> {
        self.steps += 1 + bytes / 16;
        if self.steps > STEPS { Err(Unreadable) } else { Ok(()) }
    }

    fn simple(&mut self, simple: &Simple, input: &Input) -> Result<Option<String>, Unreadable> {
        for assign in &simple.assigns {
            if let Some(index) = &assign.index {
                self.expanded_again(index)?;
            }
            let mut list = Vec::new();
            for value in &assign.values {
                let texts = self.texts(value)?;
                for text in &texts {
                    self.expanded_text(&unmarked(text))?;
                }
                // `([1]=x)`
                let value = |text: &String| {
                    let text = unmarked(text);
                    text.strip_prefix('[').and_then(|text| Some(text.split_once("]=")?.1.to_owned())).unwrap_or(text)
                };
                if assign.values.len() == 1 {
                    for text in &texts {
                        self.set(&assign.name, vec![value(text)]);
                    }
                } else {
                    list.extend(texts.first().map(value));
                }
            }
            if assign.values.len() != 1 {
                self.set(&assign.name, list);
            }
            if RUN_BY_NAME.contains(&&*assign.name)
                && let Some(text) = self.variables.get(&assign.name).and_then(|values| values.last()?.first().cloned())
            {
                self.inner(Inner::Text(text, Vec::new()), &Input::Inherited)?;
            }
        }
        let input = self.redirected(&simple.redirects, input)?;
        let mut all: Values = vec![Vec::new()];
        for word in &simple.words {
            let fields = self.fields(word)?;
            if fields.len() > 1 && all.len() * fields.len() <= 16 {
                // Combine each with each, as long as there are few.
                all = all.iter().flat_map(|one| fields.iter().map(|other| [one.as_slice(), other].concat())).collect();
            } else if !fields.is_empty() {
                all.iter_mut().enumerate().for_each(|(at, one)| one.extend_from_slice(&fields[at % fields.len()]));
            }
        }
        if !simple.words.is_empty() {
            self.found.written.push(simple.words.iter().map(|word| word.raw.as_str()).collect::<Vec<_>>().join(" "));
        }
        let mut written = None;
        for (at, fields) in all.into_iter().enumerate() {
            let output = self.run(&fields, &input)?;
            written = if at == 0 { output } else { None };
        }
        Ok(if simple.words.is_empty() { Some(String::new()) } else { written })
    }

    /// Runs a command, and returns what it writes, if it is known.
    fn run(&mut self, fields: &[String], input: &Input) -> Result<Option<String>, Unreadable> {
        self.step(fields.iter().map(String::len).sum())?;
        let Some(name) = fields.first().cloned() else { return Ok(None) };
        if self.depth >= NESTED {
            return Err(Unreadable);
        }
        let args: Vec<_> = fields[1..].iter().map(|field| unmarked(field)).collect();
        self.found.commands.push([std::slice::from_ref(&name), &args].concat());
        if name.contains(UNKNOWN) {
            let file = name.rsplit('/').next().unwrap_or_default();
            self.found.unknown |= file.contains(UNKNOWN) && !self.uncalled;
            // A variable that is not set is empty.
            let rest = name.replace(UNKNOWN, "");
            let without = [rest].into_iter().filter(|name| !name.is_empty()).chain(args).collect::<Vec<_>>();
            self.depth += 1;
            let output = self.run(&without, input);
            self.depth -= 1;
            return output.map(|_| None);
        }
        // File names may be run or evaluated: `env *`, `test *`.
        let (first, rest) = match &fields[1..] {
            [first, rest @ ..] => (is_pattern(first), rest.iter().any(|field| is_pattern(field))),
            [] => (false, false),
        };
        let of_files = first || rest;
        if of_files && wrappers::runs_names(name.rsplit('/').next().unwrap_or_default(), first) {
            self.found.unknown |= !self.uncalled;
        }
        self.depth += 1;
        let output = self.run_named(&name, &args, input);
        self.depth -= 1;
        output
    }

    fn run_named(&mut self, name: &str, args: &[String], input: &Input) -> Result<Option<String>, Unreadable> {
        let name = unmarked(name);
        let file = name.rsplit('/').next().unwrap_or_default();
        if let Some(value) = self.aliases.get(&name).or_else(|| self.aliases.get(file)).cloned() {
            let value = self.aliases.remove(&name).unwrap_or(value);
            self.inner(Inner::Text([&[value], args].concat().join(" "), Vec::new()), input)?;
        }
        if let Some(body) = self.functions.get(&name).cloned() {
            let parameters = self.variables.insert("@".to_owned(), vec![args.to_vec()]);
            let before = std::mem::replace(&mut self.uncalled, false);
            self.node(&body, input)?;
            self.uncalled = before;
            self.variables.insert("@".to_owned(), parameters.unwrap_or_default());
        }
        self.remember(&name, args, input);
        let file = file.strip_prefix('=').unwrap_or(file);
        for inner in inner(file, args).runs {
            self.inner(inner, input)?;
        }
        let words = Rc::new([std::slice::from_ref(&name), args].concat());
        let options = by_option(file, args).runs.into_iter().map(|inner| ByOption { words: Rc::clone(&words), inner });
        self.found.by_option.extend(options);
        // A guess does not make anything unknown.
        let unknown = self.found.unknown;
        let mut perhaps = by_option(file, args).runs;
        perhaps.extend(options::in_code(file, args));
        if let Input::Known(text) = input {
            perhaps.extend(options::in_input(file, text));
        }
        for inner in perhaps {
            self.inner(inner, input)?;
        }
        self.found.unknown = unknown;
        Ok(output::of(file, args, input))
    }

    /// Follows builtins that change names, and copies of programs.
    fn remember(&mut self, name: &str, args: &[String], input: &Input) {
        let operands = || args.iter().filter(|arg| !arg.starts_with('-'));
        match name.rsplit('/').next().unwrap_or_default() {
            "alias" => {
                for (name, value) in operands().filter_map(|arg| arg.split_once('=')) {
                    self.aliases.insert(name.to_owned(), value.to_owned());
                }
            }
            "hash" => {
                if let [path, names @ ..] = operands().collect::<Vec<_>>().as_slice() {
                    for name in names {
                        self.aliases.insert((*name).clone(), (*path).clone());
                    }
                }
            }
            // A copy of a program is the same program.
            "cp" | "ln" | "mv" | "install" | "link" => {
                if let [from, to] = operands().collect::<Vec<_>>().as_slice() {
                    let file = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
                    if file(from) != file(to) && !file(to).is_empty() {
                        self.aliases.insert(file(to), file(from));
                    }
                }
            }
            "declare" | "typeset" | "local" if args.iter().any(|arg| arg.starts_with('-') && arg.contains('n')) => {
                for (name, other) in operands().filter_map(|arg| arg.split_once('=')) {
                    self.references.insert(name.to_owned(), other.to_owned());
                }
            }
            "set" => {
                let from = args.iter().position(|arg| arg == "--").map(|at| at + 1);
                let from = from.or_else(|| args.iter().position(|arg| !arg.starts_with(['-', '+'])));
                if let Some(from) = from {
                    self.set("@", args[from..].to_vec());
                }
            }
            "shift" => {
                let shifted: Values =
                    self.variables.get("@").into_iter().flatten().filter_map(|list| Some(list.get(1..)?.to_vec())).collect();
                for list in shifted {
                    self.set("@", list);
                }
            }
            "read" | "mapfile" | "readarray" => {
                if let Input::Known(text) = input {
                    let line = text.lines().next().unwrap_or_default();
                    let names: Vec<_> = operands().collect();
                    let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
                    for (at, name) in names.iter().enumerate() {
                        self.set(name, vec![if at + 1 == names.len() { line.to_owned() } else { String::new() }]);
                        self.set(name, words.get(at).cloned().into_iter().collect());
                        self.set(name, words.clone());
                    }
                    self.set("REPLY", vec![line.to_owned()]);
                }
            }
            "printf" => {
                if let [option, name, rest @ ..] = args
                    && option == "-v"
                    && let Some(text) = output::of("printf", rest, input)
                {
                    self.set(name, vec![text]);
                }
            }
            _ => {}
        }
    }

    fn inner(&mut self, inner: Inner, input: &Input) -> Result<(), Unreadable> {
        match inner {
            Inner::Words(words) => drop(self.run(&words, input)?),
            Inner::InputWords(words, replaced) => {
                let more = match input {
                    Input::Known(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
                    Input::Inherited | Input::Unknown => UNKNOWN.to_string(),
                };
                self.step(words.iter().map(|word| word.len().saturating_mul(more.len())).sum())?;
                let words: Vec<_> = match &replaced {
                    Some(mark) => words
                        .iter()
                        .flat_map(|word| word.replace(mark.as_str(), &more).split(SPLIT).map(str::to_owned).collect::<Vec<_>>())
                        .collect(),
                    None => words.into_iter().chain(more.split(' ').map(str::to_owned)).collect(),
                };
                self.run(&words, input)?;
            }
            Inner::Text(text, args) => self.given(&text, args, input)?,
            Inner::Input(file) => {
                // A file that is passed to a shell counts as run by its name.
                self.found.commands.extend(file.clone().map(|file| vec![file]));
                let known = match file.as_deref() {
                    None | Some("/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0" | "-") => match input {
                        Input::Known(text) => Some(text.clone()),
                        Input::Unknown => Some(UNKNOWN.to_string()),
                        Input::Inherited => None,
                    },
                    Some(path) => path.strip_prefix(PROCESS).and_then(|number| {
                        let process = self.processes.get(number.parse::<usize>().ok()?)?;
                        Some(process.clone().unwrap_or_else(|| UNKNOWN.to_string()))
                    }),
                };
                if let Some(text) = known {
                    self.given(&text, Vec::new(), &Input::Inherited)?;
                }
            }
            Inner::Expanded(text) => self.expanded_text(&text)?,
        }
        Ok(())
    }

    /// Follows a text that is passed to a shell.
    fn given(&mut self, text: &str, args: Vec<String>, input: &Input) -> Result<(), Unreadable> {
        self.step(text.len())?;
        if text.trim_matches([UNKNOWN, ' ', '\n', '"']).is_empty() && text.contains(UNKNOWN) {
            self.found.unknown |= !self.uncalled;
            return Ok(());
        }
        // An unknown part acts like an unknown variable.
        let text = text.replace(UNKNOWN, "${_}");
        let Ok(script) = shell::read(&text) else {
            // The text may not be for a shell, or cannot be read here.
            self.found.unknown |= !self.uncalled;
            return Ok(());
        };
        if self.depth >= NESTED {
            return Err(Unreadable);
        }
        self.depth += 1;
        let mut args = args.into_iter();
        let zero = args.next().map(|name| vec![vec![name]]).unwrap_or_default();
        let args: Vec<_> = args.collect();
        let given = !args.is_empty();
        let before = [("0", self.variables.insert("0".to_owned(), zero)), ("@", self.variables.get("@").cloned())];
        if given {
            self.variables.insert("@".to_owned(), vec![args]);
        }
        let mut result = self.script(&script, input);
        if let Some(script) = in_dash(&text).filter(|_| result.is_ok()) {
            let unknown = self.found.unknown;
            result = self.script(&script, input);
            self.found.unknown = unknown;
        }
        for (name, values) in before {
            self.variables.insert(name.to_owned(), values.unwrap_or_default());
        }
        self.depth -= 1;
        result.map(drop)
    }

    fn set(&mut self, name: &str, value: Vec<String>) {
        let values = self.variables.entry(name.to_owned()).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
        // The most recent values are the most likely.
        if values.len() > VALUES {
            values.remove(0);
        }
    }

    /// Follows redirections, and returns the resulting standard input.
    fn redirected(&mut self, redirects: &[Redirect], input: &Input) -> Result<Input, Unreadable> {
        let mut input = input.clone();
        for redirect in redirects {
            let text = self.texts(&redirect.target)?.first().map(|text| unmarked(text)).unwrap_or_default();
            input = match redirect.operator {
                "<<" | "<<-" => {
                    let word = redirect.document.as_ref().and_then(|document| document.get().cloned()).unwrap_or_default();
                    Input::Known(self.texts(&word)?.first().map(|text| unmarked(text)).unwrap_or_default())
                }
                "<<<" => Input::Known(text + "\n"),
                "<" => match text.strip_prefix(PROCESS).and_then(|number| number.parse::<usize>().ok()) {
                    Some(number) => self.processes.get(number).cloned().flatten().map_or(Input::Unknown, Input::Known),
                    None => Input::Inherited,
                },
                _ => input,
            };
        }
        Ok(input)
    }

    /// Follows a word that is expanded and then evaluated: an index, arithmetic, a test.
    fn expanded_again(&mut self, word: &Word) -> Result<(), Unreadable> {
        for text in self.texts(word)? {
            self.expanded_text(&unmarked(&text))?;
        }
        Ok(())
    }

    fn expanded_text(&mut self, text: &str) -> Result<(), Unreadable> {
        if !text.contains("$(") && !text.contains('`') {
            return Ok(());
        }
        self.step(text.len())?;
        if self.depth >= NESTED {
            return Err(Unreadable);
        }
        self.depth += 1;
        // A text that only looks like an expansion does nothing.
        let result = match shell::read_quoted(&text.replace(UNKNOWN, "${_}")) {
            Ok(word) => self.pieces(&word.pieces).map(drop),
            Err(Unreadable) => Ok(()),
        };
        self.depth -= 1;
        result
    }

    fn process(&mut self, script: &Script) -> Result<String, Unreadable> {
        let output = self.script(script, &Input::Inherited)?;
        self.processes.push(output);
        Ok(format!("{PROCESS}{}", self.processes.len() - 1))
    }

    fn pieces(&mut self, pieces: &[Piece]) -> Result<Vec<String>, Unreadable> {
        let texts = expand::pieces(self, pieces)?;
        self.step(texts.iter().map(String::len).sum())?;
        Ok(texts)
    }
}

/// The name that a shell gives to a `<(…)`.
const PROCESS: &str = "/dev/fd/63-";

/// Variables whose text some program runs.
const RUN_BY_NAME: &[&str] = &[
    "PROMPT_COMMAND",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_PAGER",
    "GIT_SSH_COMMAND",
    "GIT_EXTERNAL_DIFF",
    "GIT_ASKPASS",
    "LESSOPEN",
    "MANPAGER",
    "RSYNC_RSH",
    "BROWSER",
];
