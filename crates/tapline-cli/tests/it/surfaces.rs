//! One truth: what a run came to is the same wherever it is shown. Streams of every kind are run by an agent that writes them, and each surface is
//! asked for the facts that it has. They must be those of the report, and the reports are a table in `surfaces/facts.txt`, which the tests of Python
//! read, too. A new surface is a function in `surfaces/asked.rs` and its row in [`SURFACES`]; the architecture test knows the commands that show
//! runs. With `TAPLINE_SURFACES=write` the table is written anew: look at every line that changed.

mod asked;
mod cases;
mod otlp;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tapline_session::{cost_text, duration};
use tapline_testkit::{Home, root};

use crate::tapline::{Ran, command, ran};
use cases::{Case, cases};

/// What a surface says about a run, by the name of the fact.
pub(crate) type Facts = BTreeMap<&'static str, String>;

/// A surface: its name, the facts that it must have if the report has them, and how it is asked.
type Surface = (&'static str, &'static [&'static str], fn(&Stage) -> Facts);

/// Every surface. Those that show figures as people read them have `shown`, `denials shown` and `time shown`.
pub(crate) const SURFACES: &[Surface] = &[
    ("run", &["outcome", "denials shown", "turns", "time shown", "cost shown"], asked::run),
    ("inspect", &["outcome", "denials shown", "turns", "time shown", "cost shown"], asked::inspect),
    ("view", &["outcome", "denials shown", "turns", "time shown", "cost shown"], asked::view),
    ("run --summary", &["calls", "errors", "denials", "time shown", "cost shown"], asked::job_summary),
    ("batch", &["outcome", "denials", "tokens", "cost", "time", "answer"], asked::batch),
    ("batch --summary", &["outcome", "denials shown", "cost shown"], asked::batch_summary),
    ("batch --junit", &["outcome", "time"], asked::junit),
    ("sessions", &["state", "title", "tokens", "cost", "time"], asked::sessions),
    ("stats", &["calls", "errors", "denials", "tokens", "cost"], asked::stats),
    ("export", &["state", "title", "calls", "errors", "denials", "tokens", "cost"], asked::export),
    ("statusline", &[], asked::statusline),
    ("serve", &["state", "title", "outcome", "denials", "turns", "tokens", "cost"], asked::page),
    ("export --to otlp", &["calls", "errors", "denials", "cost"], asked::otlp),
    ("inspect --json", &["outcome", "calls", "errors", "denials", "tokens", "cost", "turns"], asked::again),
];

/// A home in which one case was run: as a run, and as a job of a batch.
pub(crate) struct Stage<'c> {
    pub(crate) case: &'c Case,
    pub(crate) home: Home,
    pub(crate) batch: Home,
    pub(crate) run: Ran,
    pub(crate) jobs: Ran,
    pub(crate) recording: String,
    pub(crate) report: Value,
}

impl<'c> Stage<'c> {
    fn new(case: &'c Case) -> Self {
        let (home, batch) = (Home::new(), Home::new());
        let agent = home.script("agent", &case.script(&home));
        let run = [&["run", case.prompt, "--bin", &agent, "--agent", case.agent, "--no-stdin"][..], &case.args()].concat();
        let files = ["--summary", &home.path("summary.md"), "--report", &home.path("report.json")].map(ToOwned::to_owned);
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let run = ran(command(&[&run[..], &files].concat()).envs(home.environment()).output().unwrap());
        let jobs = batch.file("jobs.csv", format!("name,prompt\nj,{}\n", case.prompt));
        let told = ["--junit", &batch.path("j.xml"), "--summary", &batch.path("s.md")].map(ToOwned::to_owned);
        let told: Vec<&str> = told.iter().map(String::as_str).collect();
        let jobs = [&["batch", &jobs, "--json", "--bin", &agent, "--agent", case.agent][..], &case.limits(), &told].concat();
        let jobs = ran(command(&jobs).envs(batch.environment()).current_dir(&batch).output().unwrap());
        let recordings: Vec<PathBuf> = std::fs::read_dir(home.join("tapline/recordings"))
            .unwrap_or_else(|error| panic!("{}: {error}: {}", case.name, run.err))
            .map(|entry| entry.unwrap().path())
            .collect();
        let [recording] = &recordings[..] else { panic!("{}: {recordings:?}", case.name) };
        let recording = recording.to_str().unwrap().to_owned();
        let report = serde_json::from_str(&std::fs::read_to_string(home.join("report.json")).unwrap()).unwrap();
        Self { case, home, batch, run, jobs, recording, report }
    }

    /// Runs tapline here.
    pub(crate) fn tapline(&self, args: &[&str]) -> Ran {
        let ran = ran(command(args).envs(self.home.environment()).current_dir(&self.home).output().unwrap());
        assert_eq!(ran.code, 0, "{} {args:?}: {}", self.case.name, ran.err);
        ran
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.tapline(args).out).unwrap()
    }

    /// The facts as the report has them, and as people read them.
    fn facts(&self) -> Facts {
        let report = &self.report;
        let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
        let (calls, turns) = (list(&report["tools"]["calls"]), list(&report["turns"]));
        let with = |status: &str| calls.iter().filter(|call| call["status"] == status).count();
        let (verdict, ledger) = (&report["verdict"], &report["ledger"]);
        let outcome = verdict["outcome"].as_str().unwrap();
        let state = match outcome {
            "success" => "finished",
            "interrupted" => "interrupted",
            _ => "failed",
        };
        let mut facts = Facts::from([
            ("outcome", outcome.to_owned()),
            ("state", state.to_owned()),
            ("calls", calls.len().to_string()),
            ("errors", with("error").to_string()),
            ("denials", verdict["denials"].as_u64().unwrap_or(0).to_string()),
            ("tokens", tokens(&ledger["tokens"])),
            ("turns", turns.len().to_string()),
            ("title", self.case.prompt.to_owned()),
            ("answer", report["answer"].as_str().unwrap_or_default().to_owned()),
        ]);
        let denied = facts["denials"].clone();
        facts.insert("denials shown", denied);
        let at_least = ledger["at_least"] == true;
        if let Some(usd) = ledger["cost_usd"].as_f64() {
            facts.insert("cost", money(usd));
            facts.insert("cost today", tapline_session::text::dollars(usd));
            facts.insert("cost shown", cost_text(Some(usd), at_least).unwrap());
        }
        if let Some(usd) = ledger["session"]["cost_usd"].as_f64() {
            facts.insert("session cost", money(usd));
        }
        // Only the agent's own figure is the same in two runs.
        let times: Vec<f64> = turns.iter().filter_map(|turn| turn["duration_ms"].as_f64()).collect();
        if times.len() == turns.len() && !turns.is_empty() && !self.case.is_timed_out() {
            let whole: f64 = times.iter().sum();
            facts.insert("time", format!("{whole:.0}"));
            facts.insert("time shown", duration(whole));
        }
        facts
    }
}

/// Tokens as all JSON has them.
pub(crate) fn tokens(of: &Value) -> String {
    let counts = ["input", "output", "cache_read", "cache_write"].map(|key| of[key].as_u64().unwrap_or(0).to_string());
    counts.join("/")
}

/// Dollars, without the noise of binary fractions.
pub(crate) fn money(usd: f64) -> String {
    format!("{usd:.9}")
}

/// Reads a line as people see it: `! success · 2 calls denied · 1 turn · 250 ms · 48 in · … · $0.0070`.
pub(crate) fn shown(line: &str) -> Facts {
    let mut facts = Facts::from([("denials shown", "0".to_owned())]);
    for (at, part) in line.split(" · ").map(str::trim).enumerate() {
        let words: Vec<&str> = part.split_whitespace().collect();
        match words[..] {
            [_, outcome, ..] if at == 0 => drop(facts.insert("outcome", outcome.to_owned())),
            [count, "call" | "calls", "denied"] => drop(facts.insert("denials shown", count.to_owned())),
            [count, "turn" | "turns"] => drop(facts.insert("turns", count.to_owned())),
            _ if part.contains('$') => drop(facts.insert("cost shown", part.to_owned())),
            [_, "ms" | "s"] => drop(facts.insert("time shown", part.to_owned())),
            _ => {}
        }
    }
    facts
}

/// The last line that is a verdict with figures.
pub(crate) fn verdict_in(text: &str) -> Facts {
    let is_one = |line: &&str| line.contains(" turn") && ["✓ ", "! ", "✗ "].iter().any(|mark| line.contains(mark));
    shown(text.lines().rev().find(is_one).map_or("", |line| &line[line.find(['✓', '!', '✗']).unwrap_or(0)..]))
}

/// Says what a surface has otherwise than the report.
fn disagreements(stage: &Stage, truth: &Facts) -> Vec<String> {
    let mut found = Vec::new();
    for (name, must, ask) in SURFACES {
        let exempt = stage.case.exempt(name);
        let told = ask(stage);
        // A session that asked no model for anything is in no table of requests.
        if told.is_empty() && truth["tokens"] == "0/0/0/0" {
            continue;
        }
        let wanted = must.iter().filter(|fact| truth.contains_key(*fact) && !exempt.contains(fact));
        for fact in wanted.copied().chain(told.keys().copied().filter(|fact| !must.contains(fact) && !exempt.contains(fact))) {
            let (mine, theirs) = (truth.get(fact), told.get(fact));
            if mine != theirs && (mine.is_some() || theirs.is_some_and(|value| value != "0" && value != &money(0.0))) {
                found.push(format!("{}: {name}: {fact} is {theirs:?}, in the report {mine:?}", stage.case.name));
            }
        }
    }
    found
}

#[test]
fn every_surface_says_the_same() {
    let cases = cases();
    assert!(cases.len() >= 60, "there are runs of every kind: {}", cases.len());
    let (next, found, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let asked = catch_unwind(|| {
                        let stage = Stage::new(case);
                        let truth = stage.facts();
                        (disagreements(&stage, &truth), truth)
                    });
                    // What panicked has said why.
                    let (told, truth) =
                        asked.unwrap_or_else(|_| (vec![format!("{}: it cannot be asked", case.name)], Facts::new()));
                    found.lock().unwrap().extend(told);
                    rows.lock().unwrap().insert(case.name.clone(), truth);
                }
            });
        }
    });
    let table = table(&rows.into_inner().unwrap());
    let found = found.into_inner().unwrap();
    let file = root().join("crates/tapline-cli/tests/it/surfaces/facts.txt");
    if std::env::var_os("TAPLINE_SURFACES").is_some_and(|value| value == "write") {
        std::fs::write(&file, &table).unwrap();
    }
    assert!(found.is_empty(), "{} disagreements:\n{}", found.len(), found.join("\n"));
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    let new: Vec<&str> = table.lines().filter(|line| !known.lines().any(|known| known == *line)).collect();
    assert!(known == table, "these facts are new (TAPLINE_SURFACES=write writes them):\n{}", new.join("\n"));
}

/// One line for each case.
fn table(rows: &BTreeMap<String, Facts>) -> String {
    const COLUMNS: [&str; 11] =
        ["outcome", "state", "calls", "errors", "denials", "tokens", "cost", "session cost", "time", "turns", "title"];
    let mut out = format!("case | {}\n", COLUMNS.join(" | "));
    for (name, facts) in rows {
        let cells: Vec<&str> = COLUMNS.iter().map(|column| facts.get(column).map_or("-", String::as_str)).collect();
        let _ = writeln!(out, "{name} | {}", cells.join(" | "));
    }
    out
}
