//! What a shell would make of a command, as far as rules must know: whether it is one plain command, and the commands within it.
//! Where in doubt it is not plain.

/// What a character is to a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Part of a word.
    Plain,
    /// Ends a command, or may begin one: `;`, `&`, `|`, a line end, a bracket, a backtick, `$(` and all else that `$` expands but a name.
    Divides,
    /// Redirects, or hides what follows: `<`, `>`, `#`.
    Turns,
}

/// Every character with its role, and whether every quote is closed. Within single quotes all is plain; within double quotes `$` and
/// the backtick are not.
fn roles(command: &str) -> (Vec<(usize, char, Role)>, bool) {
    let (mut roles, mut quote, mut escaped, mut comment, mut before) = (Vec::new(), None, false, false, ' ');
    let mut characters = command.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        // Within double quotes a quote behind it is a quote.
        let follows = if quote.is_some() { "({[" } else { "({['\"" };
        let expands = c == '$' && characters.peek().is_some_and(|(_, next)| follows.contains(*next));
        let role = if comment {
            comment = c != '\n';
            if comment { Role::Turns } else { Role::Divides }
        } else if quote == Some('\'') {
            quote = quote.filter(|_| c != '\'');
            Role::Plain
        } else if std::mem::take(&mut escaped) {
            // A line that goes on in the next is put together after we have looked: `$\` and `(` become `$(`.
            if matches!(c, '\n' | '\r') { Role::Divides } else { Role::Plain }
        } else if c == '\\' {
            escaped = true;
            Role::Plain
        } else if c == '`' || expands {
            Role::Divides
        } else if quote.is_some() {
            quote = quote.filter(|_| c != '"');
            Role::Plain
        } else {
            comment = c == '#' && (before.is_whitespace() || ";&|()".contains(before));
            match c {
                '\'' | '"' => {
                    quote = Some(c);
                    Role::Plain
                }
                ';' | '&' | '|' | '\n' | '\r' | '(' | ')' => Role::Divides,
                '<' | '>' => Role::Turns,
                _ if comment => Role::Turns,
                _ => Role::Plain,
            }
        };
        roles.push((at, c, role));
        before = c;
    }
    (roles, quote.is_none() && !escaped)
}

/// Whether it is one command and nothing else: no other is started, nothing is redirected, every quote is closed.
pub(super) fn is_plain(command: &str) -> bool {
    let (roles, closed) = roles(command);
    closed && roles.iter().all(|(_, _, role)| *role == Role::Plain)
}

/// The commands within it, as far as they can be told, with single blanks.
pub(super) fn parts(command: &str) -> Vec<String> {
    // As a shell puts lines together that go on.
    let command = &command.replace("\\\n", "");
    let (roles, _) = roles(command);
    let (mut parts, mut from) = (Vec::new(), 0);
    for (at, c, _) in roles.iter().filter(|(_, _, role)| *role == Role::Divides) {
        parts.push(&command[from..*at]);
        from = at + c.len_utf8();
    }
    parts.push(&command[from..]);
    parts.into_iter().map(named).filter(|part| !part.is_empty()).collect()
}

/// What may stand before a command.
const BEFORE: &[&str] = &["if", "then", "else", "elif", "while", "until", "do", "time", "command", "builtin", "exec", "nohup"];

/// A command without what stands before its name: brackets, a shell's own words, and what is set for it alone (`FOO=1 rm x`); the
/// name without what hides it (`\rm`, `"rm"`).
fn named(part: &str) -> String {
    let is_setting = |word: &&str| {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let words = part.split_whitespace().map(|word| word.trim_start_matches(['{', '(', '!'])).filter(|word| !word.is_empty());
    let mut words = words.skip_while(|word| is_setting(word) || BEFORE.contains(word));
    let name = words.next().unwrap_or_default().replace(['\\', '"', '\''], "");
    std::iter::once(name.as_str()).chain(words).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// The command that a shell is given as one word: `/bin/bash -lc 'ls'` is `ls`. Codex writes all of them so.
pub(super) fn unwrapped(command: &str) -> &str {
    let inner = || {
        let (shell, rest) = command.trim().split_once(' ')?;
        // Another program may be called so.
        let name = ["/bin/", "/usr/bin/", "/usr/local/bin/"].iter().find_map(|folder| shell.strip_prefix(folder));
        name.or(Some(shell)).filter(|name| matches!(*name, "sh" | "bash" | "zsh"))?;
        let word = rest.strip_prefix("-lc ").or_else(|| rest.strip_prefix("-c "))?.trim();
        let whole = |quote: char| {
            word.strip_prefix(quote)?.strip_suffix(quote).filter(|inner| !inner.contains([quote, '\\', '$', '`']))
        };
        let single = word.strip_prefix('\'').and_then(|word| word.strip_suffix('\'')).filter(|inner| !inner.contains('\''));
        single.or_else(|| whole('"'))
    };
    inner().unwrap_or(command)
}
