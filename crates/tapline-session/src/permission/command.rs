//! What a shell would make of a command, as far as rules must know: whether it is one plain command, and the commands within it.

/// What a character is to a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Part of a word.
    Plain,
    /// Ends a command, or begins one: `;`, `&`, `|`, a line end, a bracket, `$(`, a backtick.
    Divides,
    /// Redirects: `<`, `>`.
    Redirects,
}

/// Every character with its role. Within single quotes all is plain; within double quotes `$(` and the backtick are not.
fn roles(command: &str) -> (Vec<(usize, char, Role)>, bool) {
    let (mut roles, mut quote, mut escaped) = (Vec::new(), None, false);
    let mut characters = command.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let opens = c == '$' && characters.peek().is_some_and(|(_, next)| *next == '(');
        let role = match (quote, c) {
            (Some('\''), '\'') => {
                quote = None;
                Role::Plain
            }
            (Some('\''), _) => Role::Plain,
            _ if std::mem::take(&mut escaped) => Role::Plain,
            (_, '\\') => {
                escaped = true;
                Role::Plain
            }
            (_, '`') => Role::Divides,
            _ if opens => Role::Divides,
            (Some('"'), '"') => {
                quote = None;
                Role::Plain
            }
            (None, '\'' | '"') => {
                quote = Some(c);
                Role::Plain
            }
            (None, ';' | '&' | '|' | '\n' | '\r' | '(' | ')' | '{' | '}') => Role::Divides,
            (None, '<' | '>') => Role::Redirects,
            (_, _) => Role::Plain,
        };
        roles.push((at, c, role));
    }
    (roles, quote.is_none() && !escaped)
}

/// Whether it is one command and nothing else: no other is started, nothing is redirected, every quote is closed.
pub(super) fn is_plain(command: &str) -> bool {
    let (roles, closed) = roles(command);
    // Braces alone make lists of words; they start nothing.
    closed && roles.iter().all(|(_, c, role)| *role == Role::Plain || matches!(c, '{' | '}'))
}

/// The commands within it, as far as they can be told.
pub(super) fn parts(command: &str) -> Vec<&str> {
    let (roles, _) = roles(command);
    let (mut parts, mut from) = (Vec::new(), 0);
    for (at, c, _) in roles.iter().filter(|(_, _, role)| *role == Role::Divides) {
        parts.push(&command[from..*at]);
        from = at + c.len_utf8();
    }
    parts.push(&command[from..]);
    // What is said for one command only (`FOO=1 rm x`), and what `$(` leaves, is no part of its name.
    parts
        .into_iter()
        .map(|part| without_settings(part.trim_start_matches('(').trim()))
        .filter(|part| !part.is_empty())
        .collect()
}

fn without_settings(mut part: &str) -> &str {
    while let Some((word, rest)) = part.split_once(' ') {
        let is_setting = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && !name.starts_with(|c: char| c.is_ascii_digit())
        });
        if !is_setting {
            break;
        }
        part = rest.trim_start();
    }
    part
}
