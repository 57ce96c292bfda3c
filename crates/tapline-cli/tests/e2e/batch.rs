//! `tapline batch` with the real program: many jobs at once, each recorded as the agent wrote it; and a batch that is killed goes on in
//! the agent's session.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::stage::{HANG, Stage, TAPLINE, newest};

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
    let until = std::time::Instant::now() + HANG;
    loop {
        let all = std::fs::read_dir(&recordings).into_iter().flatten().flatten().map(|entry| entry.path());
        if all.into_iter().any(|folder| has_called(&folder)) {
            break;
        }
        assert!(std::time::Instant::now() < until, "the agent called no tool");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
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
