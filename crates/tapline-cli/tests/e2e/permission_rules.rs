//! Permission rules on the real Claude Code: against hooks of a project that rewrite calls and answer questions, wherever the agent
//! has gone, for every tool that runs a command, and beside the agent's own matcher.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tapline_protocol::claude::control::HookReply;
use tapline_runner::{HookEvent, Permission, SettledBy, Update};
use tapline_session::permission::{PendingCall, Permissions, Ruling};

use crate::session_control::agent;
use crate::stage::{Outcome, Program, Stage, claudes, newest};

/// A turn with these calls, and one that ends it.
fn calls(calls: &[(&str, Value)]) -> String {
    let tools: Vec<_> = calls.iter().map(|(name, input)| json!({"name": name, "input": input})).collect();
    json!({"turn": [{"tool": tools}, {"text": "Done."}]}).to_string()
}

fn bash(command: &str) -> (&'static str, Value) {
    ("Bash", json!({"command": command, "description": "Run it"}))
}

/// The folder that the agent works in, with these files; scripts among them can be run.
fn prepare(stage: &Stage, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = stage.work().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text.replace("WORK", stage.work().to_str().unwrap())).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Settings of the project with a hook that answers this, whatever it is asked.
fn hook(event: &str, output: &Value) -> String {
    let output = json!({"hookSpecificOutput": output}).to_string();
    let command = json!({"type": "command", "command": format!("cat >/dev/null; echo '{output}'")});
    json!({"hooks": {event: [{"matcher": "*", "hooks": [command]}]}}).to_string()
}

fn run_with(stage: &Stage, rules: &str, more: &[&str]) -> Outcome {
    let path = stage.folder.join("rules.toml");
    std::fs::write(&path, rules).unwrap();
    let args = [&["do it", "--permissions", path.to_str().unwrap()], more].concat();
    stage.run(&args)
}

/// What was decided, by the call's tool: ruling and by whom.
fn decisions(recording: &Path) -> Vec<[String; 3]> {
    let text = std::fs::read_to_string(recording.join("decisions")).unwrap_or_default();
    let one = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        ["tool", "ruling", "by"].map(|key| line[key].as_str().unwrap().to_owned())
    };
    text.lines().map(one).collect()
}

/// Versions that rewrite calls and do not tell of it: what ran is seen afterwards.
fn is_blind(program: &Program) -> bool {
    program.is_at_least("2.0.10") && !program.is_at_least("2.1.300")
}

#[test]
fn a_project_hook_that_rewrites_a_call_runs_nothing_that_rules_deny() {
    let rules = "deny = [{ tool = \"Bash\", command = \"touch denied*\", reason = \"not this\" }]\nallow = [{ tool = \"Bash\", command = \"touch allowed*\" }]";
    let rewritten = json!({"command": "touch denied", "description": "Other"});
    let allows = json!({"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": rewritten});
    let changes = json!({"hookEventName": "PreToolUse", "updatedInput": rewritten});
    for program in claudes() {
        // One that a rule allows, and one that is left to the agent, which may run it.
        for command in ["touch allowed", "touch unruled"] {
            for output in [&allows, &changes] {
                let stage = Stage::new(&program, &calls(&[bash(command)]));
                prepare(&stage, &[(".claude/settings.json", &hook("PreToolUse", output))]);
                let outcome = run_with(&stage, rules, &["--allowed-tools", "Bash(touch:*)"]);
                let what = format!("{} {command} {output}", program.version);
                let ran = stage.work().join("denied").exists();
                if ran && is_blind(&program) {
                    let violated = outcome.report["verdict"].to_string();
                    assert!(violated.contains("Bash ran something that deny[0] does not allow"), "{what}: {violated}");
                } else {
                    assert!(!ran, "{what}");
                    assert_eq!(outcome.verdict(), "success/-", "{what}");
                }
            }
        }
    }
}

#[test]
fn a_slow_hook_and_a_plugin_rewrite_nothing_either() {
    let rules = "deny = [{ tool = \"Bash\", command = \"touch denied*\" }]";
    let output = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {"command": "touch denied"}}});
    let command = json!({"type": "command", "command": format!("sleep 0.5; echo '{output}'")});
    let hooks = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [command]}]}}).to_string();
    for (file, args) in [(".claude/settings.json", None), ("plugin/hooks/hooks.json", Some("--plugin-dir=plugin"))] {
        let stage = Stage::new(&newest(), &calls(&[bash("touch unruled")]));
        let manifest = ("plugin/.claude-plugin/plugin.json", "{\"name\":\"plugin\",\"version\":\"1.0.0\"}");
        prepare(&stage, &[(file, &hooks), manifest]);
        let more: Vec<_> =
            ["--allowed-tools", "Bash(touch:*)"].into_iter().chain(args.into_iter().flat_map(|arg| ["--", arg])).collect();
        let outcome = run_with(&stage, rules, &more);
        assert!(!stage.work().join("denied").exists() && !stage.work().join("unruled").exists(), "{file}");
        assert_eq!(decisions(&outcome.recording), [["Bash", "deny", "rule"]], "{file}");
    }
}

/// A hook in the background is not waited for, and holds nothing up for long.
#[test]
fn a_hook_in_the_background_holds_up_nothing_for_long() {
    let stage = Stage::new(&newest(), &calls(&[bash("touch one"), bash("touch two")]));
    let command = json!({"type": "command", "command": "sleep 50", "async": true});
    let hooks = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [command]}]}}).to_string();
    prepare(&stage, &[(".claude/settings.json", &hooks)]);
    let outcome = run_with(&stage, "allow = [{ tool = \"Bash\", command = \"touch *\" }]", &[]);
    assert_eq!(outcome.verdict(), "success/-");
    assert!(stage.work().join("one").exists() && stage.work().join("two").exists());
}

/// A project's hook that answers permission questions answers none of ours: with a rule that asks, with none, with nobody there. It is
/// not even run, except by versions that do not say that there is such a hook: there the decision tells who took it.
#[tokio::test(flavor = "multi_thread")]
async fn a_permission_request_hook_answers_no_question_of_ours() {
    let output = json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}});
    let command = json!({"type": "command", "command": format!("cat >/dev/null; touch WORK/hooked; echo '{output}'")});
    let settings = json!({"hooks": {"PermissionRequest": [{"matcher": "*", "hooks": [command]}]}}).to_string();
    for program in claudes() {
        for rules in ["", "ask = [{ tool = \"Bash\", reason = \"look twice\" }]"] {
            for allows in [false, true] {
                let stage = Stage::new(&program, &calls(&[bash("touch made")]));
                prepare(&stage, &[(".claude/settings.json", &settings)]);
                let there = |name: &str| stage.work().join(name).exists();
                let asked = Arc::new(AtomicU32::new(0));
                let count = Arc::clone(&asked);
                let mut session = agent(&stage)
                    .permissions(rules.parse().unwrap())
                    .on_permission(move |_| {
                        count.fetch_add(1, Ordering::SeqCst);
                        async move { if allows { Permission::allow() } else { Permission::deny("not now") } }
                    })
                    .session()
                    .await
                    .unwrap();
                let mut turning = session.turn("do it");
                let mut settled = Vec::new();
                while let Some(update) = turning.next().await {
                    if let Update::Settled(one) = update {
                        settled.push((one.ruling, one.by));
                    }
                }
                turning.await.unwrap();
                let report = session.finish().await;
                let what = format!("{} {rules} {allows}: {settled:?} {:?}", program.version, report.verdict);
                let ruling = if there("made") { Ruling::Allow } else { Ruling::Deny };
                assert_eq!(settled.iter().map(|(ruling, _)| *ruling).collect::<Vec<_>>(), [ruling], "{what}");
                if is_blind(&program) && rules.is_empty() {
                    let by_callback = asked.load(Ordering::SeqCst) == 1 && settled[0].1 == SettledBy::Callback;
                    assert!(by_callback && there("made") == allows || there("hooked"), "{what}");
                } else {
                    assert_eq!((asked.load(Ordering::SeqCst), there("hooked"), there("made")), (1, false, allows), "{what}");
                }
            }
        }
        let stage = Stage::new(&program, &calls(&[bash("touch made")]));
        prepare(&stage, &[(".claude/settings.json", &settings)]);
        run_with(&stage, "ask = [{ tool = \"Bash\" }]", &[]);
        assert!(!stage.work().join("made").exists() && !stage.work().join("hooked").exists(), "{}", program.version);
    }
}

/// What is suggested after a denial (`denial_advice.rs` holds the words) works with the real program: a rule in the file, or a flag.
#[test]
fn what_is_suggested_after_a_denial_permits_the_call() {
    for program in claudes() {
        let denied = |rules: Option<&str>, more: &[&str]| {
            let stage = Stage::new(&program, &calls(&[bash("touch made")]));
            let outcome = match rules {
                Some(rules) => run_with(&stage, rules, more),
                None => stage.run(&[&["do it"], more].concat()),
            };
            let denied = outcome.report["verdict"]["warnings"].to_string().contains("permission-denied");
            assert_eq!(denied, !stage.work().join("made").exists(), "{}: {rules:?} {more:?}", program.version);
            denied
        };
        let rule = "allow = [{ tool = \"Bash\", command = \"touch made\" }]";
        let flags = ["--allowed-tools", "Bash(touch made)"];
        let all = [denied(Some(""), &[]), denied(Some(rule), &[]), denied(None, &[]), denied(None, &flags)];
        assert_eq!(all, [true, false, true, false], "{}", program.version);
    }
}

/// `./test.sh` is the one of the folder where the agent was started; `git status` is the same everywhere.
#[test]
fn a_rule_for_a_script_is_for_that_of_the_folder_where_the_agent_was_started() {
    let rules = "allow = [{ tool = \"Bash\", command = [\"cd sub\", \"./test.sh\", \"touch *\"] }]";
    for program in claudes() {
        let turns: Vec<_> = [bash("./test.sh"), bash("cd sub"), bash("./test.sh"), bash("touch everywhere")]
            .iter()
            .map(|(name, input)| json!({"tool": [{"name": name, "input": input}]}))
            .chain([json!({"text": "Done."})])
            .collect();
        let stage = Stage::new(&program, &json!({ "turn": turns }).to_string());
        prepare(&stage, &[("test.sh", "#!/bin/sh\ntouch WORK/good\n"), ("sub/test.sh", "#!/bin/sh\ntouch WORK/bad\n")]);
        let outcome = run_with(&stage, rules, &[]);
        let there = ["good", "bad", "sub/everywhere"].map(|name| stage.work().join(name).exists());
        assert_eq!(there, [true, false, true], "{}: {:?}", program.version, decisions(&outcome.recording));
    }
}

#[test]
fn what_runs_code_unasked_is_not_written_under_a_broad_rule() {
    let rules = "allow = [{ tool = \"Write\", path = \"**\" }]";
    for program in claudes() {
        let scenario = |work: &str| {
            let write = |name: &str| ("Write", json!({"file_path": format!("{work}/{name}"), "content": "x"}));
            calls(&[write("plain.txt"), write(".git/config"), write(".claude/settings.json"), write(".bashrc")])
        };
        let stage = Stage::at_work(&program, scenario);
        let outcome = run_with(&stage, rules, &[]);
        let there =
            ["plain.txt", ".git/config", ".claude/settings.json", ".bashrc"].map(|name| stage.work().join(name).exists());
        assert_eq!(there, [true, false, false, false], "{}: {:?}", program.version, decisions(&outcome.recording));
    }
}

/// Every tool that runs a command, under every name it has.
#[test]
fn rules_for_commands_and_tools_hold_under_other_names() {
    let rules = "deny = [{ tool = \"Bash\", command = \"touch *\" }, { tool = \"Task\" }]";
    let monitor =
        ("Monitor", json!({"command": "touch made", "description": "Watch", "persistent": false, "timeout_ms": 5000}));
    let task = ("Agent", json!({"description": "Look", "prompt": "Look around.", "subagent_type": "general-purpose"}));
    let stage = Stage::new(&newest(), &calls(&[monitor, task]));
    let outcome =
        run_with(&stage, rules, &["--allowed-tools", "Monitor", "--allowed-tools", "Agent", "--allowed-tools", "Bash"]);
    assert!(!stage.work().join("made").exists());
    assert_eq!(decisions(&outcome.recording), [["Monitor", "deny", "rule"], ["Agent", "deny", "rule"]]);
    stage.is_as_written();
}

/// Every decision, also one that nobody here took.
#[test]
fn every_decision_is_in_the_recording_whoever_took_it() {
    for program in claudes() {
        let settings = json!({
            "permissions": {"deny": ["Bash(touch refused)"]},
            "hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]}]},
        });
        let scenario = |work: &str| {
            let write = ("Write", json!({"file_path": format!("{work}/new"), "content": "x"}));
            calls(&[bash("ls"), bash("make own"), bash("touch refused"), write, bash("touch asked"), bash("touch ruled")])
        };
        let stage = Stage::at_work(&program, scenario);
        prepare(&stage, &[(".claude/settings.json", &settings.to_string())]);
        let rules = "allow = [{ tool = \"Bash\", command = \"touch ruled\" }]";
        let outcome = run_with(&stage, rules, &["--allowed-tools", "Bash(make own)"]);
        let mut kept = decisions(&outcome.recording);
        kept.sort();
        let wanted = [
            ["Bash", "allow", "agent"],
            ["Bash", "allow", "agent"],
            ["Bash", "allow", "rule"],
            ["Bash", "deny", "agent"],
            ["Bash", "deny", "nobody"],
            ["Write", "deny", "hook"],
        ];
        assert_eq!(kept, wanted, "{}", program.version);
    }
}

/// Never weaker than the agent's own matcher: the same commands through both. None of them runs.
#[tokio::test(flavor = "multi_thread")]
async fn no_command_that_the_agents_own_matcher_denies_is_missed_by_ours() {
    let file = tapline_testkit::fixture("cases/rm.jsonl");
    let text = std::fs::read_to_string(file).unwrap();
    let commands: Vec<String> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["command"].as_str().unwrap().to_owned()).collect();
    assert!(commands.len() >= 200);
    let ours: Permissions = "deny = [{ tool = \"Bash\", command = \"rm *\" }]\nallow = [{ tool = \"Bash\" }]".parse().unwrap();
    let ruling = |command: &str| {
        let input = json!({ "command": command });
        ours.decide(&PendingCall::of("Bash", Some(&input.into()), Some("/work"))).ruling
    };
    let mut measured = Vec::new();
    for program in claudes() {
        let turns: Vec<_> = commands
            .chunks(100)
            .map(|commands| {
                let tools: Vec<_> = commands
                    .iter()
                    .map(|command| bash(command))
                    .map(|(name, input)| json!({"name": name, "input": input}))
                    .collect();
                json!({ "tool": tools })
            })
            .chain([json!({"text": "Done."})])
            .collect();
        let stage = Stage::new(&program, &json!({ "turn": turns }).to_string());
        // Whatever its matcher leaves is asked about here, and denied: nothing runs.
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let mut session = agent(&stage)
            .timeout(std::time::Duration::from_secs(600))
            .disallowed_tools(["Bash(rm:*)"])
            .hook_for(HookEvent::PreToolUse, "Bash", |_| async { HookReply::ask_tool("only looked at") })
            .on_permission(move |question| {
                seen.lock().unwrap().push(question.input.text_of("command").unwrap_or_default());
                async { Permission::deny("only looked at") }
            })
            .session()
            .await
            .unwrap();
        let mut turning = session.turn("do it");
        let (mut caught, mut ran) = (Vec::new(), 0);
        while let Some(update) = turning.next().await {
            if let Update::Settled(settled) = update
                && settled.by == SettledBy::Agent
            {
                ran += usize::from(settled.ruling == Ruling::Allow);
                caught.extend(settled.tool_use_id.filter(|_| settled.ruling == Ruling::Deny));
            }
        }
        turning.await.unwrap();
        session.finish().await;
        // 2.0.76 runs what it misreads (`>f rm x`), whatever a hook says.
        assert!(ran == 0 || is_blind(&program), "{}: {ran} ran", program.version);
        assert_eq!(asked.lock().unwrap().len() + caught.len() + ran, commands.len(), "{}", program.version);
        // `toolu_sim_2_17` is the 18th call of the second turn.
        let command = |id: &String| {
            let mut numbers = id.rsplit('_').map(|number| number.parse::<usize>().unwrap());
            let (call, turn) = (numbers.next().unwrap(), numbers.next().unwrap());
            &commands[(turn - 1) * 100 + call]
        };
        let missed: Vec<_> = caught.iter().map(command).filter(|command| ruling(command) != Ruling::Deny).collect();
        assert!(!caught.is_empty() && missed.is_empty(), "{} denies what we do not: {missed:#?}", program.version);
        let caught = caught.len();
        let we_catch = commands.iter().filter(|command| ruling(command) == Ruling::Deny).count();
        assert!(we_catch > caught, "{}: of {} its matcher denies {caught}, ours {we_catch}", program.version, commands.len());
        measured.push((format!("({})", program.version), format!("{caught} ({})", program.version)));
    }
    // docs/PERMISSIONS.md tells these figures, of the versions that it names.
    let docs = std::fs::read_to_string(tapline_testkit::root().join("docs/PERMISSIONS.md")).unwrap();
    let told = docs.lines().find(|line| line.contains("the agent's own matcher")).unwrap();
    let is_told = |(version, figure): &(String, String)| !told.contains(version) || told.contains(figure);
    assert!(measured.iter().all(is_told), "measured: {measured:?}; docs/PERMISSIONS.md says: {told}");
}
