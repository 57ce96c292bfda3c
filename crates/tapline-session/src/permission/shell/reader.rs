//! Parses commands: lists, pipes, compound commands, redirections and here-documents, in the order in which bash reads
//! them.

use std::cell::OnceCell;
use std::rc::Rc;

use super::{Assign, DEEPEST, Node, Piece, Read, Redirect, Script, Simple, Unreadable, Word};

/// Where a list of commands ends.
#[derive(Clone, Copy)]
pub(super) enum Until {
    End,
    Bracket,
    Words(&'static [&'static str]),
    /// A branch of a `case`.
    Branch,
}

/// A here-document whose text has not been read yet.
struct Waiting {
    delimiter: String,
    /// Whether its text is not expanded.
    quoted: bool,
    /// `<<-`
    strips_tabs: bool,
    text: Rc<OnceCell<Word>>,
}

pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) depth: usize,
    waiting: Vec<Waiting>,
    pub(super) odd: Option<&'static str>,
}

const OPERATORS: &[&str] = &["&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", ">>", ">&", ">|", "<", ">"];
/// Reserved words that end or divide a command. None starts one.
const CLOSING: &[&str] = &["then", "elif", "else", "fi", "do", "done", "esac", "}"];
/// Builtins that take assignments as words.
const DECLARING: &[&str] = &["declare", "typeset", "local", "export", "readonly"];

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, depth: usize) -> Self {
        Self { text, at: 0, depth, waiting: Vec::new(), odd: None }
    }

    pub(super) fn whole(mut self) -> Read<Script> {
        let script = self.script(Until::End)?;
        Ok(Script { odd: self.odd, ..script })
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn starts(&self, with: &str) -> bool {
        self.rest().starts_with(with)
    }

    pub(super) fn eat(&mut self, what: &str) -> bool {
        let is = self.starts(what);
        self.at += if is { what.len() } else { 0 };
        is
    }

    /// Marks something that no allowed command has. Only the first is kept.
    pub(super) fn mark(&mut self, what: &'static str) {
        self.odd.get_or_insert(what);
    }

    pub(super) fn expect(&mut self, what: &str) -> Read<()> {
        if self.eat(what) { Ok(()) } else { Err(Unreadable) }
    }

    /// Goes one level deeper, unless that is too deep.
    pub(super) fn nest<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth >= DEEPEST {
            return Err(Unreadable);
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn blanks(&mut self) {
        while self.eat(" ") || self.eat("\t") || self.eat("\\\n") {}
        if self.peek() == Some(b'#') {
            self.mark("a comment (`#`)");
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    pub(super) fn blank_lines(&mut self) -> Read<()> {
        loop {
            self.blanks();
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.at += 1;
            for waiting in std::mem::take(&mut self.waiting) {
                self.document(&waiting)?;
            }
        }
    }

    /// Reads the text of a here-document, which begins here.
    fn document(&mut self, waiting: &Waiting) -> Read<()> {
        let mut body = String::new();
        while self.at < self.text.len() {
            let mut line = self.line();
            // A continued line is joined with the next.
            while !waiting.quoted && continues(&line) && self.at < self.text.len() {
                line.truncate(line.len() - 2);
                line.push_str(&self.line());
            }
            let stripped = if waiting.strips_tabs { line.trim_start_matches('\t') } else { &line };
            if stripped.strip_suffix('\n').unwrap_or(stripped) == waiting.delimiter {
                break;
            }
            body.push_str(stripped);
        }
        let pieces = if waiting.quoted {
            vec![Piece::Text { text: body.clone(), quoted: true }]
        } else {
            Reader::new(&body, self.depth + 1).quoted_text()?
        };
        waiting.text.set(Word { raw: body, pieces }).map_err(|_| Unreadable)
    }

    /// Returns a line with its newline.
    fn line(&mut self) -> String {
        let rest = self.rest();
        let line = &rest[..rest.find('\n').map_or(rest.len(), |end| end + 1)];
        self.at += line.len();
        line.to_owned()
    }

    /// Returns a separate word without quotes or expansions, which may be a reserved word.
    pub(super) fn bare(&self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| " \t\n;&|()<>'\"\\$`".contains(c)).unwrap_or(rest.len());
        match rest.as_bytes().get(end) {
            Some(b'\'' | b'"' | b'\\' | b'$' | b'`') => "",
            _ => &rest[..end],
        }
    }

    fn ends(&self, until: Until) -> bool {
        match until {
            Until::End => self.at >= self.text.len(),
            Until::Bracket => self.peek() == Some(b')'),
            Until::Words(words) => words.contains(&self.bare()),
            Until::Branch => self.starts(";;") || self.starts(";&") || self.bare() == "esac",
        }
    }

    /// Reads commands up to, but not including, what ends them.
    pub(super) fn script(&mut self, until: Until) -> Read<Script> {
        let mut script = Script::default();
        let mut wanted = false;
        loop {
            self.blank_lines()?;
            if self.ends(until) {
                return if wanted { Err(Unreadable) } else { Ok(script) };
            }
            if self.at >= self.text.len() {
                return Err(Unreadable);
            }
            script.nodes.push(self.pipeline()?);
            self.blanks();
            wanted = self.eat("&&") || self.eat("||");
            if wanted || self.ends(until) || self.peek() == Some(b'\n') {
                continue;
            }
            match self.peek() {
                Some(b';') if !self.starts(";;") && !self.starts(";&") => self.at += 1,
                Some(b'&') => {
                    self.at += 1;
                    self.mark("something that runs in the background (`&`)");
                }
                None => {}
                Some(_) => return Err(Unreadable),
            }
        }
    }

    fn pipeline(&mut self) -> Read<Node> {
        let mut prefixed = false;
        loop {
            match self.bare() {
                "!" => self.at += 1,
                "time" => {
                    self.at += 4;
                    self.blanks();
                    while matches!(self.bare(), "-p" | "--") {
                        self.at += 2;
                        self.blanks();
                    }
                }
                _ => break,
            }
            prefixed = true;
            self.blanks();
        }
        let nothing = matches!(self.peek(), None | Some(b'\n' | b';' | b'&' | b'|' | b')'));
        if prefixed && nothing {
            return Ok(group(Vec::new()));
        }
        let mut stages = vec![self.command()?];
        self.blanks();
        while self.peek() == Some(b'|') && !self.starts("||") {
            self.at += 1;
            self.eat("&");
            self.blank_lines()?;
            stages.push(self.command()?);
            self.blanks();
        }
        let node = match stages.pop() {
            Some(only) if stages.is_empty() => only,
            last => Node::Pipe(stages.into_iter().chain(last).collect()),
        };
        Ok(if prefixed { group(vec![Script { nodes: vec![node], odd: None }]) } else { node })
    }

    fn command(&mut self) -> Read<Node> {
        self.nest(|reader| {
            let Some(mut node) = reader.compound()? else { return reader.simple() };
            if let Node::Group { redirects, .. } = &mut node {
                loop {
                    reader.blanks();
                    let Some(redirect) = reader.redirect()? else { break };
                    redirects.push(redirect);
                }
            }
            Ok(node)
        })
    }

    fn compound(&mut self) -> Read<Option<Node>> {
        if self.peek() == Some(b'(') {
            if self.starts("((")
                && let Some(end) = self.arithmetic_end(self.at + 2)?
            {
                let words = vec![self.arithmetic(self.at + 2, end)?];
                self.at = end + 2;
                return Ok(Some(with_words(Vec::new(), words)));
            }
            self.at += 1;
            let body = self.script(Until::Bracket)?;
            self.expect(")")?;
            return Ok(Some(group(vec![body])));
        }
        let word = self.bare();
        if CLOSING.contains(&word) {
            return Err(Unreadable);
        }
        let start = self.at;
        self.at += word.len();
        let node = match word {
            "{" => group(vec![self.until(&["}"])?]),
            "if" => {
                let mut body = vec![self.until(&["then"])?];
                loop {
                    body.push(self.script(Until::Words(&["elif", "else", "fi"]))?);
                    let divides = self.bare();
                    self.at += divides.len();
                    match divides {
                        "elif" => body.push(self.until(&["then"])?),
                        "else" => {
                            body.push(self.until(&["fi"])?);
                            break;
                        }
                        _ => break,
                    }
                }
                group(body)
            }
            "while" | "until" => {
                let body = vec![self.until(&["do"])?, self.until(&["done"])?];
                Node::Group { body, words: Vec::new(), names: None, redirects: Vec::new(), again: true }
            }
            "for" | "select" => self.for_each()?,
            "case" => self.case()?,
            "[[" => self.test()?,
            "function" => {
                self.blanks();
                let name = self.word()?.raw;
                self.blanks();
                if self.eat("(") {
                    self.blanks();
                    self.expect(")")?;
                }
                self.blank_lines()?;
                Node::Function { name, body: Box::new(self.command()?) }
            }
            "coproc" => {
                self.blanks();
                let name = self.bare().len();
                let back = self.at;
                self.at += name;
                self.blanks();
                let named = self.peek() == Some(b'(')
                    || matches!(self.bare(), "{" | "if" | "while" | "until" | "for" | "case" | "select" | "[[");
                self.at = if named && name > 0 { self.at } else { back };
                group(vec![Script { nodes: vec![self.command()?], odd: Some("`coproc`") }])
            }
            _ => {
                self.at = start;
                return Ok(None);
            }
        };
        Ok(Some(node))
    }

    /// Reads commands up to one of these words, and the word.
    fn until(&mut self, words: &'static [&'static str]) -> Read<Script> {
        let script = self.script(Until::Words(words))?;
        self.at += self.bare().len();
        Ok(script)
    }

    fn for_each(&mut self) -> Read<Node> {
        self.blanks();
        let (mut words, mut names) = (Vec::new(), None);
        if self.starts("((") {
            let end = self.arithmetic_end(self.at + 2)?.ok_or(Unreadable)?;
            words.push(self.arithmetic(self.at + 2, end)?);
            self.at = end + 2;
        } else {
            let name = self.word()?.raw;
            let mut values = Vec::new();
            self.blank_lines()?;
            if self.bare() == "in" {
                self.at += 2;
                self.blanks();
                while !matches!(self.peek(), None | Some(b'\n' | b';' | b'&' | b'|' | b'(' | b')')) {
                    values.push(self.word()?);
                    self.blanks();
                }
            }
            names = Some((name, values));
        }
        self.blanks();
        self.eat(";");
        self.blank_lines()?;
        let body = match self.bare() {
            "do" => {
                self.at += 2;
                self.until(&["done"])?
            }
            "{" => {
                self.at += 1;
                self.until(&["}"])?
            }
            _ => return Err(Unreadable),
        };
        Ok(Node::Group { body: vec![body], words, names, redirects: Vec::new(), again: true })
    }

    fn case(&mut self) -> Read<Node> {
        self.blanks();
        let (mut words, mut body) = (vec![self.word()?], Vec::new());
        self.blank_lines()?;
        if self.bare() != "in" {
            return Err(Unreadable);
        }
        self.at += 2;
        loop {
            self.blank_lines()?;
            if self.bare() == "esac" {
                self.at += 4;
                return Ok(with_words(body, words));
            }
            self.eat("(");
            loop {
                self.blanks();
                words.push(self.word()?);
                self.blanks();
                if !self.eat("|") {
                    break;
                }
            }
            self.expect(")")?;
            body.push(self.script(Until::Branch)?);
            let _ = self.eat(";;&") || self.eat(";;") || self.eat(";&");
        }
    }

    /// Reads the words of `[[ … ]]`. The operators between them do not matter here.
    fn test(&mut self) -> Read<Node> {
        let mut words = Vec::new();
        loop {
            self.blank_lines()?;
            if self.bare() == "]]" {
                self.at += 2;
                return Ok(with_words(Vec::new(), words));
            }
            match self.peek() {
                None | Some(b';') => return Err(Unreadable),
                Some(b'<' | b'>') if !self.starts("<(") && !self.starts(">(") => self.at += 1,
                Some(b'(' | b')' | b'&' | b'|') => self.at += 1,
                Some(_) => words.push(self.word()?),
            }
        }
    }

    fn simple(&mut self) -> Read<Node> {
        let mut simple = Simple::default();
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
                continue;
            }
            let process = self.starts("<(") || self.starts(">(");
            if !process && matches!(self.peek(), None | Some(b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>')) {
                break;
            }
            let declares = simple.words.first().is_some_and(|word| DECLARING.contains(&&*word.raw));
            if (simple.words.is_empty() || declares)
                && let Some(assign) = self.assignment()?
            {
                if declares {
                    simple.words.push(Word { raw: assign.raw.clone(), pieces: assigned(&assign) });
                }
                simple.assigns.push(assign);
                continue;
            }
            simple.words.push(self.word()?);
            self.blanks();
            if simple.words.len() == 1 && simple.assigns.is_empty() && self.peek() == Some(b'(') {
                self.at += 1;
                self.blanks();
                self.expect(")")?;
                self.blank_lines()?;
                let name = simple.words.swap_remove(0).raw;
                return Ok(Node::Function { name, body: Box::new(self.command()?) });
            }
        }
        let empty = simple.assigns.is_empty() && simple.words.is_empty() && simple.redirects.is_empty();
        if empty { Err(Unreadable) } else { Ok(Node::Simple(simple)) }
    }

    fn redirect(&mut self) -> Read<Option<Redirect>> {
        let rest = self.rest();
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let named = rest.strip_prefix('{').and_then(|rest| {
            let name = &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())];
            (is_name(name) && rest[name.len()..].starts_with('}')).then_some(name.len() + 2)
        });
        let prefix = named.unwrap_or(number);
        let rest = &rest[prefix..];
        if rest.starts_with("<(") || rest.starts_with(">(") || (prefix > 0 && rest.starts_with('&')) {
            return Ok(None);
        }
        let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) else { return Ok(None) };
        // dash reads `a &>f b` as `a & >f b`, and accepts only one digit as a number.
        if operator.starts_with('&') || prefix > 1 {
            self.mark("a redirection that shells read differently (`&>`, `10>`)");
        }
        self.at += prefix + operator.len();
        self.blanks();
        let target = self.word()?;
        let mut redirect = Redirect { operator, target, document: None };
        if matches!(*operator, "<<" | "<<-") {
            let raw = &redirect.target.raw;
            let quoted = raw.contains(['\'', '"', '\\']);
            let delimiter = redirect.target.literal().filter(|_| quoted).unwrap_or_else(|| raw.clone());
            let text = Rc::new(OnceCell::new());
            let strips_tabs = *operator == "<<-";
            self.waiting.push(Waiting { delimiter, quoted, strips_tabs, text: Rc::clone(&text) });
            redirect.document = Some(text);
        }
        Ok(Some(redirect))
    }

    fn assignment(&mut self) -> Read<Option<Assign>> {
        let (start, rest) = (self.at, self.rest());
        let name = &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())];
        if !is_name(name) {
            return Ok(None);
        }
        self.at += name.len();
        let mut index = None;
        if self.peek() == Some(b'[') {
            let from = self.at;
            self.at += 1;
            let pieces = self.nest(|reader| reader.pieces_until(b']'))?;
            index = Some(Word { raw: self.text[from..self.at].to_owned(), pieces });
        }
        if !(self.eat("=") || self.eat("+=")) {
            // Then it is a pattern, and is read again. This is refused if it contains commands, because each level
            // would double the time.
            let simple = |piece: &Piece| matches!(piece, Piece::Text { .. });
            if !index.iter().flat_map(|index: &Word| &index.pieces).all(simple) {
                return Err(Unreadable);
            }
            self.at = start;
            return Ok(None);
        }
        let mut values = Vec::new();
        if self.eat("(") {
            loop {
                self.blank_lines()?;
                if self.eat(")") {
                    break;
                }
                values.push(self.nest(Self::word)?);
            }
        } else {
            values.push(self.word_or_nothing()?);
        }
        Ok(Some(Assign { name: name.to_owned(), index, values, raw: self.text[start..self.at].to_owned() }))
    }

    /// Reads `$(…)` or `<(…)` after its opening bracket.
    pub(super) fn bracketed(&mut self) -> Read<Script> {
        let outer = std::mem::take(&mut self.waiting);
        let start = self.at;
        let script = self.nest(|reader| reader.script(Until::Bracket))?;
        // It is unclear which here-document the following text belongs to.
        let unsure = !outer.is_empty() && self.text[start..self.at].contains('\n');
        if unsure || !self.waiting.is_empty() {
            return Err(Unreadable);
        }
        self.waiting = outer;
        self.expect(")")?;
        Ok(script)
    }
}

/// Returns whether a line ends in a backslash that is not itself escaped.
fn continues(line: &str) -> bool {
    line.strip_suffix('\n').is_some_and(|line| (line.len() - line.trim_end_matches('\\').len()) % 2 == 1)
}

pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns an assignment as a word for a declaring builtin.
fn assigned(assign: &Assign) -> Vec<Piece> {
    let name = Piece::Text { text: format!("{}=", assign.name), quoted: true };
    let index = assign.index.iter().flat_map(|index| index.pieces.clone());
    let values = assign.values.iter().flat_map(|value| value.pieces.clone());
    [name].into_iter().chain(index).chain(values).collect()
}

fn group(body: Vec<Script>) -> Node {
    with_words(body, Vec::new())
}

fn with_words(body: Vec<Script>, words: Vec<Word>) -> Node {
    Node::Group { body, words, names: None, redirects: Vec::new(), again: false }
}
