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

/// The commands within it, as far as they can be told: what is denied is looked for in all of them. With single blanks, without
/// quotes, each by its name and by the file that it is.
pub(super) fn parts(command: &str) -> Vec<String> {
    let mut parts = Vec::new();
    collect(command, 0, &mut parts);
    parts
}

/// Nobody nests shells deeper.
const NESTED: usize = 4;

fn collect(command: &str, depth: usize, parts: &mut Vec<String>) {
    // As a shell puts lines together that go on.
    let command = &command.replace("\\\n", "");
    let (roles, _) = roles(command);
    let (mut from, mut redirected) = (0, false);
    let ends = roles.iter().filter(|(_, _, role)| *role != Role::Plain);
    let ends = ends.map(|(at, c, role)| (*at, at + c.len_utf8(), *role)).chain([(command.len(), command.len(), Role::Divides)]);
    for (at, next, role) in ends {
        let words = words(&command[from..at], redirected);
        if let Some((name, rest)) = words.split_first() {
            let file = name.rsplit('/').next().unwrap_or_default();
            parts.push(words.join(" "));
            if file != name {
                parts.push(format!("{file} {}", rest.join(" ")).trim_end().to_owned());
            }
            if depth < NESTED && SHELLS.contains(&file) {
                // What it is given to run, or the whole of it: `-c`, `-ec`, `-o x -c`, `--`.
                let given = rest.iter().position(|word| word.starts_with('-') && word.contains('c') && !word.starts_with("--"));
                let inner = given.map(|at| rest[at + 1..].join(" ")).unwrap_or_default();
                collect(inner.trim_start_matches("-- "), depth + 1, parts);
            }
        }
        (from, redirected) = (next, role == Role::Turns);
    }
}

const SHELLS: &[&str] = &["sh", "bash", "zsh", "dash", "ksh"];

/// What may stand before a command: a shell's own words, and programs that run another.
const BEFORE: &[&str] = &[
    "if", "then", "else", "elif", "while", "until", "do", "time", "command", "builtin", "exec", "nohup", "env", "nice",
    "timeout", "setsid", "coproc", "eval", "xargs", "stdbuf", "ionice",
];

/// The words of a command from its name on: without brackets, what is set for it alone (`FOO=1 rm x`), what hides it (`\\rm`,
/// `"rm"`), what is redirected before it, and what runs it.
fn words(part: &str, redirected: bool) -> Vec<String> {
    let words = split(part);
    let words = words.iter().map(|word| word.trim_start_matches(['{', '(', '!'])).filter(|word| !word.is_empty());
    let mut words = words.skip(usize::from(redirected)).peekable();
    let mut runs_another = false;
    while let Some(word) = words.peek() {
        let is_setting = word
            .split_once('=')
            .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        let of_another = runs_another && (word.starts_with('-') || word.starts_with(|c: char| c.is_ascii_digit()));
        let before = BEFORE.contains(word);
        if !is_setting && !of_another && !before {
            break;
        }
        runs_another |= before;
        words.next();
    }
    words.map(str::to_owned).collect()
}

/// Words as a shell splits them, without their quotes.
fn split(part: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut escaped) = (Vec::new(), String::new(), None, false);
    for c in part.chars() {
        match (quote, c) {
            _ if std::mem::take(&mut escaped) => word.push(c),
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (None | Some('"'), '\\') => escaped = true,
            (None, '\'' | '"') => quote = Some(c),
            (None, c) if c.is_whitespace() => words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty())),
            (_, c) => word.push(c),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// The command that a shell is given as one word: `/bin/bash -lc 'ls'` is `ls`. Codex writes all of them so.
pub(super) fn unwrapped(command: &str) -> &str {
    let inner = || {
        let (shell, rest) = command.trim().split_once(' ')?;
        // Another program may be called so.
        let name = ["/bin/", "/usr/bin/", "/usr/local/bin/"].iter().find_map(|folder| shell.strip_prefix(folder));
        name.or(Some(shell)).filter(|name| SHELLS.contains(name))?;
        let word = rest.strip_prefix("-lc ").or_else(|| rest.strip_prefix("-c "))?.trim();
        let whole = |quote: char| {
            word.strip_prefix(quote)?.strip_suffix(quote).filter(|inner| !inner.contains([quote, '\\', '$', '`']))
        };
        let single = word.strip_prefix('\'').and_then(|word| word.strip_suffix('\'')).filter(|inner| !inner.contains('\''));
        single.or_else(|| whole('"'))
    };
    inner().unwrap_or(command)
}
