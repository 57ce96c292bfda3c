//! Ends before the end: interrupts, signals, time limits; nothing of the program stays.

use tapline_testkit::{eventually, processes_with, signal};

use crate::stage::{Stage, claudes, codex};

const SLOW: &str = "[[turn]]\ntext = \"One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen.\"\nchunk = 2\npace_ms = 500\n";

/// Processes that have the home of this stage in their environment: all that it has started.
fn left(stage: &Stage) -> Vec<String> {
    processes_with(&format!("HOME={}", stage.sim.home().display())).into_iter().map(|process| process.command).collect()
}

#[test]
fn interrupted_and_terminated() {
    for program in claudes().into_iter().chain([codex()]) {
        for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 143)] {
            let stage = Stage::new(&program, SLOW);
            let started = stage.start(&["Count", "--grace", "3s"]);
            stage.asked(1);
            signal(started.0.id(), name);
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
        signal(child.id(), "KILL");
        child.wait().unwrap();
        assert!(eventually(|| left(&stage).is_empty()), "{}: {:?}", program.version, left(&stage));
    }
}
