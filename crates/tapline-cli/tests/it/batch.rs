//! `tapline batch`: what it prints, what it leaves, and with which exit code.

use std::process::{Command, Stdio};

use serde_json::Value;
use tapline_testkit::agent::by_prompt;
use tapline_testkit::files::mode;
use tapline_testkit::{TempFolder, TestProcess, wait_until};

use crate::tapline::{Ran, command, ran, tapline};

/// `tapline batch` in a folder of its own, with the fake agent.
fn batch(folder: &TempFolder, args: &[&str]) -> Command {
    std::fs::create_dir_all(folder.path("traces")).unwrap();
    let is_new = !args.contains(&"--resume");
    let agent = by_prompt();
    let bin: &[&str] = if is_new { &["--bin", &agent] } else { &[] };
    let mut command = command(&[&["batch"], args, bin].concat());
    command.env("TAPLINE_HOME", folder.path("home")).env("TRACES", folder.path("traces"));
    command
}

fn run(folder: &TempFolder, args: &[&str]) -> Ran {
    ran(batch(folder, args).output().unwrap())
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn a_line_for_each_change_and_the_sum() {
    let folder = TempFolder::new();
    let jobs = folder.file("jobs.csv", "n\na\nb\n");
    let ran = run(&folder, &[&jobs, "--prompt", "say {n}", "--jobs", "1"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    let id = lines[0].split([' ', ':']).nth(1).unwrap();
    let places = format!(
        "tapline: for the answers: tapline batch --resume {id} --json\ntapline: recorded in {}\n",
        folder.path("home/recordings")
    );
    assert_eq!(ran.err, places);
    let answers = json(&run(&folder, &["--resume", id, "--json"]));
    assert_eq!(answers["results"][1]["answer"], "done b ", "the command that it names has them: {answers}");
    assert!(lines[0].starts_with("batch ") && lines[0].ends_with(": 2 jobs"), "{ran:?}");
    assert_eq!(lines[1], "▸ jobs-1 started");
    assert!(lines[2].starts_with("✓ jobs-1 success · $0.0100 · "), "{ran:?}");
    assert_eq!(lines[3], "▸ jobs-2 started");
    assert_eq!(lines[5], "2 of 2 jobs succeeded · $0.0200");
    // Every run is recorded like any other.
    let mut inspect = command(&["inspect", "last", "--get", "answer", "--get", "run.label"]);
    let seen = crate::tapline::ran(inspect.env("TAPLINE_HOME", folder.path("home")).output().unwrap());
    assert_eq!(seen.out, "done b \njobs\n");
}

#[test]
fn results_for_programs_and_for_ci() {
    let folder = TempFolder::new();
    let jobs = folder.file("jobs.jsonl", "{\"name\":\"good\",\"prompt\":\"items good x\"}\n{\"name\":\"bad\",\"prompt\":\"fail bad\"}\n{\"name\":\"after\",\"prompt\":\"say after\",\"needs\":\"bad\"}\n");
    let (junit, summary) = (folder.path("junit.xml"), folder.path("summary.md"));
    let ran = run(&folder, &[&jobs, "--json", "--junit", &junit, "--summary", &summary]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let value = json(&ran);
    let outcomes: Vec<_> =
        value["results"].as_array().unwrap().iter().map(|result| result["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["success", "failure", "skipped"]);
    assert_eq!(value["results"][0]["structured"]["items"][0], "x");
    assert_eq!((&value["complete"], &value["exit_code"]), (&Value::from(true), &Value::from(1)));
    assert!(ran.err.contains("✗ bad failure (invalid_request)"), "progress is on stderr: {ran:?}");
    let junit = std::fs::read_to_string(junit).unwrap();
    assert!(junit.contains("tests=\"3\" failures=\"1\"") && junit.contains("<skipped"), "{junit}");
    let summary = std::fs::read_to_string(summary).unwrap();
    assert!(summary.contains("| bad | ✗ failure (invalid_request) |"), "{summary}");
}

#[test]
fn each_result_is_a_line_of_json_with_the_columns_of_its_row() {
    let folder = TempFolder::new();
    let long = format!("wait b {}", folder.path("never"));
    let jobs = folder.file("jobs.csv", format!("n,timeout\nsay a,1m\n{long},300ms\n"));
    let ran = run(&folder, &[&jobs, "--prompt", "{n}", "--jobs", "1", "--jsonl"]);
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> =
        lines.iter().map(|line| (line["job"].as_str(), line["row"]["n"].as_str(), line["row"]["timeout"].as_str())).collect();
    assert_eq!(told, [(Some("jobs-1"), Some("say a"), Some("1m")), (Some("jobs-2"), Some(&*long), Some("300ms"))], "{ran:?}");
    assert_eq!((ran.code, &lines[1]["category"]), (124, &Value::from("timeout")), "{ran:?}");
    // People see which clock it was, and progress is on stderr.
    assert_eq!(lines[1]["error"], "timeout: 300ms passed (--timeout)");
    assert!(ran.err.contains("timeout: 300ms passed (--timeout)") && ran.err.contains("1 of 2 jobs succeeded"), "{ran:?}");
    let named = folder.file("named.jsonl", "{\"name\":\"good\",\"prompt\":\"say good\"}\n");
    let ran = run(&folder, &[&named, "--jsonl"]);
    assert_eq!(json(&ran)["row"], Value::Null, "{ran:?}");
}

#[test]
fn a_success_with_a_denied_call_is_told_as_run_tells_it_wherever_results_are_told() {
    let folder = TempFolder::new();
    let jobs =
        folder.file("jobs.jsonl", "{\"name\":\"good\",\"prompt\":\"say good\"}\n{\"name\":\"j\",\"prompt\":\"deny j\"}\n");
    let (junit, summary) = (folder.path("junit.xml"), folder.path("summary.md"));
    let args = [&jobs, "--jobs", "1", "--junit", &junit, "--summary", &summary];
    let told = ran(batch(&folder, &args).env("GITHUB_ACTIONS", "true").output().unwrap());
    assert_eq!(told.code, 0, "{told:?}");
    let why = "permission-denied: Edit was not permitted: `src/a.rs`";
    let line = told.out.lines().find(|line| line.starts_with("! j ")).unwrap_or_else(|| panic!("{told:?}"));
    assert!(line.starts_with("! j success · 1 call denied · $0.0100 · ") && line.ends_with(&format!(": {why}")), "{line}");
    assert!(told.out.contains("✓ good success · $0.0100") && !told.out.contains("✓ j"), "{told:?}");
    assert!(told.out.contains("2 of 2 jobs succeeded · 1 not clean · $0.0200"), "{told:?}");
    let annotations: Vec<_> = told.err.lines().filter(|line| line.starts_with("::")).collect();
    assert_eq!(annotations, [format!("::warning title=tapline::! j success · 1 call denied: {why}")], "{told:?}");
    let junit = std::fs::read_to_string(junit).unwrap();
    assert!(junit.contains(&format!("<system-err>! j success · 1 call denied&#10;{why}</system-err></testcase>")), "{junit}");
    assert!(junit.contains("failures=\"0\"") && junit.matches("<system-err>").count() == 1, "{junit}");
    let summary = std::fs::read_to_string(summary).unwrap();
    assert!(
        summary.contains("| j | ! success · 1 call denied | $0.0100 |") && summary.contains("permission-denied: Edit"),
        "{summary}"
    );
    let value = json(&run(&folder, &[&jobs, "--json"]));
    assert_eq!((&value["results"][1]["denials"], &value["results"][1]["doubt"]), (&Value::from(1), &Value::from(why)));
    assert_eq!((&value["results"][0]["denials"], &value["results"][0]["doubt"]), (&Value::from(0), &Value::Null));
}

#[test]
fn a_warning_that_is_named_makes_a_success_a_failure_as_with_run() {
    let folder = TempFolder::new();
    let jobs = |keys: &str| {
        let after = "[[job]]\nname = \"after\"\nprompt = \"say after\"\nneeds = [\"j\"]\n";
        folder.file("jobs.toml", format!("[[job]]\nname = \"j\"\nprompt = \"deny j\"\n{keys}\n{after}"))
    };
    let told = "permission-denied: Edit was not permitted: `src/a.rs`";
    for (keys, flags, flag) in [
        ("fail_on = [\"denied\"]", &[][..], "--fail-on"),
        ("fail_on = \"max-tokens,permission-denied\"", &[], "--fail-on"),
        ("require_clean = true", &[], "--require-clean"),
        ("", &["--fail-on", "denied"], "--fail-on"),
        ("", &["--require-clean"], "--require-clean"),
    ] {
        let ran = run(&folder, &[&[jobs(keys).as_str()], flags].concat());
        let line = ran.out.lines().find(|line| line.starts_with("✗ j failure · 1 call denied · ")).unwrap_or_default();
        assert!(ran.code == 1 && line.ends_with(&format!(": {told} ({flag})")), "{keys} {flags:?}: {ran:?}");
        assert!(
            ran.out.contains("– after skipped") && ran.out.contains("0 of 2 jobs succeeded · 1 failed · 1 skipped"),
            "{ran:?}"
        );
    }
    for (keys, flags) in
        [("fail_on = \"max-tokens\"", &["--fail-on", "denied"][..]), ("require_clean = false", &["--require-clean"])]
    {
        let ran = run(&folder, &[&[jobs(keys).as_str()], flags].concat());
        assert!(
            ran.code == 0 && ran.out.contains("2 of 2 jobs succeeded"),
            "a job's own key counts: {keys} {flags:?}: {ran:?}"
        );
    }
    let wrong = run(&folder, &[&jobs("fail_on = \"denyed\"")]);
    assert!(wrong.code == 2 && wrong.err.contains("fail_on: `denyed` is no warning. did you mean `denied`?"), "{wrong:?}");
}

#[test]
fn mistakes_are_listed_and_nothing_is_started() {
    let folder = TempFolder::new();
    let jobs = folder.file("jobs.csv", "prompt,timeout\nsay a,soon\nsay b,1m\n,1m\n");
    let ran = run(&folder, &[&jobs]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("jobs.csv: 2 mistakes, so nothing was started"), "{ran:?}");
    assert!(
        ran.err.contains("tapline: jobs.csv, line 2: timeout: `soon`")
            && ran.err.contains("tapline: jobs.csv, line 4: prompt: there is none")
    );
    assert!(std::fs::read_dir(folder.path("traces")).unwrap().next().is_none());
    let kind = run(&folder, &[&folder.file("jobs.txt", "x")]);
    assert!(kind.code == 2 && kind.err.contains("ends with .toml, .jsonl or .csv"), "{kind:?}");
    let unknown = run(&folder, &["--resume", "nothing"]);
    assert!(unknown.code == 2 && unknown.err.contains("there is no batch `nothing`"), "{unknown:?}");
}

#[test]
fn a_plan_and_what_it_will_probably_cost() {
    let folder = TempFolder::new();
    let jobs = folder.file(
        "jobs.toml",
        "[[job]]\nname = \"a\"\nprompt = \"items a x\"\n[[job]]\nname = \"b\"\nneeds = [\"a\"]\nfor_each = \"a.structured.items\"\nprompt = \"say b\"\n",
    );
    let dry = run(&folder, &[&jobs, "--dry-run"]);
    assert_eq!((dry.code, dry.err.as_str()), (0, ""), "{dry:?}");
    assert_eq!(
        dry.out,
        "a: 1 job · claude · cost: unknown\n\
         b: one job for each of a.structured.items · claude · needs a · cost: unknown\n\
         2 jobs · cost: unknown (the median of earlier runs with the same label)\n"
    );
    assert!(std::fs::read_dir(folder.path("traces")).unwrap().next().is_none(), "nothing was started");
    assert_eq!(run(&folder, &[&jobs]).code, 0);
    let known = run(&folder, &[&jobs, "--dry-run"]);
    assert!(known.out.starts_with("a: 1 job · claude · cost: about $0.0100 ($0.0100 each)\n"), "{known:?}");
}

#[test]
fn the_example_is_a_job_file() {
    let folder = TempFolder::new();
    let example = tapline(&["batch", "--example"]);
    assert_eq!((example.code, example.err.as_str()), (0, ""));
    let jobs = folder.file("jobs.toml", &example.out);
    // Its jobs work in worktrees.
    let commit = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first";
    assert!(Command::new("sh").args(["-c", commit]).current_dir(folder.path("")).status().unwrap().success());
    let dry = run(&folder, &[&jobs, "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
}

#[test]
fn a_signal_stops_it_and_it_goes_on_later() {
    let folder = TempFolder::new();
    let go = folder.path("go");
    let jobs = folder.file("jobs.toml", format!("[[job]]\nname = \"first\"\nprompt = \"say first\"\n[[job]]\nname = \"held\"\nneeds = [\"first\"]\nprompt = \"wait held {go}\"\n"));
    let child = batch(&folder, &[&jobs, "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut child = TestProcess::from(child);
    // It has said something, and so it has a session.
    let works = || {
        std::fs::read_dir(folder.path("home/recordings")).is_ok_and(|mut all| {
            all.any(|entry| {
                entry.is_ok_and(|entry| {
                    std::fs::read_to_string(entry.path().join("stdout")).unwrap_or_default().contains("does wait")
                })
            })
        })
    };
    wait_until("the second job works", works);
    child.signal("INT");
    let status = child.wait().unwrap();
    let mut out = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut out).unwrap();
    let mut err = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut err).unwrap();
    assert_eq!(status.code(), Some(130), "{out}\n{err}");
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&value["complete"], value["results"].as_array().unwrap().len()), (&Value::from(false), 1), "{value}");
    let id = value["batch"].as_str().unwrap();
    assert!(err.contains(&format!("to go on: tapline batch --resume {id}")), "{err}");
    folder.file("go", "");
    let rest = run(&folder, &["--resume", id, "--json"]);
    assert_eq!(rest.code, 0, "{rest:?}");
    let value = json(&rest);
    assert_eq!(value["results"][1]["attempts"], 2, "{value}");
    assert_eq!(value["results"][0]["attempts"], 1, "what was finished is not repeated");
}

#[test]
fn the_budget_and_failures_end_it_early() {
    let folder = TempFolder::new();
    let jobs = folder.file("jobs.csv", "n\na\nb\nc\n");
    let ran = run(&folder, &[&jobs, "--prompt", "say {n}", "--jobs", "1", "--budget-usd", "0.02"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.ends_with("2 of 3 jobs succeeded · 1 not finished · $0.0200\n"), "{ran:?}");
    assert!(ran.err.starts_with("tapline: the budget is used up; to go on: tapline batch --resume "), "{ran:?}");
    let kept = run(&folder, &["--resume", "last"]);
    assert!(kept.code == 4 && kept.err.contains("the budget is used up; to go on: "), "the batch keeps its budget: {kept:?}");
    assert!(kept.out.ends_with("2 of 3 jobs succeeded · 1 not finished · $0.0200\n"), "{kept:?}");
    let rest = run(&folder, &["--resume", "last", "--budget-usd", "1"]);
    assert!(rest.code == 0 && rest.out.ends_with("3 of 3 jobs succeeded · $0.0300\n"), "{rest:?}");
    let failing = run(&folder, &[&jobs, "--prompt", "fail {n}", "--jobs", "1", "--until-failures", "1"]);
    assert_eq!(failing.code, 1, "{failing:?}");
    assert!(failing.out.ends_with("0 of 3 jobs succeeded · 1 failed · 2 not finished · $0.0100\n"), "{failing:?}");
}

#[test]
fn a_full_disk_stops_it_and_nothing_is_lost_or_repeated() {
    const JOBS: usize = 60;
    let folder = TempFolder::new();
    let rows = (1..=JOBS).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
    let jobs = folder.file("jobs.csv", format!("n\n{rows}"));
    let given = batch(&folder, &[&jobs, "--prompt", "say {n}"]);
    // No file may grow beyond 12 KiB. The journal needs more, and nothing else does. Signal 25 would end the process instead.
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' 25; ulimit -f 24; exec \"$@\"", "sh"]).arg(given.get_program()).args(given.get_args());
    limited.env_clear().envs(given.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
    let full = ran(limited.output().unwrap());
    assert_eq!(full.code, 2, "{full:?}");
    assert!(
        full.err.contains("cannot note what happens in the batch") && full.err.contains("tapline batch --resume"),
        "{full:?}"
    );
    let rest = run(&folder, &["--resume", "last", "--json"]);
    assert_eq!(rest.code, 0, "{rest:?}");
    let value = json(&rest);
    assert_eq!((&value["complete"], value["results"].as_array().unwrap().len()), (&Value::from(true), JOBS));
    let names =
        std::fs::read_dir(folder.path("traces")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let runs = names.filter(|name| name.split('.').count() == 2).count();
    assert_eq!(runs, JOBS, "each job ran once");
}

/// An address where nobody listens: the socket has the port, so nobody else gets it.
fn nobody() -> (std::net::TcpListener, String) {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // A server that says nothing is no broker, either; one that hangs up is told at once.
    let url = format!("nats://me:secret@{}", taken.local_addr().unwrap());
    (taken, url)
}

#[test]
fn a_broker_that_is_none_is_told_before_anything_is_made() {
    let folder = TempFolder::new();
    let jobs = folder.file("jobs.csv", "n\na\n");
    let (server, url) = nobody();
    let hangs_up = std::thread::spawn(move || {
        // Two commands ask.
        for _ in 0..2 {
            drop(server.accept());
        }
    });
    let ran = run(&folder, &[&jobs, "--prompt", "say {n}", "--engine", &url]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert!(ran.err.contains("cannot reach the broker at nats://127.0.0.1:") && !ran.err.contains("secret"), "{ran:?}");
    assert!(!std::path::Path::new(&folder.path("home/batches")).exists(), "nothing was made");
    let mut worker = command(&["worker", "--engine", &url]);
    let ran = crate::tapline::ran(worker.env("TAPLINE_HOME", folder.path("home")).output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert!(ran.err.contains("cannot reach the broker at nats://127.0.0.1:") && !ran.err.contains("secret"), "{ran:?}");
    hangs_up.join().unwrap();
}

#[test]
fn a_broker_that_does_not_run_is_told_in_one_sentence() {
    let folder = TempFolder::new();
    let jobs = folder.file("jobs.csv", "n\na\n");
    let engine = ["--engine", "nats://127.0.0.1:1"];
    let commands: [&[&str]; 4] = [&["batch", &jobs, "--prompt", "x"], &["worker"], &["collect"], &["serve", "--no-open"]];
    for given in commands {
        let mut command = command(&[given, &engine].concat());
        let ran = ran(command.env("TAPLINE_HOME", folder.path("home")).output().unwrap());
        assert_eq!((ran.code, ran.err.matches("refused").count()), (2, 1), "{given:?} {ran:?}");
        let begin = "tapline: cannot reach the broker at nats://127.0.0.1:1: Connection refused (os error ";
        let end = "); is it running (`nats-server --jetstream` starts one), and is the address right?\n";
        assert!(ran.err.starts_with(begin) && ran.err.ends_with(end), "{given:?} {ran:?}");
    }
}

#[test]
fn a_worker_needs_to_know_its_broker() {
    let ran = tapline(&["worker"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert!(ran.err.contains("--engine") && ran.err.contains("$TAPLINE_ENGINE"), "{ran:?}");
}

#[test]
fn a_dry_run_shows_the_plan_where_the_agent_is_not_installed() {
    let folder = TempFolder::new();
    let jobs = folder.file("jobs.toml", "[[job]]\nname = \"a\"\nbin = \"nobody-has-this\"\nprompt = \"x\"\n");
    let dry = run(&folder, &[&jobs, "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert!(dry.out.starts_with("a: 1 job · claude"), "{dry:?}");
    assert!(dry.err.contains("not found: nobody-has-this") && dry.err.contains("npm install -g"), "{dry:?}");
    let nowhere = folder.file("jobs.toml", "[[job]]\nname = \"a\"\nprompt = \"x\"\nfolder = \"nowhere\"\n");
    let dry = run(&folder, &[&nowhere, "--dry-run"]);
    assert_eq!(dry.code, 2, "{dry:?}");
    assert!(dry.out.starts_with("a: 1 job · claude") && dry.err.contains("1 mistake on this machine"), "{dry:?}");
    let jobs = folder.file("jobs.toml", "[[job]]\nname = \"a\"\nbin = \"nobody-has-this\"\nprompt = \"x\"\npromt = \"y\"\n");
    let wrong = run(&folder, &[&jobs, "--dry-run"]);
    assert!(wrong.code == 2 && wrong.out.is_empty() && wrong.err.contains("did you mean `prompt`"), "{wrong:?}");
}

#[test]
fn an_agent_that_is_not_installed_is_told_as_by_run_before_anything_starts() {
    let folder = TempFolder::new();
    let jobs = folder.file("jobs.csv", "n\na\nb\n");
    let missing = "no-such-agent-anywhere".to_owned();
    let home = folder.path("home");
    let mut single = command(&["run", "--bin", &missing, "x"]);
    let single = ran(single.env("TAPLINE_HOME", &home).output().unwrap());
    assert_eq!(single.code, 127, "{single:?}");
    let told = |err: &str, words: &str| err.lines().find(|line| line.contains(words)).map(str::to_owned);
    let advice = told(&single.err, "npm install -g");
    assert!(advice.is_some(), "{single:?}");
    let mut many = command(&["batch", &jobs, "--prompt", "say {n}", "--bin", &missing]);
    let many = ran(many.env("TAPLINE_HOME", &home).output().unwrap());
    assert_eq!((many.code, many.out.as_str()), (127, ""), "{many:?}");
    assert_eq!(told(&many.err, "npm install -g"), advice, "{many:?}");
    let named = format!("tapline: claude: not found: {missing} (2 jobs; the first is jobs.csv, line 2)");
    assert_eq!(many.err.lines().filter(|line| line.contains("not found")).collect::<Vec<_>>(), [named], "{many:?}");
    assert!(!std::path::Path::new(&folder.path("home/batches")).exists(), "nothing was made");
    // A mistake of the file comes first.
    let both = folder.file("jobs.csv", "n,timeout\na,soon\nb,1m\n");
    let mut both = command(&["batch", &both, "--prompt", "say {n}", "--bin", &missing]);
    let both = ran(both.env("TAPLINE_HOME", &home).output().unwrap());
    assert_eq!(both.code, 2, "{both:?}");
    assert!(both.err.contains("line 2: timeout: `soon`") && both.err.contains("jobs.csv: 1 mistake, so nothing"), "{both:?}");
}

#[test]
fn a_batch_that_is_resumed_is_told_what_can_be_done_about_its_program() {
    let folder = TempFolder::new();
    std::fs::create_dir_all(folder.path("traces")).unwrap();
    let jobs = folder.file("jobs.csv", "n\na\nb\n");
    let program = folder.path("program");
    let one = ["batch", &jobs, "--prompt", "say {n}", "--jobs", "1", "--budget-usd", "0.01"];
    let start = |args: &[&str], variable: &str| {
        let mut command = command(args);
        command.env("TAPLINE_HOME", folder.path("home")).env("TRACES", folder.path("traces"));
        ran(command.env("TAPLINE_CLAUDE_BIN", variable).output().unwrap())
    };
    let advice = |code: i32, variable: &str| {
        let ran = start(&["batch", "--resume", "last"], variable);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{ran:?}");
        ran.err.lines().nth(1).unwrap_or_default().to_owned()
    };
    // The batch keeps the program that was named for it.
    std::os::unix::fs::symlink(by_prompt(), &program).unwrap();
    assert_eq!(start(&[&one[..], &["--bin", &program]].concat(), "").code, 4);
    std::fs::remove_file(&program).unwrap();
    let put_back = "tapline: put the program there again (a resumed batch keeps its programs), or start a new batch with another --bin PATH";
    assert_eq!(advice(127, &by_prompt()), put_back);
    folder.file("program", "");
    assert!(
        advice(126, "").starts_with("tapline: correct the file (a resumed batch keeps its programs), or start a new batch")
    );
    // Otherwise it is looked for again.
    assert_eq!(start(&one, &by_prompt()).code, 4);
    let missing = advice(127, &folder.path("missing"));
    assert!(missing.contains("npm install -g") && missing.contains("set TAPLINE_CLAUDE_BIN to its path"), "{missing}");
    assert!(!missing.contains("--bin"), "{missing}");
    assert_eq!(start(&["batch", "--resume", "last", "--budget-usd", "1"], &by_prompt()).code, 0);
}

/// What a terminal shows after this was written to it.
fn screen(written: &str) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0, 0);
    let mut rest = written.chars();
    while let Some(c) = rest.next() {
        match c {
            '\r' => column = 0,
            '\n' => {
                row += 1;
                lines.resize(lines.len().max(row + 1), Vec::new());
            }
            '\u{1b}' => {
                let code = rest.as_str();
                let end = code.find(char::is_alphabetic).unwrap();
                match (&code[end..=end], code[1..end].parse::<usize>()) {
                    ("A", Ok(up)) => row -= up,
                    ("J", _) => {
                        lines.truncate(row + 1);
                        lines[row].truncate(column);
                    }
                    _ => {}
                }
                rest = code[end + 1..].chars();
            }
            c => {
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                column += 1;
            }
        }
    }
    lines.into_iter().map(|line| line.into_iter().collect()).collect()
}

#[test]
fn nothing_of_the_table_stays_on_the_screen_after_ctrl_c() {
    tapline_testkit::catch_ignored_signals();
    let folder = TempFolder::new();
    let jobs = folder.file("jobs.csv", "n\na\nb\n");
    let given = batch(&folder, &[&jobs, "--prompt", &format!("wait {{n}} {}", folder.path("never"))]);
    let mut script = Command::new("script");
    // The terminal is that of `script` (util-linux). It writes `^C` when it is typed.
    let quoted = std::iter::once(given.get_program()).chain(given.get_args()).map(|arg| format!("'{}'", arg.to_str().unwrap()));
    let inside = format!("stty cols 100 rows 30 echo echoctl && exec {}", quoted.collect::<Vec<_>>().join(" "));
    script.args(["-q", "-e", "-f", "-c", &inside, "/dev/null"]).env_clear();
    script.envs(given.get_envs().filter_map(|(name, value)| Some((name, value?))));
    script.env("TERM", "xterm-256color").env("SHELL", "/bin/sh");
    let child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut child = TestProcess::from(child);
    let (mut out, mut written) = (child.stdout.take().unwrap(), Vec::new());
    let mut read = || {
        let mut piece = [0; 4_096];
        let count = std::io::Read::read(&mut out, &mut piece).unwrap();
        written.extend(&piece[..count]);
        (count, String::from_utf8_lossy(&written).into_owned())
    };
    while !read().1.contains("does wait") {}
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\x03").unwrap();
    while !read().1.contains("^C") {}
    let all = loop {
        if let (0, all) = read() {
            break all;
        }
    };
    let lines = screen(&all);
    assert!(lines.iter().any(|line| line.contains("0 of 2 jobs succeeded")), "{lines:#?}");
    let left: Vec<_> = lines.iter().filter(|line| line.contains('▸') || line.contains("running")).collect();
    assert!(left.is_empty(), "{left:?} stays on the screen:\n{lines:#?}");
}

#[test]
fn what_failed_is_run_again_and_what_is_left_is_shown() {
    let folder = TempFolder::new();
    let jobs = folder.file(
        "jobs.toml",
        "[[job]]\nname = \"good\"\nprompt = \"say good\"\n[[job]]\nname = \"bad\"\nprompt = \"once bad\"\n\
         [[job]]\nname = \"after\"\nneeds = [\"bad\"]\nprompt = \"say after\"\n",
    );
    let first = run(&folder, &[&jobs, "--json"]);
    assert_eq!(first.code, 1, "{first:?}");
    let id = json(&first)["batch"].as_str().unwrap().to_owned();
    let hint = format!("to run what failed again: tapline batch --resume {id} --retry-failed");
    assert!(first.err.contains(&hint), "{first:?}");
    let nothing = run(&folder, &["--resume", &id, "--dry-run"]);
    assert_eq!((nothing.code, nothing.err.as_str()), (0, ""), "{nothing:?}");
    assert_eq!(nothing.out, format!("nothing is left to run of batch {id}: all its jobs have ended\n"));
    let left = run(&folder, &["--resume", &id, "--retry-failed", "--dry-run"]);
    let steps: Vec<&str> = left.out.lines().map(|line| line.split(" · ").next().unwrap()).collect();
    assert_eq!(steps, ["bad: 1 job", "after: 1 job", &format!("2 jobs left of batch {id}")], "{left:?}");
    // Showing it changes nothing.
    let again = run(&folder, &["--resume", &id, "--json"]);
    assert_eq!((again.code, json(&again)["results"][1]["outcome"].as_str().unwrap()), (1, "failure"), "{again:?}");
    let retried = run(&folder, &["--resume", &id, "--retry-failed", "--json"]);
    assert_eq!(retried.code, 0, "{retried:?}");
    let value = json(&retried);
    let told: Vec<_> =
        value["results"].as_array().unwrap().iter().map(|result| (&result["outcome"], &result["attempts"])).collect();
    let success = Value::from("success");
    assert_eq!(told, [(&success, &Value::from(1)), (&success, &Value::from(2)), (&success, &Value::from(1))]);
    let ran = |job: &str| {
        let names =
            std::fs::read_dir(folder.path("traces")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let began = |name: &String| name.strip_prefix(job).is_some_and(|rest| rest.starts_with('.') && rest.contains(".began"));
        names.filter(began).count()
    };
    assert_eq!((ran("good"), ran("bad"), ran("after")), (1, 2, 1));
    let alone = run(&folder, &[&jobs, "--retry-failed"]);
    assert!(alone.code == 2 && alone.err.contains("--retry-failed"), "{alone:?}");
}

#[test]
fn the_plan_is_private_and_the_journal_is_redacted() {
    let folder = TempFolder::new();
    let key = format!("ghp_{}", "a1B2".repeat(9));
    let jobs = folder.file("jobs.toml", format!("[[job]]\nname = \"a\"\nprompt = \"say a {key}\"\n"));
    let ran = run(&folder, &[&jobs, "--redact"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let batch = std::fs::read_dir(folder.path("home/batches")).unwrap().next().unwrap().unwrap().path();
    assert_eq!((mode(&batch), mode(batch.join("plan.json")), mode(batch.join("journal"))), (0o700, 0o600, 0o600));
    // A batch that is resumed needs the prompt as it is; nothing else has it.
    assert!(std::fs::read_to_string(batch.join("plan.json")).unwrap().contains(&key));
    assert!(!std::fs::read_to_string(batch.join("journal")).unwrap().contains(&key));
}
