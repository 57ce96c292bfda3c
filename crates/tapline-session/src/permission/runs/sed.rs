//! Whether a sed script may run a program: `1e rm x`, `s/a/rm x/e`. Only scripts of which all is known are taken for
//! harmless.

use super::{is_mark, is_open};

/// Returns whether sed may run a program.
pub(super) fn may_run(args: &[String]) -> bool {
    let (mut given, mut options) = (false, true);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if is_open(arg) {
            return true;
        }
        let script = if !options || !arg.starts_with('-') || arg == "-" {
            // The first word is the script. On a Mac, the empty word after `-i` is not.
            if given || arg.is_empty() {
                continue;
            }
            Some(arg.as_str())
        } else if arg == "--" {
            options = false;
            continue;
        } else if let Some(long) = arg.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            match name {
                "quiet" | "silent" | "in-place" | "regexp-extended" | "null-data" | "separate" | "unbuffered" | "posix"
                | "debug" | "sandbox" | "follow-symlinks" | "zero-terminated" | "version" | "help" => continue,
                _ if "expression".starts_with(name) => value.or_else(|| rest.next().map(String::as_str)),
                _ => return true,
            }
        } else {
            let cluster = arg[1..].trim_start_matches(|c| "nErsuz".contains(c));
            match cluster.chars().next() {
                None | Some('i') => continue,
                Some('e') if cluster.len() > 1 => Some(&cluster[1..]),
                Some('e') => rest.next().map(String::as_str),
                _ => return true,
            }
        };
        given = true;
        if script.is_none_or(|script| script.contains(is_mark) || is_harmless(script).is_none()) {
            return true;
        }
    }
    false
}

/// Reads a script to its end, if it is harmless.
fn is_harmless(script: &str) -> Option<()> {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '{', '}']);
        if rest.is_empty() {
            return Some(());
        }
        rest = address(rest)?;
        if let Some(second) = rest.strip_prefix(',') {
            rest = address(second.trim_start())?;
        }
        rest = rest.trim_start_matches([' ', '\t', '!']);
        let command = rest.chars().next()?;
        rest = &rest[command.len_utf8()..];
        rest = match command {
            '{' => rest,
            '}' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F' => ended(rest)?,
            'q' | 'Q' | 'l' | 'L' => ended(rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' '))?,
            's' => {
                let rest = parts(rest, true)?;
                ended(rest.trim_start_matches(|c: char| c.is_ascii_digit() || "gpiIM".contains(c)))?
            }
            'y' => ended(parts(rest, false)?)?,
            'b' | 't' | 'T' | ':' => {
                ended(rest.trim_start_matches([' ', '\t']).trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'))?
            }
            'a' | 'i' | 'c' => text_lines(rest)?,
            // The rest of the line is the name of a file, or a comment.
            'r' | 'R' | 'w' | 'W' | '#' => rest.find('\n').map_or("", |end| &rest[end..]),
            _ => return None,
        };
    }
}

/// Skips an address, if one is here.
fn address(text: &str) -> Option<&str> {
    let rest = match text.chars().next()? {
        '/' => delimited(&text[1..], '/', true)?,
        '\\' => {
            let mark = text[1..].chars().next()?;
            delimited(&text[1 + mark.len_utf8()..], mark, true)?
        }
        '$' => &text[1..],
        c if c.is_ascii_digit() || "+~".contains(c) => {
            text.trim_start_matches(|c: char| c.is_ascii_digit() || "+~".contains(c))
        }
        _ => return Some(text),
    };
    Some(rest.trim_start_matches(['I', 'M', ' ']))
}

/// Skips the two parts of `s/a/b/` and `y/a/b/`.
fn parts(text: &str, is_pattern: bool) -> Option<&str> {
    let mark = text.chars().next().filter(|c| !c.is_alphanumeric() && !c.is_whitespace() && *c != '\\')?;
    delimited(delimited(&text[mark.len_utf8()..], mark, is_pattern)?, mark, false)
}

/// Skips to behind this mark. In the brackets of a pattern, it stands for itself.
fn delimited(text: &str, mark: char, is_pattern: bool) -> Option<&str> {
    let mut rest = text;
    loop {
        let c = rest.chars().next()?;
        rest = &rest[c.len_utf8()..];
        match c {
            _ if c == mark => return Some(rest),
            '\\' => rest = &rest[rest.chars().next()?.len_utf8()..],
            '[' if is_pattern => rest = bracketed(rest)?,
            _ => {}
        }
    }
}

/// Skips to behind the `]`: of `[]a]`, `[^]a]`, `[[:alpha:]]`.
fn bracketed(text: &str) -> Option<&str> {
    let text = text.strip_prefix('^').unwrap_or(text);
    let mut rest = text.strip_prefix(']').unwrap_or(text);
    loop {
        let at = rest.find([']', '['])?;
        let class = rest[at..].strip_prefix('[').filter(|class| class.starts_with([':', '.', '=']));
        rest = match class {
            Some(class) => &class[1 + class[1..].find(&format!("{}]", &class[..1]))? + 2..],
            None if rest[at..].starts_with(']') => return Some(&rest[at + 1..]),
            None => &rest[at + 1..],
        };
    }
}

fn ended(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches([' ', '\t']);
    (rest.is_empty() || rest.starts_with([';', '\n', '}', '#'])).then_some(rest)
}

/// Skips a line of text, and the next if it is continued. The text may not go on in the next `-e`.
fn text_lines(text: &str) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == '\n' && !escaped {
            return Some(&text[at..]);
        }
        escaped = c == '\\' && !escaped;
    }
    (!escaped).then_some("")
}
