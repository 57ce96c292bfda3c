//! Programs that run another: where in their words it stands. One row a program; what needs more than a row is below.

/// What a program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Inner {
    /// These words.
    Words(Vec<String>),
    /// These words, and more from standard input; with `-I`, in place of a word.
    InputWords(Vec<String>, Option<String>),
    /// A text, read by a shell that has these parameters.
    Text(String, Vec<String>),
    /// What standard input says, or this file.
    Input(Option<String>),
    /// A text in which only what is expanded is run.
    Expanded(String),
}

/// Names; short and long options that take a word; how many words stand before the command; whether settings may; whether it is a
/// text for a shell.
type Row = (&'static str, &'static str, &'static str, usize, bool, bool);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("timeout gtimeout",            "ks",              "kill-after signal", 1, false, false),
    ("nice gnice",                  "n",               "adjustment", 0, false, false),
    ("ionice",                      "cnpPu",           "class classdata pid pgid uid", 0, false, false),
    ("nohup setsid noglob nocorrect busybox toybox fakeroot unbuffer eatmydata torsocks torify chronic dumb-init catchsegv", "", "", 0, false, false),
    ("stdbuf gstdbuf",              "ioe",             "input output error", 0, false, false),
    ("time gtime",                  "fo",              "format output", 0, false, false),
    ("chrt",                        "TPD",             "sched-runtime sched-period sched-deadline", 1, false, false),
    ("taskset",                     "",                "", 1, false, false),
    ("numactl",                     "NmiCpP",          "cpunodebind membind interleave physcpubind preferred", 0, false, false),
    ("sudo sudo-rs please",         "ugphCDRrTtU",     "user group prompt host close-from chdir chroot role type command-timeout other-user", 0, true, false),
    ("doas",                        "uCa",             "", 0, false, false),
    ("pkexec",                      "u",               "user", 0, false, false),
    ("gosu su-exec chpst setuidgid envuidgid softlimit", "", "", 1, false, false),
    ("chroot",                      "",                "userspec groups", 1, false, false),
    ("unshare",                     "RwSG",            "root wd setuid setgid map-user map-group map-users map-groups propagation setgroups boottime monotonic load-interp", 0, false, false),
    ("nsenter",                     "tSGNWe",          "target setuid setgid net-socket", 0, false, false),
    ("setpriv",                     "",                "ruid euid reuid rgid egid regid groups inh-caps ambient-caps bounding-set securebits pdeathsig selinux-label apparmor-profile", 0, false, false),
    ("prlimit",                     "po",              "pid output", 0, false, false),
    ("strace",                      "eopsSaEObIPuUX",  "attach trace output string-limit summary-sort-by env user", 0, false, false),
    ("ltrace",                      "eaAlnopsuxXFDw", "output library align indent user where", 0, false, false),
    ("valgrind rr heaptrack cpulimit xvfb-run dbus-run-session", "lpens", "", 0, false, false),
    ("systemd-run",                 "pEutMHGCd",       "unit property description slice service-type uid gid nice working-directory setenv on-active on-boot on-calendar timer-property machine host", 0, false, false),
    ("systemd-inhibit",             "",                "what who why mode", 0, false, false),
    ("caffeinate",                  "tw",              "", 0, false, false),
    ("faketime",                    "f",               "", 1, false, false),
    ("rlwrap",                      "aAbcCDefgHlmMnNoOpPqsStwzW", "", 0, false, false),
    ("entr",                        "",                "", 0, false, false),
    ("proxychains proxychains4",    "f",               "", 0, false, false),
    ("tini",                        "pe",              "", 0, false, false),
    ("firejail",                    "",                "", 0, false, false),
    ("start-stop-daemon",           "xapnusrgcdNPIkO", "exec startas pidfile name user signal retry chuid chdir nicelevel", 0, false, false),
    ("repeat",                      "",                "", 1, false, false),
    ("watchexec",                   "wefiosr",         "watch exts filter ignore", 0, false, false),
    ("proot",                       "rbmqwk",          "rootfs bind mount qemu pwd", 0, false, false),
    ("wsl wsl.exe",                 "du",              "distribution user", 0, false, false),
    ("npx bunx pnpx",               "pcw",             "package workspace", 0, false, false),
    ("watch",                       "nq",              "interval equexit", 0, false, true),
    ("ssh mosh",                    "BbcDEeFIiJLlmOopQRSWwP", "", 1, false, true),
];

/// Programs with a word of their own before the command: `uv run`, `docker exec`; rows as above.
#[rustfmt::skip]
const SUBCOMMANDS: &[(&str, &str, Row)] = &[
    ("uv poetry pipenv pdm hatch rye pixi conda mamba micromamba", "run", ("", "npCw", "name prefix with python project directory package group extra env-file", 0, false, false)),
    ("npm pnpm yarn bun bundle mise asdf rbenv", "exec dlx x", ("", "pwC", "package workspace filter", 0, false, false)),
    ("perf",                  "stat record trace", ("", "eorpCFcg", "event output repeat", 0, false, false)),
    ("docker podman nerdctl", "exec", ("", "euw", "env user workdir env-file detach-keys", 1, false, false)),
    ("docker podman nerdctl", "run create", ("", "euwvpmlhac", "env user workdir volume publish name network entrypoint mount label memory cpus env-file platform add-host hostname pull restart", 1, false, false)),
    ("docker-compose",        "exec run", ("", "euwvp", "env user workdir index name", 1, false, false)),
    ("kubectl oc",            "exec", ("", "cn", "container namespace", 1, false, false)),
    ("lxc incus",             "exec", ("", "", "env user group cwd", 1, false, false)),
    ("direnv",                "exec", ("", "", "", 1, false, false)),
    ("adb",                   "shell", ("", "", "", 0, false, true)),
    ("op doppler dotenv chamber aws-vault devbox toolbox", "run exec", ("", "", "", 0, false, false)),
];

/// Shells: their options, and then a file, or a text with `-c`.
pub(in super::super) const SHELLS: &[&str] =
    &["sh", "bash", "zsh", "dash", "ksh", "ash", "mksh", "rbash", "yash", "fish", "ksh93", "rzsh"];

/// Builtins that expand what their arguments say once more.
const EVALUATING: &[&str] = &[
    "test",
    "[",
    "let",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "unset",
    "read",
    "printf",
    "mapfile",
    "readarray",
    "getopts",
    "wait",
    "integer",
    "float",
    "print",
];

/// Programs that run code of their own language, and the options it comes with; a program without is its first word.
#[rustfmt::skip]
const INTERPRETERS: &[(&str, &str)] = &[
    ("python python2 python3 pypy pypy3", "c"), ("perl", "eE"), ("ruby", "e"), ("node nodejs bun deno", "ep"), ("php", "r"), ("lua luajit", "e"),
    ("awk gawk mawk nawk", ""), ("osascript", "e"), ("tclsh expect", "c"), ("Rscript", "e"), ("emacs", ""),
];

/// Whether a program, or a builtin, is there to run what it is given.
pub(in super::super) fn runs_others(name: &str) -> bool {
    const MORE: &[&str] = &[
        "env",
        "genv",
        "command",
        "builtin",
        "exec",
        "-",
        "coproc",
        "eval",
        "trap",
        "source",
        ".",
        "xargs",
        "gxargs",
        "parallel",
        "rush",
        "find",
        "gfind",
        "fd",
        "fdfind",
        "su",
        "runuser",
        "sg",
        "script",
        "flock",
        "capsh",
        "nix-shell",
        "newgrp",
        "jobs",
        "at",
        "batch",
    ];
    let of = |list: &str| list.split(' ').any(|known| known == name);
    MORE.contains(&name)
        || SHELLS.contains(&name)
        || EVALUATING.contains(&name)
        || ROWS.iter().any(|row| of(row.0))
        || SUBCOMMANDS.iter().any(|(names, _, _)| of(names))
}

/// What of its words a program runs: that is what it is for.
pub(in super::super) fn inner(name: &str, args: &[String]) -> Vec<Inner> {
    let mut found = Vec::new();
    if let Some(row) = ROWS.iter().find(|row| row.0.split(' ').any(|known| known == name)) {
        found.extend(by_row(row, args));
    }
    for (names, subcommands, row) in SUBCOMMANDS {
        let of = |list: &str, name: &str| list.split(' ').any(|known| known == name);
        // Its own options may stand before: `docker compose exec`, `kubectl -n x exec`.
        if of(names, name)
            && let Some(at) = args.iter().take(6).position(|arg| of(subcommands, arg))
        {
            found.extend(by_row(row, &args[at + 1..]));
        }
    }
    if SHELLS.contains(&name) {
        found.extend(shell(args));
    }
    if EVALUATING.contains(&name) {
        found.extend(args.iter().map(|arg| Inner::Expanded(arg.clone())));
    }
    let text = |text: &str| Inner::Text(text.to_owned(), Vec::new());
    let joined = |words: &[String]| text(&words.join(" "));
    match name {
        "env" | "genv" => found.extend(env(args)),
        "command" | "builtin" | "exec" | "-" | "coproc" => {
            let (at, flags) = operands(args, if name == "exec" { "a" } else { "" }, "");
            if !(name == "command" && flags.contains(['v', 'V'])) {
                found.push(Inner::Words(args[at..].to_vec()));
            }
        }
        "eval" => found.push(joined(&args[operands(args, "", "").0..])),
        "trap" => found.extend(args.iter().find(|arg| !arg.starts_with('-')).map(|arg| text(arg))),
        "source" | "." => found.push(Inner::Input(args.iter().find(|arg| *arg != "--").cloned())),
        "xargs" | "gxargs" => found.extend(xargs(args)),
        "parallel" | "rush" => found.extend(parallel(args)),
        "find" | "gfind" | "fd" | "fdfind" => found.extend(between(args, name)),
        // Without a command it reads one.
        "ssh" if found.is_empty() => found.push(Inner::Input(None)),
        "nix" | "guix" | "distrobox" | "bwrap" => {
            let from = args.iter().position(|arg| matches!(&**arg, "--" | "-c" | "--command"));
            found.extend(from.map(|at| Inner::Words(args[at + 1..].to_vec())));
        }
        "su" | "runuser" | "sg" | "script" | "flock" | "capsh" | "nix-shell" | "newgrp" | "jobs" => {
            found.extend(with_c(name, args));
        }
        "at" | "batch" => found.push(Inner::Input(None)),
        _ => {}
    }
    found
}

/// What of its words a program may run: by an option, or in code of its own language. A guess, which finds too much.
pub(super) fn perhaps(name: &str, args: &[String]) -> Vec<Inner> {
    let mut found = by_option(name, args);
    let values =
        args.iter().filter(|arg| name == "git" && arg.starts_with("--")).filter_map(|arg| Some(arg.split_once('=')?.1));
    let values = values.filter(|value| value.trim().contains(' ')).map(str::to_owned);
    found.extend(values.chain(code(name, args)).map(|text| Inner::Text(text, Vec::new())));
    found
}

/// What of its words a program runs by an option or a word of its own, though it is there for other things.
pub(super) fn by_option(name: &str, args: &[String]) -> Vec<Inner> {
    let mut found = Vec::new();
    let text = |text: &str| Inner::Text(text.to_owned(), Vec::new());
    match name {
        "hyperfine" => found.extend(args.iter().filter(|arg| !arg.starts_with('-')).map(|arg| text(arg))),
        "gdb" | "lldb" => {
            let from = args.iter().position(|arg| matches!(&**arg, "--args" | "-args" | "--"));
            found.extend(from.map(|at| Inner::Words(args[at + 1..].to_vec())));
            let shells = args.iter().filter_map(|arg| arg.strip_prefix("shell ").or_else(|| arg.strip_prefix('!')));
            found.extend(shells.map(text));
        }
        "git" => found.extend(git(args)),
        "concurrently" => found.extend(args.iter().map(|arg| text(arg))),
        "sed" | "gsed" => found.extend(args.iter().filter_map(|arg| sed(arg)).map(text)),
        "vim" | "vi" | "less" | "nvim" | "ex" | "view" | "vimdiff" | "ed" => {
            found.extend(args.iter().filter_map(|arg| Some(text(&arg[arg.find('!')? + 1..]))));
        }
        "tar" | "gtar" | "bsdtar" | "rsync" | "zip" | "scp" | "sftp" | "sort" | "man" | "npx" | "nodemon" | "vagrant"
        | "just" | "pwsh" | "powershell" | "cargo" | "crontab" | "make" | "tmux" | "screen" | "mapfile" | "readarray"
        | "complete" | "compgen" | "bind" | "ssh" => found.extend(option_texts(name, args)),
        _ => {}
    }
    found
}

/// Where the first word stands that is no option, and the letters of those before it.
fn operands(args: &[String], short: &str, long: &str) -> (usize, String) {
    let (mut at, mut flags) = (0, String::new());
    while let Some(arg) = args.get(at) {
        at += 1;
        if arg == "--" {
            break;
        } else if let Some(name) = arg.strip_prefix("--") {
            at += usize::from(long.split(' ').any(|known| known == name && !name.is_empty()));
        } else if let Some(letters) = arg.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty()) {
            let takes = letters.find(|letter: char| short.contains(letter));
            // Its word stands behind it, or is the next.
            at += usize::from(takes.is_some_and(|takes| takes + 1 == letters.len()));
            flags.push_str(&letters[..takes.map_or(letters.len(), |takes| takes + 1)]);
        } else {
            at -= 1;
            break;
        }
    }
    (at.min(args.len()), flags)
}

fn is_setting(arg: &str) -> bool {
    arg.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && !name.starts_with('-') && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn by_row(row: &Row, args: &[String]) -> Option<Inner> {
    let (_, short, long, before, settings, is_text) = *row;
    let (mut at, flags) = operands(args, short, long);
    while settings && args.get(at).is_some_and(|arg| is_setting(arg)) {
        at += 1;
    }
    // Options may stand between: `timeout 5 -s KILL`, `docker exec NAME -- rm`.
    for _ in 0..before {
        at += 1;
        at += operands(args.get(at..).unwrap_or_default(), short, long).0;
    }
    let rest = args.get(at..).unwrap_or_default().to_vec();
    match rest.as_slice() {
        [] => None,
        // A shell gets the text: `sudo -s 'rm x'`, `npx -c 'rm x'`.
        _ if is_text || (settings && flags.contains(['s', 'i'])) => Some(Inner::Text(rest.join(" "), Vec::new())),
        _ => Some(Inner::Words(rest)),
    }
}

fn env(args: &[String]) -> Option<Inner> {
    let split = args.iter().position(|arg| {
        arg.starts_with("--split-string") || (arg.starts_with('-') && !arg.starts_with("--") && arg.contains('S'))
    });
    if let Some(at) = split {
        let arg = &args[at];
        let given = arg.split_once('=').filter(|_| arg.starts_with("--")).map(|(_, text)| text);
        let given = given.or_else(|| arg.split_once('S').map(|(_, text)| text).filter(|_| !arg.starts_with("--")));
        let rest = given.filter(|text| !text.is_empty()).into_iter().chain(args[at + 1..].iter().map(String::as_str));
        return Some(Inner::Text(format!("env {}", rest.collect::<Vec<_>>().join(" ")), Vec::new()));
    }
    let (mut at, _) = operands(args, "uCaP", "unset chdir argv0");
    while args.get(at).is_some_and(|arg| is_setting(arg) || arg == "-") {
        at += 1;
    }
    (at < args.len()).then(|| Inner::Words(args[at..].to_vec()))
}

fn shell(args: &[String]) -> Option<Inner> {
    let (mut at, flags) = operands(args, "oO", "rcfile init-file");
    // A single `-` ends the options.
    at += usize::from(args.get(at).is_some_and(|arg| arg == "-"));
    let rest = args.get(at..).unwrap_or_default();
    if flags.contains('c') || args[..at].iter().any(|arg| arg == "--command") {
        return rest.split_first().map(|(text, args)| Inner::Text(text.clone(), args.to_vec()));
    }
    let is_input = flags.contains('s') || rest.is_empty();
    Some(Inner::Input(rest.first().filter(|_| !is_input).cloned()))
}

fn xargs(args: &[String]) -> Option<Inner> {
    let (at, _) = operands(args, "adEILnPsSRJ", "arg-file delimiter max-args max-procs max-chars process-slot-var");
    let before = &args[..at];
    let replaced =
        before.iter().enumerate().find_map(|(at, arg)| match arg.strip_prefix("-I").or_else(|| arg.strip_prefix("-J")) {
            Some("") => before.get(at + 1).cloned(),
            Some(text) => Some(text.to_owned()),
            None if arg == "-i" || arg == "--replace" => Some("{}".to_owned()),
            None => arg.strip_prefix("-i").or_else(|| arg.strip_prefix("--replace=")).map(str::to_owned),
        });
    (at < args.len()).then(|| Inner::InputWords(args[at..].to_vec(), replaced))
}

fn parallel(args: &[String]) -> Option<Inner> {
    let (at, _) =
        operands(args, "jSnNLsIaCPd", "jobs sshlogin max-args arg-file colsep delay retries timeout joblog results workdir");
    let rest = &args[at..];
    let divide = rest.iter().position(|arg| arg.starts_with(":::")).unwrap_or(rest.len());
    let (command, given) = rest.split_at(divide);
    let given = given.get(1..).unwrap_or_default();
    // Without a command every argument is one.
    if command.is_empty() {
        return (!given.is_empty()).then(|| Inner::Text(given.join("; "), Vec::new()));
    }
    Some(Inner::InputWords(vec!["eval".to_owned(), command.join(" "), given.join(" ")], Some("{}".to_owned())))
}

/// `find … -exec COMMAND ;`, `fd … -x COMMAND`.
fn between(args: &[String], name: &str) -> Vec<Inner> {
    let starts = |arg: &String| match name {
        "fd" | "fdfind" => matches!(&**arg, "-x" | "-X" | "--exec" | "--exec-batch"),
        _ => matches!(&**arg, "-exec" | "-execdir" | "-ok" | "-okdir"),
    };
    let from = args.iter().enumerate().filter(|(_, arg)| starts(arg)).map(|(at, _)| &args[at + 1..]);
    let commands = from.map(|rest| {
        let end = rest.iter().position(|arg| arg == ";" || arg == "+").unwrap_or(rest.len());
        Inner::InputWords(rest[..end].to_vec(), None)
    });
    commands.collect()
}

/// `su -c TEXT`, `script -c TEXT`, `flock FILE -c TEXT`, `flock FILE COMMAND`.
fn with_c(name: &str, args: &[String]) -> Vec<Inner> {
    let mut found = Vec::new();
    for (at, arg) in args.iter().enumerate() {
        let next = args.get(at + 1).map(String::as_str);
        let cluster = arg.starts_with('-') && !arg.starts_with("--") && arg.ends_with('c');
        let given = match &**arg {
            "--command" | "--session-command" | "--run" => next,
            "-x" if name == "jobs" => {
                found.push(Inner::Words(args[at + 1..].to_vec()));
                None
            }
            _ if cluster => next,
            _ => ["--command=", "--session-command=", "-c"].iter().find_map(|option| arg.strip_prefix(option)),
        };
        found.extend(given.map(|text| Inner::Text(text.to_owned(), Vec::new())));
    }
    let row: Option<Row> = match name {
        "flock" => Some(("", "wE", "timeout wait conflict-exit-code", 1, false, false)),
        "runuser" => Some(("", "ugGs", "user group supp-group shell", 0, false, false)),
        _ => None,
    };
    found.extend(row.and_then(|row| by_row(&row, args)));
    if name == "script" {
        found.extend(args.iter().position(|arg| arg == "--").map(|at| Inner::Words(args[at + 1..].to_vec())));
    }
    found
}

fn git(args: &[String]) -> Vec<Inner> {
    const OPTIONS: &[&str] = &[
        "--exec",
        "--tree-filter",
        "--index-filter",
        "--parent-filter",
        "--msg-filter",
        "--env-filter",
        "--commit-filter",
        "--tag-name-filter",
        "--upload-pack",
        "--receive-pack",
        "--extcmd",
        "--open-files-in-pager",
    ];
    let mut found = Vec::new();
    for (at, arg) in args.iter().enumerate() {
        let follows = |words: &[&str]| args[..at].iter().any(|arg| words.contains(&&**arg));
        let (option, value) = arg.split_once('=').map_or((&**arg, None), |(option, value)| (option, Some(value)));
        let next = args.get(at + 1).map(String::as_str);
        let given = match option {
            "-c" | "--config" => value.or(next).and_then(setting),
            "-x" if follows(&["rebase", "difftool"]) => next,
            _ if OPTIONS.contains(&option) => value.or(next),
            // `git config alias.x '!rm y'`
            _ => arg.strip_prefix('!'),
        };
        found.extend(given.map(|text| text.trim_start_matches('!').to_owned()));
        if option == "run" && follows(&["bisect"]) || option == "foreach" && follows(&["submodule"]) {
            found.push(args[at + 1..].iter().filter(|arg| !arg.starts_with("--")).cloned().collect::<Vec<_>>().join(" "));
        }
    }
    found.into_iter().map(|text| Inner::Text(text, Vec::new())).collect()
}

/// What a setting of git's may run: `core.pager=less -R`, `alias.x=!rm y`, `core.fsmonitor=./x`. One plain word names a value, or a program
/// that is given nothing to do harm with.
fn setting(text: &str) -> Option<&str> {
    let (key, value) = text.split_once('=')?;
    (!key.starts_with("user.") && value.trim().contains([' ', '/', '!'])).then_some(value)
}

/// Options of programs whose word is a command: `tar --to-command=…`, `rsync -e …`, `complete -C …`.
fn option_texts(name: &str, args: &[String]) -> Vec<Inner> {
    const LONG: &[&str] = &[
        "to-command",
        "checkpoint-action",
        "use-compress-program",
        "rsh-command",
        "rsh",
        "rsync-path",
        "compress-program",
        "eval",
        "info-script",
        "new-volume-script",
        "unzip-command",
        "pager",
        "exec",
        "command",
    ];
    let short = match name {
        "tar" | "gtar" | "bsdtar" => "IF",
        "rsync" => "e",
        "zip" => "T",
        "scp" | "sftp" => "S",
        "man" => "P",
        "mapfile" | "readarray" | "complete" | "compgen" => "C",
        "npx" | "vagrant" | "pwsh" | "powershell" => "cC",
        "cargo" if args.first().is_some_and(|arg| arg == "watch") => "s",
        "bind" => "x",
        _ => "",
    };
    let mut found = Vec::new();
    for (at, arg) in args.iter().enumerate() {
        let next = args.get(at + 1).map(String::as_str);
        let text = if let Some(long) = arg.strip_prefix("--") {
            let (option, value) = long.split_once('=').map_or((long, next), |(option, value)| (option, Some(value)));
            value.filter(|_| LONG.contains(&option))
        } else if let Some(letters) =
            arg.strip_prefix('-').filter(|letters| letters.starts_with(|letter| short.contains(letter)))
        {
            if letters.chars().all(|letter| short.contains(letter)) || letters.eq_ignore_ascii_case("command") {
                next
            } else {
                Some(&letters[1..])
            }
        } else if matches!(name, "ssh" | "scp" | "sftp") {
            arg.strip_prefix("ProxyCommand=").or_else(|| arg.strip_prefix("LocalCommand="))
        } else if matches!(name, "tmux" | "screen") && (arg.contains(' ') || at > 0) {
            Some(&**arg)
        } else {
            None
        };
        let Some(text) = text else { continue };
        let text = text.strip_prefix("exec=").unwrap_or(text);
        // `bind -x '"key": command'`
        let text = if name == "bind" {
            text.split_once(':').map_or(text, |(_, text)| text.trim().trim_matches(['"', '\'']))
        } else {
            text
        };
        found.push(Inner::Text(text.to_owned(), Vec::new()));
    }
    if name == "screen" {
        found.push(Inner::Words(args[operands(args, "ScTehpstX", "").0..].to_vec()));
    }
    found
}

/// What standard input may run, as code for this program.
pub(super) fn perhaps_in_code(name: &str, code_text: &str) -> Vec<Inner> {
    code(name, &[code_text.to_owned()]).into_iter().map(|text| Inner::Text(text, Vec::new())).collect()
}

/// `1e rm x`, `s/a/rm x/e`
fn sed(script: &str) -> Option<&str> {
    let command = script.trim_start_matches(|c: char| c.is_ascii_digit() || "$,!{ ".contains(c));
    if let Some(command) = command.strip_prefix("e ") {
        return Some(command);
    }
    let divides = command.strip_prefix('s')?.chars().next()?;
    let parts: Vec<_> = command.split(divides).collect();
    (parts.len() == 4 && parts[3].contains('e')).then(|| parts[2])
}

/// The texts in code of another language that it may give to a shell. Only where it speaks of one: a guess, which finds what is written
/// plainly.
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
