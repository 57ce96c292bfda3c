//! `tapline serve`: its first line, its end, what it refuses, and that nothing acknowledged is lost when it is killed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tapline_testkit::agent::misbehaving;
use tapline_testkit::files::mode;
use tapline_testkit::{Home, TestProcess, wait_until};

use crate::tapline::{PATIENT, command, ran, tapline};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A server that runs.
pub(crate) struct Serving {
    child: TestProcess,
    address: String,
    link: String,
}

impl Serving {
    pub(crate) fn start(home: &Home, args: &[&str]) -> Self {
        let token = home.file("token", TOKEN);
        let mut command = command(&["serve", "--no-open", "--token-file", &token]);
        command.args(args).envs(home.environment());
        Self::of(&mut command)
    }

    /// Starts a server, and reads its first line.
    fn of(command: &mut std::process::Command) -> Self {
        let mut child = TestProcess::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut link = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut link).unwrap();
        let address = link
            .strip_prefix("http://")
            .and_then(|rest| rest.split('/').next())
            .unwrap_or_else(|| panic!("{link:?}"))
            .to_owned();
        Self { child, address, link: link.trim_end().to_owned() }
    }

    /// Sends a request. `None` if the server is gone.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all((head + body).as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
    }

    /// Asks for JSON. `null` if there is none.
    pub(crate) fn json(&self, path: &str) -> Value {
        self.ask("GET", path, &bearer(), "").and_then(|(_, body)| serde_json::from_str(&body).ok()).unwrap_or_default()
    }

    /// Returns the rows of all sessions.
    pub(crate) fn rows(&self) -> Vec<Value> {
        self.json("/api/v1/sessions")["sessions"].as_array().cloned().unwrap_or_default()
    }
}

fn bearer() -> String {
    format!("Authorization: Bearer {TOKEN}\r\n")
}

#[test]
fn the_first_line_is_a_link_that_opens_the_page_once() {
    let home = Home::new();
    let serving = Serving::start(&home, &[]);
    assert!(serving.address.starts_with("127.0.0.1:"), "{}", serving.link);
    let path = serving.link.strip_prefix(&format!("http://{}", serving.address)).unwrap();
    assert!(path.starts_with("/open?ticket=") && path.len() >= "/open?ticket=".len() + 32, "{path}");
    assert_eq!(serving.ask("GET", path, "", "").unwrap().0, 200);
    assert_eq!(serving.ask("GET", path, "", "").unwrap().0, 401);
    wait_until("it is ready", || serving.ask("GET", "/readyz", "", "").is_some_and(|(status, _)| status == 200));
    let (status, list) = serving.ask("GET", "/api/v1/sessions", &bearer(), "").unwrap();
    assert_eq!((status, list.contains("\"sessions\":[]")), (200, true), "{list}");
}

#[test]
fn it_ends_in_order() {
    for signal in ["INT", "TERM"] {
        let home = Home::new();
        let mut serving = Serving::start(&home, &[]);
        // A reader of events does not hold it up.
        let mut reader = TcpStream::connect(&serving.address).unwrap();
        reader
            .write_all(format!("GET /api/v1/events HTTP/1.1\r\nHost: {}\r\n{}\r\n", serving.address, bearer()).as_bytes())
            .unwrap();
        let mut first = [0; 1];
        reader.read_exact(&mut first).unwrap();
        serving.child.signal(signal);
        assert_eq!(serving.child.wait().unwrap().code(), Some(0), "{signal:?}");
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
    }
}

#[test]
fn it_refuses_to_be_open_to_others_without_a_token() {
    let home = Home::new();
    let refused = ran(command(&["serve", "--no-open", "--listen", "0.0.0.0:0"]).envs(home.environment()).output().unwrap());
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("--token-file") && refused.out.is_empty(), "{refused:?}");
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = ran(command(&["serve", "--no-open", "--listen", &holder.local_addr().unwrap().to_string()])
        .envs(home.environment())
        .output()
        .unwrap());
    assert!(refused.code == 2 && refused.err.contains("--listen 127.0.0.1:0"), "{refused:?}");
    let weak = home.file("weak", "short");
    let refused = ran(command(&["serve", "--no-open", "--token-file", &weak]).envs(home.environment()).output().unwrap());
    assert!(refused.code == 2 && refused.err.contains("22 characters"), "{refused:?}");
}

#[test]
fn localhost_is_an_address_and_a_wrong_one_gets_an_example() {
    let home = Home::new();
    let serving = Serving::start(&home, &["--listen", "localhost:0"]);
    assert!(serving.address.starts_with("127.0.0.1:"), "{}", serving.link);
    for (address, why) in [
        ("127.0.0.1:80000", "a port is a number up to 65535"),
        ("localhost:80000", "a port is a number up to 65535"),
        ("example.com:80", "the address is an IP address or localhost"),
        ("7770", "it is an address and a port"),
        ("localhost", "it is an address and a port"),
    ] {
        let refused = tapline(&["serve", "--no-open", "--listen", address]);
        assert_eq!(refused.code, 2, "{address}: {refused:?}");
        assert!(refused.err.contains(why) && refused.err.contains("127.0.0.1:7770"), "{address}: {refused:?}");
    }
}

#[test]
fn a_second_server_says_that_pushes_go_to_the_first() {
    let home = Home::new();
    let first = Serving::start(&home, &[]);
    // Returns what a server says on stderr until it ends.
    let told = || {
        let mut command = command(&["serve", "--no-open"]);
        command.envs(home.environment());
        let mut child = TestProcess::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        // It says what it has to say before it answers.
        let mut link = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut link).unwrap();
        let address = link.strip_prefix("http://").and_then(|rest| rest.split('/').next()).unwrap().to_owned();
        let serving = Serving { child, address, link };
        wait_until("it answers", || serving.ask("GET", "/healthz", "", "").is_some());
        serving.child.signal("TERM");
        let mut serving = serving;
        let mut text = String::new();
        serving.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    };
    let second = told();
    assert!(second.contains("another `tapline serve` uses") && second.lines().count() == 1, "{second:?}");
    drop(first);
    // Alone it has nothing to say. A process that another test has just forked may have the lock for a moment.
    wait_until("it is alone", || told().is_empty());
}

#[test]
fn killed_in_a_burst_it_loses_nothing_that_it_acknowledged() {
    let home = Home::new();
    let line = |n: usize| {
        format!(
            "{{\"type\":\"assistant\",\"session_id\":\"burst\",\"message\":{{\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"line {n}\"}}]}}}}\n"
        )
    };
    let all: Vec<String> = (0..400).map(line).collect();
    let push = |serving: &Serving, at: usize, text: &str| {
        let headers = format!("{}Tapline-Offset: {at}\r\n", bearer());
        serving.ask("POST", "/api/v1/ingest/burst-1", &headers, text).filter(|(status, _)| *status == 200)
    };
    let (mut sent, mut at, mut kills) = (0, 0, 0);
    let mut serving = Serving::start(&home, &[]);
    while sent < all.len() {
        // It is killed while a request is under way.
        let killer = (sent % 100 == 50 && kills <= sent / 100).then(|| {
            kills += 1;
            let pid = Pid::from_child(&serving.child);
            std::thread::spawn(move || kill_process(pid, Signal::KILL))
        });
        let pushed = push(&serving, at, &all[sent]);
        assert!(pushed.is_some() || killer.is_some(), "it refused line {sent}");
        // If no answer came, nobody knows whether the line arrived: it is sent again.
        if pushed.is_some() {
            at += all[sent].len();
            sent += 1;
        }
        if let Some(killer) = killer {
            killer.join().unwrap().unwrap();
            serving.child.wait().unwrap();
            let recordings: Vec<_> = std::fs::read_dir(home.path("tapline/recordings")).unwrap().flatten().collect();
            let kept = std::fs::read_to_string(recordings[0].path().join("stdout")).unwrap();
            assert!(recordings.len() == 1 && kept.len() >= at, "{} of {at} bytes", kept.len());
            serving = Serving::start(&home, &[]);
        }
    }
    assert_eq!(kills, 4);
    let recording = std::fs::read_dir(home.path("tapline/recordings")).unwrap().flatten().next().unwrap().path();
    assert_eq!(std::fs::read_to_string(recording.join("stdout")).unwrap(), all.concat());
    wait_until("every line is one step", || {
        let steps = serving
            .ask("GET", "/api/v1/sessions/burst/steps?limit=500", &bearer(), "")
            .map(|(_, steps)| steps)
            .unwrap_or_default();
        steps.contains("\"total\":400") && (0..400).all(|n| steps.matches(&format!("line {n}<")).count() == 1)
    });
}

#[test]
fn a_run_is_pushed_while_it_is_recorded() {
    let home = Home::new();
    let there = Home::new();
    let serving = Serving::start(&home, &[]);
    let url = format!("http://{}", serving.address);
    let agent = home.script("agent", "[ -z \"$TAPLINE_PUSH_TOKEN\" ] || exit 9\nexec \"$REAL\" \"$@\"");
    let run = |token: &str| {
        let mut run = command(&["run", "go", "--bin", &agent, "--push", &url, "--format", "quiet", "--label", "nightly"]);
        run.envs(there.environment()).env("FAKE", "ok").env("REAL", misbehaving());
        ran(run.env("TAPLINE_PUSH_TOKEN", token).output().unwrap())
    };
    let pushed = run(TOKEN);
    assert_eq!((pushed.code, pushed.err.as_str()), (0, ""));
    wait_until("it is there, with its end", || {
        let session =
            serving.ask("GET", "/api/v1/sessions/fake-session", &bearer(), "").map(|(_, session)| session).unwrap_or_default();
        session.contains("\"source\":\"push\"") && session.contains("\"kind\":\"finished\"") && session.contains("nightly")
    });
    let recorded = |home: &Home| {
        let recording = std::fs::read_dir(home.path("tapline/recordings")).unwrap().flatten().next().unwrap().path();
        std::fs::read(recording.join("stdout")).unwrap()
    };
    assert_eq!(recorded(&there), recorded(&home));
    // A server that refuses does not end a run. It is told.
    let refused = run("another-token-that-is-wrong");
    assert!(
        refused.code == 0 && refused.err.contains("not everything was pushed") && refused.err.contains("401"),
        "{refused:?}"
    );
    assert!(!refused.err.contains("another-token-that-is-wrong"), "{refused:?}");
}

/// An agent that asks once, and says what it was answered.
const ASKS: &str = r#"
say() { printf '%s\n' "$@"; }
[ "$*" = --help ] && exit
IFS= read -r line; id=${line#*'"request_id":"'}; id=${id%%'"'*}
say '{"type":"control_response","response":{"subtype":"success","request_id":"'"$id"'","response":{}}}'
IFS= read -r prompt
say '{"type":"system","subtype":"init","session_id":"asking","model":"m","cwd":"/x","tools":["Bash"],"mcp_servers":[],"permissionMode":"default","claude_code_version":"2.1.325"}'
say '{"type":"control_request","request_id":"q-1","request":{"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"t-1","input":{"command":"make deploy"}}}'
IFS= read -r line
case "$line" in *'"behavior":"allow"'*) told=allowed ;; *) told=denied ;; esac
say '{"type":"result","subtype":"success","is_error":false,"result":"'$told'","session_id":"asking","num_turns":1}'
cat >/dev/null
"#;

/// Allows what is asked, as it is shown.
fn allow(serving: &Serving) {
    decide(serving, "allow");
}

fn decide(serving: &Serving, decision: &str) {
    let open = &serving.json("/api/v1/sessions/asking")["questions"][0];
    let body = serde_json::json!({"question": open["id"], "digest": open["digest"], "decision": decision}).to_string();
    let answer = serving.ask("POST", "/api/v1/sessions/asking/answer", &bearer(), &body).unwrap();
    assert_eq!(answer.0, 200, "{answer:?}");
}

#[test]
fn a_question_of_a_run_is_answered_on_the_page() {
    let home = Home::new();
    let serving = Serving::start(&home, &["--allow-control"]);
    let url = format!("http://{}", serving.address);
    let (there, agent) = (Home::new(), home.script("agent", ASKS));
    let run = |args: &[&str]| {
        let mut run = command(&["run", "go", "--bin", &agent, "--push", &url, "--ask", "--format", "text", "--grace", PATIENT]);
        run.args(args).envs(there.environment()).env("TAPLINE_PUSH_TOKEN", TOKEN);
        run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let asking = run(&[]);
    wait_until("it waits for somebody, who can answer", || {
        let row = serving.ask("GET", "/api/v1/sessions/asking", &bearer(), "").map(|(_, row)| row).unwrap_or_default();
        row.contains("\"kind\":\"waiting\"") && row.contains("\"controllable\":true")
    });
    allow(&serving);
    let ended = ran(asking.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.out.as_str()), (0, "allowed\n"), "{ended:?}");
    // Whoever stops a run on the page sees its end there.
    let row = || serving.ask("GET", "/api/v1/sessions/asking", &bearer(), "").map(|(_, row)| row).unwrap_or_default();
    wait_until("the first one has ended", || row().contains("\"kind\":\"finished\""));
    let asking = run(&[]);
    wait_until("the second one waits", || row().contains("\"kind\":\"waiting\"") && row().contains("\"controllable\":true"));
    assert_eq!(serving.ask("POST", "/api/v1/sessions/asking/stop", &bearer(), "").unwrap().0, 200);
    assert_eq!(ran(asking.wait_with_output().unwrap()).code, 143);
    wait_until("it has its end", || {
        let mut ends = std::fs::read_dir(home.path("tapline/recordings")).unwrap().flatten();
        ends.all(|recording| recording.path().join("end.json").exists())
    });
    // Nobody answers: no.
    let ended = ran(run(&["--ask-timeout", "300ms"]).wait_with_output().unwrap());
    assert_eq!(ended.out, "denied\n", "{ended:?}");
}

/// Whoever else may push could send another question under the id of an open one.
#[test]
fn what_somebody_else_had_shown_is_not_allowed() {
    let home = Home::new();
    let serving = Serving::start(&home, &["--allow-control"]);
    let (there, agent, url) = (Home::new(), home.script("agent", ASKS), format!("http://{}", serving.address));
    let mut run = command(&["run", "go", "--bin", &agent, "--push", &url, "--ask", "--format", "text", "--grace", PATIENT]);
    run.envs(there.environment()).env("TAPLINE_PUSH_TOKEN", TOKEN);
    let asking = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let is_asked = |command: &str| {
        let row = serving.json("/api/v1/sessions/asking");
        row["controllable"] == true && row["questions"][0]["text"]["input"]["command"] == command
    };
    wait_until("it asks", || is_asked("make deploy"));
    let recording = std::fs::read_dir(home.path("tapline/recordings")).unwrap().flatten().next().unwrap().path();
    let pushed: Value = serde_json::from_slice(&std::fs::read(recording.join("push.json")).unwrap()).unwrap();
    let path = format!("/api/v1/ingest/{}", pushed["run"].as_str().unwrap());
    let push = |command: &str| {
        let line = ASKS.lines().find(|line| line.contains("can_use_tool")).unwrap();
        let line = line.trim_start_matches("say ").trim_matches('\'').replace("make deploy", command) + "\n";
        assert_eq!(serving.ask("POST", &path, &bearer(), &line).unwrap().0, 200);
        wait_until("it is shown", || is_asked(command));
    };
    push("ls");
    allow(&serving);
    push("make deploy");
    decide(&serving, "deny");
    assert_eq!(ran(asking.wait_with_output().unwrap()).out, "denied\n");
}

#[test]
fn a_run_that_is_recorded_and_pushed_on_one_machine_is_one_session() {
    let home = Home::new();
    let serving = Serving::start(&home, &["--allow-control"]);
    let (url, agent) = (format!("http://{}", serving.address), home.script("agent", ASKS));
    let mut run = command(&["run", "go", "--bin", &agent, "--push", &url, "--ask", "--format", "text", "--grace", "300ms"]);
    run.envs(home.environment()).env("TAPLINE_PUSH_TOKEN", TOKEN);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it is there once, with what can be done about it", || {
        let rows = serving.rows();
        rows.len() == 1
            && rows[0]["source"] == "recording"
            && rows[0]["controllable"] == true
            && rows[0]["state"]["kind"] == "waiting"
    });
    allow(&serving);
    let ended = ran(run.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.out.as_str()), (0, "allowed\n"), "{ended:?}");
    wait_until("it has ended, and is still one", || {
        let rows = serving.rows();
        rows.len() == 1 && rows[0]["state"]["kind"] == "finished" && rows[0]["controllable"] == false
    });
    // Both recordings are there, and private.
    let recordings: Vec<_> =
        std::fs::read_dir(home.path("tapline/recordings")).unwrap().flatten().map(|one| one.path()).collect();
    assert_eq!(recordings.len(), 2, "{recordings:?}");
    for name in ["push.json", "pushed-as.json"] {
        let mark = recordings.iter().map(|recording| recording.join(name)).find(|path| path.exists()).unwrap();
        assert_eq!(mode(&mark), 0o600, "{name}");
    }
}

#[test]
fn what_others_push_under_the_id_of_a_session_here_does_not_steer_it() {
    let home = Home::new();
    let serving = Serving::start(&home, &["--allow-control"]);
    let init =
        "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"mine\",\"model\":\"m\",\"cwd\":\"/x\",\"tools\":[]}\n";
    let run = "2026-11-17T00-00-00Z-own";
    for (path, text) in
        [("stdout", init), ("stderr", ""), ("stdin", ""), ("times", ""), ("meta.json", "{\"schema\":1,\"agent\":\"claude\"}")]
    {
        home.file(&format!("tapline/recordings/{run}/{path}"), text);
    }
    wait_until("the one that is here is there", || serving.rows().iter().any(|row| row["id"] == "mine"));
    assert_eq!(serving.ask("POST", "/api/v1/ingest/theirs", &bearer(), init).unwrap().0, 200);
    // They ask for commands, too.
    let (address, head) = (serving.address.clone(), bearer());
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(&address).unwrap();
        let ask = format!("GET /api/v1/ingest/theirs/commands HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{head}\r\n");
        stream.write_all(ask.as_bytes()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    wait_until("what they pushed stands beside it", || {
        let rows = serving.rows();
        let mine = rows.iter().find(|row| row["id"] == "mine").cloned().unwrap_or_default();
        let theirs = rows.iter().any(|row| row["source"] == "push" && row["controllable"] == true && row["id"] != "mine");
        theirs && mine["source"] == "recording" && mine["controllable"] == false
    });
    let (status, refused) = serving.ask("POST", "/api/v1/sessions/mine/stop", &bearer(), "").unwrap();
    assert!(status == 409 && refused.contains("out-of-reach"), "{status} {refused}");
}

#[test]
fn a_chat_from_a_script_is_answered_on_the_page() {
    let home = Home::new();
    let serving = Serving::start(&home, &["--allow-control"]);
    let (url, agent) = (format!("http://{}", serving.address), home.script("agent", ASKS));
    let there = Home::new();
    let chat = |args: &[&str]| {
        let mut chat = command(&["chat", "--bin", &agent, "--push", &url, "--format", "text"]);
        chat.args(args).envs(there.environment()).env("TAPLINE_PUSH_TOKEN", TOKEN).stdin(Stdio::piped());
        let mut chat = chat.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        chat.stdin.take().unwrap().write_all(b"go\n").unwrap();
        chat
    };
    let asking = chat(&["--ask"]);
    let row = || serving.json("/api/v1/sessions/asking");
    wait_until("it waits for somebody, who can answer", || {
        row()["state"]["kind"] == "waiting" && row()["controllable"] == true && row()["messages"] == true
    });
    allow(&serving);
    let ended = ran(asking.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.out.as_str()), (0, "allowed\n"), "{ended:?}");
    // Nobody answers: no.
    let ended = ran(chat(&["--ask", "--ask-timeout", "300ms"]).wait_with_output().unwrap());
    assert_eq!(ended.out, "denied\n", "{ended:?}");
    let refused = ran(chat(&["--ask-timeout", "300ms"]).wait_with_output().unwrap());
    assert!(refused.code == 2 && refused.err.contains("--ask"), "{refused:?}");
}

#[test]
fn the_demo_grows_and_leaves_nothing_behind() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("tmp")).unwrap();
    home.file(
        "home/.claude/projects/-x/own.jsonl",
        "{\"type\":\"user\",\"sessionId\":\"own\",\"message\":{\"role\":\"user\",\"content\":\"mine\"}}\n",
    );
    let token = home.file("token", TOKEN);
    let mut command = command(&["serve", "--no-open", "--demo", "--token-file", &token]);
    command.envs(home.environment()).env("TMPDIR", home.path("tmp"));
    let mut serving = Serving::of(&mut command);
    wait_until("its prompt is there", || {
        let rows = serving.rows();
        rows.len() == 1 && rows[0]["title"] == "Make average() accept an empty list"
    });
    let steps = || serving.rows()[0]["steps"].as_u64().unwrap_or(0);
    let before = steps();
    wait_until("it grows", || steps() > before);
    serving.child.signal("TERM");
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_dir(home.path("tmp")).unwrap().count(), 0);
    assert!(!home.join("tapline").exists(), "nothing of the user's is touched");
}

#[test]
fn a_server_that_runs_gets_a_fresh_link() {
    let home = Home::new();
    let link = || ran(command(&["serve", "link"]).envs(home.environment()).output().unwrap());
    let none = link();
    assert!(none.code == 2 && none.out.is_empty() && none.err.contains("no `tapline serve` runs here"), "{none:?}");
    let mut serving = Serving::start(&home, &[]);
    let (one, two) = (link(), link());
    assert_eq!((one.code, one.err.as_str()), (0, ""), "{one:?}");
    assert_eq!((one.out.lines().count(), two.out.lines().count()), (1, 1));
    let links = [serving.link.as_str(), one.out.trim_end(), two.out.trim_end()];
    let open =
        |link: &str| serving.ask("GET", link.strip_prefix(&format!("http://{}", serving.address)).unwrap(), "", "").unwrap().0;
    assert_eq!(links.map(open), [200; 3], "each opens the page");
    assert_eq!(links.map(open), [401; 3], "once");
    // A folder of this name is shown all the same.
    home.file("link/here.jsonl", "{}");
    let shown = Serving::start(&home, &[&home.path("link")]);
    assert_eq!(link().out.lines().count(), 2, "each server gets one");
    drop(shown);
    serving.child.signal("TERM");
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
    assert_eq!(link().code, 2, "also after one that was killed");
}

#[test]
fn the_browser_gets_a_private_file_and_not_the_link() {
    let home = Home::new();
    let browser = "ls -l \"$1\" | cut -c1-10 > \"$TOLD.part\"; printf '%s\\n' \"$*\" >> \"$TOLD.part\"; cat \"$1\" >> \"$TOLD.part\"; mv \"$TOLD.part\" \"$TOLD\"";
    home.script(if cfg!(target_os = "macos") { "bin/open" } else { "bin/xdg-open" }, browser);
    let told = home.path("told");
    let token = home.file("token", TOKEN);
    // A server that was killed left a file behind.
    let left = home.file("tapline/serve/open-123.html", "x");
    let old = std::fs::File::options().append(true).open(&left).unwrap();
    old.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(3_600)).unwrap();
    std::fs::set_permissions(home.path("tapline/serve"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let mut command = command(&["serve", "--token-file", &token]);
    let path = format!("{}:/usr/bin:/bin", home.path("bin"));
    command.envs(home.environment()).env("PATH", path).env("TOLD", &told);
    let mut serving = Serving::of(&mut command);
    wait_until("the browser was opened", || std::path::Path::new(&told).exists());
    let text = std::fs::read_to_string(&told).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("-rw-------"));
    let given = lines.next().unwrap();
    assert!(given.contains("open-") && !given.contains("ticket"), "{given}");
    assert!(!given.contains(&format!("open-{}.html", serving.child.id())), "nobody can guess it: {given}");
    assert!(!std::path::Path::new(&left).exists());
    assert!(lines.next().unwrap().contains(&format!("url={}", serving.link)), "{text}");
    serving.child.signal("TERM");
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
    assert!(!std::path::Path::new(given).exists(), "it is gone with the server");
}

#[test]
fn only_these_paths_and_what_is_pushed() {
    let home = Home::new();
    let line = |id: &str| {
        format!(
            "{{\"type\":\"user\",\"sessionId\":\"{id}\",\"cwd\":\"/home/dev/{id}\",\"message\":{{\"role\":\"user\",\"content\":\"about {id}\"}}}}\n"
        )
    };
    home.file("home/.claude/projects/-x/elsewhere.jsonl", line("elsewhere"));
    home.file("runs/here.jsonl", line("here"));
    let serving = Serving::start(&home, &[&home.path("runs")]);
    let ids = || {
        let mut ids: Vec<String> = serving.rows().iter().filter_map(|row| row["id"].as_str().map(str::to_owned)).collect();
        ids.sort();
        ids
    };
    wait_until("it is there", || ids() == ["here"]);
    let init =
        "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"pushed\",\"model\":\"m\",\"cwd\":\"/x\",\"tools\":[]}\n";
    assert_eq!(serving.ask("POST", "/api/v1/ingest/one", &bearer(), init).unwrap().0, 200);
    wait_until("what is pushed is there, too", || ids() == ["here", "pushed"]);
    let absent = ran(command(&["serve", "--no-open", &home.path("nowhere")]).envs(home.environment()).output().unwrap());
    assert!(absent.code == 2 && absent.err.contains("nowhere"), "{absent:?}");
}

#[test]
fn budgets_are_in_the_api_and_in_the_metrics() {
    let home = Home::new();
    let today = jiff::Timestamp::now();
    let line = |project: &str| {
        format!(
            "{{\"type\":\"assistant\",\"sessionId\":\"{project}\",\"cwd\":\"/home/dev/{project}\",\"timestamp\":\"{today}\",\"requestId\":\"r-{project}\",\
             \"message\":{{\"id\":\"m-{project}\",\"role\":\"assistant\",\"model\":\"claude-opus-5-5\",\"content\":[{{\"type\":\"text\",\"text\":\"x\"}}],\
             \"usage\":{{\"input_tokens\":100000,\"output_tokens\":0}}}}}}\n"
        )
    };
    for project in ["shop", "mail"] {
        home.file(&format!("home/.claude/projects/-{project}/{project}.jsonl"), line(project));
    }
    let serving = Serving::start(&home, &["--budget", "1000", "--budget", "shop=0.01", "--budget", "nothing=5"]);
    let costs = serving.json("/api/v1/costs");
    let budgets = costs["budgets"].as_array().unwrap();
    let told: Vec<_> = budgets.iter().map(|budget| (budget["project"].as_str(), budget["level"].as_str().unwrap())).collect();
    assert_eq!(told, [(None, "fine"), (Some("shop"), "over"), (Some("nothing"), "fine")], "{budgets:?}");
    let spent = |at: usize| budgets[at]["spent_usd"].as_f64().unwrap();
    assert!(spent(1) > 0.01 && (spent(0) - 2.0 * spent(1)).abs() < 1e-9 && spent(2) == 0.0, "{budgets:?}");
    assert_eq!(budgets[1]["message"], "This month's budget for shop is used up.");
    let (_, metrics) = serving.ask("GET", "/metrics", &bearer(), "").unwrap();
    for line in [
        "tapline_budget_usd 1000\n",
        "tapline_budget_usd{project=\"shop\"} 0.01\n",
        "tapline_budget_used_usd{project=\"nothing\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    let refused = ran(command(&["serve", "--budget", "shop=much"]).output().unwrap());
    assert!(refused.code == 2 && refused.err.contains("shop=50"), "{refused:?}");
    drop(serving);
    // Those of the settings count if no other is given.
    let limits = |args: &[&str]| {
        let costs = Serving::start(&home, args).json("/api/v1/costs");
        let budgets = costs["budgets"].as_array().unwrap().clone();
        budgets.iter().map(|budget| budget["limit_usd"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    home.file("home/.config/tapline/config.toml", "[serve]\nbudgets = [\"7\", \"mail=3\"]\n");
    assert_eq!((limits(&[]), limits(&["--budget", "9"])), (vec![7.0, 3.0], vec![9.0]));
    home.file("home/.config/tapline/config.toml", "[serve]\nbudgets = [\"mail=much\"]\n");
    let wrong = ran(command(&["serve", "--no-open"]).envs(home.environment()).output().unwrap());
    assert!(wrong.code == 2 && wrong.err.contains("line 2") && wrong.err.contains("config.toml"), "{wrong:?}");
}
