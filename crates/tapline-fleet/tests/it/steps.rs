//! Steps that follow each other: `needs`, `for_each`, `if`.

use tapline_fleet::JobOutcome;

use crate::stage::Stage;

#[test]
fn a_step_takes_what_earlier_ones_gave() {
    let stage = Stage::new();
    let ran = stage.run(
        r#"
        [[job]]
        name = "plan"
        prompt = "items plan a b c"
        [[job]]
        name = "each"
        needs = ["plan"]
        for_each = "plan.structured.items"
        prompt = "say each-{item} from {plan.answer}"
        [[job]]
        name = "all"
        needs = ["each", "plan"]
        prompt = "say all {plan.session} {plan.verdict}"
        resume = "{plan.session}"
        [[job]]
        name = "more"
        needs = { one = "each" }
        prompt = "Read this:\n{one.transcript}\nsay more"
        [[job]]
        name = "lines"
        needs = ["plan"]
        for_each = "plan.answer"
        prompt = "say lines-{item}"
        "#,
        |options| options.jobs = 3,
    );
    let names: Vec<_> = ran.end.results.iter().map(|result| result.job.as_str()).collect();
    assert_eq!(names, ["plan", "each-1", "each-2", "each-3", "all", "more", "lines-1"]);
    assert!(ran.end.results.iter().all(|result| result.outcome == JobOutcome::Success), "{:?}", ran.outcomes());
    assert_eq!(ran.result("each-2").answer.as_deref(), Some("done each-b from listed"));
    assert_eq!(ran.result("all").answer.as_deref(), Some("done all s-plan success"));
    assert!(stage.noted("all", "args")[0].contains("--resume=s-plan"), "{:?}", stage.noted("all", "args"));
    assert_eq!(ran.result("lines-1").answer.as_deref(), Some("done lines-listed "));
    assert!(ran.end.is_complete());
    // What was sent is recorded: the transcript of all three.
    let sent = std::fs::read_to_string(format!("{}/stdin", ran.result("more").recording.clone().unwrap())).unwrap();
    assert!(sent.contains("<earlier-run>") && sent.matches("does say").count() == 3, "{sent}");
}

#[test]
fn a_condition_decides_whether_a_step_runs() {
    let stage = Stage::new();
    let ran = stage.run(
        r#"
        [[job]]
        name = "good"
        prompt = "items good x"
        [[job]]
        name = "bad"
        prompt = "fail bad"
        [[job]]
        name = "after-bad"
        needs = ["bad"]
        prompt = "say after-bad"
        [[job]]
        name = "repair"
        needs = ["bad"]
        if = "bad.failure"
        prompt = "say repair {bad.error}"
        [[job]]
        name = "no-repair"
        needs = ["good"]
        if = "good.failure"
        prompt = "say no-repair"
        [[job]]
        name = "after-no-repair"
        needs = ["no-repair"]
        prompt = "say after-no-repair"
        [[job]]
        name = "if-ok"
        needs = ["good"]
        if = "good.structured.ok"
        prompt = "say if-ok"
        [[job]]
        name = "no-list"
        needs = ["good"]
        for_each = "good.structured.ok"
        prompt = "say {item}"
        [[job]]
        name = "no-part"
        needs = ["good"]
        prompt = "say {good.structured.nothing}"
        "#,
        |_| {},
    );
    assert_eq!(
        ran.outcomes(),
        [
            ("good", "success"),
            ("bad", "failure"),
            ("after-bad", "skipped"),
            ("repair", "success"),
            ("no-repair", "skipped"),
            ("after-no-repair", "skipped"),
            ("if-ok", "success"),
            ("no-list", "failure"),
            ("no-part", "failure"),
        ]
    );
    assert!(ran.result("repair").answer.as_deref().unwrap().contains("this cannot work"));
    let why = |job: &str| ran.result(job).error.clone().unwrap_or_default();
    assert_eq!(why("after-bad"), "it needs `bad`, which did not succeed (failure)");
    assert!(why("no-list").contains("is not a list") && why("no-part").contains("ended without it"), "{}", why("no-part"));
    assert_eq!(tapline_fleet::worst_exit_code(&ran.end.results), 2);
}

#[test]
fn rows_of_two_steps_belong_together() {
    let stage = Stage::new();
    stage.file("repos.csv", "repo\na\nb\n");
    let ran = stage.run(
        r#"
        [[job]]
        name = "make-{repo}"
        prompt = "say make-{repo}"
        rows = "repos.csv"
        [[job]]
        name = "check-{repo}"
        needs = { made = "make-{repo}" }
        prompt = "say check-{repo} {made.answer}"
        rows = "repos.csv"
        [[job]]
        name = "sum"
        needs = ["check"]
        prompt = "Answers: {check.answer}\nsay sum"
        [[job]]
        name = "listed"
        for_each = ["x", "y"]
        prompt = "say listed-{item}"
        "#,
        |_| {},
    );
    let names: Vec<_> = ran.end.results.iter().map(|result| result.job.as_str()).collect();
    assert_eq!(names, ["make-a", "make-b", "check-a", "check-b", "sum", "listed-1", "listed-2"]);
    assert_eq!(ran.result("check-b").answer.as_deref(), Some("done check-b done make-b"));
    assert_eq!(ran.result("listed-2").answer.as_deref(), Some("done listed-y "));
}
