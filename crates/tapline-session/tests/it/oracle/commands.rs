//! Commands made by chance from a grammar of their own, some of them damaged: what nobody thought of. A seed makes the same ones again.

/// Chance that can be repeated.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most.max(1) as u64).unwrap_or_default()
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const PROGRAMS: &[&str] = &[
    "ls",
    "ls -l",
    "git status",
    "git log -1",
    "cargo test",
    "./test.sh",
    "sub/test.sh",
    "rm x",
    "rm -rf x",
    "true",
    "echo a",
    "cat f",
    "cd sub",
    "touch f",
    "test -f f",
    "printf %s a",
    "git log \"a;b\" 'c|d'",
    "ls $HOME",
    "git show \"$HOME\"",
    "ls *",
    "export a=1",
    ":",
    "cargo build",
    "make",
    "test *",
    "[ *",
    "env *",
    "eval *",
    "printf *",
    "exit *",
];
const PLAIN: &[&str] = &[
    "ls",
    "ls -l",
    "git status",
    "git log -1",
    "cargo test",
    "./test.sh",
    "echo a",
    "cd sub",
    "git log 'a b'",
    "ls $HOME",
    "cat f",
    "echo \"a $HOME\"",
];
const SIGNS: &str = " \n\t;&|()<>$`'\"\\{}#!*?[]=~,-xr";

/// A command of any kind.
pub(crate) fn command(chance: &mut Chance) -> String {
    let mut text = match chance.below(16) {
        0 => plain(chance),
        _ => list(chance, 3),
    };
    if chance.below(3) == 0 {
        for _ in 0..=chance.below(3) {
            damage(chance, &mut text);
        }
    }
    text
}

/// A list of what rules mostly allow.
fn plain(chance: &mut Chance) -> String {
    let mut text = chance.one(PLAIN).to_owned();
    for _ in 0..chance.below(3) {
        text += chance.one(&[" && ", "; ", " | ", " || ", "\n", " 2>&1 | ", " >/dev/null; ", " & ", " &>/dev/null "]);
        text += &match chance.below(4) {
            0 => simple(chance, 1),
            _ => chance.one(PLAIN).to_owned(),
        };
    }
    text
}

fn list(chance: &mut Chance, depth: usize) -> String {
    let mut text = node(chance, depth);
    for _ in 0..chance.below(3) {
        text += chance.one(&["; ", " && ", " || ", "\n", " | ", " & ", ";", "|"]);
        text += &node(chance, depth);
    }
    text
}

fn node(chance: &mut Chance, depth: usize) -> String {
    if depth == 0 {
        return chance.one(PROGRAMS).to_owned();
    }
    let inner = |chance: &mut Chance| list(chance, depth - 1);
    match chance.below(30) {
        21..=23 => format!("{} {}", wrapper(chance), simple(chance, depth - 1)),
        24 => format!("sh -c {}", quoted(chance, depth - 1)),
        0 => format!("({})", inner(chance)),
        1 => format!("{{ {}; }}", inner(chance)),
        2 => format!("if {}; then {}; else {}; fi", inner(chance), inner(chance), inner(chance)),
        3 => format!("for a in x {}; do {}; done", word(chance, depth), inner(chance)),
        4 => format!("while {}; do {}; break; done", inner(chance), inner(chance)),
        5 => format!(
            "case {} in x|{}) {};; *) {};; esac",
            word(chance, depth),
            chance.one(&["a", "*", "'b'"]),
            inner(chance),
            inner(chance)
        ),
        6 => format!("f() {{ {}; }}; f {}", inner(chance), word(chance, depth)),
        7 => format!(
            "cat <<{}\n{}\n{}\nE",
            chance.one(&["E", "'E'", "\\E", "-E", "\"E\""]),
            word(chance, depth),
            chance.one(&["it's", "$(rm x)", "`rm x`", "\"", "a"])
        ),
        8 => format!("bash <<{}\n{}\nE", chance.one(&["E", "'E'"]), inner(chance)),
        9 => format!("eval {}", quoted(chance, depth - 1)),
        10 => format!(
            "{} -c {}",
            chance.one(&["bash", "sh", "bash -e", "/bin/bash", "bash -l", "env bash"]),
            quoted(chance, depth - 1)
        ),
        11 => format!("a={}; $a {}", chance.one(&["rm", "ls", "'rm x'", "\"git\"", "r", "$b"]), word(chance, depth)),
        12 => format!("[[ {} == {} ]] && {}", word(chance, depth), word(chance, depth), inner(chance)),
        13 => format!("((1 + {})); {}", chance.one(&["1", "$(rm x; echo 1)", "a[0]"]), inner(chance)),
        14 => format!(
            "{} | {}",
            chance.one(&["echo rm x", "echo 'ls; rm x'", "printf 'rm x'", "cat f", "echo ls"]),
            chance.one(&["bash", "sh", "xargs -I git git", "xargs -I{} git {}", "xargs"])
        ),
        15 => format!("! {}", node(chance, depth - 1)),
        16 => format!("time {}", node(chance, depth - 1)),
        17 => format!(
            "{} {}",
            chance.one(&[
                "echo x | xargs",
                "xargs -n 1",
                "timeout 5",
                "timeout -s KILL 5",
                "env -i",
                "env a=1",
                "nice -n 1",
                "nohup",
                "setsid -w",
                "command",
                "exec",
                "builtin",
                "find . -maxdepth 0 -exec",
                "env -C sub",
                "stdbuf -o0"
            ]),
            simple(chance, depth - 1)
        ),
        20 => {
            format!("find . -maxdepth 0 -exec {} {}", simple(chance, depth - 1), chance.one(&["{} +", "\\;", "';'", "{} ';'"]))
        }
        18 => format!("trap {} EXIT", quoted(chance, depth - 1)),
        19 => format!(
            "{} 'a[$(rm x)]'",
            chance.one(&["test -v", "[ -v", "printf -v", "let", "declare", "echo", "ls", "read", "unset"])
        ),
        _ => simple(chance, depth),
    }
}

/// What runs another command, with options in full, cut short and unknown, and words that may be theirs.
fn wrapper(chance: &mut Chance) -> String {
    const WRAPPERS: &[(&str, &[&str])] = &[
        (
            "env",
            &[
                "--unset",
                "--chdir",
                "--split-string",
                "--ignore-environment",
                "--argv0",
                "-u",
                "-i",
                "-S",
                "PATH=.",
                "a=1",
                "-",
            ],
        ),
        ("timeout 5", &["--signal", "--kill-after", "--foreground", "-k", "-v"]),
        ("timeout", &["--signal", "--kill-after", "--foreground", "-k", "-v", "5"]),
        ("nice", &["--adjustment", "-n", "-5"]),
        ("xargs", &["--max-args", "--arg-file", "--replace", "--delimiter", "-I", "-n", "-0", "--no-run-if-empty"]),
        ("stdbuf", &["--output", "--error", "-o", "-o0"]),
        ("setsid", &["--wait", "-w", "--fork"]),
        ("bash", &["--rcfile", "--norc", "-e", "-c", "-i", "--init-file", "-rcfile", "-o", "-O"]),
        ("nohup", &["--"]),
    ];
    let (name, options) = WRAPPERS[chance.below(WRAPPERS.len())];
    let mut text = name.to_owned();
    for _ in 0..chance.below(4) {
        let option = chance.one(options);
        let cut = if option.starts_with("--") && chance.below(2) == 0 { 3 + chance.below(option.len()) } else { option.len() };
        text += " ";
        text += &option[..cut.min(option.len())];
        text += chance.one(&["", "", "", "=5", "='rm x'", " git", " 5", " KILL", " 0", " sub", " 'rm x'", " ./test.sh"]);
    }
    text
}

fn simple(chance: &mut Chance, depth: usize) -> String {
    let mut text = String::new();
    for _ in 0..chance.below(8).saturating_sub(5) {
        text += chance.one(&[
            "a=1 ",
            ">f ",
            "2>&1 ",
            "<f ",
            "b='c d' ",
            "2>/dev/null ",
            "a=$(rm x) ",
            "PATH=/bin ",
            "PATH=. ",
            "<<<a ",
            "&>f ",
        ]);
    }
    let program = chance.one(PROGRAMS);
    let (name, rest) = program.split_once(' ').map_or((program, ""), |(name, rest)| (name, rest));
    let name = match chance.below(12) {
        0 => format!("\\{name}"),
        1 => format!("'{name}'"),
        2 => format!("\"{name}\""),
        3 => name.chars().flat_map(|c| [c, '\'', '\'']).collect(),
        4 if !name.contains('/') => format!("/bin/{name}"),
        5 => format!("$'{name}'"),
        _ => name.to_owned(),
    };
    text += &name;
    text += " ";
    text += rest;
    for _ in 0..chance.below(3) {
        text += " ";
        text += &word(chance, depth.min(1));
    }
    text += chance.one(&["", "", "", "", " >f", " 2>&1", " >/dev/null", " # a", " <f", " &>/dev/null rm x", " &>>/dev/null"]);
    text
}

fn word(chance: &mut Chance, depth: usize) -> String {
    if depth == 0 {
        return chance.one(&["x", "-f", "'a b'", "$HOME", "\"$a\"", "a\\ b", "*", "{a,b}", "~", "''"]).to_owned();
    }
    let inner = |chance: &mut Chance| list(chance, depth - 1);
    match chance.below(16) {
        0 => format!("$({})", inner(chance)),
        1 => format!("\"$({})\"", inner(chance)),
        2 => format!("`{}`", chance.one(PROGRAMS)),
        3 => format!("\"a `{}` b\"", chance.one(PROGRAMS)),
        4 => format!("${{a:-{}}}", word(chance, depth - 1)),
        5 => format!("\"${{a:-{}}}\"", word(chance, depth - 1)),
        6 => format!("<({})", inner(chance)),
        7 => format!("$(({}))", chance.one(&["1", "1+a", "$(rm x; echo 1)", "(1)"])),
        8 => format!("'{}'", chance.one(&["$(rm x)", "; rm x", "`rm x`", "a\"b"])),
        9 => format!("\"{}\"", chance.one(&["; rm x", "it's", "$", "a#b", "\\$(rm x)", "\\\"; rm x; \\\""])),
        10 => chance.one(&["$'it\\'s'", "$\"a\"", "${a[0]}", "${#a}", "$1", "$@", "$#", "a#b", "\\#", "!", "$!"]).to_owned(),
        _ => word(chance, 0),
    }
}

/// A text in quotes for a shell to read.
fn quoted(chance: &mut Chance, depth: usize) -> String {
    let text = list(chance, depth);
    match chance.below(3) {
        0 => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$").replace('`', "\\`")),
        1 => format!("\"{}\"", text.replace('"', "\\\"")),
        _ => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

fn damage(chance: &mut Chance, text: &mut String) {
    let places: Vec<_> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let at = places[chance.below(places.len())];
    let sign = SIGNS.chars().nth(chance.below(SIGNS.len())).unwrap_or(' ');
    match chance.below(3) {
        0 if at < text.len() => drop(text.remove(at)),
        1 if at < text.len() => {
            let c = text.remove(at);
            text.insert(at, sign);
            text.insert(at, c);
        }
        _ => text.insert(at, sign),
    }
}
