//! A stage: a scripted model, a real program, and tapline on both sides of it: `tapline run` starts a `tapline tee` that starts the
//! program. What must hold for every run is checked here.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tapline_sim::Sim;
use tapline_testkit::{TempFolder, catch_ignored_signals, wait_until};

/// The binary under test.
pub(crate) const TAPLINE: &str = env!("CARGO_BIN_EXE_tapline");

/// A real program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) agent: &'static str,
    pub(crate) version: String,
    pub(crate) path: PathBuf,
}

pub(crate) fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: scripts/e2e runs these tests"))
}

pub(crate) fn installed(name: &str) -> PathBuf {
    let path = PathBuf::from(setting("TAPLINE_E2E")).join(name);
    assert!(path.exists(), "{} is not there: scripts/e2e installs it", path.display());
    path
}

/// The versions of Claude Code that are tested.
pub(crate) fn claudes() -> Vec<Program> {
    let version = |version: &str| claude(version);
    setting("TAPLINE_E2E_CLAUDE").split_whitespace().map(version).collect()
}

pub(crate) fn claude(version: &str) -> Program {
    let path = installed(&format!("claude-{version}/node_modules/.bin/claude"));
    Program { agent: "claude", version: version.to_owned(), path }
}

/// The newest pinned version, which knows everything.
pub(crate) fn newest() -> Program {
    claude("2.1.325")
}

pub(crate) fn codex() -> Program {
    let version = setting("TAPLINE_E2E_CODEX");
    Program { agent: "codex", path: installed(&format!("codex-{version}/node_modules/.bin/codex")), version }
}

impl Program {
    /// A turn in which the agent runs this command.
    pub(crate) fn runs(&self, command: &str) -> String {
        let call = match self.agent {
            "codex" => format!("name = \"exec_command\", input = {{ cmd = {command:?} }}"),
            _ => format!("name = \"Bash\", input = {{ command = {command:?}, description = \"Run it\" }}"),
        };
        format!("[[turn]]\ntool = [{{ {call} }}]\n")
    }

    /// What lets it run commands unasked.
    pub(crate) fn unasked(&self) -> &'static [&'static str] {
        if self.agent == "codex" { &[] } else { &["--permission-mode", "bypassPermissions"] }
    }

    /// Whether it is at least this version.
    pub(crate) fn is_at_least(&self, version: &str) -> bool {
        let numbers = |text: &str| text.split('.').map(|part| part.parse::<u32>().unwrap_or(0)).collect::<Vec<_>>();
        numbers(&self.version) >= numbers(version)
    }
}

/// Lines that a version writes and tapline does not know: a written list. Empty, as it should be.
const UNKNOWN: &[(&str, &str)] = &[];

/// A stage.
pub(crate) struct Stage {
    pub(crate) sim: Sim,
    pub(crate) folder: TempFolder,
    pub(crate) program: Program,
    stand_in: PathBuf,
    runs: AtomicU32,
}

/// What became of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) report: Value,
    pub(crate) recording: PathBuf,
}

impl Outcome {
    pub(crate) fn verdict(&self) -> String {
        let verdict = &self.report["verdict"];
        format!("{}/{}", verdict["outcome"].as_str().unwrap_or("?"), verdict["category"].as_str().unwrap_or("-"))
    }

    pub(crate) fn stdout(&self) -> String {
        std::fs::read_to_string(self.recording.join("stdout")).unwrap()
    }

    /// The recorded lines of a type, or type and subtype.
    pub(crate) fn lines(&self, kind: &str) -> Vec<Value> {
        let (kind, subtype) = kind.split_once('/').map_or((kind, None), |(kind, subtype)| (kind, Some(subtype)));
        let is_one = |line: &Value| line["type"] == kind && subtype.is_none_or(|subtype| line["subtype"] == subtype);
        self.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).filter(is_one).collect()
    }
}

impl Stage {
    pub(crate) fn new(program: &Program, scenario: &str) -> Self {
        Self::at_work(program, |_| scenario.to_owned())
    }

    /// The same with a scenario that knows the folder the agent works in.
    pub(crate) fn at_work(program: &Program, scenario: impl FnOnce(&str) -> String) -> Self {
        catch_ignored_signals();
        let folder = TempFolder::new();
        std::fs::create_dir(folder.join("work")).unwrap();
        let scenario = &scenario(folder.join("work").to_str().unwrap());
        let sim = Sim::start(scenario).unwrap_or_else(|error| panic!("{error}: {scenario}"));
        let made = Command::new(TAPLINE)
            .args(["shim", "--agent", program.agent, "--bin"])
            .arg(&program.path)
            .args(["--record-in"])
            .arg(folder.join("teed"))
            .arg(folder.join("shim"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let stand_in = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim_end());
        Self { sim, folder, program: program.clone(), stand_in, runs: AtomicU32::new(0) }
    }

    /// A command in the agent's folder that asks the scripted model and nobody else.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.sim.environment())
            .env("TAPLINE_HOME", self.folder.join("store"))
            .current_dir(self.folder.join("work"));
        // The real API is tried again for minutes; here once is enough.
        command.env("CLAUDE_CODE_MAX_RETRIES", "1").stdin(Stdio::null());
        command
    }

    /// `tapline run` with these arguments.
    pub(crate) fn start(&self, args: &[&str]) -> (Child, PathBuf) {
        let recording = self.folder.join(format!("run-{}", self.runs.fetch_add(1, Ordering::Relaxed)));
        let mut command = self.command(TAPLINE);
        command.args(["run", "--format", "report", "--agent", self.program.agent, "--bin"]).arg(&self.stand_in);
        command.arg("--record").arg(&recording);
        // The agent's own arguments come last, behind `--`.
        let own = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        command.args(&args[..own]);
        if !args.contains(&"--timeout") {
            command.args(["--timeout", "10m"]);
        }
        let mut behind: Vec<&str> = args[own..].iter().skip(1).copied().collect();
        if self.program.agent == "codex" {
            behind.extend(["--skip-git-repo-check"]);
        }
        if !behind.is_empty() {
            command.arg("--").args(behind);
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        (child, recording)
    }

    pub(crate) fn finish(&self, (child, recording): (Child, PathBuf)) -> Outcome {
        self.judge(child.wait_with_output().unwrap(), recording)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        self.finish(self.start(args))
    }

    /// What must hold for every run.
    fn judge(&self, output: Output, recording: PathBuf) -> Outcome {
        let stderr = String::from_utf8(output.stderr).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text} {stderr}"));
        // A run that was tried again has one more.
        let recording = report["run"]["recording"].as_str().map_or(recording, PathBuf::from);
        let outcome = Outcome { code: output.status.code().unwrap_or(-1), report, recording };
        let version = &self.program.version;
        for unknown in outcome.report["stream"]["unknown_types"].as_array().unwrap() {
            let unknown = unknown.as_str().unwrap();
            assert!(UNKNOWN.contains(&(version, unknown)), "{version} writes {unknown}, which tapline does not know");
        }
        assert_eq!(outcome.report["stream"]["lines"]["malformed"], 0, "{version}: {outcome:?}");
        let teed = self.teed();
        for file in ["stdout", "stderr"] {
            let [one, other] = [&outcome.recording, &teed].map(|folder| std::fs::read(folder.join(file)).unwrap());
            assert!(one == other, "{version}: the two recordings of {file} differ ({} and {} bytes)", one.len(), other.len());
        }
        // A recording says the same as the run.
        let again = Command::new(TAPLINE).args(["inspect", "--json"]).arg(&outcome.recording).output().unwrap();
        let again: Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!(again, outcome.report, "{version}");
        outcome
    }

    /// The newest recording of the tee's.
    pub(crate) fn teed(&self) -> PathBuf {
        let mut all: Vec<PathBuf> =
            std::fs::read_dir(self.folder.join("teed")).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all.pop().unwrap()
    }

    /// What the run counted is what the model gave.
    pub(crate) fn same_tokens(&self, outcome: &Outcome) {
        let (given, counted) = (self.sim.tokens(), &outcome.report["ledger"]["tokens"]);
        let version = &self.program.version;
        // This API counts what was cached among the input; tapline takes it out again.
        assert_eq!(counted["input"], given.input_tokens, "{version}: input of {counted}");
        assert_eq!(counted["output"], given.output_tokens, "{version}: output of {counted}");
        assert_eq!(counted["cache_read"], given.cache_read_input_tokens, "{version}: cache_read of {counted}");
        assert_eq!(counted["cache_write"], given.cache_creation_input_tokens, "{version}: cache_write of {counted}");
        assert_eq!(outcome.report["ledger"]["exact"], true, "{version}");
    }

    pub(crate) fn is_as_written(&self) {
        assert_eq!(self.sim.failures(), Vec::<String>::new(), "{}", self.program.version);
    }

    /// The program, behind a `tapline tee`.
    pub(crate) fn stand_in(&self) -> &Path {
        &self.stand_in
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// Waits until the model was asked so often.
    pub(crate) fn asked(&self, times: usize) {
        let asked = || self.sim.requests().iter().filter(|request| request.facts.is_some()).count();
        wait_until(&format!("the model is asked {times} times"), || asked() >= times);
    }
}

/// A file of this suite.
pub(crate) fn own(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e").join(name)
}
