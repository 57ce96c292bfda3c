//! `tapline worker` and `tapline batch --engine`: what they say in a log.

use std::io::{BufRead as _, BufReader, Lines, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::broker::Server;

fn tapline(server: &Server, home: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapline"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("TAPLINE_ENGINE", server.url());
    command.env("HOME", server.path("")).env("TAPLINE_HOME", server.path(home)).env("TRACES", server.path("traces"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn worker(server: &Server, name: &str, more: &[&str]) -> Child {
    let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tapline-fleet/tests/fake-agent");
    let args = [&["worker", "--jobs", "1", "--name", name, "--bin", agent.to_str().unwrap()], more].concat();
    tapline(server, name, &args).spawn().unwrap()
}

fn lines<R: Read>(from: Option<R>) -> Lines<BufReader<R>> {
    BufReader::new(from.unwrap()).lines()
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
    let mut server = Server::start();
    std::fs::create_dir(server.path("traces")).unwrap();
    let mut first = worker(&server, "first", &[]);
    let (mut said, mut warned) = (lines(first.stdout.take()), lines(first.stderr.take()));
    let mut next = || logged(&said.next().unwrap().unwrap()).to_owned();
    assert_eq!(next(), "worker first: ready for 1 job at once");
    let jobs = server.path("jobs.toml");
    let text = "[[job]]\nname = \"refused\"\nargs = [\"--x\"]\nprompt = \"say refused\"\n\
                [[job]]\nname = \"gpu\"\nworker = [\"gpu=yes\"]\nprompt = \"say gpu\"\n\
                [[job]]\nname = \"good\"\nprompt = \"say good\"\n";
    std::fs::write(&jobs, text).unwrap();
    let mut batch = tapline(&server, "home", &["batch", jobs.to_str().unwrap(), "--json"]).spawn().unwrap();
    let mut told = lines(batch.stderr.take());
    let mut until = |what: &str| {
        let found = told.by_ref().map(Result::unwrap).find(|line| line.contains(what));
        found.unwrap_or_else(|| panic!("the batch never says: {what}"))
    };
    let refused = next();
    assert!(refused.starts_with("✗ refused refused: the job has `args`") && refused.contains("`allow-args`"), "{refused}");
    assert!(next().starts_with("▸ good started (batch ") && next() == "✓ good success");
    assert_eq!(until("no worker"), "! no worker has gpu=yes: 1 job waits");
    let mut second = worker(&server, "second", &["--label", "gpu=yes"]);
    assert_eq!(until("a worker"), "· a worker that has gpu=yes is there now");
    assert!(until("gpu success").ends_with(" · worker second"));
    let results = batch.wait_with_output().unwrap();
    let results: serde_json::Value = serde_json::from_slice(&results.stdout).unwrap();
    let workers: Vec<&str> =
        results["results"].as_array().unwrap().iter().map(|result| result["worker"].as_str().unwrap()).collect();
    assert_eq!(workers, ["first", "second", "first"]);
    second.kill().unwrap();
    second.wait().unwrap();
    server.kill();
    let warning = |line: Option<std::io::Result<String>>| logged(&line.unwrap().unwrap()).to_owned();
    assert!(warning(warned.next()).starts_with("tapline: the connection to the broker is lost"));
    server.again();
    assert_eq!(warning(warned.next()), "tapline: the broker is there again");
    rustix::process::kill_process(rustix::process::Pid::from_child(&first), rustix::process::Signal::TERM).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(0));
    let more: Vec<String> = warned.map(Result::unwrap).collect();
    assert!(more.is_empty(), "{more:?}");
}
