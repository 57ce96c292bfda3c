//! What goes wrong at the model's end, and what may not go on: errors of the API, cuts, limits. Each has its verdict.

use crate::stage::{Stage, claudes, codex, newest};

fn fault(fault: &str) -> String {
    format!("[[turn]]\ntext = \"Here I am.\"\nfault = [{{ {fault} }}]\n")
}

#[test]
fn errors_that_stay_are_failures_by_name() {
    // Older versions say neither a status nor a kind, only a sentence: it is understood.
    let cases = [(401, "auth", "no"), (429, "rate_limit", "later"), (529, "overloaded", "later"), (500, "server", "now")];
    for program in claudes() {
        for (status, category, advice) in cases {
            let stage = Stage::new(&program, &fault(&format!("kind = \"error\", status = {status}, times = \"forever\"")));
            let run = stage.run(&["Hello"]);
            assert_eq!(
                (run.code, run.verdict()),
                (1, format!("failure/{category}")),
                "{} {status}: {}",
                program.version,
                run.report["verdict"]
            );
            assert_eq!(run.report["verdict"]["retry"]["advice"], advice, "{} {status}", program.version);
        }
    }
}

#[test]
fn errors_that_pass_are_tried_again() {
    for program in claudes() {
        let stage = Stage::new(&program, &fault("kind = \"error\", status = 529, times = 1, retry_after = 0"));
        let run = stage.run(&["Hello"]);
        assert_eq!((run.code, run.verdict().as_str()), (0, "success/-"), "{} {run:?}", program.version);
        assert_eq!(run.report["answer"], "Here I am.");
        if program.is_at_least("2.1.325") {
            assert_eq!(run.report["retries"][0]["status"], 529, "{}", run.report["retries"]);
        }
        stage.is_as_written();
    }
}

#[test]
fn tapline_tries_again_where_the_program_gives_up() {
    let stage = Stage::new(&newest(), &fault("kind = \"error\", status = 429, times = 2"));
    let run = stage.run(&["Hello", "--retry", "1"]);
    assert_eq!(run.verdict(), "success/-", "{run:?}");
    assert_eq!(run.report["run"]["attempts"], 2, "{}", run.report["run"]);
}

#[test]
fn cuts_and_nonsense_are_got_over() {
    for program in claudes() {
        for (name, fault_text) in [
            ("cut", "kind = \"cut\", after = 4"),
            ("malformed", "kind = \"malformed\", after = 3"),
            ("error event", "kind = \"error\", status = 529, after = 3"),
        ] {
            let stage = Stage::new(&program, &format!("{}chunk = 4\n", fault(fault_text)));
            let run = stage.run(&["Hello"]);
            assert_eq!((run.code, run.verdict().as_str()), (0, "success/-"), "{} {name}: {run:?}", program.version);
            assert_eq!(run.report["answer"], "Here I am.", "{} {name}", program.version);
        }
    }
}

#[test]
fn a_model_that_hangs_is_ended_in_time() {
    let stage = Stage::new(&newest(), &fault("kind = \"hang\", after = 3, times = \"forever\""));
    let run = stage.run(&["Hello", "--idle-timeout", "2s", "--grace", "1s"]);
    assert_eq!((run.code, run.verdict().as_str()), (124, "failure/timeout"), "{}", run.report["verdict"]);
}

const WORK: &str = "usage = { input_tokens = 12, output_tokens = 42, cache_read_input_tokens = 2000 }\n[[turn]]\nrepeat = \"forever\"\ntool = [{ name = \"Bash\", input = { command = \"echo on\", description = \"Go on\" } }]\n";

#[test]
fn too_many_turns() {
    for program in claudes() {
        let stage = Stage::new(&program, WORK);
        let run = stage.run(&["Work", "--permission-mode", "bypassPermissions", "--max-turns", "2"]);
        assert_eq!(
            (run.code, run.verdict().as_str()),
            (1, "failure/max_turns"),
            "{}: {}",
            program.version,
            run.report["verdict"]
        );
    }
}

#[test]
fn too_much_money() {
    for program in claudes() {
        let stage = Stage::new(&program, WORK);
        let run = stage.run(&["Work", "--permission-mode", "bypassPermissions", "--max-budget-usd", "0.0001"]);
        if program.is_at_least("2.0.76") {
            assert_eq!(
                (run.code, run.verdict().as_str()),
                (1, "failure/budget"),
                "{}: {}",
                program.version,
                run.report["verdict"]
            );
        } else {
            // It has no such limit, and says so.
            assert_eq!(run.code, 1, "{}", run.report["verdict"]);
            assert!(run.report["verdict"]["error"].as_str().unwrap().contains("--max-budget-usd"), "{}", run.report["verdict"]);
        }
    }
}

#[test]
fn a_scenario_that_runs_out_says_which_turn() {
    for program in claudes().into_iter().chain([codex()]) {
        let stage = Stage::new(&program, &program.runs("true"));
        let run = stage.run(&[&["Work"], program.unasked()].concat());
        assert_eq!(run.code, 1, "{}: {}", program.version, run.report["verdict"]);
        let message = run.report["verdict"]["error"].as_str().unwrap_or_default();
        assert!(message.contains("turn 2"), "{}: {}", program.version, run.report["verdict"]);
        assert_eq!(stage.sim.failures().len(), 1);
    }
}
