//! Batches that are killed or stopped, and go on: nothing that was finished is repeated, and every job has exactly one result.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use tapline_fleet::{BatchError, BatchFolder, BatchNote, JobOutcome};
use tapline_testkit::{TestProcess, processes_with, rerun, wait_until};

use crate::stage::Stage;

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

/// A process that works on the batch of a stage: it runs this test.
fn worker(stage: &Stage, test: &str) -> TestProcess {
    TestProcess::spawn(rerun(module_path!(), test).env(STAGE, stage.path("")).stdout(Stdio::null()))
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

/// Whether a process has the environment of this stage.
fn is_anybody_left(stage: &Stage) -> bool {
    !processes_with(&format!("TRACES={}", stage.path("traces").display())).is_empty()
}

#[test]
fn killed_three_times() {
    if let Some(path) = std::env::var_os(STAGE) {
        // This is the process that will be killed. Its stage belongs to the test.
        let stage = Stage::at(Path::new(&path));
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
        let mut worker = worker(&stage, "killed_three_times");
        wait_until("the batch goes on", || journal(&stage).len() >= notes || worker.has_ended());
        drop(worker);
        // Agents of a process that was killed may still be writing.
        wait_until("no process of this stage is left", || !is_anybody_left(&stage));
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
    let text = |stage: &Stage| {
        let go = stage.path("go").display().to_string();
        format!(
            "[[job]]\nname = \"resumed\"\nprompt = \"wait resumed {go}\"\n\
             [[job]]\nname = \"again\"\ncut_off = \"again\"\nprompt = \"wait again {go}\"\n\
             [[job]]\nname = \"failed\"\ncut_off = \"fail\"\nprompt = \"wait failed {go}\"\n"
        )
    };
    if let Some(path) = std::env::var_os(STAGE) {
        let stage = Stage::at(Path::new(&path));
        stage.run(&text(&stage), |_| {});
        return;
    }
    let stage = Stage::new();
    let worker = worker(&stage, "a_run_that_was_cut_off_goes_on_in_its_session");
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
    stage.forget_results();
    // The process of the first had not even ended.
    let first = ran.result("a").recording.clone().unwrap();
    std::fs::remove_file(Path::new(&first).join("end.json")).unwrap();
    let again = stage.resume(|_| {});
    assert_eq!(again.outcomes(), ran.outcomes());
    for job in ["a", "b"] {
        assert_eq!(stage.traces(job).len(), 1, "{job} is not repeated");
        assert_eq!(again.result(job).answer, ran.result(job).answer);
        assert_eq!(again.result(job).cost_usd, ran.result(job).cost_usd);
        assert_eq!(again.result(job).recording, ran.result(job).recording);
    }
}

#[test]
fn the_cost_of_a_run_that_was_not_noted_is_that_of_all_runs() {
    let stage = Stage::new();
    let ran = stage.run("[[job]]\nname = \"a\"\nprompt = \"once a\"\nretry = 2\nretry_delay = \"0\"\n", |_| {});
    let (cost, attempts) = (ran.result("a").cost_usd, ran.result("a").attempts);
    assert_eq!(attempts, 2);
    stage.forget_results();
    std::fs::remove_file(Path::new(ran.result("a").recording.as_deref().unwrap()).join("end.json")).unwrap();
    let again = stage.resume(|_| {});
    assert_eq!((again.result("a").cost_usd, again.result("a").attempts, stage.traces("a").len()), (cost, 2, 2));
}

#[test]
fn a_budget_that_cannot_be_read_is_no_batch_without_a_budget() {
    let stage = Stage::new();
    let plan = stage.plan("jobs.toml", "[[job]]\nname = \"a\"\nprompt = \"say a\"\n").unwrap();
    let folder = BatchFolder::create(&stage.store(), &plan).unwrap();
    assert_eq!(folder.keep_budget(None).unwrap(), None);
    assert_eq!(folder.keep_budget(Some(0.5)).unwrap(), Some(0.5));
    assert_eq!(folder.keep_budget(None).unwrap(), Some(0.5));
    let file = folder.path().join("budget.json");
    std::fs::write(&file, "").unwrap();
    let kept = folder.keep_budget(None);
    assert!(matches!(&kept, Err(BatchError::File { path, .. }) if *path == file), "{kept:?}");
}

#[test]
fn a_folder_that_is_gone_is_no_matter_for_a_job_that_has_ended() {
    let stage = Stage::new();
    for folder in ["first", "second"] {
        std::fs::create_dir(stage.path(folder)).unwrap();
    }
    let text = "[[job]]\nname = \"a\"\nfolder = \"first\"\nprompt = \"say a\"\n\
                [[job]]\nname = \"b\"\nfolder = \"second\"\nprompt = \"say b\"\n\
                [[job]]\nname = \"c\"\nprompt = \"say c\"\n";
    let ran = stage.run(text, |options| (options.jobs, options.budget_usd) = (1, Some(0.01)));
    assert_eq!(ran.outcomes(), [("a", "success")]);
    for folder in ["first", "second"] {
        std::fs::remove_dir(stage.path(folder)).unwrap();
    }
    let rest = stage.resume(|_| {});
    assert_eq!(rest.outcomes(), [("a", "success"), ("b", "failure"), ("c", "success")]);
}

#[test]
fn secrets_are_replaced_in_all_notes_also_after_a_resume() {
    let stage = Stage::new();
    stage.file("redact", "");
    let key = format!("sk-ant-api03-{}", "Ab3".repeat(30));
    let leak =
        |job: &str| format!("[[job]]\nname = \"{job}\"\nprompt = \"leak {job} {key}\"\nretry = 1\nretry_delay = \"0\"\n");
    let ran = stage.run(&[leak("a"), leak("b")].concat(), |options| (options.jobs, options.budget_usd) = (1, Some(0.01)));
    assert!(!ran.end.is_complete());
    std::fs::remove_file(stage.path("redact")).unwrap();
    let rest = stage.resume(|_| {});
    assert_eq!(rest.outcomes(), [("a", "success"), ("b", "success")]);
    let notes = std::fs::read_to_string(stage.batch().join("journal")).unwrap();
    assert!(notes.contains("the key is") && notes.contains("\"again\""), "{notes}");
    assert!(!notes.contains(&key), "{notes}");
}
