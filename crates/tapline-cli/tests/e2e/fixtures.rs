//! The project's fixtures, made by the real programs on the scripted model: `scripts/e2e --fixtures` writes them anew. What differs
//! from run to run by itself (ids, times, paths) is made the same, so that a new version shows as a diff.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use regex_lite::Regex;
use tapline_recording::{Recording, Stream};
use tapline_testkit::{signal, wait_until};

use crate::drift::{diff, shape};
use crate::stage::{Program, Stage, TAPLINE, claude, codex, installed, own, setting};

/// A fixture: which program says what is asked how.
struct Case {
    name: &'static str,
    scenario: &'static str,
    prompt: &'static str,
    args: &'static [&'static str],
}

const SKIP: &str = "--dangerously-skip-permissions";
const PARTIAL: &str = "--include-partial-messages";

/// Those of the newest Claude Code. Older ones and Codex have fewer.
const CASES: &[Case] = &[
    Case { name: "text", scenario: "text", prompt: "say hello", args: &[] },
    Case { name: "ask", scenario: "ask", prompt: "do the work", args: &[] },
    Case { name: "tools", scenario: "tools", prompt: "look around", args: &[SKIP] },
    Case { name: "tools-partial", scenario: "tools", prompt: "look around", args: &[SKIP, PARTIAL] },
    Case { name: "tools-denied", scenario: "tools", prompt: "look around", args: &[] },
    Case { name: "maxturns", scenario: "tools", prompt: "look around", args: &[SKIP, "--max-turns", "1"] },
    Case { name: "subagent", scenario: "subagent", prompt: "delegate it", args: &[SKIP] },
    Case { name: "retry", scenario: "retry", prompt: "say hello", args: &[] },
    Case { name: "rate", scenario: "rate", prompt: "say hello", args: &[] },
    Case {
        name: "hooks",
        scenario: "tools",
        prompt: "look around",
        args: &[SKIP, "--include-hook-events", "--settings", "hooks.json"],
    },
    Case { name: "lone-surrogate", scenario: "lone-surrogate", prompt: "say it", args: &[PARTIAL] },
    Case { name: "json", scenario: "text", prompt: "say hello", args: &["--output-format", "json"] },
    Case { name: "jsonverbose", scenario: "text", prompt: "say hello", args: &["--output-format", "json", "--verbose"] },
    Case { name: "multi", scenario: "multi", prompt: "", args: &["--input-format", "stream-json", "--replay-user-messages"] },
    Case { name: "sigterm", scenario: "slow", prompt: "count", args: &[PARTIAL] },
];

/// What is in the folder that the agent works in.
const HOOKS: &str = r#"{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"echo hooked"}]}],"Stop":[{"hooks":[{"type":"command","command":"true"}]}]}}"#;

/// A scenario of the fixtures'.
fn scenario(name: &str) -> String {
    std::fs::read_to_string(own("fixtures").join(format!("{name}.toml"))).unwrap()
}

fn stage(program: &Program, name: &str) -> Stage {
    let stage = Stage::new(program, &scenario(name));
    std::fs::write(stage.work().join("main.py"), "print('hi')\n").unwrap();
    std::fs::write(stage.work().join("hooks.json"), HOOKS).unwrap();
    stage
}

/// What the program says, with what is only so this time made the same.
pub(crate) fn say(program: &Program, name: &str) -> Vec<u8> {
    let case = CASES.iter().find(|case| case.name == name).unwrap();
    let stage = stage(program, case.scenario);
    let recording = stage.folder.join("recording");
    let mut command = stage.command(TAPLINE);
    command.arg("tee").arg("--bin").arg(&program.path).arg("--record").arg(&recording).args(["--", "-p"]);
    if case.args.first() != Some(&"--output-format") {
        command.args(["--output-format", "stream-json", "--verbose"]);
    }
    command.args(case.args);
    if !case.prompt.is_empty() {
        command.arg(case.prompt);
    }
    command.env("CLAUDE_CODE_MAX_RETRIES", if name == "retry" { "10" } else { "1" }).stdout(Stdio::null());
    match name {
        "multi" => {
            let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            for (at, text) in [r#""first question""#, r#"[{"type":"text","text":"second question"}]"#].iter().enumerate() {
                writeln!(stdin, r#"{{"type":"user","message":{{"role":"user","content":{text}}}}}"#).unwrap();
                stage.asked(at + 1);
                std::thread::sleep(Duration::from_millis(500));
            }
            drop(stdin);
            child.wait().unwrap();
        }
        "sigterm" => {
            let mut child = command.spawn().unwrap();
            stage.asked(1);
            wait_until("it has said something", || {
                std::fs::read_to_string(recording.join("stdout")).is_ok_and(|text| text.matches("text_delta").count() >= 5)
            });
            signal(child.id(), "TERM");
            child.wait().unwrap();
        }
        _ => {
            command.status().unwrap();
        }
    }
    Same::of(&stage).apply(&std::fs::read_to_string(recording.join("stdout")).unwrap()).into_bytes()
}

fn say_codex(name: &str, scenario: &str) -> Vec<u8> {
    let program = codex();
    let stage = stage(&program, scenario);
    let recording = stage.folder.join("recording");
    let mut command = stage.command(TAPLINE);
    command.args(["tee", "--agent", "codex", "--bin"]).arg(&program.path).arg("--record").arg(&recording).args([
        "--",
        "exec",
        "--json",
        "--skip-git-repo-check",
        "-m",
        "mock-model",
        "look around",
    ]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    let text = std::fs::read_to_string(recording.join("stdout")).unwrap();
    assert!(!text.is_empty(), "{name}");
    Same::of(&stage).apply(&text).into_bytes()
}

/// The Python SDK driving the program, both directions: `>` to it, `<` from it.
fn both_ways(program: &Program) -> Vec<u8> {
    let stage = Stage::new(program, &std::fs::read_to_string(own("sdk_hosts/session.toml")).unwrap());
    let recordings = stage.folder.join("host");
    let made = std::process::Command::new(TAPLINE)
        .args(["shim", "--bin"])
        .arg(&program.path)
        .arg("--record-in")
        .arg(&recordings)
        .arg(stage.folder.join("both"))
        .output()
        .unwrap();
    let stand_in = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim_end());
    let python = installed(&format!("sdk-py-{}/bin/python", setting("TAPLINE_E2E_SDK_PY")));
    let status = stage.command(python).arg(own("sdk_hosts/host.py")).arg(stand_in).stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
    let recording = Recording::open(&std::fs::read_dir(&recordings).unwrap().next().unwrap().unwrap().path()).unwrap();
    let files = [Stream::Stdout, Stream::Stdin].map(|stream| std::fs::read_to_string(recording.file(stream)).unwrap());
    let (mut done, mut out) = ([0, 0], Vec::new());
    for piece in recording.pieces().unwrap().into_iter().filter(|piece| piece.stream != Stream::Stderr) {
        let (which, sign) = if piece.stream == Stream::Stdout { (0, "<") } else { (1, ">") };
        let end = usize::try_from(piece.end).unwrap();
        // As far as lines are whole.
        while let Some(length) = files[which][done[which]..end].find('\n') {
            out.extend([sign, " ", &files[which][done[which]..=done[which] + length]]);
            done[which] += length + 1;
        }
    }
    let texts = Regex::new(r#""(description|argumentHint|whenToUse)":"(?:[^"\\]|\\.)*""#).unwrap();
    let out = out.concat();
    let short: Vec<String> = out
        .lines()
        .map(|line| {
            if line.contains("\"commands\":[") {
                texts.replace_all(line, "\"$1\":\"(text)\"").into_owned()
            } else {
                line.to_owned()
            }
        })
        .collect();
    Same::of(&stage).apply(&(short.join("\n") + "\n")).into_bytes()
}

/// Makes the same what differs from run to run by itself.
pub(crate) struct Same {
    paths: Vec<(String, &'static str)>,
}

impl Same {
    fn of(stage: &Stage) -> Self {
        let (home, work, folder) =
            (stage.sim.home().display().to_string(), stage.work().display().to_string(), stage.folder.display().to_string());
        let slug = |path: &str| path.replace(['/', '.', '_'], "-");
        let paths = vec![
            (slug(&work), "-home-dev-project"),
            (slug(&home), "-home-dev"),
            (work, "/home/dev/project"),
            (home, "/home/dev"),
            (folder, "/home/dev"),
        ];
        Self { paths }
    }

    pub(crate) fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (path, name) in &self.paths {
            text = text.replace(path, name);
        }
        let pattern = |pattern: &str| Regex::new(pattern).unwrap();
        let uuid = pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}");
        text = numbered(&text, &uuid, |number| format!("00000000-0000-4000-8000-{number:012}"));
        // Ids that the program makes up: where their key tells, and wherever else they stand.
        let ids = pattern(r#""(?:task_id|run_id|agent_id)":"([^"]+)""#);
        let mut found: Vec<String> = ids.captures_iter(&text).map(|found| found[1].to_owned()).collect();
        found.dedup();
        let mut known = BTreeMap::new();
        for id in found {
            let number = known.len() + 1;
            known.entry(id).or_insert(format!("id{number:04}"));
        }
        for (id, name) in &known {
            text = text.replace(id, name);
        }
        let request = pattern("req_([0-9]+)_[0-9a-f]{8}");
        text = request.replace_all(&text, "req_${1}_00000000").into_owned();
        for (from, to) in [
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "2026-11-15T00:00:00.000Z"),
            (r#"("\w*(?:_ms|Ms)": ?)[\d.]+"#, "${1}250"),
            (r#"("(?:pid|end_time|duration_seconds)": ?)\d+"#, "${1}1"),
            (r"cc-socks/\d+\.sock", "cc-socks/1.sock"),
            (r"Chunk ID: [0-9a-f]+", "Chunk ID: 000000"),
            (r"Wall time: [\d.]+", "Wall time: 0.0"),
            (r"duration_ms: \d+", "duration_ms: 250"),
            (r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:1"),
        ] {
            text = pattern(from).replace_all(&text, to).into_owned();
        }
        text
    }
}

/// Gives each different match a number, in order.
fn numbered(text: &str, pattern: &Regex, name: impl Fn(usize) -> String) -> String {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let replace = |found: &regex_lite::Captures<'_>| {
        let next = known.len() + 1;
        name(*known.entry(found[0].to_owned()).or_insert(next))
    };
    pattern.replace_all(text, replace).into_owned()
}

/// Every fixture that a program makes.
fn all() -> Vec<(String, Vec<u8>)> {
    let newest = claude("2.1.325");
    let mut made: Vec<(String, Vec<u8>)> =
        CASES.iter().map(|case| (format!("claude-2.1.325/{}.jsonl", case.name), say(&newest, case.name))).collect();
    made.push(("claude-2.1.325/control-both-ways.tee".to_owned(), both_ways(&newest)));
    made.push(("claude-1.0.128/tools.jsonl".to_owned(), say(&claude("1.0.128"), "tools")));
    made.push(("claude-2.0.76/tools-partial.jsonl".to_owned(), say(&claude("2.0.76"), "tools-partial")));
    made.push(("codex-0.166.0/tools.jsonl".to_owned(), say_codex("tools", "codex-tools")));
    made.push(("codex-0.166.0/auth.jsonl".to_owned(), say_codex("auth", "codex-auth")));
    made
}

#[test]
#[ignore = "a tool: scripts/e2e --fixtures runs it"]
fn write_them_anew() {
    let folder = tapline_testkit::fixtures();
    for (name, bytes) in all() {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

/// What the programs say today has the shape of the fixtures. (What they say may depend on the machine: the tools they find there.)
#[test]
fn they_are_what_the_programs_say() {
    let folder = tapline_testkit::fixtures();
    for name in ["text", "ask", "tools-denied", "json", "rate"] {
        let kept = std::fs::read_to_string(folder.join(format!("claude-2.1.325/{name}.jsonl"))).unwrap();
        let said = String::from_utf8(say(&claude("2.1.325"), name)).unwrap();
        assert_eq!(diff(&shape(&kept), &shape(&said)), Vec::<String>::new(), "{name}: scripts/e2e --fixtures writes it anew");
    }
}
