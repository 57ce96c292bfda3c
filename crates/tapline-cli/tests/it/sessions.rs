//! `tapline sessions`, and sessions by their ids, over transcripts that the real programs wrote.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tapline_testkit::{Home, TestProcess, fixture, wait_until};

use crate::tapline::{Ran, command, ran};

/// A user whose agents kept the sessions of a case of `fixtures/transcripts`.
struct User {
    home: Home,
    case: PathBuf,
}

impl User {
    fn new(case: &str) -> Self {
        Self { home: Home::new(), case: fixture("transcripts").join(case) }
    }

    fn set(&self, command: &mut Command) {
        command.envs(self.home.environment());
        command.env("CLAUDE_CONFIG_DIR", self.case.join("claude")).env("CODEX_HOME", self.case.join("codex"));
    }

    fn tapline(&self, args: &[&str]) -> Ran {
        let mut command = command(args);
        self.set(&mut command);
        ran(command.output().unwrap())
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran = self.tapline(args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        serde_json::from_str(&ran.out).unwrap()
    }

    fn sessions(&self, args: &[&str]) -> Vec<Value> {
        self.json(&[&["sessions", "--json"], args].concat())["sessions"].as_array().unwrap().clone()
    }
}

fn cases() -> Vec<String> {
    let entries = std::fs::read_dir(fixture("transcripts")).unwrap();
    let mut cases: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    cases.sort();
    assert!(cases.len() > 20, "the fixtures are there");
    cases
}

/// The main transcripts of a case: not those of sub-agents.
fn transcripts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
        if entry.is_dir() {
            found.extend(transcripts(&entry).into_iter().filter(|_| name != "subagents"));
        } else if [".jsonl", ".jsonl.zst"].iter().any(|end| name.ends_with(end)) {
            found.push(entry);
        }
    }
    found.sort();
    found
}

/// The reports of a session's file, of its id, and the statistics agree, to the token and to the cent.
#[test]
fn inspect_and_stats_agree_on_every_session() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for case in cases() {
        let user = User::new(&case);
        let stats = user.json(&["stats", "--by", "session", "--json"]);
        for row in stats["rows"].as_array().unwrap() {
            let id = row["key"].as_str().unwrap();
            let files = transcripts(&user.case.join(if case.starts_with("claude") { "claude" } else { "codex" }));
            let file = files.iter().find(|file| file.to_str().unwrap().contains(id)).unwrap();
            for named in [id, file.to_str().unwrap()] {
                let report = user.json(&["inspect", "--json", named]);
                let (ledger, tokens) = (&report["ledger"], &report["ledger"]["tokens"]);
                for key in ["input", "output", "cache_read", "cache_write", "reasoning"] {
                    if tokens[key] != row[key] {
                        wrong.push(format!("{case} {named} {key}: {} in the report, {} in stats", tokens[key], row[key]));
                    }
                }
                let (mine, theirs) = (ledger["cost_usd"].as_f64(), row["cost_usd"].as_f64().unwrap());
                let is_unknown = row["cost_unknown"].as_u64() != Some(0) && theirs == 0.0;
                if mine.is_none() != is_unknown || (mine.unwrap_or_default() - theirs).abs() > 1e-9 {
                    wrong.push(format!("{case} {named}: {mine:?} USD in the report, {theirs} in stats"));
                }
                assert_eq!(report["session"]["id"], id, "{case}");
                seen += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen > 40, "{seen}");
}

#[test]
fn inspect_and_stats_agree_on_every_stream() {
    let mut seen = 0;
    for case in cases() {
        let user = User::new(&case);
        let stream = user.case.join("stream.jsonl");
        if !stream.exists() {
            continue;
        }
        // Whole, and cut off before its result.
        let whole = std::fs::read_to_string(&stream).unwrap();
        let cut: String = whole
            .lines()
            .filter(|line| !line.contains("\"total_cost_usd\""))
            .fold(String::new(), |cut, line| cut + line + "\n");
        let file = user.home.file("stream.jsonl", "");
        for lines in [&whole, &cut] {
            std::fs::write(&file, lines).unwrap();
            let (report, stats) = (user.json(&["inspect", "--json", &file]), user.json(&["stats", "--json", &file]));
            for key in ["input", "output", "cache_read", "cache_write"] {
                assert_eq!(
                    report["ledger"]["tokens"][key], stats["totals"][key],
                    "{case}: {} and {}",
                    report["ledger"], stats["totals"]
                );
            }
            let is_cut = case.starts_with("claude") && *lines == cut;
            assert!(!is_cut || report["ledger"]["exact"] == false && stats["totals"]["exact"] == false, "{case}");
        }
        seen += 1;
    }
    assert!(seen > 15, "{seen}");
}

/// A transcript says what its stream says: what was asked, called and answered.
#[test]
fn a_transcript_reads_like_its_stream() {
    let mut seen = 0;
    for case in cases() {
        let user = User::new(&case);
        let stream = user.case.join("stream.jsonl");
        // These have one stream for one transcript. Others are resumed, and the transcript goes on.
        if !stream.exists() || std::fs::read_dir(&user.case).unwrap().count() != 3 {
            continue;
        }
        let of_stream = user.json(&["inspect", "--json", stream.to_str().unwrap()]);
        let id = of_stream["session"]["id"].as_str().unwrap();
        let told = user.json(&["inspect", "--json", id]);
        assert_eq!(told["agent"], of_stream["agent"], "{case}");
        assert_eq!(told["answer"], of_stream["answer"], "{case}");
        assert_eq!(told["verdict"]["outcome"], of_stream["verdict"]["outcome"], "{case}: {}", told["verdict"]);
        assert_eq!(told["verdict"]["category"], of_stream["verdict"]["category"], "{case}: {}", told["verdict"]);
        assert_eq!(told["last_text"], of_stream["last_text"], "{case}");
        assert!(!told["session"]["model"].is_null() && !told["session"]["cwd"].is_null(), "{case}: {}", told["session"]);
        assert!(!told["prompts"].as_array().unwrap().is_empty(), "{case}");
        let calls = |report: &Value| -> Vec<(Value, Value)> {
            let calls = report["tools"]["calls"].as_array().unwrap().iter();
            calls.map(|call| (call["id"].clone(), call["status"].clone())).filter(|(id, _)| id.is_string()).collect()
        };
        if case.starts_with("claude") {
            let (mine, theirs) = (calls(&told), calls(&of_stream));
            let lost: Vec<_> = theirs.iter().filter(|(id, _)| !mine.iter().any(|(mine, _)| mine == id)).collect();
            assert!(lost.is_empty(), "{case}: {lost:?}");
        } else {
            assert_eq!(calls(&told).len(), calls(&of_stream).len(), "{case}");
        }
        seen += 1;
    }
    assert!(seen >= 4, "{seen}");
}

#[test]
fn sub_agents_are_told_under_the_calls_that_started_them() {
    let user = User::new("claude-subagents");
    let report = user.json(&["inspect", "--json", "207f0d38"]);
    let calls = report["tools"]["calls"].as_array().unwrap();
    let parents: Vec<&Value> = calls.iter().map(|call| &call["parent"]).collect();
    assert!(parents.iter().any(|parent| parent.is_null()), "{calls:?}");
    let known = |parent: &Value| calls.iter().any(|call| call["id"] == *parent);
    assert!(parents.iter().filter(|parent| !parent.is_null()).all(|parent| known(parent)), "{calls:?}");
    assert!(parents.iter().any(|parent| !parent.is_null()), "a sub-agent called something: {calls:?}");
    let view = user.tapline(&["view", "207f0d38"]);
    assert!(view.out.contains("All done.") && view.out.contains("Resumed after subs."), "{}", view.out);
}

#[test]
fn a_packed_rollout_is_read() {
    let user = User::new("codex-zst");
    let listed = user.sessions(&[]);
    let packed =
        listed.iter().find(|session| session["opens"].as_str().unwrap().strip_suffix(".zst").is_some()).expect("one is packed");
    let view = user.tapline(&["view", packed["id"].as_str().unwrap()]);
    assert_eq!((view.code, view.err.as_str()), (0, ""));
    assert!(view.out.contains(packed["title"].as_str().unwrap()), "{}", view.out);
}

#[test]
fn the_list_has_every_session_and_its_filters_hold() {
    for case in cases() {
        let user = User::new(&case);
        let truth: Value = serde_json::from_slice(&std::fs::read(user.case.join("truth.json")).unwrap()).unwrap();
        let listed = user.sessions(&[]);
        for id in truth["sessions"].as_object().unwrap().keys() {
            assert!(listed.iter().any(|session| session["id"] == **id), "{case}: {id}");
        }
        let last: Vec<_> = listed.iter().map(|session| session["last"].as_str().unwrap().to_owned()).collect();
        assert!(last.is_sorted_by(|one, other| one >= other), "{case}: the newest first: {last:?}");
        let plain = user.tapline(&["sessions"]);
        assert_eq!((plain.code, plain.err.as_str()), (0, ""), "{case}");
        assert_eq!(plain.out.lines().count(), listed.len() + 1, "{case}: {}", plain.out);
        assert!(!plain.out.contains('\x1b'), "{case}");
    }
    let user = User::new("claude-error");
    assert_eq!(user.sessions(&["--failed"]).len(), 1);
    assert_eq!(user.sessions(&["--waiting"]).len(), 0);
    assert_eq!(user.sessions(&["--failed", "--waiting"]).len(), 1);
    assert_eq!(user.sessions(&["--agent", "codex"]).len(), 0);
    assert_eq!(user.sessions(&["--project", "dev/claude-err"]).len(), 1);
    assert_eq!(user.sessions(&["--project", "shop"]).len(), 0);
    assert_eq!(user.sessions(&["--cost-over", "0.02"]).len(), 1);
    assert_eq!(user.sessions(&["--cost-over", "0.03"]).len(), 0);
    assert_eq!(user.sessions(&["--since", "2026-11-16"]).len(), 1);
    assert_eq!(user.sessions(&["--until", "2026-11-16T15:18:00Z"]).len(), 0);
    let user = User::new("claude-fork");
    let first = user.json(&["sessions", "--json", "--limit", "1"]);
    assert_eq!((first["sessions"].as_array().unwrap().len(), &first["found"]), (1, &2.into()));
    let forked = user.sessions(&[]);
    let fork = forked.iter().find(|session| !session["forked_from"].is_null()).expect("one is a fork");
    assert!(forked.iter().any(|session| session["id"] == fork["forked_from"]));
    for wrong in [&["--cost-over", "much"][..], &["--since", "then"], &["--last", "7d", "--since", "8d"]] {
        assert_eq!(user.tapline(&[&["sessions"], wrong].concat()).code, 2, "{wrong:?}");
    }
}

#[test]
fn the_beginning_of_an_id_is_enough_if_it_is_of_one_session() {
    let user = User::new("claude-fork");
    let ids: Vec<String> = user.sessions(&[]).iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect();
    for id in &ids {
        for args in [&["view"][..], &["inspect"], &["check"], &["convert", "--to", "html"], &["convert", "--to", "steps"]] {
            let ran = user.tapline(&[args, &[&id[..6]]].concat());
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
            assert!(!ran.out.is_empty(), "{args:?}");
        }
    }
    // Two sessions of one project, whose ids begin alike.
    let folder = Path::new(&user.home.path("alike")).join("projects/-p");
    std::fs::create_dir_all(&folder).unwrap();
    let line = |id: &str, text: &str| {
        format!(
            r#"{{"parentUuid":null,"sessionId":"{id}","cwd":"/p","type":"user","message":{{"role":"user","content":"{text}"}},"uuid":"u-{id}","timestamp":"2026-11-15T21:56:14.000Z"}}"#
        )
    };
    std::fs::write(folder.join("abc1-one.jsonl"), line("abc1-one", "the first prompt") + "\n").unwrap();
    std::fs::write(folder.join("abc1-two.jsonl"), line("abc1-two", "another prompt") + "\n").unwrap();
    std::fs::write(folder.join("abc1.jsonl"), line("abc1", "the whole id") + "\n").unwrap();
    let alike = |args: &[&str]| {
        let mut command = command(args);
        user.set(&mut command);
        ran(command.env("CLAUDE_CONFIG_DIR", user.home.path("alike")).output().unwrap())
    };
    for args in [&["view", "abc1-"][..], &["inspect", "abc1-"], &["sessions", "--resume-command", "abc1-"]] {
        let ran = alike(args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.out);
        for said in ["`abc1-` is the start of several session ids", "abc1-one  the first prompt", "abc1-two  another prompt"] {
            assert!(ran.err.contains(said), "{args:?}: {}", ran.err);
        }
    }
    assert!(alike(&["view", "abc1"]).out.contains("the whole id"), "a whole id is never ambiguous");
    assert!(alike(&["view", "abc1-o"]).out.contains("the first prompt"));
    let none = alike(&["view", "abc2"]);
    assert!(none.code == 2 && none.err.contains("there is no file `abc2`"), "{}", none.err);
    assert!(none.err.contains("`tapline sessions --list` lists them"), "{}", none.err);
    let none = alike(&["sessions", "--resume-command", "abc2"]);
    assert!(none.code == 2 && none.err.contains("`tapline sessions --list` lists them"), "{}", none.err);
}

#[test]
fn a_session_that_was_recorded_opens_as_the_recording() {
    let user = User::new("claude-error");
    let stream = std::fs::read_to_string(user.case.join("stream.jsonl")).unwrap();
    let recording = PathBuf::from(user.home.path("tapline")).join("recordings/2026-11-16T15-18-43Z-0a1b2c3d4e");
    std::fs::create_dir_all(&recording).unwrap();
    std::fs::write(recording.join("stdout"), &stream).unwrap();
    std::fs::write(recording.join("meta.json"), r#"{"schema":1,"agent":"claude","argv":["claude"]}"#).unwrap();
    let id = "822caf5b-164a-4b49-b0d7-14b64ee16c0c";
    let ran = user.tapline(&["convert", "--to", "stream-json", id]);
    assert_eq!(ran.out, stream, "{}", ran.err);
    let listed = user.sessions(&[]);
    assert_eq!(listed.len(), 1, "it is one session: {listed:?}");
    assert_eq!(listed[0]["opens"], recording.to_str().unwrap());
    assert_eq!(listed[0]["recordings"].as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["files"].as_array().unwrap().len(), 2);
}

#[test]
fn the_command_that_resumes_a_session() {
    let user = User::new("claude-error");
    let ran = user.tapline(&["sessions", "--resume-command", "822c"]);
    assert_eq!(ran.out, "cd /home/dev/claude-error && claude --resume 822caf5b-164a-4b49-b0d7-14b64ee16c0c\n", "{}", ran.err);
    let user = User::new("codex-fork");
    let ran = user.tapline(&["sessions", "--resume-command", "01a1e4f2-62bd"]);
    assert_eq!(ran.out, "cd /home/dev/codex-fork && codex resume 01a1e4f2-62bd-74e0-8796-d30baa12839d\n", "{}", ran.err);
}

/// An agent that fails before it says anything is known by its recording only.
#[test]
fn a_run_that_never_began_a_session_is_listed_and_cannot_be_resumed() {
    let user = User::new("none");
    let name = "2026-11-16T15-18-43Z-0a1b2c3d4e";
    let meta = r#"{"schema":1,"agent":"claude","argv":["claude","-p","find the zebra"],"cwd":"/home/dev/shop","started_at":"2026-11-16T15:18:43Z"}"#;
    let end = r#"{"exit_code":1,"duration_ms":2000,"verdict":{"outcome":"incomplete"}}"#;
    std::fs::create_dir_all(user.home.path(&format!("tapline/recordings/{name}"))).unwrap();
    for (file, text) in [("stdout", ""), ("meta.json", meta), ("end.json", end)] {
        user.home.file(&format!("tapline/recordings/{name}/{file}"), text);
    }
    let listed = user.sessions(&["--failed"]);
    let [one] = listed.as_slice() else { panic!("{listed:?}") };
    let keys = ["id", "agent", "state", "title", "project", "first", "last", "prompts", "requests"].map(|key| &one[key]);
    let wanted = serde_json::json!([
        name,
        "claude",
        "failed",
        "find the zebra",
        "shop",
        "2026-11-16T15:18:43.000Z",
        "2026-11-16T15:18:45.000Z",
        1,
        0
    ]);
    assert_eq!(serde_json::json!(keys), wanted);
    assert_eq!(user.tapline(&["view", name]).code, 0);
    let ran = user.tapline(&["sessions", "--resume-command", name]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("began no session that could be resumed"), "{}", ran.err);
}

#[test]
fn hostile_titles_and_files_that_cannot_be_read() {
    let user = User::new("claude-error");
    let folder = Path::new(&user.home.path("hostile")).join("projects/-p");
    std::fs::create_dir_all(&folder).unwrap();
    let title = r"\u001b]0;owned\u0007\u001b[2J\u202egnp.exe\r\n::error::x";
    let line = format!(
        r#"{{"parentUuid":null,"sessionId":"h-1","cwd":"/p/\u001b[31m","type":"user","message":{{"role":"user","content":"{title}"}},"uuid":"u","timestamp":"2026-11-15T21:56:14.000Z"}}"#
    );
    std::fs::write(folder.join("h-1.jsonl"), format!("{line}\nnot json\n\0\0\0\n{line}")).unwrap();
    std::fs::write(folder.join("locked.jsonl"), &line).unwrap();
    std::fs::set_permissions(folder.join("locked.jsonl"), std::fs::Permissions::from_mode(0o0)).unwrap();
    let is_root = std::fs::read(folder.join("locked.jsonl")).is_ok();
    for args in [&["sessions"][..], &["view", "h-1"], &["inspect", "h-1"], &["sessions", "--resume-command", "h-1"]] {
        let mut command = command(args);
        user.set(&mut command);
        let ran = ran(command.env("CLAUDE_CONFIG_DIR", user.home.path("hostile")).output().unwrap());
        let raw = args.contains(&"--resume-command");
        assert!(raw || !ran.out.contains(['\x1b', '\u{7}', '\u{202e}']), "{args:?}: {}", ran.out);
        assert!(!ran.err.contains(['\x1b', '\u{7}', '\u{202e}']), "{args:?}: {}", ran.err);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
        assert!(is_root || args[0] != "sessions" || ran.err.contains("locked.jsonl"), "{args:?}: {}", ran.err);
        if raw {
            assert!(ran.out.starts_with("cd '/p/"), "quoted: {}", ran.out);
        }
    }
}

/// A terminal, and what stands on it.
struct Terminal {
    child: TestProcess,
    /// Everything that was written to it.
    shown: Arc<Mutex<String>>,
    /// How much of it was there before the last key.
    before: usize,
}

impl Terminal {
    fn open(user: &User, then: &str) -> Self {
        let mut script = Command::new("script");
        let tapline = env!("CARGO_BIN_EXE_tapline");
        script.args(["-qefc", &format!("{tapline} sessions; {then}"), "/dev/null"]).env_clear();
        script.env("PATH", "/usr/bin:/bin").env("TERM", "xterm-256color").env("SHELL", "/bin/sh");
        user.set(&mut script);
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut out, into) = (child.stdout.take().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            let mut all = Vec::new();
            while let Ok(count @ 1..) = out.read(&mut bytes) {
                all.extend_from_slice(&bytes[..count]);
                *into.lock().unwrap() = String::from_utf8_lossy(&all).into_owned();
            }
        });
        Self { child: TestProcess::from(child), shown, before: 0 }
    }

    fn shows(&self, text: &str) {
        wait_until(&format!("it shows {text:?}"), || {
            let shown = self.shown.lock().unwrap();
            shown.get(self.before..).is_some_and(|shown| shown.contains(text))
        });
    }

    fn types(&mut self, keys: &str) {
        self.before = self.shown.lock().unwrap().len();
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(keys.as_bytes()).and_then(|()| stdin.flush()).unwrap();
    }
}

/// Says how it ended, and whether the terminal is as it was.
const AFTER: &str = "echo EXIT $?; stty -a | tr ' ' '\\n' | grep -x -- '-\\?icanon' | sed s/^/MODE:/";

#[test]
fn the_picker_filters_opens_and_leaves_the_terminal_as_it_was() {
    let user = User::new("claude-fork");
    let listed = user.sessions(&[]);
    let (newest, oldest) = (&listed[0], &listed[1]);
    let id = |session: &Value| session["id"].as_str().unwrap().to_owned();
    // Leaves without a choice.
    let mut terminal = Terminal::open(&user, AFTER);
    terminal.shows("2 of 2");
    terminal.shows(&id(newest)[..13]);
    terminal.types("\x1b");
    terminal.shows("EXIT 0");
    terminal.shows("MODE:icanon");
    // Filters by the beginning of an id, and views what is left.
    let mut terminal = Terminal::open(&user, AFTER);
    terminal.shows("2 of 2");
    terminal.types(&id(oldest)[..8]);
    terminal.shows("1 of 2");
    terminal.types("\r");
    terminal.shows("\x1b[?1049l");
    terminal.shows("EXIT 0");
    terminal.shows("MODE:icanon");
    // What nothing has.
    let mut terminal = Terminal::open(&user, AFTER);
    terminal.shows("2 of 2");
    terminal.types("nothing has this");
    terminal.shows("no session has these words");
    terminal.types("\r\x15");
    terminal.shows("2 of 2");
    // Ctrl-R prints the command, and Ctrl-O writes a page.
    terminal.types("\x12");
    terminal.shows(&format!("claude --resume {}", id(newest)));
    terminal.shows("EXIT 0");
    let mut terminal = Terminal::open(&user, AFTER);
    terminal.shows("2 of 2");
    terminal.types("\x0f");
    terminal.shows(&format!("session-{}.html", id(newest)));
    terminal.shows("EXIT 0");
    terminal.shows("MODE:icanon");
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let user = User::new("claude-fork");
    let pid = user.home.path("pid");
    // The shell waits in the foreground, so that the terminal is the picker's.
    let mut terminal =
        Terminal::open(&user, &format!("true; (echo $$ > {pid}); exec {} sessions", env!("CARGO_BIN_EXE_tapline")));
    terminal.shows("2 of 2");
    terminal.types("\x1b");
    wait_until("the second began", || std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')));
    let second = || {
        let shown = terminal.shown.lock().unwrap();
        shown.split("\x1b[?1049h").nth(2).map(str::to_owned).unwrap_or_default()
    };
    wait_until("the second is drawn", || second().contains("2 of 2"));
    let pid = std::fs::read_to_string(&pid).unwrap().trim().parse::<i32>().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    wait_until("the screen is given back", || second().contains("\x1b[?25h\x1b[?1049l"));
    assert_eq!(terminal.child.wait().unwrap().code(), Some(143));
}
