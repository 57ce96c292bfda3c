//! Passwords after a program's flag, or in a `--from-literal`.

use std::ops::Range;

use super::floor;
use super::looks::is_likely;
use super::names;
use super::programs::{Command, Takes};
use super::scan::Scan;

/// How far after its name a command's flags may be.
const REACH: usize = 400;

impl Scan<'_> {
    /// Hides the secrets of a command: `redis-cli -h HOST -a PASSWORD`. Returns the position from which more text could
    /// change the decision.
    pub(super) fn command(&mut self, command: &Command, end: usize) -> usize {
        let text = self.text;
        let (mut at, mut words, mut is_called) = (end, 0, false);
        let has_words = command.flags.iter().any(|(flag, _)| flag.starts_with(|c: char| c.is_ascii_alphabetic()));
        let most = if has_words { 10 } else { 4 };
        let of_name = command.flags.iter().find(|(flag, _)| *flag == command.name.trim_end());
        if let Some((_, takes)) = of_name {
            let (takes, skipped) = if let Takes::Next(skipped) = takes { (Takes::Token, *skipped) } else { (*takes, 0) };
            self.after_flag(takes, self.skip_words(end, skipped));
            return end;
        }
        // A sentence that mentions a program has no flags near its name.
        while at < text.len().min(end + REACH) && (is_called || words < most) {
            let next = self.skip_words(at, 0);
            let is_apart = next > at || self.bytes[..at].ends_with(b" ");
            let length = self.word(next);
            let word = &text[next..next + length];
            if !is_apart || word.is_empty() || word == command.name {
                break;
            }
            at = next + length;
            words += 1;
            is_called |= word.starts_with(['-', '/']);
            for (flag, takes) in command.flags {
                match takes {
                    Takes::Glued if word.len() > flag.len() && word.starts_with(flag) && !word.starts_with("--") => {
                        // `net use /user:me PASSWORD`
                        let value = if *flag == "/user:" { self.skip_words(at, 0) } else { next + flag.len() };
                        self.flag_value(value);
                    }
                    Takes::Next(skipped) if word == *flag => {
                        let value = self.skip_words(at, *skipped);
                        self.after_flag(*takes, value);
                    }
                    Takes::Behind(_) | Takes::Cookie | Takes::Token | Takes::Argument(_) if word == *flag => {
                        let value = self.skip_words(at, 0);
                        self.after_flag(*takes, value);
                    }
                    _ => {}
                }
            }
            if word.starts_with(['|', ';', '&']) || word.ends_with(';') {
                break;
            }
        }
        self.touched |= at >= text.len();
        end
    }

    /// Returns where the word after so many others begins. A backslash continues the line.
    fn skip_words(&self, from: usize, words: usize) -> usize {
        let mut at = from;
        for left in (0..=words).rev() {
            loop {
                let rest = &self.bytes[at..];
                at += match rest {
                    [b' ' | b'\t', ..] => 1,
                    [b'\\', b'\n', ..] => 2,
                    [b'\\', b'\r', b'\n', ..] | [b'\\', b'\\', b'n', ..] => 3,
                    _ => break,
                };
            }
            if left > 0 {
                at += self.word(at);
            }
        }
        at
    }

    /// Returns the length of the word that begins here, with its quotes.
    fn word(&self, from: usize) -> usize {
        let rest = &self.bytes[from..self.bytes.len().min(from + REACH)];
        let length = match rest.first() {
            Some(quote @ (b'"' | b'\'')) => memchr::memchr2(*quote, b'\n', &rest[1..]).map_or(rest.len(), |end| end + 2),
            _ => rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len()),
        };
        floor(&self.text[from..], length)
    }

    /// Hides the secret in the word that follows a flag.
    fn after_flag(&mut self, takes: Takes, at: usize) {
        let length = self.word(at);
        self.touched |= at + length >= self.bytes.len();
        let word = &self.text[at..at + length];
        let inner = word.trim_matches(['"', '\'']);
        let begin = at + word.find(inner).unwrap_or(0);
        let hidden = match takes {
            Takes::Next(_) | Takes::Glued => return self.flag_value(at),
            Takes::Argument(others) => self.argument(at, others),
            Takes::Token => (is_likely(inner) || word.starts_with('\'')).then(|| begin..begin + inner.len()),
            Takes::Cookie => inner.contains('=').then(|| begin..begin + inner.len()),
            Takes::Behind(sign) => inner.split_once(sign).map(|(user, password)| {
                let from = begin + user.len() + sign.len_utf8();
                // `user/PASSWORD@database`
                let host = if sign == '/' { password.rfind('@') } else { None };
                from..from + host.unwrap_or(password.len())
            }),
        };
        if let Some(span) =
            hidden.filter(|span| !names::is_placeholder(&self.text[span.clone()]) && !self.text[span.clone()].starts_with('/'))
        {
            self.hide(span);
        }
    }

    /// Returns the string that is the argument after so many others.
    fn argument(&self, from: usize, others: usize) -> Option<Range<usize>> {
        let mut rest = &self.text[from..floor(self.text, from + REACH)];
        for _ in 0..others {
            rest = rest.split_once(',')?.1;
        }
        let string = rest.trim_start().trim_start_matches('b').trim_start_matches('\\');
        let quote = string.chars().next().filter(|quote| matches!(quote, '"' | '\'' | '`'))?;
        let value = string[1..].split(['\n', '\\', quote]).next()?;
        let begin = value.as_ptr().addr() - self.text.as_ptr().addr();
        is_likely(value).then_some(begin..begin + value.len())
    }

    /// Hides the password in `echo PASSWORD | sudo -S …`, `echo user:PASSWORD | chpasswd`.
    pub(super) fn piped(&mut self, start: usize, end: usize) -> usize {
        let head = floor(self.text, start.saturating_sub(REACH));
        let line = &self.text[head..start];
        let from = head + line.rfind('\n').map_or(0, |at| at + 1);
        let Some(pipe) = self.text[from..start].rfind('|').map(|at| from + at) else { return end };
        let said = &self.text[from..pipe];
        let Some(echo) = ["echo ", "printf "].iter().filter_map(|echo| said.rfind(echo).map(|at| at + echo.len())).max() else {
            return end;
        };
        let mut word = said[echo..].trim();
        for flag in ["-n ", "-e ", "'%s' ", "'%s\\n' ", "\"%s\\n\" "] {
            word = word.strip_prefix(flag).unwrap_or(word);
        }
        let value = word.trim().trim_matches(['"', '\'']);
        let value = if self.text[start..end].starts_with("chpasswd") {
            value.split_once(':').map_or("", |(_, password)| password)
        } else {
            value
        };
        if value.len() > 3 && !value.contains(' ') && !names::is_placeholder(value) {
            let begin = value.as_ptr().addr() - self.text.as_ptr().addr();
            self.hide_anywhere(begin..begin + value.len());
        }
        end
    }

    /// Hides the values in `kubectl create secret generic db --from-literal=pw=PASSWORD`.
    pub(super) fn literal(&mut self, start: usize, end: usize) -> usize {
        let is_secret = |place: usize| self.text[place..].starts_with("secret");
        if !self.literals.before(self.bytes, start).is_some_and(is_secret) {
            return end;
        }
        let from = end + self.bytes[end..].iter().take(4).take_while(|byte| matches!(byte, b' ' | b'=' | b'"' | b'\'')).count();
        let is_key = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let at = from + self.bytes[from..].iter().take(REACH).take_while(|byte| is_key(byte)).count();
        if self.byte(at) == Some(b'=') {
            match self.bytes[from - 1] {
                quote @ (b'"' | b'\'') => {
                    let to = self.closing(at + 1, quote, 0);
                    self.hide(at + 1..to);
                }
                _ => self.flag_value(at + 1),
            }
        }
        end
    }
}
