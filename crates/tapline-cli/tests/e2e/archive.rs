//! The archive: sessions that real programs make on the scripted model, of every shape that has misled others. `tapline stats` counts what the
//! model gave, whether it reads the streams, the transcripts or both, and costs what the agent says.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tapline_sim::Usage;
use tapline_testkit::files::files_below;
use tapline_testkit::{signal, wait_until};

use crate::stage::{Program, Stage, TAPLINE, claudes, codex, newest};

/// A turn of the scenario. Every turn has other numbers of tokens, so that no two sums are the same by chance.
fn turn(number: u64, rest: &str) -> String {
    let (input, output, read) = (1000 * number + 1, 100 * number + 2, 10_000 * number + 3);
    let (written, hour, searches) = (2000 * number + 4, 500 * number + 1, number % 2);
    format!(
        "[[turn]]\n{rest}\nusage = {{ input_tokens = {input}, output_tokens = {output}, cache_read_input_tokens = {read}, \
         cache_creation_input_tokens = {written}, ephemeral_1h_input_tokens = {hour}, web_search_requests = {searches}, \
         reasoning_tokens = {number} }}\n"
    )
}

fn scenario(turns: &[&str]) -> String {
    turns.iter().zip(1..).map(|(rest, number)| turn(number, rest)).collect()
}

/// Runs of a program, whose streams and transcripts are kept.
struct Runs {
    stage: Stage,
    /// What the runs cost, as far as they say it.
    cost_usd: f64,
}

impl Runs {
    fn new(program: &Program, turns: &[&str]) -> Self {
        let stage = Stage::new(program, &scenario(turns));
        std::fs::create_dir(stage.folder.join("streams")).unwrap();
        Self { stage, cost_usd: 0.0 }
    }

    fn streams(&self) -> PathBuf {
        self.stage.folder.join("streams")
    }

    fn transcripts(&self) -> PathBuf {
        let folder = if self.stage.program.agent == "codex" { ".codex" } else { ".claude" };
        self.stage.sim.home().join(folder)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.stage.command(&self.stage.program.path);
        if self.stage.program.agent == "claude" {
            command.args(["-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"]);
        }
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program, and returns the id of its session.
    fn run(&mut self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{}: {args:?}: {output:?}", self.stage.program.version);
        self.keep(&output.stdout)
    }

    /// Gives the program these prompts, each after the answer to the one before.
    fn talk(&mut self, prompts: &[&str]) -> String {
        let mut child = self.command(&["--input-format", "stream-json"]).stdin(Stdio::piped()).spawn().unwrap();
        let (mut stdin, mut lines) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut stream = String::new();
        for prompt in prompts {
            let line = serde_json::json!({ "type": "user", "message": { "role": "user", "content": prompt } });
            writeln!(stdin, "{line}").unwrap();
            loop {
                let from = stream.len();
                assert_ne!(lines.read_line(&mut stream).unwrap(), 0, "no result: {stream}");
                if serde_json::from_str::<Value>(&stream[from..]).unwrap()["type"] == "result" {
                    break;
                }
            }
        }
        drop(stdin);
        while lines.read_line(&mut stream).unwrap() > 0 {}
        assert!(child.wait().unwrap().success());
        self.keep(stream.as_bytes())
    }

    /// Keeps a stream, adds up what it cost, and returns the id of its session.
    fn keep(&mut self, stream: &[u8]) -> String {
        let count = std::fs::read_dir(self.streams()).unwrap().count();
        std::fs::write(self.streams().join(format!("{count}.jsonl")), stream).unwrap();
        let lines: Vec<Value> =
            stream.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let results = || lines.iter().filter(|line| line["type"] == "result");
        if let (Some(first), Some(last)) = (results().next(), results().next_back()) {
            // A session that goes on, and a fork, begin with what was spent before. The first result tells it apart.
            let own = first["model_usage_since_last_result"].as_object();
            let own = own.map(|models| models.values().filter_map(|model| model["costUSD"].as_f64()).sum::<f64>());
            let total = |line: &Value| line["total_cost_usd"].as_f64().unwrap();
            self.cost_usd += total(last) - own.map_or(0.0, |own| total(first) - own);
        }
        let id = lines.iter().find_map(|line| line["session_id"].as_str().or(line["thread_id"].as_str()));
        id.expect("a session").to_owned()
    }

    fn stats(&self, args: &[&str], paths: &[PathBuf]) -> Value {
        let output = self.stage.command(TAPLINE).args(["stats", "--json"]).args(args).args(paths).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The answers that were sent completely.
    fn given(&self, model: Option<&str>) -> Usage {
        let mut sum = Usage { input_tokens: 0, output_tokens: 0, ..Usage::default() };
        for request in self.stage.sim.requests().iter().filter(|request| request.fault.is_none()) {
            if let Some(answer) = request.answer.as_ref().filter(|answer| model.is_none_or(|model| answer.model == model)) {
                sum += answer.usage;
            }
        }
        sum
    }

    /// Everything that was found there is what the model gave, in all and for each model.
    fn same(&self, what: &str, paths: &[PathBuf]) {
        let mut models: Vec<String> =
            self.stage.sim.requests().into_iter().filter_map(|request| Some(request.answer?.model)).collect();
        models.sort();
        models.dedup();
        // The streams of Codex do not name the model.
        models.retain(|_| what != "streams" || self.stage.program.agent != "codex");
        let version = &self.stage.program.version;
        for model in models.iter().map(|model| Some(model.as_str())).chain([None]) {
            let (given, only) = (self.given(model), model.map(|model| format!("--model={model}")));
            let counted = &self.stats(&only.iter().map(String::as_str).collect::<Vec<_>>(), paths)["totals"];
            let about = format!("{version}, {what}, {}: {counted}", model.unwrap_or("all models"));
            assert_eq!(counted["input"], given.input_tokens, "input, {about}");
            assert_eq!(counted["output"], given.output_tokens, "output, {about}");
            assert_eq!(counted["cache_read"], given.cache_read_input_tokens, "cache_read, {about}");
            assert_eq!(counted["cache_write"], given.cache_creation_input_tokens, "cache_write, {about}");
            if model.is_none() && self.cost_usd > 0.0 {
                let cost = counted["cost_usd"].as_f64().unwrap_or(f64::NAN);
                assert!((cost - self.cost_usd).abs() < 1e-6, "{} instead of {}, {about}", cost, self.cost_usd);
            }
        }
    }

    fn same_everywhere(&self) {
        self.same("streams", &[self.streams()]);
        self.same_with_transcripts();
    }

    fn same_with_transcripts(&self) {
        self.same("transcripts", &[self.transcripts()]);
        self.same("both", &[self.streams(), self.transcripts()]);
        self.stage.is_as_written();
    }
}

#[test]
fn a_resumed_and_forked_session_is_counted_once() {
    let texts = ["text = \"1\"", "text = \"2\"", "text = \"3\"", "text = \"4\"", "text = \"5\"", "text = \"6\""];
    let mut runs = Runs::new(&newest(), &texts);
    let id = runs.talk(&["One", "Two"]);
    assert_eq!(runs.run(&["--resume", &id, "Three"]), id);
    let fork = runs.run(&["--resume", &id, "--fork-session", "Four"]);
    assert_ne!(fork, id);
    runs.run(&["--resume", &fork, "Five"]);
    runs.run(&["--resume", &id, "Six"]);
    runs.same_everywhere();
}

#[test]
fn sub_agents_two_deep_of_two_models_are_counted_once() {
    let outer = r#"tool = [{ name = "Agent", input = { description = "Outer", prompt = "OUTER", subagent_type = "general-purpose", run_in_background = false } }]"#;
    let inner = r#"when = { agent = "sub", prompt = "OUTER" }
tool = [{ name = "Agent", input = { description = "Inner", prompt = "INNER", subagent_type = "general-purpose", model = "haiku", run_in_background = false } }]"#;
    let turns = [
        outer,
        inner,
        "when = { agent = \"sub\", prompt = \"INNER\" }\ntext = \"deep\"",
        "when = { agent = \"sub\", prompt = \"OUTER\" }\ntext = \"less deep\"",
        "text = \"done\"",
        "text = \"resumed\"",
        "text = \"forked\"",
    ];
    let mut runs = Runs::new(&newest(), &turns);
    let id = runs.run(&["Delegate"]);
    runs.run(&["--resume", &id, "--model", "sonnet", "Go on"]);
    runs.run(&["--resume", &id, "--fork-session", "Another way"]);
    runs.same_everywhere();
}

#[test]
fn work_in_the_background_is_counted_once() {
    let turns = [
        r#"tool = [{ name = "Agent", input = { description = "Back", prompt = "BACK", subagent_type = "general-purpose", run_in_background = true } }]"#,
        "when = { agent = \"sub\" }\ndelay_ms = 500\ntext = \"found\"",
        "text = \"It is running.\"",
        "when = { last = \"task-notification\" }\ntext = \"It is done.\"",
    ];
    let mut runs = Runs::new(&newest(), &turns);
    runs.run(&["Delegate"]);
    runs.same_everywhere();
}

#[test]
fn a_summary_that_is_in_no_line_is_counted() {
    let turns = ["text = \"1\"", "text = \"<summary>It was short.</summary>\"", "text = \"3\"", "text = \"4\""];
    let mut runs = Runs::new(&newest(), &turns);
    let id = runs.talk(&["One", "/compact", "Three"]);
    runs.run(&["--resume", &id, "Four"]);
    runs.same_everywhere();
}

#[test]
fn what_a_killed_process_used_is_counted() {
    let turns = [
        r#"tool = [{ name = "Bash", input = { command = "true", description = "Nothing" } }]"#,
        "text = \"never heard\"\ndelay_ms = 600000",
        "text = \"again\"",
    ];
    let mut runs = Runs::new(&newest(), &turns);
    let mut child = runs.command(&["Work"]).spawn().unwrap();
    runs.stage.asked(2);
    signal(child.id(), "KILL");
    child.wait().unwrap();
    let project = std::fs::read_dir(runs.transcripts().join("projects")).unwrap().next().unwrap().unwrap().path();
    let left = std::fs::read_dir(project).unwrap().map(|entry| entry.unwrap().path());
    let left = left.into_iter().find(|path| path.extension().is_some_and(|end| end == "jsonl")).unwrap();
    let id = left.file_stem().unwrap().to_str().unwrap().to_owned();
    runs.run(&["--resume", &id, "Again"]);
    // The second answer was never sent, and what the first process cost is said nowhere.
    runs.cost_usd = 0.0;
    let given = runs.given(None);
    let counted = &runs.stats(&[], &[runs.transcripts()])["totals"];
    assert_eq!(counted["input"], given.input_tokens - 2001, "{counted}");
    assert_eq!(counted["output"], given.output_tokens - 202, "{counted}");
}

#[test]
fn older_versions_are_counted_as_the_newest() {
    for program in claudes() {
        let tool = if program.is_at_least("2.1.0") { "Agent" } else { "Task" };
        let task = format!(
            "tool = [{{ name = \"{tool}\", input = {{ description = \"Look\", prompt = \"LOOK\", subagent_type = \"general-purpose\", run_in_background = false }} }}]"
        );
        let turns = [
            task.as_str(),
            "when = { agent = \"sub\" }\nchunk = 2\npace_ms = 20\nthinking = \"Slowly.\"\ntext = \"Found it.\"",
            "chunk = 2\npace_ms = 20\nthinking = \"Slowly.\"\ntext = \"Done.\"",
            "text = \"resumed\"",
            "text = \"forked\"",
        ];
        let mut runs = Runs::new(&program, &turns);
        let id = runs.run(&["Delegate"]);
        runs.run(&["--resume", &id, "Go on"]);
        runs.run(&["--resume", &id, "--fork-session", "Another way"]);
        runs.same("streams", &[runs.streams()]);
        runs.same("both", &[runs.streams(), runs.transcripts()]);
        // Requests outside the conversation are in no transcript of older versions.
        if program.is_at_least("2.1.0") {
            runs.same_with_transcripts();
        }
    }
}

const EXEC: &[&str] = &["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];

#[test]
fn a_resumed_and_forked_thread_is_counted_once() {
    let turns = [
        "thinking = \"Hm.\"\ntool = [{ name = \"exec_command\", input = { cmd = \"true\" } }]",
        "text = \"2\"",
        "text = \"3\"",
        "text = \"4\"",
        "text = \"5\"",
    ];
    let mut runs = Runs::new(&codex(), &turns);
    let id = runs.run(&[EXEC, &["One"]].concat());
    assert_eq!(runs.run(&["exec", "resume", "--json", "--skip-git-repo-check", &id, "Two"]), id);
    runs.same("streams", &[runs.streams()]);
    let fork = runs.run(&["exec", "fork", "--json", "--skip-git-repo-check", &id, "Three"]);
    assert_ne!(fork, id);
    runs.run(&["exec", "resume", "--json", "--skip-git-repo-check", &id, "Four"]);
    // The stream of a fork begins with its parent's total, and does not name the parent.
    runs.same_with_transcripts();
}

#[test]
fn sub_agents_of_codex_that_repeat_their_parents_are_counted_once() {
    let spawn = |task: &str| {
        format!(
            "tool = [{{ name = \"spawn_agent\", namespace = \"collaboration\", input = {{ message = \"{task}\", task_name = \"{task}\", fork_turns = \"all\" }} }}]"
        )
    };
    let wait = "tool = [{ name = \"wait_agent\", namespace = \"collaboration\", input = { timeout_ms = 60000 } }]";
    let (outer, inner) = (spawn("outer"), format!("when = {{ agent = \"sub\" }}\n{}", spawn("inner")));
    let sub_waits = format!("when = {{ agent = \"sub\" }}\n{wait}");
    let turns = [
        outer.as_str(),
        wait,
        "text = \"done\"",
        inner.as_str(),
        sub_waits.as_str(),
        "when = { agent = \"sub\" }\ndelay_ms = 500\ntext = \"deep\"",
        "when = { agent = \"sub\" }\ntext = \"less deep\"",
    ];
    let mut runs = Runs::new(&codex(), &turns);
    runs.run(&[EXEC, &["Delegate"]].concat());
    // The stream has no tokens of sub-agents.
    runs.same_with_transcripts();
}

#[test]
fn a_compacted_and_a_compressed_thread_are_counted() {
    let turns = [
        "tool = [{ name = \"exec_command\", input = { cmd = \"true\" } }]",
        "text = \"a summary\"",
        "text = \"done\"",
        "text = \"another thread\"",
    ];
    let mut runs = Runs::new(&codex(), &turns);
    runs.run(&[EXEC, &["-c", "model_auto_compact_token_limit=10000", "One"]].concat());
    let rollouts = files_below(runs.transcripts().join("sessions"));
    let [rollout] = &rollouts[..] else { panic!("{rollouts:?}") };
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(200 * 24 * 60 * 60);
    std::fs::File::options().append(true).open(rollout).unwrap().set_modified(long_ago).unwrap();
    let compressed = rollout.with_extension("jsonl.zst");
    runs.run(&[EXEC, &["--enable", "local_thread_store_compression", "Two"]].concat());
    wait_until("the rollout is compressed", || compressed.exists());
    runs.same_everywhere();
}
