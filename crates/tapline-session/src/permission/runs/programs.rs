//! Programs that run others because of an option or a word: `git rebase --exec`, `tar --to-command`, `rg --pre`. The
//! options of a program are not read one by one: a word that could be such an option, however the program reads its
//! words, counts as one.

use super::table::{ABBREVIATING, GIT, INTERPRETERS, PLAIN_SETTINGS, ROWS, RUNNING};
use super::{GLOB, MADE, is_mark, is_open, is_partly_open, sed};
use crate::pattern::matches;

/// Returns whether a program may run another because of its words, or of what is on its standard input.
pub(in super::super) fn may_run(name: &str, args: &[String], fed: bool) -> bool {
    let of = |list: &str, name: &str| list.split(' ').any(|known| known == name);
    let known = |name: &str| ROWS.iter().any(|row| of(row.0, name));
    let name = if known(name) { name } else { unversioned(name) };
    match name {
        "git" => return git(args),
        _ if name.starts_with("git-") => return git(&[&[name["git-".len()..].to_owned()], args].concat()),
        "sed" | "gsed" => return sed::may_run(args),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" | "goawk" => return awk(args),
        "sqlite3" | "psql" if args.iter().any(|arg| commands_itself(name, arg)) => return true,
        _ => {}
    }
    let open = args.iter().any(|arg| is_open(arg));
    let short = of(ABBREVIATING, name);
    ROWS.iter().filter(|row| of(row.0, name)).any(|(_, when, letters, long, words)| {
        // Which word is a subcommand is not known if an option, or an open word, is first.
        let first = args.first().is_some_and(|arg| arg.starts_with('-') || is_open(arg));
        let applies = when.is_empty() || args.iter().any(|arg| is_word(arg, when, short)) || (open && first);
        let bundle = name.ends_with("tar").then(|| args.first().map(|arg| format!("-{arg}"))).flatten();
        applies
            && (open
                || (fed && of(words, "<"))
                || args
                    .iter()
                    .chain(&bundle)
                    .any(|arg| !of(when, arg) && (is_option(arg, letters, long) || is_word(arg, words, short))))
    })
}

/// Returns the name of a program without its version or its target: `gcc-12`, `python3.11`, `x86_64-linux-gnu-gcc`.
fn unversioned(name: &str) -> &str {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || ".-".contains(c));
    name.rsplit_once('-').filter(|(before, _)| before.contains('-')).map_or(name, |(_, last)| last)
}

/// Returns whether a word may be one of these options.
fn is_option(arg: &str, letters: &str, long: &str) -> bool {
    let Some(rest) = arg.strip_prefix('-') else { return false };
    let name = rest.strip_prefix('-').unwrap_or(rest).split('=').next().unwrap_or_default();
    let mut long = long.split(' ').filter(|known| !known.is_empty());
    if name.contains(is_mark) {
        return !letters.is_empty() || long.next().is_some();
    }
    if rest.starts_with('-') {
        !name.is_empty() && long.any(|known| known.starts_with(name))
    } else {
        rest.contains(|c| letters.contains(c)) || long.any(|known| known == name)
    }
}

/// Returns whether a word may be one of these, in any case, or, if `short`, the beginning of one.
fn is_word(arg: &str, words: &str, short: bool) -> bool {
    let lower = arg.to_lowercase();
    let may_be = |arg: &str, word: &str| match arg.split_once([MADE, GLOB]) {
        None => matches(word, arg) || (short && !arg.is_empty() && word.starts_with(arg)),
        // What is before the first `*` must agree with what is written out.
        Some((written, _)) => match word.split_once('*') {
            Some((start, _)) => start.starts_with(written) || written.starts_with(start),
            None => word.starts_with(written),
        },
    };
    words.split(' ').any(|word| match word {
        "" | "<" => false,
        ":" => !arg.starts_with('-'),
        word => may_be(arg, word) || may_be(&lower, word),
    })
}

/// Reads as much of git's words as tells its subcommand. What is before it must be known.
fn git(args: &[String]) -> bool {
    let mut rest = args;
    loop {
        rest = match rest {
            [] => return false,
            [option, ..] if is_partly_open(option) => return true,
            [_, value, ..] if rest[0].starts_with('-') && is_partly_open(value) => return true,
            [option, _, more @ ..] if matches!(&**option, "-C" | "--git-dir" | "--work-tree") => more,
            [option, setting, more @ ..] if option == "-c" && is_plain_setting(setting) => more,
            [option, more @ ..]
                if [
                    "--no-pager",
                    "-P",
                    "--paginate",
                    "-p",
                    "--bare",
                    "--no-optional-locks",
                    "--version",
                    "--literal-pathspecs",
                ]
                .contains(&&**option)
                    || option.starts_with("--git-dir=")
                    || option.starts_with("--work-tree=") =>
            {
                more
            }
            _ => break,
        }
    }
    let Some((sub, rest)) = rest.split_first() else { return false };
    if sub.starts_with('-') || sub.contains(is_mark) {
        return true;
    }
    let of = |list: &str| list.split(' ').any(|known| known == sub);
    if rest.iter().any(|arg| arg.starts_with("--ext")) {
        return true;
    }
    if sub == "config" {
        return config(rest);
    }
    GIT.iter().filter(|(subs, ..)| of(subs)).any(|(_, letters, long, words)| {
        *words == "*" || rest.iter().any(|arg| is_open(arg) || is_option(arg, letters, long) || is_word(arg, words, false))
    })
}

/// Returns whether `git config` may set something that runs a program.
fn config(args: &[String]) -> bool {
    let is_place = |arg: &&String| ["--global", "--local", "--system", "--worktree", "--add", "set"].contains(&&***arg);
    let mut rest = args.iter().skip_while(is_place);
    match (rest.next().map(String::as_str), rest.next()) {
        (None | Some("--get" | "--get-all" | "--get-regexp" | "--list" | "-l" | "get" | "list" | "--unset" | "unset"), _) => {
            false
        }
        (Some(key), None) => key.starts_with('-') || key == "edit" || is_open(key),
        (Some(key), Some(value)) => !is_plain_setting(&format!("{key}={value}")),
    }
}

fn is_plain_setting(setting: &str) -> bool {
    let setting = setting.to_lowercase();
    PLAIN_SETTINGS.split_whitespace().any(|plain| match plain.split_once('=') {
        Some(_) => setting == plain,
        None => setting
            .strip_prefix(plain)
            .is_some_and(|rest| plain.ends_with(['.', 'o']) || rest.is_empty() || rest.starts_with('=')),
    })
}

/// Returns whether awk may run another program: `system(…)`, a pipe, or a function by its name.
fn awk(args: &[String]) -> bool {
    let is_path = |arg: &str| arg.chars().all(|c| c.is_alphanumeric() || "_./-:~,}]".contains(c) || is_mark(c));
    args.iter().any(|arg| {
        is_open(arg)
            // Only a file name may have a part that is not known.
            || (arg.contains(is_mark) && (arg.contains(MADE) || !is_path(arg)))
            || arg.contains("system")
            || (!arg.starts_with("-F") && arg != "|" && pipes(arg))
            || is_option(arg, "flEiD", "file load include exec debug")
    })
}

/// Returns whether a program of awk may have `|` or `@` outside strings and patterns. If it has one, and where a pattern
/// is cannot be told from the text, it counts.
fn pipes(program: &str) -> bool {
    let program = program.replace("||", ",");
    if !program.contains(['|', '@']) {
        return false;
    }
    let (mut before, mut rest) = (';', &*program);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '|' | '@' | '#' => return true,
            // After anything else, a slash may divide.
            '/' if !";{}(,~!&".contains(before) => return true,
            '"' | '/' => {
                let mut escaped = false;
                let ends = |inner: char| {
                    let ends = inner == c && !escaped;
                    escaped = inner == '\\' && !escaped;
                    ends
                };
                let Some(end) = rest.find(ends) else { return true };
                // Not every awk ends `/[/]/` at the same slash.
                if c == '/' && rest[..end].contains('[') {
                    return true;
                }
                rest = &rest[end + 1..];
            }
            _ => {}
        }
        if !c.is_whitespace() {
            before = c;
        }
    }
    false
}

/// Returns whether a word has a command of the program's own that may run another: `.shell`, `\!`.
fn commands_itself(name: &str, arg: &str) -> bool {
    if name == "psql" {
        let plain = |rest: &str| rest.starts_with(|c| "dlxtqnz".contains(c)) && !rest.starts_with("lo_");
        return arg.match_indices('\\').any(|(at, _)| !plain(&arg[at + 1..]));
    }
    let safe = ".tables .schema .headers .header .mode .dump .databases .indexes .indices .width .stats .help .quit .exit .nullvalue .timer";
    let own = |line: &str| {
        let word = line.split_whitespace().next().unwrap_or_default().trim_end_matches(';');
        let letters =
            word.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || is_mark(c)));
        letters && !safe.split(' ').any(|known| known == word)
    };
    arg.lines().map(str::trim_start).any(own)
}

pub(super) fn is_interpreter(name: &str) -> bool {
    let of = |name: &str| INTERPRETERS.split_whitespace().any(|known| known == name);
    of(name) || of(unversioned(name))
}

/// Returns whether code seems to run a program.
pub(super) fn speaks<'t>(mut code: impl Iterator<Item = &'t str>) -> bool {
    code.any(|text| {
        let text = text.to_lowercase();
        RUNNING.split(' ').any(|word| text.contains(word))
    })
}
