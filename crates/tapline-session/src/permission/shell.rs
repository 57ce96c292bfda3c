//! Parses a command by bash's grammar into a tree. ARCHITECTURE.md says why this is our own parser. It has limits and
//! does not recover from errors: a command that it does not fully understand is `Unreadable`, and then nothing is
//! allowed.

mod reader;
mod word;

use std::cell::OnceCell;
use std::rc::Rc;

/// Longer commands are not read.
const LONGEST: usize = 64 * 1024;
/// Deeper commands are not read. A recursive parser needs a limit.
const DEEPEST: usize = 64;
/// Characters that stand for something else while words are expanded (see `runs`). A command with them is not read.
pub(super) const RESERVED: std::ops::RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';

/// The command cannot be read: its syntax is wrong or unknown here, or it is too long or too deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

type Read<T> = Result<T, Unreadable>;

/// A list of commands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Script {
    pub(super) nodes: Vec<Node>,
    /// Something in it that shells read differently, or that has lasting effects. No allowed command has that.
    pub(super) odd: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Simple(Simple),
    /// `a | b | c`
    Pipe(Vec<Node>),
    /// Anything else that contains commands: brackets, braces, `if`, loops, the branches of a `case`, `coproc`, `time`,
    /// `!`.
    Group {
        body: Vec<Script>,
        /// Words that are expanded: of `case`, `[[ ]]`, `(( ))`.
        words: Vec<Word>,
        /// The variable that `for` or `select` sets, and its values.
        names: Option<(String, Vec<Word>)>,
        redirects: Vec<Redirect>,
        /// Whether it may run more than once.
        again: bool,
    },
    Function {
        name: String,
        body: Box<Node>,
    },
}

/// A simple command.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Simple {
    pub(super) assigns: Vec<Assign>,
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
}

/// `x=1`, `x+=1`, `x[2]=1`, `x=(1 2)`
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Assign {
    pub(super) name: String,
    /// The index in brackets, which is evaluated.
    pub(super) index: Option<Word>,
    pub(super) values: Vec<Word>,
    pub(super) raw: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Redirect {
    /// `<`, `>`, `>>`, `>&`, `<<`, `<<<` …
    pub(super) operator: &'static str,
    pub(super) target: Word,
    /// The text of a here-document, which comes on later lines.
    pub(super) document: Option<Rc<OnceCell<Word>>>,
}

/// A word as it is written, and its pieces.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Word {
    pub(super) raw: String,
    pub(super) pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Text {
        text: String,
        quoted: bool,
    },
    /// `$x`, `${x}`, `${x[1]}`, `${x:-word}`: the name, the index, and what follows it.
    Variable {
        name: String,
        index: Option<Box<Word>>,
        operator: String,
        operand: Option<Box<Word>>,
        quoted: bool,
    },
    /// `$(…)` and backticks.
    Output {
        script: Script,
        quoted: bool,
    },
    /// `<(…)`, `>(…)`
    Process(Script),
    /// `$((…))`, `$[…]`: only the expansions in it.
    Arithmetic(Vec<Piece>),
    /// `@(a|b)`: the words of a pattern.
    Pattern(Vec<Piece>),
}

impl Word {
    /// Returns the text of the word, if nothing in it is expanded or matched.
    pub(super) fn literal(&self) -> Option<String> {
        let (mut whole, mut unquoted) = (String::new(), String::new());
        for piece in &self.pieces {
            match piece {
                Piece::Text { text, quoted } => {
                    whole.push_str(text);
                    unquoted.push_str(if *quoted { "" } else { text });
                }
                Piece::Variable { .. }
                | Piece::Output { .. }
                | Piece::Process(_)
                | Piece::Arithmetic(_)
                | Piece::Pattern(_) => return None,
            }
        }
        // `{}` alone is not a list.
        let list = unquoted.contains('{') && (unquoted.contains(',') || unquoted.contains(".."));
        (!list && !unquoted.contains(['*', '?', '[', '~'])).then_some(whole)
    }
}

/// Reads a command.
pub(super) fn read(text: &str) -> Read<Script> {
    read_at(text, 0)
}

/// Reads a command at this depth.
fn read_at(text: &str, depth: usize) -> Read<Script> {
    if text.len() > LONGEST || text.contains(|c| RESERVED.contains(&c)) {
        return Err(Unreadable);
    }
    reader::Reader::new(text, depth).whole()
}

/// Reads text as inside double quotes, for its expansions.
pub(super) fn read_quoted(text: &str) -> Read<Word> {
    if text.len() > LONGEST || text.contains(|c| RESERVED.contains(&c)) {
        return Err(Unreadable);
    }
    Ok(Word { raw: text.to_owned(), pieces: reader::Reader::new(text, 0).quoted_text()? })
}
