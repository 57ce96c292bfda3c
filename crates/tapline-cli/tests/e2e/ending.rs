//! Ends before the end: interrupts, signals, time limits; nothing of the program stays.

use crate::stage::{Stage, claudes, codex, signal};

const SLOW: &str = "[[turn]]\ntext = \"One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen.\"\nchunk = 2\npace_ms = 500\n";

/// Processes that carry this stage's folder in their environment: all that it has started.
fn left(stage: &Stage) -> Vec<String> {
    let mark = stage.sim.home().to_str().unwrap().to_owned();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let is_ours =
            std::fs::read(entry.path().join("environ")).is_ok_and(|environ| String::from_utf8_lossy(&environ).contains(&mark));
        if is_ours && entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok()) {
            found.push(std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default().replace('\0', " "));
        }
    }
    found
}

#[test]
fn interrupted_and_terminated() {
    for program in claudes().into_iter().chain([codex()]) {
        for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 143)] {
            let stage = Stage::new(&program, SLOW);
            let started = stage.start(&["Count", "--grace", "3s"]);
            stage.asked(1);
            signal(&started.0, name);
            let run = stage.finish(started);
            assert_eq!(
                (run.code, run.verdict().as_str()),
                (code, "interrupted/interrupted"),
                "{} SIG{name}: {}",
                program.version,
                run.report["verdict"]
            );
            assert_eq!(left(&stage), Vec::<String>::new(), "{} SIG{name}", program.version);
        }
    }
}

#[test]
fn out_of_time_in_the_middle_of_a_tool() {
    for program in claudes().into_iter().chain([codex()]) {
        let stage = Stage::new(&program, &program.runs("tail -f /dev/null"));
        let run = stage.run(&[&["Wait", "--timeout", "4s", "--grace", "1s"], program.unasked()].concat());
        assert_eq!(
            (run.code, run.verdict().as_str()),
            (124, "failure/timeout"),
            "{}: {}",
            program.version,
            run.report["verdict"]
        );
        assert_eq!(left(&stage), Vec::<String>::new(), "{}", program.version);
    }
}

#[test]
fn a_host_that_is_killed_takes_its_agent_along() {
    for program in claudes().into_iter().chain([codex()]) {
        let stage = Stage::new(&program, SLOW);
        let (mut child, _) = stage.start(&["Count"]);
        stage.asked(1);
        signal(&child, "KILL");
        child.wait().unwrap();
        let until = std::time::Instant::now() + crate::stage::HANG;
        while !left(&stage).is_empty() {
            assert!(std::time::Instant::now() < until, "{}: {:?}", program.version, left(&stage));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
