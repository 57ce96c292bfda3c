//! Parses words: quotes, and everything that a shell expands in them.

use super::reader::{Reader, Until};
use super::{Piece, Read, Unreadable, Word, read_at};

/// Adds a character to the current text.
fn push(pieces: &mut Vec<Piece>, c: char, quoted: bool) {
    match pieces.last_mut() {
        Some(Piece::Text { text, quoted: before }) if *before == quoted => text.push(c),
        _ => pieces.push(Piece::Text { text: c.to_string(), quoted }),
    }
}

impl Reader<'_> {
    /// Reads a word of at least one character.
    pub(super) fn word(&mut self) -> Read<Word> {
        let word = self.word_or_nothing()?;
        if word.raw.is_empty() { Err(Unreadable) } else { Ok(word) }
    }

    pub(super) fn word_or_nothing(&mut self) -> Read<Word> {
        let start = self.at;
        let mut pieces = Vec::new();
        while let Some(c) = self.rest().chars().next() {
            match c {
                '<' | '>' if self.rest()[1..].starts_with('(') => {
                    self.at += 2;
                    pieces.push(Piece::Process(self.bracketed()?));
                }
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '?' | '*' | '+' | '@' | '!' if self.rest()[1..].starts_with('(') => {
                    self.at += 2;
                    let inner = self.nest(|reader| reader.pieces_until(b')'))?;
                    pieces.push(Piece::Pattern(inner));
                }
                _ => self.piece(&mut pieces)?,
            }
        }
        Ok(Word { raw: self.text[start..self.at].to_owned(), pieces })
    }

    /// Reads unquoted pieces up to and including this character: an index, a pattern, what follows a variable's name.
    pub(super) fn pieces_until(&mut self, end: u8) -> Read<Vec<Piece>> {
        let (mut pieces, mut open) = (Vec::new(), 0usize);
        let opens = match end {
            b')' => Some(b'('),
            b']' => Some(b'['),
            _ => None,
        };
        loop {
            match self.peek() {
                None => return Err(Unreadable),
                Some(c) if c == end && open == 0 => {
                    self.at += 1;
                    return Ok(pieces);
                }
                Some(c) if c == end => {
                    open -= 1;
                    self.piece(&mut pieces)?;
                }
                Some(c) => {
                    open += usize::from(Some(c) == opens);
                    self.piece(&mut pieces)?;
                }
            }
        }
    }

    /// Reads the next unquoted piece.
    fn piece(&mut self, pieces: &mut Vec<Piece>) -> Read<()> {
        let Some(c) = self.rest().chars().next() else { return Err(Unreadable) };
        self.at += c.len_utf8();
        match c {
            '\\' => {
                let next = self.rest().chars().next();
                self.at += next.map_or(0, char::len_utf8);
                match next {
                    Some('\n') => {}
                    Some(next) => push(pieces, next, true),
                    None => {
                        self.mark("a `\\` at its end");
                        push(pieces, '\\', true);
                    }
                }
            }
            '\'' => {
                let end = self.rest().find('\'').ok_or(Unreadable)?;
                pieces.push(Piece::Text { text: self.rest()[..end].to_owned(), quoted: true });
                self.at += end + 1;
            }
            '"' => self.nest(|reader| reader.double_quoted(pieces, Some('"')))?,
            '$' => self.dollar(pieces, false)?,
            '`' => self.backticks(pieces, false)?,
            '<' | '>' if self.eat("(") => pieces.push(Piece::Process(self.bracketed()?)),
            c => push(pieces, c, false),
        }
        Ok(())
    }

    /// Reads to the end as inside double quotes: a here-document, arithmetic.
    pub(super) fn quoted_text(&mut self) -> Read<Vec<Piece>> {
        let mut pieces = Vec::new();
        self.nest(|reader| reader.double_quoted(&mut pieces, None))?;
        Ok(pieces)
    }

    fn double_quoted(&mut self, pieces: &mut Vec<Piece>, end: Option<char>) -> Read<()> {
        // An empty word is a word, too.
        pieces.push(Piece::Text { text: String::new(), quoted: true });
        loop {
            let Some(c) = self.rest().chars().next() else {
                return if end.is_none() { Ok(()) } else { Err(Unreadable) };
            };
            self.at += c.len_utf8();
            match c {
                c if Some(c) == end => return Ok(()),
                '\\' => match self.rest().chars().next() {
                    Some('\n') => self.at += 1,
                    Some(next) if "$`\\".contains(next) || Some(next) == end => {
                        push(pieces, next, true);
                        self.at += 1;
                    }
                    _ => push(pieces, '\\', true),
                },
                '$' => self.dollar(pieces, true)?,
                '`' => self.backticks(pieces, true)?,
                c => push(pieces, c, true),
            }
        }
    }

    /// Reads an expansion after its dollar sign.
    fn dollar(&mut self, pieces: &mut Vec<Piece>, quoted: bool) -> Read<()> {
        if self.starts("((")
            && let Some(end) = self.arithmetic_end(self.at + 2)?
        {
            let word = self.arithmetic(self.at + 2, end)?;
            self.at = end + 2;
            pieces.push(Piece::Arithmetic(word.pieces));
            return Ok(());
        }
        // zsh: `$#x[…]`, `$=x[…]`. An index is evaluated.
        let behind = self.rest().trim_start_matches(['#', '+', '=', '~', '^']);
        if behind.len() < self.rest().len() && behind.starts_with(|c: char| c.is_ascii_alphanumeric() || "_@*?!$-".contains(c))
        {
            self.mark("a variable that shells read differently (`$#x`, `$=x`)");
        }
        match self.peek() {
            Some(b'(') => {
                self.at += 1;
                let script = self.bracketed()?;
                pieces.push(Piece::Output { script, quoted });
            }
            Some(b'{') => {
                self.at += 1;
                let piece = self.nest(|reader| reader.braced(quoted))?;
                pieces.push(piece);
            }
            Some(b'[') => {
                self.at += 1;
                let inner = self.nest(|reader| reader.pieces_until(b']'))?;
                pieces.push(Piece::Arithmetic(inner));
            }
            Some(b'\'') if !quoted => {
                self.at += 1;
                self.mark("`$'…'`");
                let (text, length) = ansi(self.rest())?;
                self.at += length;
                pieces.push(Piece::Text { text, quoted: true });
            }
            Some(b'"') if !quoted => {
                self.at += 1;
                self.mark("`$\"…\"`");
                self.nest(|reader| reader.double_quoted(pieces, Some('"')))?;
            }
            Some(_) => match self.name() {
                name if name.is_empty() => push(pieces, '$', quoted),
                name => pieces.push(Piece::Variable { name, index: None, operator: String::new(), operand: None, quoted }),
            },
            None => push(pieces, '$', quoted),
        }
        Ok(())
    }

    /// Reads a variable's name, a digit or a special parameter. Returns an empty text if there is none.
    fn name(&mut self) -> String {
        let rest = self.rest();
        let end = match rest.chars().next() {
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => 1,
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            _ => 0,
        };
        self.at += end;
        rest[..end].to_owned()
    }

    /// Reads `${…}` after its brace.
    fn braced(&mut self, quoted: bool) -> Read<Piece> {
        // `${ command; }` is the command's output.
        if matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'|')) {
            self.eat("|");
            let script = self.script(Until::Words(&["}"]))?;
            self.expect("}")?;
            return Ok(Piece::Output { script, quoted });
        }
        let mut operator = String::new();
        let bytes = self.rest().as_bytes();
        if let (Some(b'!' | b'#'), Some(next)) = (bytes.first(), bytes.get(1))
            && (next.is_ascii_alphanumeric() || b"_@*".contains(next))
        {
            operator.push(char::from(bytes[0]));
            self.at += 1;
        }
        let digits = self.rest().len() - self.rest().trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let name = if digits > 0 {
            self.at += digits;
            self.text[self.at - digits..self.at].to_owned()
        } else {
            self.name()
        };
        if name.is_empty() {
            return Err(Unreadable);
        }
        let mut index = None;
        if self.eat("[") {
            let from = self.at;
            let pieces = self.pieces_until(b']')?;
            index = Some(Box::new(Word { raw: self.text[from..self.at - 1].to_owned(), pieces }));
        }
        let takes = [":-", ":=", ":?", ":+", "##", "%%", "//", "/#", "/%", "^^", ",,"];
        let takes = takes.iter().find(|two| self.starts(two)).map_or(1, |two| two.len());
        let mut operand = None;
        if !self.eat("}") {
            let rest = self.rest();
            let first = rest.get(..takes).filter(|first| first.is_ascii()).ok_or(Unreadable)?;
            operator.push_str(first);
            self.at += takes;
            let from = self.at;
            // Inside double quotes, a single quote is an ordinary character of the default value.
            let plain = quoted && first.ends_with(['-', '=', '?', '+']);
            let pieces = if plain { self.default_value()? } else { self.pieces_until(b'}')? };
            operand = Some(Box::new(Word { raw: self.text[from..self.at - 1].to_owned(), pieces }));
        }
        Ok(Piece::Variable { name, index, operator, operand, quoted })
    }

    fn default_value(&mut self) -> Read<Vec<Piece>> {
        let mut pieces = Vec::new();
        loop {
            match self.peek() {
                None => return Err(Unreadable),
                Some(b'}') => {
                    self.at += 1;
                    return Ok(pieces);
                }
                // Nor does `<(` begin a command there.
                Some(c @ (b'\'' | b'<' | b'>')) => {
                    self.at += 1;
                    push(&mut pieces, char::from(c), true);
                }
                Some(_) => self.piece(&mut pieces)?,
            }
        }
    }

    /// Returns the position of the `))` that ends what begins here, or `None` if the brackets are closed one by one and
    /// so are subshells.
    pub(super) fn arithmetic_end(&self, from: usize) -> Read<Option<usize>> {
        let bytes = self.text.as_bytes();
        let (mut at, mut open) = (from, 0usize);
        while let Some(&c) = bytes.get(at) {
            match c {
                b'\\' => at += 1,
                b'\'' => at += 1 + self.text.get(at + 1..).and_then(|rest| rest.find('\'')).ok_or(Unreadable)?,
                b'"' => {
                    at += 1;
                    while *bytes.get(at).ok_or(Unreadable)? != b'"' {
                        at += 1 + usize::from(bytes[at] == b'\\');
                    }
                }
                b'(' => open += 1,
                b')' if open == 0 => return Ok((bytes.get(at + 1) == Some(&b')')).then_some(at)),
                b')' => open -= 1,
                _ => {}
            }
            at += 1;
        }
        Err(Unreadable)
    }

    pub(super) fn arithmetic(&mut self, from: usize, to: usize) -> Read<Word> {
        let raw = self.text.get(from..to).ok_or(Unreadable)?;
        Ok(Word { raw: raw.to_owned(), pieces: Reader::new(raw, self.depth + 1).quoted_text()? })
    }

    /// Reads a command in backticks, after the first one.
    fn backticks(&mut self, pieces: &mut Vec<Piece>, quoted: bool) -> Read<()> {
        let mut inner = String::new();
        let mut characters = self.rest().chars();
        loop {
            match characters.next().ok_or(Unreadable)? {
                '`' => break,
                '\\' => match characters.next().ok_or(Unreadable)? {
                    c if "$`\\".contains(c) || (quoted && c == '"') => inner.push(c),
                    c => inner.extend(['\\', c]),
                },
                c => inner.push(c),
            }
        }
        self.at = self.text.len() - characters.as_str().len();
        let depth = self.depth;
        self.mark("backticks: write `$(…)`");
        let script = self.nest(|_| read_at(&inner, depth + 1))?;
        pieces.push(Piece::Output { script, quoted });
        Ok(())
    }
}

/// Reads the text of `$'…'` after its first quote. Returns it with its length, including the last quote.
fn ansi(text: &str) -> Read<(String, usize)> {
    let (mut bytes, mut characters) = (Vec::new(), text.chars());
    let push = |bytes: &mut Vec<u8>, c: char| bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    loop {
        match characters.next().ok_or(Unreadable)? {
            '\'' => break,
            '\\' => {
                let c = characters.next().ok_or(Unreadable)?;
                let mut number = |radix: u32, most: usize, first: &str| {
                    let rest = characters.as_str();
                    let digits: String = rest.chars().take(most).take_while(|c| c.is_digit(radix)).collect();
                    characters = rest[digits.len()..].chars();
                    u32::from_str_radix(&format!("{first}{digits}"), radix).ok()
                };
                match c {
                    'x' => bytes.extend(number(16, 2, "").and_then(|code| u8::try_from(code).ok())),
                    'u' => push(&mut bytes, number(16, 4, "").and_then(char::from_u32).unwrap_or('?')),
                    'U' => push(&mut bytes, number(16, 8, "").and_then(char::from_u32).unwrap_or('?')),
                    '0'..='7' => bytes.extend(number(8, 2, &c.to_string()).map(|code| code.to_le_bytes()[0])),
                    'c' => bytes.extend(characters.next().map(|c| u32::from(c).to_le_bytes()[0] & 0x1f)),
                    'n' => bytes.push(b'\n'),
                    't' => bytes.push(b'\t'),
                    'r' => bytes.push(b'\r'),
                    'a' | 'b' | 'e' | 'E' | 'f' | 'v' => bytes.push(b'\x07'),
                    '\\' | '\'' | '"' | '?' => push(&mut bytes, c),
                    c => ['\\', c].into_iter().for_each(|c| push(&mut bytes, c)),
                }
            }
            c => push(&mut bytes, c),
        }
    }
    // A zero byte ends the string.
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    Ok((String::from_utf8_lossy(&bytes).into_owned(), text.len() - characters.as_str().len()))
}
