//! What the real programs do with a pipe beside their prompt, `run` does too; and what `run` advises after a denial helps.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use tapline_testkit::{TempFolder, rounds};

use crate::stage::{Program, Stage, TAPLINE, claudes, codex, newest};

fn with_stdin(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// What the model was asked in the end.
fn asked(program: &Program, input: &[u8], command: impl FnOnce(&Stage) -> Command) -> String {
    let stage = Stage::new(program, "turn = [{ text = \"Fine.\" }]");
    let ended = with_stdin(command(&stage), input);
    assert!(ended.status.success(), "{} {ended:?}", program.version);
    let requests = stage.sim.requests();
    requests.iter().rev().find_map(|request| request.facts.as_ref()).unwrap().last.clone()
}

#[test]
fn a_pipe_goes_behind_the_prompt_as_the_agent_itself_does_it() {
    for program in claudes().into_iter().chain([codex()]) {
        let inputs = ["ünïcode PIPED\nTEXT \u{2028}\r\n", "", "PIPED", "PIPED\nTEXT\n", "  \n"];
        for input in &inputs[..rounds(2, inputs.len())] {
            let itself = asked(&program, input.as_bytes(), |stage| {
                let mut command = stage.command(&program.path);
                match program.agent {
                    "codex" => command.args(["exec", "--json", "--skip-git-repo-check", "review this"]),
                    _ => command.args(["-p", "review this"]),
                };
                command
            });
            let through = asked(&program, input.as_bytes(), |stage| {
                let mut command = stage.command(TAPLINE);
                command.args(["run", "review this", "--no-record", "--format", "text", "--agent", program.agent, "--bin"]);
                command.arg(&program.path);
                if program.agent == "codex" {
                    command.args(["--", "--skip-git-repo-check"]);
                }
                command
            });
            assert!(itself.starts_with("review this"), "{} {itself}", program.version);
            assert_eq!(through, itself, "{} {input:?}", program.version);
        }
    }
}

#[test]
fn the_flag_that_is_advised_allows_what_was_denied() {
    let scenario = r#"
[[turn]]
tool = [{ name = "Write", input = { file_path = "made.txt", content = "made" } }]
[[turn]]
text = "I did what I could."
"#;
    for program in claudes() {
        let run = |args: &[&str]| {
            let stage = Stage::new(&program, scenario);
            let mut command = stage.command(TAPLINE);
            command.args(["run", "Make a file", "--no-record", "--format", "text", "--bin"]).arg(&program.path).args(args);
            let ended = command.output().unwrap();
            (ended.status.code(), String::from_utf8(ended.stderr).unwrap(), stage.work().join("made.txt").exists())
        };
        let (code, told, made) = run(&[]);
        assert_eq!((code, made), (Some(0), false), "{} {told}", program.version);
        assert!(told.contains("denied: Write ") && told.contains("made.txt"), "{} {told}", program.version);
        assert!(told.contains(r#"--allowed-tools "Write", or --permission-mode acceptEdits"#), "{} {told}", program.version);
        assert_eq!(run(&["--fail-on", "denied"]).0, Some(1), "{}", program.version);
        for advised in [["--allowed-tools", "Write"], ["--permission-mode", "acceptEdits"]] {
            assert_eq!(run(&advised), (Some(0), String::new(), true), "{} {advised:?}", program.version);
        }
    }
}

/// A flag is advised for a command only where the agent reads it as it is written, part by part.
#[test]
fn the_flag_that_is_advised_for_a_command_allows_it() {
    for program in claudes() {
        let advised = [
            ("mkdir a && touch a.b", "Bash(mkdir a),Bash(touch a.b)"),
            ("curl http://127.0.0.1:1/x", "Bash(curl http://127.0.0.1:1/x)"),
            ("mkdir a", "Bash(mkdir a)"),
            ("mkdir a | tee x", "Bash(mkdir a),Bash(tee x)"),
        ];
        for (command, flag) in &advised[..rounds(2, advised.len())] {
            let run = |args: &[&str]| {
                let turns = program.runs(command) + "[[turn]]\ntext = \"I did what I could.\"\n";
                let stage = Stage::new(&program, &turns);
                let mut run = stage.command(TAPLINE);
                run.args(["run", "Go", "--no-record", "--format", "text", "--bin"]).arg(&program.path).args(args);
                String::from_utf8(run.output().unwrap().stderr).unwrap()
            };
            let told = run(&[]);
            let advised = format!("to allow this: --allowed-tools \"{flag}\"");
            assert!(told.contains(&advised), "{} {command}: {told}", program.version);
            assert_eq!(run(&["--allowed-tools", flag]), "", "{} {command}", program.version);
        }
    }
}

/// Files that the agent asks about whatever its flags say: the rule that is told instead helps, and is the line that was told.
#[test]
fn the_rule_that_is_advised_for_a_sensitive_file_allows_it_where_flags_do_not() {
    for program in claudes() {
        let files = [".git/config", ".claude/settings.json", ".bashrc"];
        for file in &files[..rounds(1, files.len())] {
            let run = |args: &[&str], rule: Option<&str>| {
                let stage = Stage::at_work(&program, |work| {
                    let write = serde_json::json!({"name": "Write", "input": {"file_path": format!("{work}/{file}"), "content": "made"}});
                    serde_json::json!({"turn": [{"tool": [write]}, {"text": "I did what I could."}]}).to_string()
                });
                let mut command = stage.command(TAPLINE);
                command.args(["run", "Make a file", "--no-record", "--format", "text", "--bin"]).arg(&program.path).args(args);
                if let Some(rule) = rule {
                    let path = stage.folder.join("rules.toml");
                    std::fs::write(&path, rule).unwrap();
                    command.arg("--permissions").arg(path);
                }
                let ended = command.output().unwrap();
                (String::from_utf8(ended.stderr).unwrap(), stage.work().join(file).exists())
            };
            let what = format!("{} {file}", program.version);
            let (told, made) = run(&[], None);
            assert!(!made && told.contains("--permissions rules.toml\n"), "{what}: {told}");
            assert!(!told.contains("to allow this: --allowed-tools"), "{what}: {told}");
            let rule = told.lines().find(|line| line.starts_with("allow = ")).unwrap();
            assert_eq!(run(&[], Some(rule)), (String::new(), true), "{what}: {rule}");
            if program.is_at_least("2.1.300") {
                let (told, made) = run(&["--allowed-tools", "Write"], None);
                assert!(!made && told.contains(rule), "{what}: {told}");
            }
        }
    }
}

#[test]
fn what_codex_rejects_without_a_word_in_its_stream_is_told_and_the_flag_helps() {
    let patch = |file: &str| {
        let patch = format!("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {file}\n+made\n*** End Patch\nEOF");
        codex().runs(&patch) + "[[turn]]\ntext = \"I did what I could.\"\n"
    };
    // (the file, arguments, whether they let Codex make it, and what is advised)
    let elsewhere = TempFolder::new();
    let (inside, outside) = ("made.txt".to_owned(), elsewhere.join("made.txt").display().to_string());
    let there = elsewhere.to_str().unwrap();
    for (file, args, made, advice) in [
        (&inside, &["--", "-s", "read-only"][..], false, "-- -s workspace-write"),
        (&inside, &["--", "-s", "workspace-write"], true, ""),
        (
            &outside,
            &["--", "-s", "workspace-write", "-c", "sandbox_workspace_write.exclude_slash_tmp=true"],
            false,
            "--add-dir DIR",
        ),
        (&outside, &["--add-dir", there, "--", "-s", "workspace-write"], true, ""),
    ] {
        let stage = Stage::new(&codex(), &patch(file));
        let run = stage.run(&[&["Make a file"], args].concat());
        assert_eq!(run.verdict(), "success/-", "{args:?} {run:?}");
        assert_eq!(stage.work().join(file).exists(), made, "{args:?}");
        assert_eq!(run.report["verdict"]["clean"], made, "{args:?} {}", run.report["verdict"]);
        let warnings = run.report["verdict"]["warnings"].as_array().unwrap();
        assert_eq!(warnings.iter().any(|warning| warning["code"] == "permission-denied"), !made, "{args:?} {warnings:?}");
        let stage = Stage::new(&codex(), &patch(file));
        let mut command = stage.command(TAPLINE);
        command.args([
            "run",
            "Make a file",
            "--agent",
            "codex",
            "--no-record",
            "--format",
            "text",
            "--fail-on",
            "denied",
            "--bin",
        ]);
        let ended = command.arg(&codex().path).args(args).arg("--skip-git-repo-check").output().unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        let expected = if made { Some(0) } else { Some(1) };
        assert_eq!((ended.status.code(), told.contains("denied: a patch: ")), (expected, !made), "{args:?} {told}");
        assert!(told.contains(advice), "{args:?} {told}");
        let _ = std::fs::remove_file(&outside);
    }
    std::fs::remove_dir_all(&elsewhere).unwrap();
}

#[test]
fn what_rules_deny_is_told_once_with_its_rule() {
    let scenario = newest().runs("rm -r made") + &newest().runs("make all") + "[[turn]]\ntext = \"I did what I could.\"\n";
    for format in ["text", "lines"] {
        let stage = Stage::new(&newest(), &scenario);
        let rules = stage.folder.join("rules.toml");
        std::fs::write(&rules, "[[deny]]\ntool = \"Bash\"\ncommand = \"rm *\"\nreason = \"nothing is removed here\"\n")
            .unwrap();
        let mut command = stage.command(TAPLINE);
        command.args(["run", "Clean up", "--no-record", "--format", format, "--bin"]).arg(&newest().path);
        let ended = command.arg("--permissions").arg(&rules).output().unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(told.matches("denied: ").count(), 2, "{told}");
        assert!(told.contains("denied: Bash `rm -r made`: nothing is removed here (deny[0])"), "{told}");
        assert!(told.contains("denied: Bash `make all`"), "{told}");
        let rule = "allow = [{ tool = \"Bash\", command = \"make all\" }]";
        assert!(told.contains(&format!("add at the top of {}:\n{rule}\n", rules.display())), "{told}");
    }
}

#[test]
fn what_the_agents_keep_of_a_session_is_read_like_its_stream() {
    for (program, folder) in [(newest(), ".claude/projects"), (codex(), ".codex/sessions")] {
        let stage = Stage::new(&program, &(program.runs("ls") + "[[turn]]\ntext = \"Fine.\"\n"));
        assert_eq!(stage.run(&[&["Look"], program.unasked()].concat()).code, 0);
        let home = stage.sim.environment().into_iter().find(|(name, _)| *name == "HOME").unwrap().1;
        let found =
            Command::new("find").arg(std::path::Path::new(&home).join(folder)).args(["-name", "*.jsonl"]).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        let file = found.lines().next().unwrap_or_else(|| panic!("{} keeps nothing", program.version));
        let told = Command::new(TAPLINE).args(["inspect", "--json", file]).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        assert_eq!((&report["verdict"]["outcome"], &report["answer"]), (&"success".into(), &"Fine.".into()), "{told:?}");
        assert_eq!(report["tools"]["calls"].as_array().map(Vec::len), Some(1), "{}", report["tools"]);
        assert_eq!(report["prompts"], serde_json::json!(["Look"]));
    }
}
