//! Batches that are killed or stopped, and go on: nothing that was finished is repeated, and every job has exactly one result.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};

use tapline_fleet::{BatchError, BatchFolder, BatchNote, JobOutcome};

use crate::fake::{Stage, wait_until};

const STAGE: &str = "FLEET_STAGE";
const JOBS: usize = 60;

fn jobs() -> String {
    let rows: Vec<String> = (1..=JOBS).map(|n| format!("{{ n = \"{n}\" }}")).collect();
    format!(
        "[[job]]\nname = \"j{{n}}\"\nprompt = \"slow j{{n}}\"\nrows = [{}]\n\
         [[job]]\nname = \"last\"\nneeds = [\"j\"]\nprompt = \"say last\"\n",
        rows.join(",")
    )
}

/// A process that works on the batch of a stage.
struct Worker(Child);

impl Worker {
    fn new(stage: &Path, test: &str) -> Self {
        let me = std::env::current_exe().unwrap();
        let child = Command::new(me)
            .args(["--exact", test, "--nocapture"])
            .env(STAGE, stage)
            .stdout(std::process::Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn journal(stage: &Stage) -> Vec<BatchNote> {
    let Ok(mut batches) = std::fs::read_dir(stage.path("home/batches")) else { return Vec::new() };
    let Some(Ok(batch)) = batches.next() else { return Vec::new() };
    let text = std::fs::read(batch.path().join("journal")).unwrap_or_default();
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    text[..whole]
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

/// How many results each job has.
fn ended(notes: &[BatchNote]) -> BTreeMap<String, usize> {
    let mut ended = BTreeMap::new();
    for note in notes {
        if let BatchNote::Ended(result) = note {
            *ended.entry(result.job.clone()).or_default() += 1;
        }
    }
    ended
}

#[test]
fn killed_three_times() {
    if let Some(path) = std::env::var_os(STAGE) {
        // This is the process that will be killed. Its stage belongs to the test.
        let stage = std::mem::ManuallyDrop::new(Stage::at(Path::new(&path)));
        match BatchFolder::open(&stage.store(), "last") {
            Ok((folder, _)) => drop(folder),
            Err(_) => drop(stage.run(&jobs(), |options| options.jobs = 4)),
        }
        stage.resume(|options| options.jobs = 4);
        return;
    }
    let stage = Stage::new();
    let mut finished: BTreeMap<String, usize> = BTreeMap::new();
    // After so many notes, give or take what is written before the signal comes.
    for notes in [17, 49, 90] {
        let mut worker = Worker::new(&stage.path(""), "killed::killed_three_times");
        wait_until("the batch goes on", || journal(&stage).len() >= notes || worker.0.try_wait().unwrap().is_some());
        drop(worker);
        for job in ended(&journal(&stage)).into_keys() {
            finished.entry(job.clone()).or_insert_with(|| stage.traces(&job).len());
        }
    }
    let ran = stage.resume(|options| options.jobs = 4);
    assert!(ran.end.is_complete());
    assert_eq!(ran.end.results.len(), JOBS + 1);
    for result in &ran.end.results {
        assert_eq!(result.outcome, JobOutcome::Success, "{result:?}");
        assert!(stage.is_recorded(result), "{result:?}");
    }
    assert!(ended(&journal(&stage)).values().all(|count| *count == 1), "no job has two results");
    for (job, runs) in finished {
        assert_eq!(stage.traces(&job).len(), runs, "{job} was finished, and is not repeated");
    }
}

#[test]
fn a_run_that_was_cut_off_goes_on_in_its_session() {
    const TEST: &str = "killed::a_run_that_was_cut_off_goes_on_in_its_session";
    let text = |stage: &Stage| {
        let go = stage.path("go").display().to_string();
        format!(
            "[[job]]\nname = \"resumed\"\nprompt = \"wait resumed {go}\"\n\
             [[job]]\nname = \"again\"\ncut_off = \"again\"\nprompt = \"wait again {go}\"\n\
             [[job]]\nname = \"failed\"\ncut_off = \"fail\"\nprompt = \"wait failed {go}\"\n"
        )
    };
    if let Some(path) = std::env::var_os(STAGE) {
        let stage = std::mem::ManuallyDrop::new(Stage::at(Path::new(&path)));
        stage.run(&text(&stage), |_| {});
        return;
    }
    let stage = Stage::new();
    let worker = Worker::new(&stage.path(""), TEST);
    let is_working = |job: &str| {
        let recordings = stage.store().list().unwrap_or_default();
        let said = |folder: &std::path::PathBuf| std::fs::read_to_string(folder.join("stdout")).unwrap_or_default();
        recordings.iter().any(|folder| said(folder).contains("does wait") && said(folder).contains(&format!("\"s-{job}\"")))
    };
    wait_until("all of them work", || ["resumed", "again", "failed"].into_iter().all(is_working));
    let taken = BatchFolder::open(&stage.store(), "last");
    assert!(matches!(taken, Err(BatchError::Taken(_))), "nobody else may go on with it: {taken:?}");
    drop(worker);
    stage.file("go", "");
    let ran = stage.resume(|_| {});
    assert_eq!(ran.outcomes(), [("resumed", "success"), ("again", "success"), ("failed", "failure")]);
    let resumed =
        |job: &str| stage.noted(job, "args").iter().filter(|args| args.contains(&format!("--resume=s-{job}"))).count();
    assert_eq!((resumed("resumed"), resumed("again"), stage.traces("failed").len()), (1, 0, 1));
    assert_eq!(ran.result("resumed").attempts, 2);
    assert!(stage.is_recorded(ran.result("resumed")) && stage.is_recorded(ran.result("again")));
}

#[test]
fn a_run_that_had_ended_is_not_repeated() {
    let stage = Stage::new();
    let text = "[[job]]\nname = \"a\"\nprompt = \"say a\"\n[[job]]\nname = \"b\"\nprompt = \"fail b\"\n";
    let ran = stage.run(text, |_| {});
    // As if it had been killed between the end of the runs and the notes of their results.
    let batch = std::fs::read_dir(stage.path("home/batches")).unwrap().next().unwrap().unwrap().path();
    let notes = std::fs::read_to_string(batch.join("journal")).unwrap();
    let begun: String = notes.lines().filter(|line| line.contains("\"begun\"")).flat_map(|line| [line, "\n"]).collect();
    std::fs::write(batch.join("journal"), begun).unwrap();
    let again = stage.resume(|_| {});
    assert_eq!(again.outcomes(), ran.outcomes());
    for job in ["a", "b"] {
        assert_eq!(stage.traces(job).len(), 1, "{job} is not repeated");
        assert_eq!(again.result(job).answer, ran.result(job).answer);
        assert_eq!(again.result(job).cost_usd, ran.result(job).cost_usd);
        assert_eq!(again.result(job).recording, ran.result(job).recording);
    }
}
