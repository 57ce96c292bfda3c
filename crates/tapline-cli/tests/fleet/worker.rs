//! `tapline worker` and `tapline batch --engine`: what they say in a log.

use std::process::Command;

use tapline_testkit::TestProcess;
use tapline_testkit::agent::by_prompt;
use tapline_testkit::nats::NatsServer;

use crate::program_output::{Said, started};

fn tapline(server: &NatsServer, home: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapline"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("TAPLINE_ENGINE", server.url());
    command.env("HOME", server.path("")).env("TAPLINE_HOME", server.path(home)).env("TRACES", server.path("traces"));
    // A worker's jobs work in the folder that it is started in.
    command.args(args).current_dir(server.path(""));
    command
}

fn worker(server: &NatsServer, name: &str, more: &[&str]) -> (TestProcess, Said, Said) {
    let agent = by_prompt();
    let args = [&["worker", "--jobs", "1", "--name", name, "--bin", &agent], more].concat();
    started(&mut tapline(server, name, &args))
}

/// A line of a log, without the time that it begins with.
fn logged(line: &str) -> &str {
    let (time, rest) = line.split_at_checked(9).unwrap_or_else(|| panic!("{line}"));
    let is_time = time.char_indices().all(|(at, c)| match at {
        2 | 5 => c == ':',
        8 => c == ' ',
        _ => c.is_ascii_digit(),
    });
    assert!(is_time, "{line}");
    rest
}

#[test]
fn a_log_says_what_happens_and_when() {
    let mut server = NatsServer::start();
    std::fs::create_dir(server.path("traces")).unwrap();
    let (mut first, mut said, mut warned) = worker(&server, "first", &[]);
    let mut next = || logged(&said.next().unwrap()).to_owned();
    let here = server.path("").canonicalize().unwrap();
    assert_eq!(next(), format!("worker first: ready for 1 job at once, in {}", here.display()));
    let (jobs, go) = (server.path("jobs.toml"), server.path("go"));
    let text = format!(
        "[[job]]\nname = \"refused\"\nargs = [\"--x\"]\nprompt = \"say refused\"\n\
         [[job]]\nname = \"gpu\"\nworker = [\"gpu=yes\"]\nprompt = \"wait gpu {}\"\n\
         [[job]]\nname = \"good\"\nprompt = \"say good\"\n",
        go.display()
    );
    std::fs::write(&jobs, text).unwrap();
    let (batch, results, mut told) = started(&mut tapline(&server, "home", &["batch", jobs.to_str().unwrap(), "--json"]));
    let mut until = |what: &str| {
        let found = told.find(|line| line.contains(what));
        found.unwrap_or_else(|| panic!("the batch never says: {what}"))
    };
    let refused = next();
    assert!(refused.starts_with("✗ refused refused: the job has `args`") && refused.contains("`allow-args`"), "{refused}");
    assert!(next().starts_with("▸ good started (batch ") && next() == "✓ good success");
    // That no worker at all is there may be told before: the first one may be slow to say that it is.
    assert_eq!(until("no worker has"), "! no worker has gpu=yes: 1 job waits");
    let (second, _said, _warned) = worker(&server, "second", &["--label", "gpu=yes"]);
    assert_eq!(until("a worker"), "· a worker that has gpu=yes is there now");
    // Only now: a batch that has ended says nothing more of workers.
    std::fs::write(&go, "").unwrap();
    assert!(until("gpu success").ends_with(" · worker second"));
    let results: String = results.collect();
    drop(batch);
    let results: serde_json::Value = serde_json::from_str(&results).unwrap();
    let workers: Vec<&str> =
        results["results"].as_array().unwrap().iter().map(|result| result["worker"].as_str().unwrap()).collect();
    assert_eq!(workers, ["first", "second", "first"]);
    drop(second);
    server.kill();
    let warning = |line: Option<String>| logged(&line.unwrap()).to_owned();
    assert!(warning(warned.next()).starts_with("tapline: the connection to the broker is lost"));
    server.again();
    assert_eq!(warning(warned.next()), "tapline: the broker is there again");
    first.signal("TERM");
    assert_eq!(first.ended().code(), Some(0));
    let more: Vec<String> = warned.collect();
    assert!(more.is_empty(), "{more:?}");
}

#[test]
fn workers_take_jobs_of_whom_they_trust_and_batches_results() {
    let server = NatsServer::start();
    std::fs::create_dir(server.path("traces")).unwrap();
    let key = |home: &str| {
        let output = tapline(&server, home, &["doctor", "--json"]).output().unwrap();
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        found["findings"]["key"]["key"].as_str().unwrap().to_owned()
    };
    let (_one, mut said, _warned) = worker(&server, "one", &["--trust", &key("home")]);
    assert!(logged(&said.next().unwrap()).starts_with("worker one: ready"));
    let jobs = server.path("jobs.toml");
    std::fs::write(&jobs, "[[job]]\nname = \"a\"\nprompt = \"say a\"\n").unwrap();
    let batch = |home: &str, more: &[&str]| {
        let output = tapline(&server, home, &[&["batch", jobs.to_str().unwrap(), "--json"], more].concat()).output().unwrap();
        let ended: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let error = ended["results"][0]["error"].as_str().unwrap_or_default().to_owned();
        (output.status.code(), error + &String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(batch("home", &["--trust", &key("one")]).0, Some(0));
    let (code, why) = batch("elsewhere", &[]);
    let author = format!("worker one: the order is not taken: the key of its author is {}", key("elsewhere"));
    assert!(code == Some(2) && why.starts_with(&author), "{why}");
    let (code, why) = batch("home", &["--trust", &key("elsewhere")]);
    let told = format!("what a worker said about it is not believed: the key of the worker is {}", key("one"));
    assert!(code == Some(2) && why.starts_with(&told), "{why}");
    let (code, why) = batch("home", &["--trust", "x"]);
    assert!(code == Some(2) && why.contains("--trust x: it is no key of a data folder"), "{why}");
}
