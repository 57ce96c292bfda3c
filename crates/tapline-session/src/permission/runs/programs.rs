//! Programs that run others because of an option or a word: `git rebase --exec`, `tar --to-command`, `rg --pre`. The
//! options of a program are not read one by one: a word that could be such an option, however the program reads its
//! words, counts as one.

use super::table::{GIT, INTERPRETERS, PLAIN_SETTINGS, ROWS, RUNNING};
use super::{is_mark, is_open, sed};
use crate::pattern::matches;

/// Returns whether a program may run another because of its words, or of what is on its standard input.
pub(in super::super) fn may_run(name: &str, args: &[String], fed: bool) -> bool {
    let of = |list: &str, name: &str| list.split(' ').any(|known| known == name);
    let known = |name: &str| ROWS.iter().any(|row| of(row.0, name));
    let name = if known(name) { name } else { unversioned(name) };
    match name {
        "git" => return git(args),
        "sed" | "gsed" => return sed::may_run(args),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" | "goawk" => return awk(args),
        "sqlite3" | "psql" if args.iter().any(|arg| commands_itself(name, arg)) => return true,
        _ => {}
    }
    let open = args.iter().any(|arg| is_open(arg));
    ROWS.iter().filter(|row| of(row.0, name)).any(|(_, when, letters, long, words)| {
        // Which word is a subcommand is not known if an option, or an open word, is first.
        let first = args.first().is_some_and(|arg| arg.starts_with('-') || is_open(arg));
        let applies = when.is_empty() || args.iter().any(|arg| of(when, arg)) || (open && first);
        let bundle = name.ends_with("tar").then(|| args.first().map(|arg| format!("-{arg}"))).flatten();
        applies
            && (open
                || (fed && of(words, "<"))
                || args
                    .iter()
                    .chain(&bundle)
                    .any(|arg| !of(when, arg) && (is_option(arg, letters, long) || is_word(arg, words))))
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

/// Returns whether a word is one of these, in any case.
fn is_word(arg: &str, words: &str) -> bool {
    words.split(' ').any(|word| match word {
        "" | "<" => false,
        ":" => !arg.starts_with('-'),
        word => matches(word, arg) || matches(word, &arg.to_lowercase()),
    })
}

/// Reads as much of git's words as tells its subcommand. What is before it must be known.
fn git(args: &[String]) -> bool {
    let mut rest = args;
    loop {
        rest = match rest {
            [] => return false,
            [option, value, more @ ..] if matches!(&**option, "-C" | "--git-dir" | "--work-tree") && !is_open(value) => more,
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
        *words == "*" || rest.iter().any(|arg| is_open(arg) || is_option(arg, letters, long) || is_word(arg, words))
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

/// Returns whether a program of awk may run another: `system(…)`, or a pipe. In a pattern, `|` is something else.
fn awk(args: &[String]) -> bool {
    let pipes = |arg: &str| {
        let arg = arg.replace("||", "");
        let piped = |at: usize| {
            let after = arg[at + 1..].trim_start_matches(['&', ' ', '\t', '\n']);
            let before = &arg[..at];
            after.starts_with("getline")
                || before.rfind("print").is_some_and(|print| !before[print..].contains(['}', ';', '\n']))
        };
        arg.match_indices('|').any(|(at, _)| piped(at))
    };
    args.iter().any(|arg| {
        let arg = &**arg;
        is_open(arg)
            || arg.contains("system")
            || arg.contains("@load")
            || arg.contains("@include")
            || pipes(arg)
            || is_option(arg, "flE", "file load include exec")
    })
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
