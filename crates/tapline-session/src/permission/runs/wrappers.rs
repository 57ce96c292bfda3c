//! Programs that run another program, and where it is in their words. One row per program; special cases are below.

/// What a program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Inner {
    /// These words.
    Words(Vec<String>),
    /// These words with more from standard input. With `-I`, the input replaces a word.
    InputWords(Vec<String>, Option<String>),
    /// A text that a shell with these parameters reads.
    Text(String, Vec<String>),
    /// The text on standard input, or in this file.
    Input(Option<String>),
    /// A text of which only expansions are run.
    Expanded(String),
    /// What the text does not show.
    Unknown,
}

/// What a program runs, and whether that is certain.
#[derive(Debug)]
pub(in super::super) struct Wrapped {
    pub(in super::super) runs: Vec<Inner>,
    /// Whether every option before the command is known and no variable is set for it. Otherwise another program may
    /// run.
    pub(in super::super) sure: bool,
    /// Whether it is a builtin that expands its arguments again.
    pub(super) expands: bool,
}

impl Wrapped {
    fn new() -> Self {
        Self { runs: Vec::new(), sure: true, expands: false }
    }

    fn add(&mut self, other: Self) {
        self.runs.extend(other.runs);
        self.sure &= other.sure;
    }

    /// Returns a result that is not certain: the program may run something else, too.
    fn unsure(runs: impl IntoIterator<Item = Inner>) -> Self {
        Self { runs: runs.into_iter().collect(), sure: false, expands: false }
    }
}

/// What follows a program's options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Words,
    /// The words are a text for a shell.
    Text,
    /// Variables (`A=1`) may come before the command.
    Settings,
}
use Kind::{Settings, Text, Words};

/// Names; short and long options that take a value; options without a value, short ones first; the number of words
/// before the command; the kind.
type Row = (&'static str, &'static str, &'static str, &'static str, usize, Kind);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("timeout gtimeout",            "ks",              "kill-after signal", "fpv foreground preserve-status verbose", 1, Words),
    ("nice gnice",                  "n",               "adjustment", "0123456789", 0, Words),
    ("ionice",                      "cnpPu",           "class classdata pid pgid uid", "t ignore", 0, Words),
    ("setsid",                      "",                "", "cfw ctty fork wait", 0, Words),
    ("nohup noglob nocorrect busybox toybox fakeroot unbuffer eatmydata torsocks torify chronic dumb-init catchsegv", "", "", "", 0, Words),
    ("stdbuf gstdbuf",              "ioe",             "input output error", "", 0, Words),
    ("time gtime",                  "fo",              "format output", "apqv append portability quiet verbose", 0, Words),
    ("chrt",                        "TPD",             "sched-runtime sched-period sched-deadline", "bdfior batch deadline fifo idle other rr", 1, Words),
    ("taskset",                     "",                "", "ac all-tasks cpu-list", 1, Words),
    ("numactl",                     "NmiCpP",          "cpunodebind membind interleave physcpubind preferred", "l localalloc", 0, Words),
    ("sudo sudo-rs please",         "ugphCDRrTtU",     "user group prompt host close-from chdir chroot role type command-timeout other-user", "ABbEHiknPSs askpass background login non-interactive preserve-env reset-timestamp set-home shell stdin", 0, Settings),
    ("doas",                        "uCa",             "", "Ln", 0, Words),
    ("pkexec",                      "u",               "user", " disable-internal-agent keep-cwd", 0, Words),
    ("env genv",                    "uCaPS",           "unset chdir argv0 split-string", "0iv ignore-environment null debug", 0, Settings),
    ("gosu su-exec chpst setuidgid envuidgid softlimit", "", "", "", 1, Words),
    ("chroot",                      "",                "userspec groups", " skip-chdir", 1, Words),
    ("unshare",                     "RwSG",            "root wd setuid setgid map-user map-group map-users map-groups propagation setgroups boottime monotonic load-interp", "mpnuiUCTfrc mount pid net uts ipc user cgroup time fork map-root-user map-current-user map-auto kill-child mount-proc", 0, Words),
    ("nsenter",                     "tSGNWe",          "target setuid setgid net-socket", "amunipCUTrwFZ all mount uts net ipc pid cgroup user time root wd no-fork preserve-credentials", 0, Words),
    ("setpriv",                     "",                "ruid euid reuid rgid egid regid groups inh-caps ambient-caps bounding-set securebits pdeathsig selinux-label apparmor-profile", " clear-groups keep-groups init-groups no-new-privs nnp reset-env", 0, Words),
    ("prlimit",                     "po",              "pid output", "", 0, Words),
    ("strace",                      "eopsSaEObIPuUX",  "attach trace output string-limit summary-sort-by env user", "cCdDfFhiknqrtTvVwxyYzZ follow-forks", 0, Words),
    ("ltrace",                      "eaAlnopsuxXFDw", "output library align indent user where", "bcCfhiLrStTV", 0, Words),
    ("valgrind rr heaptrack cpulimit xvfb-run dbus-run-session", "lpens", "", "", 0, Words),
    ("systemd-run",                 "pEutMHGCd",       "unit property description slice service-type uid gid nice working-directory setenv on-active on-boot on-calendar timer-property machine host", " user scope pty pipe wait quiet collect", 0, Words),
    ("systemd-inhibit",             "",                "what who why mode", "", 0, Words),
    ("caffeinate",                  "tw",              "", "dimsu", 0, Words),
    ("faketime",                    "f",               "", "", 1, Words),
    ("rlwrap",                      "aAbcCDefgHlmMnNoOpPqsStwzW", "", "", 0, Words),
    ("entr",                        "",                "", "acdnprsxz", 0, Words),
    ("proxychains proxychains4",    "f",               "", "q", 0, Words),
    ("tini",                        "pe",              "", "sgvwh", 0, Words),
    ("firejail",                    "",                "", " quiet noprofile", 0, Words),
    ("repeat",                      "",                "", "", 1, Words),
    ("watchexec",                   "wefiosr",         "watch exts filter ignore", "", 0, Words),
    ("proot",                       "rbmqwk",          "rootfs bind mount qemu pwd", "", 0, Words),
    ("wsl wsl.exe",                 "du",              "distribution user", "e exec", 0, Words),
    ("npx bunx pnpx",               "pcw",             "package call workspace", "yq yes no no-install quiet", 0, Words),
    ("uvx",                         "pw",              "from with python index index-url default-index with-editable with-requirements", "q quiet isolated", 0, Words),
    ("flock",                       "wEc",             "timeout wait conflict-exit-code command", "sxeunoFv shared exclusive unlock nonblock nb no-fork close verbose", 1, Words),
    ("linux32 linux64 i386 i686 x86_64 uname26", "p",  "pid", "BFILRSTXZ3v addr-no-randomize", 0, Words),
    ("ssh-agent",                   "aEOPt",           "", "csDd", 0, Words),
    ("sshpass",                     "fdpP",            "", "ev", 0, Words),
    ("logsave",                     "",                "", "asv", 1, Words),
    ("choom",                       "np",              "adjust pid", "", 0, Words),
    ("cgexec",                      "g",               "", " sticky", 0, Words),
    ("watch",                       "nq",              "interval equexit", "bdegptwx beep differences errexit chgexit color no-title no-wrap precise exec", 0, Text),
    ("ssh mosh",                    "BbcDEeFIiJLlmOopQRSWwP", "", "46AaCfGgKkMNnqTtVvXxYy", 1, Text),
    ("xargs gxargs",                "adEILnPsSRJ",     "arg-file delimiter max-args max-procs max-chars process-slot-var", "0eiloprtx null open-tty no-run-if-empty interactive verbose exit replace eof max-lines", 0, Words),
];

/// Programs with a subcommand before the command, such as `uv run` and `docker exec`, with rows as above.
#[rustfmt::skip]
const SUBCOMMANDS: &[(&str, &str, Row)] = &[
    ("uv poetry pipenv pdm hatch rye pixi conda mamba micromamba", "run", ("", "npCw", "name prefix with python project directory package group extra env-file", "", 0, Words)),
    ("npm pnpm yarn bun bundle mise asdf rbenv", "exec dlx x", ("", "pwC", "package workspace filter", "", 0, Words)),
    ("pipx",                  "run", ("", "", "spec python pip-args index-url", "", 0, Words)),
    ("perf",                  "stat record trace", ("", "eorpCFc", "event output repeat", "adg", 0, Words)),
    ("docker podman nerdctl", "exec", ("", "euw", "env user workdir env-file detach-keys", "dit detach interactive privileged tty", 1, Words)),
    ("docker podman nerdctl", "run create", ("", "euwvpmlhac", "env user workdir volume publish name network entrypoint mount label memory cpus env-file platform add-host hostname pull restart", "ditqP detach init interactive privileged publish-all quiet read-only rm tty", 1, Words)),
    ("docker-compose",        "exec run", ("", "euwvp", "env user workdir index name", "Tdit rm detach", 1, Words)),
    ("kubectl oc",            "exec", ("", "cn", "container namespace", "iqt stdin quiet tty", 1, Words)),
    ("lxc incus",             "exec", ("", "", "env user group cwd", "tTn", 1, Words)),
    ("direnv",                "exec", ("", "", "", "", 1, Words)),
    ("adb",                   "shell", ("", "", "", "nTtx", 0, Text)),
    ("op doppler dotenv devbox", "run exec", ("", "", "", "", 0, Words)),
    ("chamber aws-vault",     "exec", ("", "", "", "", 1, Words)),
];

/// Shells: options first, then a file, or a text with `-c`.
pub(in super::super) const SHELLS: &[&str] =
    &["sh", "bash", "zsh", "dash", "ksh", "ash", "mksh", "rbash", "yash", "ksh93", "rzsh"];
/// Builtins that expand their arguments again.
const EVALUATING: &str = "test [ let declare typeset local export readonly unset read printf mapfile readarray getopts wait compgen complete integer float print";

/// Returns whether a program or builtin exists to run its arguments.
pub(in super::super) fn runs_others(name: &str) -> bool {
    let of = |list: &str| list.split(' ').any(|known| known == name);
    of("command builtin exec - eval trap source . find gfind")
        || is_loader(name)
        || SHELLS.contains(&name)
        || of(EVALUATING)
        || ROWS.iter().any(|row| of(row.0))
        || has_subcommands(name)
}

/// Returns whether a word says that a program runs the words after it: `docker exec`.
pub(super) fn has_subcommands(name: &str) -> bool {
    SUBCOMMANDS.iter().any(|(names, _, _)| names.split(' ').any(|known| known == name))
}

/// Returns whether this is a dynamic loader, as in `/lib64/ld-linux-x86-64.so.2 /bin/rm`.
fn is_loader(name: &str) -> bool {
    ["ld-linux", "ld-musl", "ld.so", "ld64.so"].iter().any(|loader| name.starts_with(loader))
}

/// Returns the words that a program runs, because that is its purpose.
pub(in super::super) fn inner(name: &str, args: &[String]) -> Wrapped {
    let of = |list: &str, name: &str| list.split(' ').any(|known| known == name);
    let text = |text: &str| Inner::Text(text.to_owned(), Vec::new());
    let mut found = Wrapped::new();
    if let Some(row) = ROWS.iter().find(|row| of(row.0, name)) {
        found.add(by_row(row, args));
    }
    for (_, subcommands, row) in SUBCOMMANDS.iter().filter(|(names, _, _)| of(names, name)) {
        // Global options may come first: `docker compose exec`, `kubectl -n x exec`.
        let at = args.iter().position(|arg| of(subcommands, arg));
        if let Some(at) = at.filter(|at| *at < 6) {
            found.add(by_row(row, &args[at + 1..]));
        }
        found.sure &= at.is_none_or(|at| at == 0 || (at == 1 && args[0] == "compose"));
    }
    if of(EVALUATING, name) {
        found.expands = true;
        found.runs.extend(args.iter().map(|arg| Inner::Expanded(arg.clone())));
    }
    match name {
        _ if SHELLS.contains(&name) => found.add(shell(args)),
        _ if is_loader(name) => {
            found.add(by_row(&("", "", "library-path preload audit argv0 inhibit-rpath", "", 0, Words), args));
        }
        // It splits a text in its own way.
        "env" | "genv" if args.iter().any(|arg| splits(arg)) => found.add(Wrapped::unsure([Inner::Unknown])),
        "command" | "builtin" | "exec" | "-" => {
            let row = ("", if name == "exec" { "a" } else { "" }, "", "", 0, Words);
            let options = operands(args, &row);
            if !(name == "command" && options.letters.contains(['v', 'V'])) {
                found.runs.push(Inner::Words(args[options.end..].to_vec()));
            }
        }
        "eval" => found.runs.push(text(&args[usize::from(args.first().is_some_and(|arg| arg == "--"))..].join(" "))),
        "trap" => found.runs.extend(args.iter().find(|arg| !arg.starts_with('-')).map(|arg| text(arg))),
        "source" | "." => found.runs.push(Inner::Input(args.iter().find(|arg| *arg != "--").cloned())),
        "xargs" | "gxargs" => {
            let replaced = replaced(args);
            for inner in &mut found.runs {
                if let Inner::Words(words) = inner {
                    *inner = Inner::InputWords(std::mem::take(words), replaced.clone());
                }
            }
        }
        "find" | "gfind" => found.runs.extend(between(args)),
        // Without a command, it reads one.
        "ssh" if found.runs.is_empty() => found.runs.push(Inner::Input(None)),
        _ => {}
    }
    found
}

/// Returns whether this is `-S` of `env`, also in a bundle or cut short.
fn splits(arg: &str) -> bool {
    let long = |name: &str| !name.is_empty() && "split-string".starts_with(name.split('=').next().unwrap_or_default());
    arg.strip_prefix("--").map_or(arg.starts_with('-') && arg.contains('S'), long)
}

struct Options {
    /// The index of the first word that is not an option.
    end: usize,
    letters: String,
    /// Whether all options are in the row.
    known: bool,
}

/// Reads the options at the front.
fn operands(args: &[String], row: &Row) -> Options {
    let (_, short, long, flags, ..) = *row;
    let of = |list: &str, name: &str| !name.is_empty() && list.split(' ').any(|known| known == name);
    let simple = flags.split(' ').next().unwrap_or_default();
    let mut options = Options { end: 0, letters: String::new(), known: true };
    let at = &mut options.end;
    while let Some(arg) = args.get(*at) {
        *at += 1;
        if arg == "--" {
            break;
        } else if let Some(name) = arg.strip_prefix("--") {
            let (name, given) = name.split_once('=').map_or((name, false), |(name, _)| (name, true));
            let is_flag = of(flags, name);
            // A prefix of a long option is enough: `--unse X`.
            let takes = !is_flag && !name.is_empty() && long.split(' ').any(|known| known.starts_with(name));
            *at += usize::from(takes && !given);
            options.known &= is_flag || of(long, name);
        } else if let Some(letters) = arg.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty()) {
            let takes = letters.find(|letter: char| short.contains(letter));
            // Its value follows directly, or is the next word.
            *at += usize::from(takes.is_some_and(|takes| takes + 1 == letters.len()));
            options.known &= letters[..takes.unwrap_or(letters.len())].chars().all(|letter| simple.contains(letter));
            options.letters.push_str(&letters[..takes.map_or(letters.len(), |takes| takes + 1)]);
        } else {
            *at -= 1;
            break;
        }
    }
    options.end = options.end.min(args.len());
    options
}

/// Returns whether an argument sets a variable: `A=1`, `-EA=1`, `--env=A=1`.
fn sets(arg: &str) -> bool {
    let value = match arg.strip_prefix("--") {
        Some(long) => long.split_once('=').map_or("", |(_, value)| value),
        None if arg.starts_with('-') => arg.get(2..).unwrap_or_default(),
        None => arg,
    };
    value.contains('=')
}

fn by_row(row: &Row, args: &[String]) -> Wrapped {
    let (names, .., before, kind) = *row;
    let first = operands(args, row);
    let (mut at, mut known) = (first.end, first.known);
    while kind == Settings && args.get(at).is_some_and(|arg| arg.contains('=') || arg == "-") {
        at += 1;
    }
    // Options may come between: `timeout 5 -s KILL`, `docker exec NAME -- rm`.
    for _ in 0..before {
        at += 1;
        let more = operands(args.get(at..).unwrap_or_default(), row);
        at += more.end;
        known &= more.known;
    }
    let at = at.min(args.len());
    let is_short_for = |arg: &str, long: &str| arg.len() > 2 && arg.starts_with("--") && long.starts_with(arg);
    // A shell reads the text: `sudo -s 'rm x'`.
    let shell = names.starts_with("sudo")
        && (first.letters.contains(['s', 'i'])
            || args[..first.end].iter().any(|arg| is_short_for(arg, "--shell") || is_short_for(arg, "--login")));
    let inner = |rest: &[String]| {
        if kind == Text || shell { Inner::Text(rest.join(" "), Vec::new()) } else { Inner::Words(rest.to_vec()) }
    };
    let mut runs = Vec::new();
    let rest = &args[at..];
    if let [_, less @ ..] = rest {
        runs.push(inner(rest));
        // An unknown option may take a value.
        runs.extend((!known && !less.is_empty()).then(|| inner(less)));
    }
    Wrapped { runs, sure: known && !args[..at].iter().any(|arg| sets(arg)), expands: false }
}

fn shell(args: &[String]) -> Wrapped {
    const FLAGS: &str = "abcefhiklmnprstuvxBCDEHPT login norc noprofile noediting posix restricted verbose";
    let options = operands(args, &("", "oO", "rcfile init-file", FLAGS, 0, Words));
    let mut found = Wrapped::new();
    // The file that the shell reads first. bash accepts one dash instead of two.
    for (at, arg) in args[..options.end].iter().enumerate() {
        if matches!(arg.trim_start_matches('-'), "rcfile" | "init-file") {
            found.runs.extend(args.get(at + 1).map(|file| Inner::Input(Some(file.clone()))));
            found.sure &= arg.starts_with("--");
        }
    }
    found.sure &= options.known;
    // A single `-` ends the options.
    let at = options.end + usize::from(args.get(options.end).is_some_and(|arg| arg == "-"));
    let rest = args.get(at..).unwrap_or_default();
    if options.letters.contains('c') || args[..at].iter().any(|arg| arg == "--command") {
        found.runs.extend(rest.split_first().map(|(text, args)| Inner::Text(text.clone(), args.to_vec())));
    } else {
        let is_input = options.letters.contains('s') || rest.is_empty();
        found.runs.push(Inner::Input(rest.first().filter(|_| !is_input).cloned()));
    }
    found
}

/// Returns the text that stands for the input of `xargs`: `-I MARK`.
fn replaced(args: &[String]) -> Option<String> {
    args.iter().enumerate().find_map(|(at, arg)| match arg.strip_prefix("-I").or_else(|| arg.strip_prefix("-J")) {
        Some("") => args.get(at + 1).cloned(),
        Some(text) => Some(text.to_owned()),
        None if arg == "-i" || arg == "--replace" => Some("{}".to_owned()),
        None => arg.strip_prefix("-i").or_else(|| arg.strip_prefix("--replace=")).map(str::to_owned),
    })
}

/// Finds the commands of `find … -exec COMMAND ;`. Each word is part of one command only; otherwise a hostile command
/// line could exhaust memory.
fn between(args: &[String]) -> Vec<Inner> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        if !matches!(&**arg, "-exec" | "-execdir" | "-ok" | "-okdir") {
            continue;
        }
        let rest = &args[at..];
        let ends = |(end, arg): (usize, &String)| {
            arg == ";" || (arg == "+" && end.checked_sub(1).is_some_and(|before| rest[before] == "{}"))
        };
        let end = rest.iter().enumerate().position(ends).unwrap_or(rest.len());
        found.push(Inner::InputWords(rest[..end].to_vec(), Some("{}".to_owned())));
        at += end;
    }
    found
}
