//! Decides what rules allow: a command all of whose parts are covered by a pattern, and that every shell reads the
//! same. Anything doubtful is not covered, so no command does more than its rule says.

use super::runs::{self, Inner, SHELLS};
use super::shell::{self, Node, Piece, Redirect, Script, Simple, Word};
use crate::pattern::{Patterns, matches};

/// Builtins of bash and zsh that `*` does not cover, because they evaluate their arguments or change what runs later.
/// Other builtins (`echo`, `pwd`, `cd`, `kill`, `true`) do no more than any program.
pub(super) const BUILTINS: &str = "- . [ [[ alias autoload bg bind bindkey break builtin caller chdir command compadd compctl compgen complete compopt \
    continue coproc declare disable disown echotc emulate enable eval exec exit export fc fg float function functions \
    getln getopts hash help history integer jobs let limit local log logout mapfile nocorrect noglob print printf pushln r \
    read readarray readonly rehash repeat return sched select set setopt shift shopt source suspend sysopen sysread \
    syswrite test time trap ttyctl typeset ulimit unalias unfunction unhash unlimit unset unsetopt vared wait whence where \
    which zcompile zformat zle zmodload zparseopts zpty zregexparse zselect zsocket zstat zstyle zsystem ztcp";

/// How deep shells in shells and wrappers in wrappers are followed.
const NESTED: usize = 8;

/// The rules that may cover a command, each with its index.
pub(super) struct Covering<'a> {
    pub(super) rules: Vec<(usize, &'a Patterns)>,
    /// Whether the call runs in the folder where the agent was started.
    pub(super) at_home: bool,
}

/// The place of a simple command in the whole command.
#[derive(Clone, Copy)]
struct Place {
    /// Whether it is the only one.
    alone: bool,
    /// Whether it runs in the folder where the agent was started.
    at_home: bool,
    /// Whether another command is piped into it.
    fed: bool,
    /// Whether another command runs it.
    wrapped: bool,
    depth: usize,
}

impl Covering<'_> {
    /// Returns the rules that together cover every part of a command, if they do.
    pub(super) fn cover(&self, command: &str) -> Option<Vec<usize>> {
        let mut used = Vec::new();
        self.text(command, self.at_home, 0, &mut used)?;
        used.sort_unstable();
        used.dedup();
        Some(used)
    }

    /// Returns the rules that cover a command of another shell, which may have nothing but plain words.
    pub(super) fn cover_words(&self, command: &str) -> Option<Vec<usize>> {
        let plain = |c: char| c.is_ascii_alphanumeric() || " -_=:,".contains(c);
        let rule = self.rules.iter().find(|(_, patterns)| patterns.match_any(command.trim()));
        rule.filter(|_| command.chars().all(plain)).map(|(at, _)| vec![*at])
    }

    fn text(&self, text: &str, at_home: bool, depth: usize, used: &mut Vec<usize>) -> Option<()> {
        // Continued lines are joined before they are read. Other characters that people cannot see are not allowed.
        if depth > NESTED || text.contains("\\\n") || text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
            return None;
        }
        let script = shell::read(text).ok()?;
        (script.odd.is_none() && !script.nodes.is_empty()).then_some(())?;
        if let [Node::Simple(simple)] = script.nodes.as_slice()
            && let Some(inner) = given_to_a_shell(simple)
        {
            return self.text(&inner, at_home, depth + 1, used);
        }
        let mut found = Vec::new();
        commands(&script, &mut found)?;
        let goes_elsewhere =
            |(simple, _): &(&Simple, bool)| name(simple).is_none_or(|name| matches!(&*name, "cd" | "pushd" | "popd"));
        let moved = found.iter().any(goes_elsewhere);
        let alone = found.len() == 1;
        for (simple, fed) in found {
            let place = Place { alone, at_home: at_home && !moved, fed, wrapped: false, depth };
            self.simple(simple, place, used)?;
        }
        Some(())
    }

    fn simple(&self, simple: &Simple, place: Place, used: &mut Vec<usize>) -> Option<()> {
        let name = name(simple)?;
        simple.redirects.iter().all(is_harmless).then_some(())?;
        simple.words.iter().all(is_plain).then_some(())?;
        let raw = simple.words.iter().map(|word| word.raw.as_str()).collect::<Vec<_>>().join(" ");
        let settings: String = simple.assigns.iter().flat_map(|assign| [&*assign.raw, " "]).collect();
        simple.assigns.iter().flat_map(|assign| &assign.values).all(|value| value.literal().is_some()).then_some(())?;
        let words: Option<Vec<_>> = simple.words.iter().map(Word::literal).collect();
        let clear = |words: &&Vec<String>| words.iter().all(|word| !word.is_empty() && !word.contains(char::is_whitespace));
        let plain = words.as_ref().filter(clear).map(|words| words.join(" "));
        let covers = |pattern: &str, exact: bool| {
            let literal = pattern.split('*').next().unwrap_or_default();
            // Variables that are set for a command change what runs, so `*` does not cover them.
            let is_for = |text: &str| {
                let text = format!("{settings}{text}");
                if exact {
                    !pattern.contains('*') && pattern == text
                } else {
                    literal.len() >= settings.len() && matches(pattern, &text)
                }
            };
            is_for(&raw) || plain.as_ref().is_some_and(|plain| is_for(plain))
        };
        let rule = |exact: bool| self.rules.iter().find(|(_, patterns)| patterns.iter().any(|pattern| covers(pattern, exact)));
        let exact = rule(true);
        let file = name.rsplit('/').next().unwrap_or_default();
        let evaluates = BUILTINS.split(' ').any(|known| known == name);
        if evaluates && (exact.is_none() || !place.alone || place.wrapped) {
            return None;
        }
        let relative = |path: &str| path.contains('/') && !path.starts_with('/');
        // A wrapper may change the folder first.
        let here = place.at_home && !place.wrapped;
        if relative(&name) && !here {
            return None;
        }
        used.push(exact.or_else(|| rule(false))?.0);
        let args: Vec<_> = simple.words[1..].iter().map(runs::marked).collect();
        // `*` never covers an option that runs a program.
        if runs::may_run(file, &args, place.fed) {
            return (exact.is_some() && (here || !args.iter().any(|arg| relative(arg)))).then_some(());
        }
        // If its words are not known, neither is what it runs.
        if words.is_none() && runs::runs_others(file) {
            return exact.map(|_| ());
        }
        let wrapped = runs::inner(file, &args);
        (wrapped.sure || exact.is_some()).then_some(())?;
        wrapped.runs.into_iter().try_for_each(|inner| self.inner(inner, exact.is_some(), place, used))
    }

    /// Checks a command that another runs. It must be covered by itself, unless a rule names the whole command
    /// literally.
    fn inner(&self, inner: Inner, exact: bool, place: Place, used: &mut Vec<usize>) -> Option<()> {
        let place = Place { wrapped: true, depth: place.depth + 1, ..place };
        let relative = |path: &str| path.contains('/') && !path.starts_with('/');
        match inner {
            Inner::Words(words) | Inner::InputWords(words, _) if exact => {
                (place.at_home || !words.iter().any(|word| relative(word))).then_some(())
            }
            Inner::Words(words) => self.words(words, false, place, used),
            Inner::InputWords(mut words, mark) => {
                // The part that stands for the input may be anything: `xargs -I git git`, `find -exec git {} +`.
                let fixed =
                    words.iter().position(|word| word.contains('{') || mark.as_ref().is_some_and(|mark| word.contains(mark)));
                words.truncate(fixed.unwrap_or(words.len()));
                self.words(words, true, place, used)
            }
            Inner::Text(_, _) if exact => place.at_home.then_some(()),
            Inner::Text(text, args) if args.is_empty() => self.text(&text, false, place.depth, used),
            Inner::Text(..) => None,
            // A script may be a file in the folder where the agent was started, but never the output of another
            // command.
            Inner::Input(None) => (!place.fed).then_some(()),
            Inner::Input(Some(file)) => {
                // A bare name may also be a program in the PATH, which `*` does not cover.
                let is_file = !file.starts_with("/dev/") && !file.starts_with("/proc/") && (exact || file.contains('/'));
                (place.at_home && is_file).then_some(())
            }
            Inner::Expanded(_) | Inner::Unknown => exact.then_some(()),
        }
    }

    fn words(&self, words: Vec<String>, more: bool, place: Place, used: &mut Vec<usize>) -> Option<()> {
        if words.is_empty() || place.depth > NESTED {
            return (!more && words.is_empty()).then_some(());
        }
        let word = |text: String| Word { raw: text.clone(), pieces: vec![Piece::Text { text, quoted: true }] };
        let mut words: Vec<_> = words.into_iter().map(word).collect();
        if more {
            let unknown = Piece::Text { text: "*".to_owned(), quoted: false };
            words.push(Word { raw: "…".to_owned(), pieces: vec![unknown] });
        }
        self.simple(&Simple { words, ..Simple::default() }, place, used)
    }
}

/// Returns a pattern for each part of a command that a rule would have to name, or `None` if no rule can allow it.
pub(super) fn parts(command: &str) -> Option<Vec<String>> {
    let script = shell::read(command).ok()?;
    if let [Node::Simple(simple)] = script.nodes.as_slice()
        && let Some(inner) = given_to_a_shell(simple)
    {
        return parts(&inner);
    }
    let mut found = Vec::new();
    commands(&script, &mut found)?;
    let written = |(simple, _): &(&Simple, bool)| {
        let settings = simple.assigns.iter().map(|assign| assign.raw.as_str());
        settings.chain(simple.words.iter().map(|word| word.raw.as_str())).collect::<Vec<_>>().join(" ")
    };
    let mut parts: Vec<_> = found.iter().map(written).collect();
    parts.dedup();
    Some(parts)
}

/// Collects the simple commands of lists and pipes, and of what is expanded in them, each with whether another command
/// is piped into it. Returns `None` if there is anything else.
fn commands<'a>(script: &'a Script, found: &mut Vec<(&'a Simple, bool)>) -> Option<()> {
    for node in &script.nodes {
        let stages = match node {
            Node::Pipe(stages) => stages.as_slice(),
            Node::Simple(_) | Node::Group { .. } | Node::Function { .. } => std::slice::from_ref(node),
        };
        for (at, stage) in stages.iter().enumerate() {
            let Node::Simple(simple) = stage else { return None };
            found.push((simple, at > 0));
            for piece in simple.words.iter().flat_map(|word| &word.pieces) {
                if let Piece::Output { script, .. } = piece {
                    commands(script, found)?;
                }
            }
        }
    }
    Some(())
}

/// Returns the name of a command, if it is written plainly.
pub(super) fn name(simple: &Simple) -> Option<String> {
    simple.words.first()?.literal().filter(|name| !name.is_empty() && !name.contains(char::is_whitespace))
}

/// Unwraps a command that Codex passes to a shell: `/bin/bash -lc 'ls'` is `ls`. A shell at another path is a different
/// program.
pub(super) fn given_to_a_shell(simple: &Simple) -> Option<String> {
    let plain = simple.assigns.is_empty() && simple.redirects.is_empty();
    let [shell, option, text] = simple.words.as_slice() else { return None };
    let (shell, option) = (shell.literal()?, option.literal()?);
    let name = ["/bin/", "/usr/bin/", "/usr/local/bin/"].iter().find_map(|folder| shell.strip_prefix(folder)).unwrap_or(&shell);
    let runs = plain && SHELLS.contains(&name) && matches!(&*option, "-c" | "-lc");
    text.literal().filter(|_| runs)
}

/// Returns whether a word consists only of text, plain variables and the output of commands.
pub(super) fn is_plain(word: &Word) -> bool {
    let mut after_variable = false;
    word.pieces.iter().all(|piece| {
        let index_follows = std::mem::take(&mut after_variable);
        match piece {
            // zsh evaluates an index.
            Piece::Text { text, .. } => !(index_follows && text.starts_with('[')),
            Piece::Variable { index, operator, .. } => {
                after_variable = true;
                index.is_none() && operator.is_empty()
            }
            Piece::Output { .. } => true,
            Piece::Process(_) | Piece::Arithmetic(_) | Piece::Pattern(_) => false,
        }
    })
}

/// Returns whether a redirection neither writes nor reads a file.
pub(super) fn is_harmless(redirect: &Redirect) -> bool {
    let target = redirect.target.literal().unwrap_or_default();
    match redirect.operator {
        ">" | ">>" | ">|" | "<" => target == "/dev/null",
        ">&" => matches!(&*target, "1" | "2"),
        _ => false,
    }
}
