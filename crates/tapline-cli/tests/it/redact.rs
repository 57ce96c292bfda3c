//! Secrets in what the commands write: `convert --redact` in every format, `run --redact`, `run` in a CI log, the recording, the
//! configuration. Keys are put together here, so that no scanner takes this file for a leak.

use std::path::Path;

use serde_json::{Value, json};
use tapline_recording::{Redactor, SHAPES};
use tapline_testkit::{TempFolder, agent};

use crate::tapline::{Ran, command, ran, tapline_on};

const TARGETS: [&str; 7] = ["text", "json", "stream-json", "steps", "markdown", "html", "json-verbose"];

/// One key of every row of the table, and what is a secret by its name or place.
fn secrets() -> Vec<(String, String)> {
    let by_shape = SHAPES.iter().flat_map(|shape| shape.starts.iter().map(|start| shape.example(start, false)));
    let by_shape = by_shape.map(|key| (key.clone(), key));
    let by_name =
        ["DB_PASSWORD=§", "https://me:§@host/x", "Cookie: sid=§", "x-api-key: §", "--password §", "Authorization: Bearer §"];
    let by_name = by_name.iter().enumerate().map(|(at, around)| {
        let secret = format!("hunter{at}xyzzy");
        (around.replace('§', &secret), secret)
    });
    by_shape.chain(by_name).collect()
}

/// A session whose every text holds these.
fn session(text: &str) -> String {
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": text, "description": "look"}});
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": text});
    let lines = [
        json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m", "tools": ["Bash"], "apiKeySource": "none"}),
        json!({"type": "assistant", "message": {"id": "m1", "role": "assistant", "content": [{"type": "text", "text": text}]}, "session_id": "s"}),
        json!({"type": "assistant", "message": {"id": "m2", "role": "assistant", "content": [call]}, "session_id": "s"}),
        json!({"type": "user", "message": {"role": "user", "content": [result]}, "session_id": "s"}),
        json!({"type": "result", "subtype": "success", "is_error": false, "result": text, "num_turns": 1, "session_id": "s"}),
    ];
    lines.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>().concat()
}

fn leaked(out: &str, secrets: &[(String, String)]) -> Vec<String> {
    secrets.iter().map(|(_, secret)| secret.clone()).filter(|secret| out.contains(secret)).collect()
}

/// Lines of JSON with plain letters, as a reader sees them; any other line as it is.
fn decoded(out: &str) -> String {
    let plain = |line: &str| serde_json::from_str::<Value>(line).map_or_else(|_| line.to_owned(), |value| value.to_string());
    out.lines().map(plain).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_secret_is_gone_from_every_format_and_the_rest_is_there() {
    for (glue, name) in [("\n", "lines"), ("\n\t", "tabs"), (" ", "blanks")] {
        let mut secrets = secrets();
        // A header goes to the end of its line.
        secrets.retain(|(around, secret)| glue != " " || around == secret);
        let text: String = secrets
            .iter()
            .enumerate()
            .map(|(at, (around, _))| format!("{glue}word{at}{glue}{around}"))
            .collect::<Vec<_>>()
            .concat();
        let plain = session(&text);
        // Every letter escaped, as any program may write it.
        let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>().concat();
        let escaped = plain.replace(json!(text).to_string().trim_matches('"'), &escaped);
        let nested = session(&json!({ "printed": text }).to_string());
        for stream in [&plain, &escaped, &nested] {
            for to in TARGETS {
                let Ran { code, out, err } = tapline_on(stream.as_bytes(), &["convert", "--redact", "--to", to]);
                assert_eq!((code, err.as_str()), (0, ""), "{to}");
                assert_eq!(leaked(&out, &secrets), [""; 0], "{to}, {name}");
                let out = decoded(&out);
                assert_eq!(leaked(&out, &secrets), [""; 0], "{to}, {name}");
                let words = (0..secrets.len()).filter(|at| !out.contains(&format!("word{at}"))).count();
                assert_eq!(words, 0, "{to}, {name}: the rest stays");
            }
            let out = tapline_on(stream.as_bytes(), &["convert", "--redact", "--to", "stream-json"]).out;
            assert_eq!(out.lines().count(), stream.lines().count());
            assert!(out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "JSON stays JSON");
        }
    }
}

#[test]
fn view_and_inspect_take_secrets_out_too() {
    let secrets = secrets();
    let text: String = secrets.iter().map(|(around, _)| format!("\n{around}")).collect::<Vec<_>>().concat();
    let stream = session(&format!("the words{text}"));
    for args in [
        &["view"][..],
        &["view", "--partial", "--thinking"],
        &["inspect"],
        &["inspect", "--json"],
        &["inspect", "--get", "answer"],
        &["inspect", "--get", "text", "--get", "tools.calls[].input"],
    ] {
        let plain = tapline_on(stream.as_bytes(), args);
        let Ran { code, out, err } = tapline_on(stream.as_bytes(), &[args, &["--redact"]].concat());
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        assert_eq!(leaked(&out, &secrets), [""; 0], "{args:?}");
        assert_eq!(leaked(&decoded(&out), &secrets), [""; 0], "{args:?}");
        // What is shown of it is shown all the same.
        let shown = |out: &str| (out.contains("the words"), out.contains("[redacted]"), out.lines().count());
        let (words, hidden, lines) = shown(&out);
        assert_eq!((words, lines), (shown(&plain.out).0, shown(&plain.out).2), "{args:?}: {out}");
        assert_eq!(hidden, !leaked(&plain.out, &secrets).is_empty(), "{args:?}: {out}");
    }
    // What is known of a recording besides the stream: its label, what was sent, what stopped it.
    let folder = TempFolder::new();
    let key = KEY.concat();
    let agent = agent(&folder, &session("done"), 0);
    let recording = folder.path("recording");
    let prompt = format!("use {key}");
    let args = ["run", &prompt, "--bin", &agent, "--record", &recording, "--label", &key, "--format", "quiet"];
    assert_eq!(ran(command(&args).output().unwrap()).code, 0);
    for args in [&["view"][..], &["inspect"], &["inspect", "--json"]] {
        let args = [args, &["--redact", &recording]].concat();
        let Ran { code, out, err } = ran(command(&args).output().unwrap());
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        assert!(!out.contains("abcdefgh"), "{args:?}: {out}");
    }
}

#[test]
fn a_stream_that_cannot_be_a_secret_is_passed_on_byte_by_byte() {
    for stream in tapline_testkit::streams() {
        let bytes = std::fs::read(&stream).unwrap();
        let args = ["convert", "--redact", "--to", "stream-json", stream.to_str().unwrap()];
        assert!(command(&args).output().unwrap().stdout == bytes, "{}", stream.display());
    }
}

const KEY: [&str; 3] = ["sk-", "ant-", "api03-abcdefgh12345678"];

/// An agent that prints this session, and a key on stderr.
fn agent(folder: &TempFolder, stream: &str, exit: u8) -> String {
    let stream = folder.file("stream.jsonl", stream);
    let (key, stdin) = (KEY.concat(), folder.path("heard"));
    let script = format!("cat >'{stdin}'\necho 'warning: {key}' >&2\ncat '{stream}'\nexit {exit}");
    folder.script("agent", &script)
}

fn run(agent: &str, folder: &TempFolder, variables: &[(&str, &str)], args: &[&str]) -> (Ran, String, String) {
    let (job, summary) = (folder.path("job.md"), folder.path("summary.md"));
    let _ = std::fs::remove_file(&job);
    let args = [&["run", "go", "--bin", agent, "--summary", &summary, "--label", "nightly"], args].concat();
    let mut command = command(&args);
    command.envs(variables.iter().copied()).env("GITHUB_STEP_SUMMARY", &job);
    let ran = ran(command.output().unwrap());
    (ran, std::fs::read_to_string(job).unwrap(), std::fs::read_to_string(summary).unwrap())
}

#[test]
fn github_actions_sees_no_key_in_log_annotations_and_summaries() {
    let folder = TempFolder::new();
    let key = KEY.concat();
    let good = session(&format!("the key is\n{key}"));
    let bad = good
        .replace("\"subtype\":\"success\"", "\"subtype\":\"error_during_execution\"")
        .replace("\"is_error\":false", "\"is_error\":true");
    for (stream, exit) in [(&good, 0), (&bad, 1)] {
        let agent = agent(&folder, stream, exit);
        for variables in [&[("GITHUB_ACTIONS", "1")], &[("CI", "true")]] {
            for format in [&[][..], &["--format", "live"], &["--format", "lines", "--thinking"], &["--format", "text"]] {
                let args = [&["--no-record"], format].concat();
                let (Ran { out, err, .. }, job, summary) = run(&agent, &folder, variables, &args);
                for (what, text) in [("stdout", &out), ("stderr", &err), ("job summary", &job), ("summary", &summary)] {
                    assert!(!text.contains("abcdefgh"), "{what} of {format:?}: {text}");
                }
                assert!(out.contains("the key is") || exit == 1, "{out}");
                assert!(summary.contains("[redacted]") || exit == 1, "{summary}");
            }
            // What a program reads is as it was; what people read beside it is not.
            for format in [["--format", "json"], ["--format", "stream-json"], ["--format", "report"], ["--get", "text"]] {
                let (Ran { out, err, .. }, job, summary) =
                    run(&agent, &folder, variables, &["--no-record", format[0], format[1]]);
                assert!(out.contains("abcdefgh"), "{format:?}: {out}");
                assert!(!format!("{err}{job}{summary}").contains("abcdefgh"), "{format:?}: {err}{job}{summary}");
            }
        }
        for variables in [&[][..], &[("CI", "false")], &[("CI", ""), ("GITHUB_ACTIONS", "0")]] {
            let (ran, ..) = run(&agent, &folder, variables, &["--no-record", "--format", "lines"]);
            assert!(ran.out.contains("abcdefgh") && ran.err.contains("warning: [redacted]"), "{ran:?}");
        }
    }
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_default()
}

#[test]
fn run_with_redact_writes_no_secret_anywhere() {
    let folder = TempFolder::new();
    let secrets = secrets();
    let text: String = secrets.iter().map(|(around, _)| format!("\n{around}")).collect::<Vec<_>>().concat();
    let stream = session(&text);
    let agent = agent(&folder, &stream, 0);
    let (key, clean) = (KEY.concat(), Redactor::default());
    for (at, format) in ["live", "lines", "text", "json", "stream-json", "report"].iter().enumerate() {
        let record = folder.path(&format!("recording-{at}"));
        let system = format!("{{\"env\":{{\"API_KEY\":\"{}\"}}}}", "xyzzyhunter");
        let prompt = format!("use {key}");
        let args = [
            "--redact",
            "--record",
            &record,
            "--format",
            format,
            "--prompt",
            &prompt,
            "--append-system-prompt",
            &system,
            "--",
            "--auth",
            "xyzzyhunter",
        ];
        let args = [&["run", "--bin", &agent, "--label", "nightly"], &args[..]].concat();
        let Ran { code, out, err } = ran(command(&args).output().unwrap());
        assert_eq!(code, 0, "{format}: {err}");
        assert_eq!((leaked(&out, &secrets), leaked(&err, &secrets)), (vec![], vec![]), "{format}");
        assert!(!err.contains(&key) && out.contains("[redacted]"), "{format}: {out}{err}");
        // The agent itself heard what was said to it.
        assert!(std::fs::read_to_string(folder.path("heard")).unwrap().contains(&key), "{format}");
        let record = Path::new(&record);
        for name in ["stdout", "stderr", "stdin", "decisions", "meta.json", "end.json", "times"] {
            let kept = read(record, name);
            assert_eq!(leaked(&kept, &secrets), [""; 0], "{format}: {name}");
            assert!(!kept.contains(&key) && !kept.contains("xyzzyhunter"), "{format}: {name}: {kept}");
        }
        let mut expected = clean.stream();
        let mut lines = Vec::new();
        stream.split_inclusive('\n').for_each(|line| expected.line(line.as_bytes().to_vec(), |line| lines.extend(line)));
        assert_eq!(read(record, "stdout").into_bytes(), lines, "{format}");
        if *format == "stream-json" {
            assert_eq!(out.into_bytes(), lines);
        }
        // The times fit what was written.
        for (letter, name) in [('o', "stdout"), ('e', "stderr"), ('i', "stdin")] {
            let times = read(record, "times");
            let ends =
                times.lines().filter_map(|line| line.strip_prefix(letter)?.trim().split(' ').next()?.parse::<usize>().ok());
            assert_eq!(ends.max(), Some(read(record, name).len()), "{format}: {name}");
        }
        let inspected = ran(command(&["inspect", record.to_str().unwrap(), "--get", "verdict.outcome"]).output().unwrap());
        assert_eq!((inspected.out.as_str(), inspected.err.as_str()), ("success\n", ""), "{format}");
    }
}

#[test]
fn keys_in_partial_messages_are_gone_from_a_live_stream() {
    let folder = TempFolder::new();
    let key = KEY.concat();
    let pieces: Vec<_> = key.as_bytes().chunks(5).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect();
    let delta = |text: &str| {
        json!({"type": "stream_event", "event": {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}, "session_id": "s"}).to_string() + "\n"
    };
    let deltas: String = pieces.iter().map(|piece| delta(piece)).collect();
    let stream = session("done").replacen('\n', &format!("\n{deltas}"), 1);
    let agent = agent(&folder, &stream, 0);
    for format in ["stream-json", "lines", "live"] {
        let (ran, ..) = run(&agent, &folder, &[], &["--no-record", "--redact", "--partial", "--format", format]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(pieces[3..].iter().all(|piece| !ran.out.contains(piece.as_str())), "{format}: {}", ran.out);
        if format == "stream-json" {
            assert_eq!(ran.out.lines().count(), stream.lines().count());
        }
    }
}

#[test]
fn a_users_own_patterns_and_variables() {
    let folder = TempFolder::new();
    let config = |text: &str| {
        std::fs::create_dir_all(folder.path("xdg/tapline")).unwrap();
        folder.file("xdg/tapline/config.toml", text)
    };
    let stream = folder.file("stream.jsonl", session("id corp-123456, value s3same!, short abc"));
    let convert = || {
        let mut command = command(&["convert", "--redact", "--to", "text", &stream]);
        command.env("XDG_CONFIG_HOME", folder.path("xdg")).env("MY_VAR", "s3same!").env("SHORT", "abc");
        ran(command.output().unwrap())
    };
    config("[redact]\npatterns = ['corp-[0-9]{6}']\nenv = [\"MY_VAR\", \"SHORT\", \"NOT_SET\"]\n");
    let hidden = convert();
    assert_eq!(hidden.out, "id [redacted], value [redacted], short abc\n");
    assert!(hidden.err.contains("env: SHORT hides nothing, its value has fewer than 6 characters\n"), "{}", hidden.err);
    assert!(hidden.err.contains("env: NOT_SET hides nothing, it is not set\n"), "{}", hidden.err);
    assert_eq!((hidden.code, hidden.err.lines().count()), (0, 2), "each once, and no more: {}", hidden.err);
    // In the home, where the variable is not set.
    std::fs::create_dir_all(folder.path("home/.config/tapline")).unwrap();
    folder.file("home/.config/tapline/config.toml", "[redact]\npatterns = ['corp-[0-9]{6}']\n");
    let home =
        ran(command(&["convert", "--redact", "--to", "text", &stream]).env("HOME", folder.path("home")).output().unwrap());
    assert_eq!(home.out, "id [redacted], value s3same!, short abc\n");
    for (text, told) in [
        ("[redact]\npatterns = [\n  'fine',\n  '(',\n]\n", "config.toml, line 4: the pattern `(` cannot be read"),
        ("[redact]\npatterns = ['']\n", "line 2: the pattern `` matches empty text"),
        ("[redact]\npatterns = ['x', '[0-9]*']\n", "the pattern `[0-9]*` matches empty text"),
        ("[redact]\npatterns = ['(a|)']\n", "matches empty text"),
        ("[redact]\npatterns = ['\\b']\n", "matches empty text"),
        ("[redact]\npattern = ['x']\n", "line 2: [redact] has no key `pattern`: did you mean `patterns`?"),
        (
            "[redact]\nenv = 'X'\n",
            "line 2: `redact.env` is the text \"X\", but must be a list of texts, like env = [\"MY_TOKEN\"]",
        ),
        ("env = ['X']\n", "line 1: `env` belongs below [redact]"),
        ("[redact\n", "line 1: `[redact` is not TOML"),
    ] {
        let path = config(text);
        let ran = convert();
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.contains(&path) && ran.err.contains(told), "{told}: {}", ran.err);
    }
}

#[test]
fn what_hides_nothing_is_told_once_in_a_ci_too_and_where_nothing_is_hidden_not_at_all() {
    let folder = TempFolder::new();
    std::fs::create_dir_all(folder.path("xdg/tapline")).unwrap();
    folder.file("xdg/tapline/config.toml", "[redact]\nenv = [\"NOT_SET\"]\n");
    let agent = agent(&folder, &session("done"), 0);
    let run = |args: &[&str], ci: &str| {
        let mut command = command(&[&["run", "go", "--bin", &agent, "--no-record"], args].concat());
        ran(command.env("XDG_CONFIG_HOME", folder.path("xdg")).env("CI", ci).output().unwrap())
    };
    for (args, ci, times) in [
        (&["--redact"][..], "", 1),
        (&["--redact"], "true", 1),
        (&[], "true", 1),
        (&[], "", 0),
        (&["--format", "quiet"], "true", 0),
    ] {
        let ran = run(args, ci);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(ran.err.matches("NOT_SET hides nothing, it is not set").count(), times, "{args:?} {ci:?}: {}", ran.err);
    }
}

#[test]
fn check_judges_what_was_done_and_tells_no_secret() {
    let folder = TempFolder::new();
    let rules = folder.file("rules.toml", "[[deny]]\ntool = \"Bash\"\ncommand = \"echo *hunter2xyzzy*\"\n");
    let stream = session("echo DB_PASSWORD=hunter2xyzzy");
    for (args, shows) in [(&[][..], true), (&["--redact"], false), (&["--redact", "--json"], false)] {
        let ran = tapline_on(stream.as_bytes(), &[&["check", "--permissions", &rules], args].concat());
        assert_eq!(ran.code, 3, "the rule sees the secret: {ran:?}");
        // The rule itself is the user's own.
        assert_eq!(ran.out.contains("DB_PASSWORD=hunter2xyzzy"), shows, "{args:?}: {}", ran.out);
        assert!(shows || ran.out.contains("DB_PASSWORD=[redacted]"), "{args:?}: {}", ran.out);
        if args.contains(&"--json") {
            assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap()["ok"], false);
        }
    }
}

#[test]
fn a_chat_shows_and_keeps_no_secrets() {
    let folder = TempFolder::new();
    let (key, said) = (KEY.concat(), "my password is hunter2xyzzy");
    let stream = session(&format!("{key} {said}"));
    let agent = folder.script("agent", &agent::answers(&stream));
    for (format, redact) in [("view", true), ("text", true), ("stream-json", true), ("text", false)] {
        let record = folder.path(&format!("{format}-{redact}"));
        let mut args = vec!["chat", "--bin", &agent, "--record", &record, "--format", format, said];
        args.extend(redact.then_some("--redact"));
        let ran = ran(command(&args).output().unwrap());
        let kept = ["stdout", "stdin"].map(|name| std::fs::read_to_string(Path::new(&record).join(name)).unwrap()).concat();
        for (where_, text) in [("printed", ran.out + &ran.err), ("kept", kept)] {
            assert!(!text.is_empty(), "{format}: {where_}");
            for secret in [&*key, "hunter2xyzzy"] {
                assert_eq!(text.contains(secret), !redact, "{format}, {where_}: {text}");
            }
            assert_eq!(text.contains("[redacted]"), redact, "{format}, {where_}: {text}");
        }
    }
}
