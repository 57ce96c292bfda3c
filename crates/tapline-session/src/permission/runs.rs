//! Finds what a command may run: every simple command in it, and what those run in turn. It does not imitate a shell:
//! a name that is not written out, or a text that only exists when the command runs, is not known. This is used to deny
//! or ask, never to allow.

mod mention;
mod programs;
mod sed;
mod table;
mod wrappers;

use super::shell::{self, Node, Piece, RESERVED, Redirect, Script, Simple, Unreadable, Word};
use mention::{mentions, turned};
pub(super) use programs::may_run;
pub(super) use wrappers::{Inner, SHELLS, inner, runs_others};

/// The most steps that are followed.
const STEPS: usize = 50_000;
/// The deepest nesting of shells, functions and brackets together. A recursive walk needs a limit.
const NESTED: usize = 160;
/// Stands for any words: `$x`, `$(…)`. The first may be joined to what is before it.
pub(super) const ANY: char = '\u{fdd0}';
/// Stands for any text in one word that the command itself cannot choose: `"$x"`.
const GIVEN: char = '\u{fdd1}';
/// Stands for any text in one word that the command makes: `"$(…)"`.
const MADE: char = '\u{fdd3}';
/// Stands for a file name pattern or a list in braces.
const GLOB: char = '\u{fdd2}';

/// What a command may run.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// The words of each command, without quotes. Marks stand for what is not written out.
    pub(super) commands: Vec<Vec<String>>,
    /// The commands as they are written.
    pub(super) written: Vec<String>,
    /// Whether some of what it runs cannot be known from the text: `$CMD x`, `… | sh`.
    pub(super) unknown: bool,
    /// Whether a name is written in a way that hides it: `r$x`, `{rm,x}`, `/bin/r?`.
    pub(super) hidden: bool,
    /// Texts that some program may run in its own way: a denied name in them counts.
    perhaps: Vec<String>,
    /// Whether that holds for the whole text.
    perhaps_all: bool,
    text: String,
}

impl Runs {
    /// Returns whether a program may run what a rule's pattern names, in a way that is not followed.
    pub(super) fn may_run(&self, pattern: &str) -> bool {
        let names: Vec<_> = pattern.split('*').next().unwrap_or_default().split_whitespace().collect();
        let in_text = |text: &String| !names.is_empty() && names.iter().all(|name| mentions(text, name));
        // `git $x` may be `git push`, if the text has that word.
        let could_be = |words: &Vec<String>| {
            let fits = |(at, name): (usize, &&str)| words.get(at).is_some_and(|word| word == name);
            let known = names.iter().enumerate().take_while(|pair| fits(*pair)).count();
            let open = known > 0 && words.get(known).is_some_and(|word| word.contains(is_mark));
            open && names[known..].iter().all(|name| mentions(&self.text, name))
        };
        ((self.perhaps_all || self.unknown) && in_text(&self.text))
            || (self.unknown && turned(&self.text).any(|text| in_text(&text)))
            || self.perhaps.iter().any(in_text)
            || self.commands.iter().any(could_be)
    }
}

/// Returns whether a character stands for something that is not written out.
pub(super) fn is_mark(c: char) -> bool {
    RESERVED.contains(&c)
}

/// Returns the text of a word, with marks for what is not written out.
pub(super) fn marked(word: &Word) -> String {
    let list = word.raw.contains(',') || word.raw.contains("..");
    let is_glob = |c: char| "*?".contains(c) || (c == '[' && word.raw.contains(']')) || (c == '{' && list);
    let mut whole = String::new();
    for piece in &word.pieces {
        match piece {
            Piece::Text { text, quoted: true } => whole.push_str(text),
            Piece::Text { text, quoted: false } => {
                whole.extend(text.chars().map(|c| if is_glob(c) { GLOB } else { c }));
            }
            // What is cut out of a variable hides it.
            Piece::Variable { operator, .. } if !matches!(&**operator, "" | "-" | ":-" | "=" | ":=" | "?" | ":?" | "@") => {
                whole.push(GLOB);
            }
            Piece::Variable { quoted, .. } => whole.push(if *quoted { GIVEN } else { ANY }),
            Piece::Output { quoted, .. } => whole.push(if *quoted { MADE } else { ANY }),
            Piece::Process(_) => whole.push_str("/dev/fd/63"),
            Piece::Arithmetic(_) => whole.push('0'),
            Piece::Pattern(_) => whole.push(GLOB),
        }
    }
    whole
}

/// Returns whether a word may be an option, or any other word, when the command runs.
fn is_open(word: &str) -> bool {
    word.contains(ANY) || word.starts_with([MADE, GLOB])
}

/// Returns whether a part of a word is only known when the command runs, and the command may choose it.
fn is_partly_open(word: &str) -> bool {
    word.contains([ANY, MADE, GLOB])
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
    walk.in_dash(&joined, &Input::Inherited)?;
    walk.found.text = joined;
    walk.expanded_texts()?;
    let is_run = |file: &String| walk.run_files.contains(file);
    walk.found.perhaps_all |= walk.written_files.iter().any(is_run);
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
#[derive(Clone, Debug)]
enum Input {
    Inherited,
    /// A here-document or `<<<`.
    Text(String),
    /// A pipe, a file, or something that was opened before.
    Unknown,
}

impl Input {
    /// Adds a text, which may also be at another number.
    fn with(&self, text: &str) -> Self {
        match self {
            Self::Text(before) => Self::Text(format!("{before}\n{text}")),
            Self::Inherited | Self::Unknown => Self::Text(text.to_owned()),
        }
    }
}

#[derive(Default)]
struct Walk {
    found: Runs,
    /// Quoted texts with an expansion in them, and whether something in the command may expand them.
    texts: Vec<String>,
    expands: bool,
    /// The names of files that the command writes, and of those that it runs.
    written_files: Vec<String>,
    run_files: Vec<String>,
    /// Whether `exec` has changed the standard input.
    moved: bool,
    steps: usize,
    depth: usize,
}

impl Walk {
    fn text(&mut self, text: &str) -> Result<(), Unreadable> {
        let script = shell::read(text)?;
        self.script(&script, &Input::Inherited)
    }

    /// Follows a command as dash reads it, if bash reads it differently. In dash, `ls &>f rm x` is `ls & >f rm x`, `[[`
    /// and `((` start commands, which a line end finishes, and `$'a\'` ends there.
    fn in_dash(&mut self, text: &str, input: &Input) -> Result<(), Unreadable> {
        let other = text.replace("&>", "& >").replace("((", "( (").replace("$( (", "$((").replace("[[", "[").replace("$'", "'");
        let unknown = self.found.unknown;
        if other != text
            && let Ok(script) = shell::read(&other)
        {
            self.script(&script, input)?;
        }
        self.found.unknown = unknown;
        Ok(())
    }

    fn step(&mut self, bytes: usize) -> Result<(), Unreadable> {
        self.steps += 1 + bytes / 16;
        if self.steps > STEPS { Err(Unreadable) } else { Ok(()) }
    }

    fn deeper(&mut self, follow: impl FnOnce(&mut Self) -> Result<(), Unreadable>) -> Result<(), Unreadable> {
        if self.depth >= NESTED {
            return Err(Unreadable);
        }
        self.depth += 1;
        let result = follow(self);
        self.depth -= 1;
        result
    }

    fn script(&mut self, script: &Script, input: &Input) -> Result<(), Unreadable> {
        script.nodes.iter().try_for_each(|node| self.deeper(|walk| walk.node(node, input)))
    }

    fn node(&mut self, node: &Node, input: &Input) -> Result<(), Unreadable> {
        self.step(0)?;
        match node {
            Node::Simple(simple) => self.simple(simple, input),
            Node::Pipe(stages) => stages.iter().enumerate().try_for_each(|(at, stage)| {
                let input = if at == 0 { input } else { &Input::Unknown };
                self.deeper(|walk| walk.node(stage, input))
            }),
            Node::Group { body, words, names, redirects, .. } => {
                // An index, arithmetic and tests are expanded again.
                self.expands |= !words.is_empty();
                let values = names.iter().flat_map(|(_, values)| values);
                words.iter().chain(values).try_for_each(|word| self.pieces(&word.pieces))?;
                let input = self.redirected(redirects, input)?;
                body.iter().try_for_each(|script| {
                    // Others write to a coprocess.
                    let input = if script.odd.is_some() { &Input::Unknown } else { &input };
                    self.script(script, input)
                })
            }
            Node::Function { body, .. } => self.deeper(|walk| walk.node(body, &Input::Unknown)),
        }
    }

    fn simple(&mut self, simple: &Simple, input: &Input) -> Result<(), Unreadable> {
        for assign in &simple.assigns {
            self.expands |= assign.index.is_some();
            assign.index.iter().chain(&assign.values).try_for_each(|word| self.pieces(&word.pieces))?;
            for value in &assign.values {
                self.set(&assign.name, &marked(value), !simple.words.is_empty())?;
            }
        }
        let input = self.redirected(&simple.redirects, input)?;
        simple.words.iter().try_for_each(|word| self.pieces(&word.pieces))?;
        if simple.words.is_empty() {
            return Ok(());
        }
        let words: Vec<_> = simple.words.iter().map(marked).collect();
        self.moved |= words[0] == "exec" && !simple.redirects.is_empty();
        // `cp "$(which rm)" x`
        let copies = COPYING.contains(&&*words[0]) && words.iter().any(|word| word.contains([ANY, MADE]));
        self.found.perhaps_all |= copies;
        self.found.written.push(simple.words.iter().map(|word| word.raw.as_str()).collect::<Vec<_>>().join(" "));
        self.run(words, &input)
    }

    /// Follows a variable that is set, for a program if `given`. Programs run the text of some.
    fn set(&mut self, name: &str, value: &str, given: bool) -> Result<(), Unreadable> {
        // `([1]=x)`
        let value = value.strip_prefix('[').and_then(|rest| Some(rest.split_once("]=")?.1)).unwrap_or(value);
        self.expands |= name.starts_with("PS") || name.starts_with("PROMPT");
        let is_run = RUN_BY_NAME.split(' ').any(|known| name.starts_with(known));
        // A shell reads the file that these name.
        self.found.perhaps_all |= is_run && (value.contains(is_mark) || matches!(name, "BASH_ENV" | "ENV" | "ZDOTDIR"));
        if is_run {
            self.found.perhaps.push(value.to_owned());
        }
        let named = given || (name.len() > 1 && !name.contains(|c: char| c.is_ascii_lowercase()));
        let text = value.trim_start_matches(['!', ' ']);
        if is_run || (named && (text.contains(' ') || text != value)) {
            let text = text.strip_prefix("()").unwrap_or(text).to_owned();
            self.perhaps(&text)?;
        }
        Ok(())
    }

    /// Follows a text that may not be for a shell: nothing becomes unknown by it.
    fn perhaps(&mut self, text: &str) -> Result<(), Unreadable> {
        let unknown = self.found.unknown;
        self.given(text, &Input::Inherited)?;
        self.found.unknown = unknown;
        Ok(())
    }

    fn run(&mut self, words: Vec<String>, input: &Input) -> Result<(), Unreadable> {
        self.step(words.iter().map(String::len).sum())?;
        self.deeper(|walk| walk.run_words(words, input))
    }

    fn run_words(&mut self, words: Vec<String>, input: &Input) -> Result<(), Unreadable> {
        let Some((name, args)) = words.split_first() else { return Ok(()) };
        let file = name.rsplit('/').next().unwrap_or_default();
        // bash reads `time -f rm` in another way than programs do.
        self.found.hidden |= file.len() > 1 && file.starts_with('-');
        if file.contains(is_mark) {
            let alone = file.chars().count() == 1 && !file.contains(GLOB);
            self.found.unknown |= alone;
            self.found.hidden |= !alone;
        }
        let file = file.strip_prefix('=').unwrap_or(file);
        let fed = !matches!(input, Input::Inherited);
        let wrapped = inner(file, args);
        self.expands |= wrapped.expands;
        // A file name may be evaluated: `test *`.
        self.found.unknown |= wrapped.expands && args.iter().any(|arg| arg.starts_with(GLOB));
        for inner in wrapped.runs {
            self.inner(inner, input)?;
        }
        // A word that is not known may be several, and one of them the command. An option or a word may say that one
        // follows.
        let tells = |arg: &String| arg.starts_with('-') || wrappers::has_subcommands(file);
        let may_tell = |arg: &String| is_open(arg) || (tells(arg) && is_partly_open(arg));
        self.found.perhaps_all |= runs_others(file) && args.iter().any(may_tell);
        if may_run(file, args, fed) {
            self.says(&words, input);
        }
        if programs::is_interpreter(file) {
            self.run_files.extend(args.iter().map(|arg| base(arg)));
            let text = match input {
                Input::Text(text) => text.clone(),
                Input::Inherited if !args.iter().any(|arg| arg.starts_with("/dev/") || arg.contains(is_mark)) => String::new(),
                Input::Inherited | Input::Unknown => {
                    self.found.perhaps_all |= programs::speaks(self.found.written.iter().map(String::as_str));
                    String::new()
                }
            };
            if programs::speaks(args.iter().map(String::as_str).chain([&*text])) {
                self.says(&words, input);
            }
        }
        match file {
            "chmod" => self.run_files.extend(args.iter().map(|arg| base(arg))),
            "tee" => self.written_files.extend(args.iter().map(|arg| base(arg))),
            "alias" => {
                for (_, value) in args.iter().filter_map(|arg| arg.split_once('=')) {
                    self.given(value, &Input::Inherited)?;
                }
            }
            // A copy of a program is the same program.
            _ if COPYING.contains(&file) => {
                for path in args.iter().map(|arg| arg.strip_prefix("if=").unwrap_or(arg)) {
                    if path.contains("bin/") || file == "hash" {
                        self.found.commands.push(vec![path.to_owned()]);
                    }
                }
            }
            _ if SETTING.contains(&file) => {
                for (name, value) in args.iter().filter_map(|arg| arg.split_once('=')) {
                    self.set(name, value, true)?;
                }
            }
            _ => {}
        }
        if name.contains('/') {
            self.run_files.push(base(name));
        }
        self.found.commands.push(words);
        Ok(())
    }

    /// Notes that a program may run a part of its words, or of its input, in its own way.
    fn says(&mut self, words: &[String], input: &Input) {
        match input {
            Input::Text(text) => self.found.perhaps.push(text.clone()),
            Input::Unknown => self.found.perhaps_all = true,
            Input::Inherited => {}
        }
        self.found.perhaps_all |= words.iter().any(|word| word.contains(is_mark));
        self.found.perhaps.push(words.join(" "));
    }

    fn inner(&mut self, inner: Inner, input: &Input) -> Result<(), Unreadable> {
        match inner {
            Inner::Words(words) => self.run(words, input)?,
            Inner::InputWords(words, replaced) => {
                let any = ANY.to_string();
                let replaced = |word: String| replaced.as_ref().map_or(word.clone(), |mark| word.replace(mark.as_str(), &any));
                let words = words.into_iter().map(replaced).chain([any.clone()]).collect();
                self.run(words, input)?;
            }
            Inner::Text(text, _) => self.given(&text, input)?,
            Inner::Input(None) => self.read_from(input)?,
            Inner::Input(Some(file)) => match &*file {
                "-" | "/dev/stdin" => self.read_from(input)?,
                _ if file.starts_with("/dev/") || file.starts_with("/proc/") => self.found.unknown = true,
                // A file that is passed to a shell counts as run by its name.
                _ => {
                    self.run_files.push(base(&file));
                    self.found.commands.push(vec![file]);
                }
            },
            Inner::Expanded(text) => self.quoted(&text),
            Inner::Unknown => self.found.unknown = true,
        }
        Ok(())
    }

    /// Follows a shell that reads its standard input.
    fn read_from(&mut self, input: &Input) -> Result<(), Unreadable> {
        match input {
            Input::Text(text) => self.given(text, &Input::Inherited)?,
            Input::Unknown => self.found.unknown = true,
            Input::Inherited => self.found.unknown |= self.moved,
        }
        Ok(())
    }

    /// Follows a text that is passed to a shell.
    fn given(&mut self, text: &str, input: &Input) -> Result<(), Unreadable> {
        self.step(text.len())?;
        if text.contains(is_mark) {
            // A part of it is not written out.
            self.found.perhaps_all = true;
            if text.trim_matches(|c| is_mark(c) || " \n\"".contains(c)).is_empty() {
                self.found.unknown = true;
                return Ok(());
            }
        }
        let text = text
            .chars()
            .fold(String::new(), |text, c| if is_mark(c) { text + "${_}" } else { text + c.encode_utf8(&mut [0; 4]) });
        let Ok(script) = shell::read(&text) else {
            self.found.unknown = true;
            return Ok(());
        };
        self.deeper(|walk| {
            walk.script(&script, input)?;
            walk.in_dash(&text, input)
        })
    }

    /// Follows redirections, and returns the resulting standard input.
    fn redirected(&mut self, redirects: &[Redirect], input: &Input) -> Result<Input, Unreadable> {
        let mut input = input.clone();
        for redirect in redirects {
            self.pieces(&redirect.target.pieces)?;
            let target = marked(&redirect.target);
            match redirect.operator {
                "<<" | "<<-" => {
                    let word = redirect.document.as_ref().and_then(|document| document.get().cloned()).unwrap_or_default();
                    self.pieces(&word.pieces)?;
                    input = input.with(&marked(&word));
                }
                "<<<" => input = input.with(&target),
                "<" | "<&" | "<>" => input = if target == "/dev/null" { Input::Inherited } else { Input::Unknown },
                _ => self.written_files.push(base(&target)),
            }
        }
        Ok(input)
    }

    /// Follows what is expanded in a word.
    fn pieces(&mut self, pieces: &[Piece]) -> Result<(), Unreadable> {
        for piece in pieces {
            match piece {
                Piece::Text { text, .. } => self.quoted(text),
                Piece::Variable { index, operator, operand, .. } => {
                    self.expands |= index.as_ref().is_some_and(|index| !matches!(&*index.raw, "@" | "*"))
                        || operator.starts_with('!')
                        || matches!(&**operator, "@" | ":");
                    for word in index.iter().chain(operand) {
                        self.pieces(&word.pieces)?;
                    }
                }
                Piece::Output { script, .. } => self.script(script, &Input::Inherited)?,
                Piece::Process(script) => self.script(script, &Input::Unknown)?,
                Piece::Arithmetic(inner) => {
                    self.expands = true;
                    self.pieces(inner)?;
                }
                Piece::Pattern(inner) => self.pieces(inner)?,
            }
        }
        Ok(())
    }

    /// Keeps a quoted text with an expansion in it.
    fn quoted(&mut self, text: &str) {
        if text.contains("$(") || text.contains('`') {
            self.texts.push(text.to_owned());
        }
    }

    /// Follows quoted texts, if something in the command may expand them: `test -v 'a[$(rm x)]'`.
    fn expanded_texts(&mut self) -> Result<(), Unreadable> {
        while self.expands
            && let Some(text) = self.texts.pop()
        {
            self.step(text.len())?;
            // A text that only looks like an expansion does nothing.
            let text: String = text.chars().map(|c| if is_mark(c) { '_' } else { c }).collect();
            if let Ok(word) = shell::read_quoted(&text) {
                let inner: Vec<_> = word.pieces.into_iter().filter(|piece| !matches!(piece, Piece::Text { .. })).collect();
                self.pieces(&inner)?;
            }
        }
        Ok(())
    }
}

/// Returns the name of a file.
fn base(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Programs and builtins that give a program another name.
const COPYING: &[&str] = &["cp", "ln", "mv", "install", "link", "dd", "cat", "rsync", "hash"];
/// Programs and builtins that set variables for others.
const SETTING: &[&str] =
    &["env", "genv", "sudo", "doas", "export", "declare", "typeset", "readonly", "local", "make", "gmake", "setenv", "set"];

/// How the names of variables begin whose text some program runs.
const RUN_BY_NAME: &str = "BASH_ALIASES BASH_CMDS BASH_ENV BASH_FUNC BROWSER EDITOR ENV GCC_EXEC_PREFIX GIT_ LD_ LESS MAKEFLAGS MANPAGER \
    PAGER PERL5 PROMPT_COMMAND PYTHONSTARTUP RSYNC_RSH SSH_ASKPASS SUDO_ SYSTEMD_ TAR_OPTIONS VISUAL ZDOTDIR";
