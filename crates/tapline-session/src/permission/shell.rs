//! What a shell would read in a command: bash's grammar, as a tree. Why it is our own is said in ARCHITECTURE.md. It reads
//! within bounds, without recovery: what it does not understand to the end is `Unreadable`, and then nothing is allowed.

mod reader;
mod word;

use std::cell::OnceCell;
use std::rc::Rc;

/// A longer command is not read.
const LONGEST: usize = 64 * 1024;
/// Nor is one that nests deeper: a reader that recurses needs a floor.
const DEEPEST: usize = 64;
/// Characters that stand for something else while words are expanded (`runs`); no command has them.
pub(super) const RESERVED: std::ops::RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';

/// The command cannot be read: its syntax is wrong or not known here, or it is too long or too deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

type Read<T> = Result<T, Unreadable>;

/// Commands one after another.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Script {
    pub(super) nodes: Vec<Node>,
    /// What is in it that shells read in different ways, or that outlives it: nothing that is allowed has that.
    pub(super) odd: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Simple(Simple),
    /// `a | b | c`
    Pipe(Vec<Node>),
    /// Everything else that holds commands: brackets, braces, `if`, loops, the branches of a `case`, `coproc`, `time`, `!`.
    Group {
        body: Vec<Script>,
        /// Words that are expanded on the way: of `case`, `[[ ]]`, `(( ))`.
        words: Vec<Word>,
        /// What `for` and `select` set.
        names: Option<(String, Vec<Word>)>,
        redirects: Vec<Redirect>,
        /// It may run more than once.
        again: bool,
    },
    Function {
        name: String,
        body: Box<Node>,
    },
}

/// A command with its words.
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
    /// What stands in its brackets is evaluated.
    pub(super) index: Option<Word>,
    pub(super) values: Vec<Word>,
    pub(super) raw: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Redirect {
    /// `<`, `>`, `>>`, `>&`, `<<`, `<<<` …
    pub(super) operator: &'static str,
    pub(super) target: Word,
    /// The text of a here-document, which stands on later lines.
    pub(super) document: Option<Rc<OnceCell<Word>>>,
}

/// A word as it is written, and what it is made of.
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
    /// `$x`, `${x}`, `${x[1]}`, `${x:-word}`: the name, what is in brackets, what stands behind it.
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
    /// `$((…))`, `$[…]`: only what is expanded in it.
    Arithmetic(Vec<Piece>),
    /// `@(a|b)`: a pattern; its words.
    Pattern(Vec<Piece>),
}

impl Word {
    /// Its text, if nothing in it is expanded or matched.
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
        // `{}` alone is no list.
        let list = unquoted.contains('{') && (unquoted.contains(',') || unquoted.contains(".."));
        (!list && !unquoted.contains(['*', '?', '[', '~'])).then_some(whole)
    }
}

/// Reads a command.
pub(super) fn read(text: &str) -> Read<Script> {
    read_at(text, 0)
}

/// The same within something that is as deep already.
fn read_at(text: &str, depth: usize) -> Read<Script> {
    if text.len() > LONGEST || text.contains(|c| RESERVED.contains(&c)) {
        return Err(Unreadable);
    }
    reader::Reader::new(text, depth).whole()
}

/// Reads text as it is read within double quotes: what is expanded in it.
pub(super) fn read_quoted(text: &str) -> Read<Word> {
    if text.len() > LONGEST || text.contains(|c| RESERVED.contains(&c)) {
        return Err(Unreadable);
    }
    Ok(Word { raw: text.to_owned(), pieces: reader::Reader::new(text, 0).quoted_text()? })
}
