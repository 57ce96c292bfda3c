//! Programs that run another program through an option (`tar --to-command`, `git submodule foreach`) or in code of
//! their own language.

use super::wrappers::{Inner, Wrapped, given, given_texts};

/// Programs that run code in their own language, and the options for code. Without an option, the first word is code.
#[rustfmt::skip]
const INTERPRETERS: &[(&str, &str)] = &[
    ("python python2 python3 pypy pypy3", "c"), ("perl", "eE"), ("ruby", "e"), ("node nodejs bun deno", "ep"), ("php", "r"), ("lua luajit", "e"),
    ("awk gawk mawk nawk", ""), ("osascript", "e"), ("tclsh expect", "c"), ("Rscript", "e"), ("emacs", ""),
];

/// Returns whether a program may run the text of an option or a word.
pub(in super::super) fn runs_by_option(name: &str) -> bool {
    name != "git" && PROGRAMS.iter().any(|(names, ..)| names.split(' ').any(|known| known == name)) || ESCAPING.contains(&name)
}

/// Program names, and the short and long options whose value is a command.
#[rustfmt::skip]
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("tar gtar bsdtar", "IF", "to-command checkpoint-action use-compress-program rsh-command info-script new-volume-script"),
    ("rsync", "e", "rsh rsync-path"), ("zip", "T", "unzip-command"), ("scp sftp", "S", ""), ("sort gsort", "", "compress-program"), ("man", "P", "pager"),
    ("nodemon", "x", "exec"), ("vagrant", "c", "command"), ("just", "", "command"), ("make gmake", "", "eval"), ("pwsh powershell", "", ""),
    ("mapfile readarray complete compgen", "C", ""), ("bind", "x", ""), ("hyperfine", "psc", "prepare setup cleanup conclude"),
    ("concurrently tmux screen gdb lldb sed gsed git ssh", "", ""),
];

/// Programs in which `!` passes the rest to a shell.
const ESCAPING: &[&str] = &["vim", "vi", "less", "nvim", "ex", "view", "vimdiff", "ed", "dc"];

/// Returns the words that a program may run because of an option.
pub(in super::super) fn by_option(name: &str, args: &[String]) -> Wrapped {
    let mut found = Wrapped::new();
    let text = |text: &str| Inner::Text(text.to_owned(), Vec::new());
    if let Some((_, letters, long)) = PROGRAMS.iter().find(|(names, ..)| names.split(' ').any(|known| known == name)) {
        let given = given_texts(args, letters, long).into_iter().map(|given| {
            // `tar --checkpoint-action=exec=TEXT`; `bind -x '"key": TEXT'`
            let given = given.strip_prefix("exec=").unwrap_or(given);
            let key = given.split_once(':').filter(|_| name == "bind");
            text(key.map_or(given, |(_, given)| given.trim().trim_matches(['"', '\''])))
        });
        found.runs.extend(given);
    }
    if ESCAPING.contains(&name) {
        found.runs.extend(args.iter().filter_map(|arg| Some(text(&arg[arg.find('!')? + 1..]))));
    }
    match name {
        "hyperfine" => found.runs.extend(args.iter().filter(|arg| !arg.starts_with('-')).map(|arg| text(arg))),
        "gdb" | "lldb" => {
            let from = args.iter().position(|arg| matches!(&**arg, "--args" | "-args" | "--"));
            found.runs.extend(from.map(|at| Inner::Words(args[at + 1..].to_vec())));
            let shells = args.iter().filter_map(|arg| arg.strip_prefix("shell ").or_else(|| arg.strip_prefix('!')));
            found.runs.extend(shells.map(text));
        }
        "git" => git(args, &mut found),
        "concurrently" => found.runs.extend(args.iter().map(|arg| text(arg))),
        "sed" | "gsed" => found.runs.extend(args.iter().filter_map(|arg| sed(arg)).map(text)),
        "tmux" | "screen" => {
            found
                .runs
                .extend(args.iter().enumerate().filter(|(at, arg)| *at > 0 || arg.contains(' ')).map(|(_, arg)| text(arg)));
            // `screen -dm rm x`
            let from = args.iter().position(|arg| !arg.starts_with('-')).filter(|_| name == "screen");
            found.runs.extend(from.map(|at| Inner::Words(args[at..].to_vec())));
        }
        "cargo" if args.first().is_some_and(|arg| arg == "watch") => found.runs.extend(given(args, "s", "shell")),
        "pwsh" | "powershell" => {
            let command = |arg: &String| arg.len() > 1 && "-command".starts_with(&arg.to_lowercase());
            found.runs.extend(args.iter().position(command).map(|at| text(&args[at + 1..].join(" "))));
        }
        "ssh" | "scp" | "sftp" => {
            let command = |arg: &String| Some(text(arg.split_once("Command=").or_else(|| arg.split_once("command="))?.1));
            found.runs.extend(args.iter().filter_map(command));
        }
        _ => {}
    }
    found
}

/// Finds what git passes to a shell. A setting from `-c` may be anything that git runs later.
fn git(args: &[String], found: &mut Wrapped) {
    const LONG: &str = "exec tree-filter index-filter msg-filter env-filter commit-filter parent-filter tag-name-filter upload-pack \
                        receive-pack extcmd open-files-in-pager sendmail-cmd";
    let text = |text: &str| Inner::Text(text.trim_start_matches('!').to_owned(), Vec::new());
    // A single plain word is a value, or a program without harmful arguments.
    let may_run = |setting: &String| {
        let value = setting.split_once('=').filter(|(key, _)| !key.starts_with("user.")).map_or("", |(_, value)| value);
        value.trim().contains([' ', '/', '!'])
    };
    let has = |word: &str| args.iter().any(|arg| arg == word);
    let letters = if has("rebase") || has("difftool") { "x" } else { "" };
    found.runs.extend(given(args, letters, LONG));
    let runs = args.windows(2).position(|pair| matches!([&*pair[0], &*pair[1]], [_, "foreach"] | ["bisect", "run"]));
    if let Some(at) = runs.filter(|_| has("submodule") || has("bisect")) {
        found
            .runs
            .push(text(&args[at + 2..].iter().filter(|arg| !arg.starts_with("--")).cloned().collect::<Vec<_>>().join(" ")));
    }
    for (at, arg) in args.iter().enumerate() {
        let setting = match &**arg {
            "-c" | "--config" => {
                args.get(at + 1).filter(|key| may_run(key)).and_then(|setting| Some(setting.split_once('=')?.1))
            }
            // `git config alias.x '!rm y'`
            _ => arg.strip_prefix('!'),
        };
        // A value of one word is a program without arguments.
        found.runs.extend(setting.filter(|text| text.trim().contains(' ')).map(text));
    }
    let keys = args.windows(2).filter(|pair| pair[0] == "-c").map(|pair| &pair[1]);
    let own = |arg: &String| arg.starts_with("--config-env") || arg.starts_with("--exec-path=");
    found.sure &= !keys.into_iter().any(may_run) && !args.iter().any(own);
}

/// Returns what a program's words may run as code of its own language.
pub(super) fn in_code(name: &str, args: &[String]) -> Vec<Inner> {
    code(name, args).into_iter().map(|text| Inner::Text(text, Vec::new())).collect()
}

/// Returns what a program's standard input may run as code.
pub(super) fn in_input(name: &str, input: &str) -> Vec<Inner> {
    let escaped = input.lines().filter_map(|line| line.strip_prefix('!')).filter(|_| ESCAPING.contains(&name));
    let escaped = escaped.map(|text| Inner::Text(text.to_owned(), Vec::new()));
    in_code(name, &[input.to_owned()]).into_iter().chain(escaped).collect()
}

/// Returns the command in a sed script such as `1e rm x` or `s/a/rm x/e`.
fn sed(script: &str) -> Option<&str> {
    let command = script.trim_start_matches(|c: char| c.is_ascii_digit() || "$,!{ ".contains(c));
    if let Some(command) = command.strip_prefix("e ") {
        return Some(command);
    }
    let divides = command.strip_prefix('s')?.chars().next()?;
    let parts: Vec<_> = command.split(divides).collect();
    (parts.len() == 4 && parts[3].contains('e')).then(|| parts[2])
}

/// Returns the strings in code of another language that it may pass to a shell, if it mentions one. This is a guess
/// that finds plain cases.
fn code(name: &str, args: &[String]) -> Vec<String> {
    let Some((_, options)) = INTERPRETERS.iter().find(|(names, _)| names.split(' ').any(|known| known == name)) else {
        return Vec::new();
    };
    let given = args.iter().enumerate().filter_map(|(at, arg)| {
        let letters = arg.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        match letters {
            Some(letters) => letters.contains(|letter| options.contains(letter)).then(|| args.get(at + 1))?,
            None => (options.is_empty() || at == 0).then_some(arg),
        }
    });
    let mut texts = Vec::new();
    for code in given {
        let speaks =
            ["system", "exec", "popen", "spawn", "subprocess", "shell", "`", "|", "qx"].iter().any(|word| code.contains(word));
        if !speaks {
            continue;
        }
        let mut strings = Vec::new();
        let mut rest = code.as_str();
        while let Some(at) = rest.find(['"', '\'', '`', '{']) {
            let close = match rest.as_bytes()[at] {
                b'{' => '}',
                c => char::from(c),
            };
            let inner = &rest[at + 1..];
            let Some(end) = inner.find(close) else { break };
            if close == '}' && inner[..end].contains(['"', '\'', '`', '(']) {
                rest = inner;
                continue;
            }
            strings.push(inner[..end].to_owned());
            rest = &inner[end + 1..];
        }
        // `["rm", "x"]` is one command.
        let joined = strings.join(" ");
        texts.extend(strings.into_iter().filter(|text| text.contains(' ')));
        texts.push(joined);
    }
    texts
}
