//! `tapline batch` with the real program: many jobs at once, each recorded as the agent wrote it; and a batch that is killed goes on in
//! the agent's session.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tapline_testkit::agent::by_prompt;
use tapline_testkit::{TempFolder, rounds, wait_until};

use crate::stage::{Stage, TAPLINE, newest};

fn batch(stage: &Stage, args: &[&str]) -> std::process::Command {
    let mut command = stage.command(TAPLINE);
    command.arg("batch").args(args);
    command
}

fn results(output: &std::process::Output) -> Vec<Value> {
    let said = String::from_utf8_lossy(&output.stderr);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(value["complete"], true, "{said}");
    value["results"].as_array().unwrap().clone()
}

/// What the agents wrote, by the account of whoever stands between them and tapline.
fn teed(stage: &Stage) -> Vec<Vec<u8>> {
    let all = std::fs::read_dir(stage.folder.join("teed")).unwrap().map(|entry| entry.unwrap().path());
    all.map(|folder| std::fs::read(folder.join("stdout")).unwrap()).collect()
}

#[test]
fn twenty_jobs_are_recorded_as_the_agent_wrote_them() {
    let stage = Stage::new(&newest(), "[[turn]]\ntext = \"Fine.\"\nrepeat = \"forever\"\n");
    let mut table = String::from("n\n");
    (1..=20).for_each(|n| writeln!(table, "{n}").unwrap());
    std::fs::write(stage.work().join("jobs.csv"), table).unwrap();
    let bin = stage.stand_in().to_str().unwrap().to_owned();
    let args = ["jobs.csv", "--prompt", "Say number {n}", "--bin", &bin, "--jobs", "4", "--timeout", "10m", "--json"];
    let output = batch(&stage, &args).output().unwrap();
    let results = results(&output);
    assert_eq!((output.status.code(), results.len()), (Some(0), 20));
    let teed = teed(&stage);
    assert_eq!(teed.len(), 20, "each ran once");
    let mut sessions = std::collections::BTreeSet::new();
    for result in &results {
        assert_eq!((&result["outcome"], &result["answer"]), (&Value::from("success"), &Value::from("Fine.")), "{result}");
        let stdout = std::fs::read(Path::new(result["recording"].as_str().unwrap()).join("stdout")).unwrap();
        assert!(teed.contains(&stdout), "{result}");
        sessions.insert(result["session"].as_str().unwrap().to_owned());
    }
    assert_eq!(sessions.len(), 20);
}

#[test]
fn a_batch_that_is_killed_goes_on_in_the_session() {
    let program = newest();
    let scenario = |work: &str| {
        let held = program.runs(&format!("while [ ! -e {work}/go ]; do sleep 0.1; done"));
        format!("{held}[[turn]]\ntext = \"Done.\"\nrepeat = \"forever\"\n")
    };
    let stage = Stage::at_work(&program, scenario);
    let jobs = "[[job]]\nname = \"held\"\nprompt = \"Wait\"\npermission_mode = \"bypassPermissions\"\n";
    std::fs::write(stage.work().join("jobs.toml"), jobs).unwrap();
    let bin = stage.stand_in().to_str().unwrap().to_owned();
    let mut child = batch(&stage, &["jobs.toml", "--bin", &bin]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let recordings = stage.folder.join("store/recordings");
    let has_called =
        |folder: &PathBuf| std::fs::read_to_string(folder.join("stdout")).is_ok_and(|text| text.contains("tool_use"));
    wait_until("the agent calls a tool", || {
        let all = std::fs::read_dir(&recordings).into_iter().flatten().flatten().map(|entry| entry.path());
        all.into_iter().any(|folder| has_called(&folder))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::write(stage.work().join("go"), "").unwrap();
    let output = batch(&stage, &["--resume", "last", "--json"]).output().unwrap();
    let results = results(&output);
    assert_eq!((&results[0]["outcome"], &results[0]["attempts"]), (&Value::from("success"), &Value::from(2)), "{results:?}");
    assert_eq!(results[0]["answer"], "Done.");
    let recording = results[0]["recording"].as_str().unwrap();
    let first = std::fs::read_to_string(Path::new(recording.strip_suffix("-2").unwrap()).join("stdout")).unwrap();
    assert!(first.contains(results[0]["session"].as_str().unwrap()), "it is the same session");
}

/// A batch of an agent that ends soon, in a folder of its own.
struct Soon(TempFolder);

impl Soon {
    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(TAPLINE);
        command.arg("batch").args(args).env_clear().env("PATH", "/usr/bin:/bin").env("TAPLINE_HOME", self.0.join("home"));
        command.env("TRACES", self.0.join("traces")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// What is noted so far.
    fn notes(&self) -> Vec<Value> {
        let batch = std::fs::read_dir(self.0.join("home/batches")).into_iter().flatten().flatten().next();
        let text = batch.and_then(|batch| std::fs::read_to_string(batch.path().join("journal")).ok()).unwrap_or_default();
        text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// How many results each job has.
    fn ended(&self) -> std::collections::BTreeMap<String, usize> {
        let mut ended = std::collections::BTreeMap::new();
        for note in self.notes() {
            if let Some(job) = note["ended"]["job"].as_str() {
                *ended.entry(job.to_owned()).or_default() += 1;
            }
        }
        ended
    }

    /// What the runs of a job wrote, by the agent's own account.
    fn traces(&self, job: &str) -> Vec<Vec<u8>> {
        let all = std::fs::read_dir(self.0.join("traces")).unwrap().map(|entry| entry.unwrap().path());
        let is_one = |path: &PathBuf| {
            path.file_name()
                .and_then(|name| name.to_str()?.split_once('.'))
                .is_some_and(|(name, pid)| name == job && pid.parse::<u32>().is_ok())
        };
        all.filter(is_one).map(|path| std::fs::read(path).unwrap()).collect()
    }
}

#[test]
fn killed_at_random_again_and_again() {
    let rounds = rounds(6, 100);
    let soon = Soon(TempFolder::new());
    std::fs::create_dir(soon.0.join("traces")).unwrap();
    let count = 4 * rounds;
    let rows: Vec<String> = (1..=count).map(|n| format!("j{n},slow j{n}")).collect();
    let file = soon.0.file("jobs.csv", format!("name,prompt\n{}\n", rows.join("\n")));
    let agent = by_prompt();
    let begin = [&*file, "--bin", &agent];
    let mut random = u64::from(std::process::id()) | 1;
    let mut finished = std::collections::BTreeMap::new();
    for round in 0..rounds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let notes = soon.notes().len() + 1 + usize::try_from(random >> 61).unwrap();
        let mut child = soon.command(if round == 0 { &begin } else { &["--resume", "last"] }).spawn().unwrap();
        wait_until(&format!("round {round}: the batch goes on"), || {
            soon.notes().len() >= notes || child.try_wait().unwrap().is_some()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        for job in soon.ended().into_keys() {
            finished.entry(job.clone()).or_insert_with(|| soon.traces(&job).len());
        }
    }
    let output = soon.command(&["--resume", "last", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let results = results(&output);
    assert_eq!(results.len(), count);
    for result in &results {
        let job = result["job"].as_str().unwrap();
        assert_eq!(result["outcome"], "success", "{result}");
        let stdout = std::fs::read(Path::new(result["recording"].as_str().unwrap()).join("stdout")).unwrap();
        assert!(soon.traces(job).contains(&stdout), "{result}");
    }
    assert!(soon.ended().values().all(|ended| *ended == 1), "no job has two results");
    for (job, runs) in finished {
        assert_eq!(soon.traces(&job).len(), runs, "{job} was finished, and is not repeated");
    }
}
