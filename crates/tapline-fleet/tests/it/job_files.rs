//! Job files: what they mean, and that every mistake in them is named before anything starts.

use crate::stage::Stage;

#[test]
fn each_row_that_is_wrong_is_named_with_its_reason() {
    let stage = Stage::new();
    let faults = stage.faults(
        "jobs.csv",
        "name,prompt,timeout,agent,folder\n\
         a,say a,5m,claude,.\n\
         b,say b,soon,claude,.\n\
         c,,1m,claude,.\n\
         d,say d,1m,gemini,nowhere\n\
         a,say e,1m,claude,.\n\
         f,say f\n",
    );
    let folder = format!(
        "jobs.csv, line 5: cannot use the folder {}: No such file or directory (os error 2)",
        stage.path("nowhere").display()
    );
    let expected = [
        "jobs.csv, line 3: timeout: `soon` is not a time: write it like 90s, 10m or 1h30m",
        "jobs.csv, line 4: prompt: there is none",
        "jobs.csv, line 5: agent: `gemini` is not one of claude, codex",
        &folder,
        "jobs.csv, line 6: the name `a` is taken by jobs.csv, line 2: give it another `name`",
        "jobs.csv, line 7: it has 2 fields, but there are 5 columns",
    ];
    assert_eq!(faults, expected);
    assert!(!stage.path("home").exists(), "nothing was started, and nothing written");
}

#[test]
fn mistakes_in_toml() {
    let stage = Stage::new();
    let text = r#"
        [defaults]
        retyr = 2
        name = "x"
        [[job]]
        name = "one"
        prompt = "Fix {repo}"
        [[job]]
        name = "two"
        prompt = "after {one.anwser} and {three.answer}"
        needs = ["one", "fou"]
        folder = "not-there"
        if = "one.sucess"
        [[job]]
        name = "three"
        prompt = "braces } here"
        env = ["KEY=value"]
        retry_on = ["sometimes"]
        worktree = "maybe"
        rows = "rows.xlsx"
        [[job]]
        name = "four"
        prompt = "x"
        max_turns = "many"
        policy = "no-policy.toml"
        for_each = "one.structured.items"
        [other]
    "#;
    let faults = stage.faults("jobs.toml", text);
    for expected in [
        "jobs.toml, [defaults]: `retyr` is not a key of a job: did you mean `retry`?",
        "jobs.toml, [defaults]: `name` belongs into each [[job]]",
        "jobs.toml: `other` is not a key of a job file: it has [defaults] and [[job]]",
        "jobs.toml, job 1 (`one`): prompt: `{repo}`: nothing has this name",
        "jobs.toml, job 2 (`two`): needs: no job or step is called `fou`: did you mean `four`?",
        "jobs.toml, job 2 (`two`): if: a job has no `sucess`",
        "jobs.toml, job 2 (`two`): prompt: `{one.anwser}`: a job has no `anwser`. did you mean `answer`?",
        "jobs.toml, job 3 (`three`): rows:",
        "jobs.toml, job 4 (`four`): max_turns: `many` is not a whole number",
        "jobs.toml, job 4 (`four`): policy: cannot read",
        "jobs.toml, job 4 (`four`): for_each: `one.structured.items` is not a part of a job in `needs`",
    ] {
        assert!(faults.iter().any(|fault| fault.starts_with(expected)), "{expected}\n{}", faults.join("\n"));
    }
    let broken = stage.faults("jobs.toml", "[[job]]\nname = \"a\"\nprompt = \n");
    assert!(broken[0].starts_with("jobs.toml, line 3: "), "{broken:?}");
    assert_eq!(stage.faults("jobs.toml", ""), ["jobs.toml: it has no jobs"]);
    assert_eq!(
        stage.faults("jobs.toml", "[[job]]\nprompt = \"x\"\nfolder = \"nowhere\"\n").len(),
        1,
        "the folder of a job is checked"
    );
    let values =
        stage.faults("jobs.toml", "[[job]]\nprompt = \"x\"\nenv = [\"KEY=v\"]\nretry_on = [\"x\"]\nworktree = \"x\"\n");
    assert_eq!(values.len(), 3, "{values:?}");
    let option = stage.faults("jobs.toml", "[[job]]\nprompt = \"x\"\nagent = \"codex\"\nmax_turns = 3\n");
    assert!(option.len() == 1 && option[0].contains("max_turns"), "an option that the agent does not have: {option:?}");
}

#[test]
fn circles_are_found() {
    let stage = Stage::new();
    let text = |a: &str, b: &str| {
        format!(
            "[[job]]\nname = \"a\"\nprompt = \"x\"\nneeds = [\"{a}\"]\n[[job]]\nname = \"b\"\nprompt = \"x\"\nneeds = [\"{b}\"]\n"
        )
    };
    let circle = stage.faults("jobs.toml", &text("b", "a"));
    assert!(circle.len() == 1 && circle[0].contains("wait for each other"), "{circle:?}");
    let itself = stage.faults("jobs.toml", &text("a", "a"));
    assert!(itself.len() == 1 && itself[0].contains("`a` needs `a`"), "{itself:?}");
}

#[test]
fn every_kind_of_file_gives_the_same_jobs() {
    let stage = Stage::new();
    stage.file("rows.csv", "repo,to\nx/y,\"2, {z}\"\n");
    let toml = "[[job]]\nname = \"up-{repo}\"\nprompt = \"say up-x-y {repo} {to} {{b}}\"\nrows = \"rows.csv\"\n";
    let csv = "name,prompt\nup-x/y,\"say up-x-y x/y 2, {z} {b}\"\n";
    let lines = r#"{"name":"up-{repo}","prompt":"say up-x-y {repo} {to} {{b}}","repo":"x/y","to":"2, {z}"}"#;
    for (name, text) in [("a.toml", toml), ("b.csv", csv), ("c.jsonl", lines)] {
        let plan = stage.plan(name, text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(plan.len(), 1);
        let steps = plan.steps();
        assert_eq!((steps[0].jobs, steps[0].agent), (1, "claude"), "{name}");
    }
    let ran = stage.run(toml, |_| {});
    assert_eq!(ran.outcomes(), [("up-x-y", "success")]);
    assert_eq!(ran.result("up-x-y").answer.as_deref(), Some("done up-x-y x/y 2, {z} {b}"), "filled in once");
}

#[test]
fn a_column_that_looks_like_a_key_is_named() {
    let stage = Stage::new();
    let faults = stage.faults("jobs.jsonl", "{\"promt\":\"x\"}\n[]\n{\"prompt\":\"y\"}\nnot json\n");
    assert!(
        faults.iter().any(|fault| fault.contains("line 1: `promt`") && fault.contains("did you mean `prompt`?")),
        "{faults:?}"
    );
    assert!(faults.iter().any(|fault| fault.starts_with("jobs.jsonl, line 2: a line is an object")), "{faults:?}");
    assert!(faults.iter().any(|fault| fault.starts_with("jobs.jsonl, line 4: this is not JSON")), "{faults:?}");
}

#[test]
fn the_example_has_no_mistakes() {
    let stage = Stage::new();
    // Its jobs work in worktrees.
    tapline_testkit::git(stage.path(""), &["init", "--quiet"]);
    tapline_testkit::git(stage.path(""), &["commit", "--quiet", "--allow-empty", "-m", "first"]);
    let plan = stage.plan("jobs.toml", tapline_fleet::EXAMPLE).unwrap_or_else(|error| panic!("{error}"));
    let steps: Vec<_> = plan.steps().into_iter().map(|step| step.name).collect();
    assert_eq!(steps, ["plan", "test", "summary", "licence"]);
}

#[test]
fn what_is_expected_is_said_with_an_example() {
    let stage = Stage::new();
    let faults = stage.faults(
        "jobs.jsonl",
        "{\"prompt\":\"x\",\"env\":{\"A\":\"b\"}}\n{\"prompt\": x}\n{\"prompt\":\"y\",\"labels\":[1],\"model\":[\"m\"]}\n",
    );
    let expected = [
        "jobs.jsonl, line 1: env: a list of texts is expected, such as [\"GH_TOKEN\", \"LANG\"]: names of variables, without values",
        "jobs.jsonl, line 2: this is not JSON: expected value at column 12",
        "jobs.jsonl, line 3: model: one value is expected, such as \"a text\", not a list or a table",
        "jobs.jsonl, line 3: labels: a list of texts is expected, such as [\"repo=api\", \"gpu=yes\"]",
    ];
    assert_eq!(faults, expected);
}

#[test]
fn a_mistake_is_told_once_where_it_stands_and_in_the_order_of_the_file() {
    let stage = Stage::new();
    stage.file("rows.csv", "n,time\na,1m\nb,soon\n");
    let text = r#"
        [[job]]
        name = "first"
        prompt = "say first"
        timeout = "{time}"
        retry = "twice"
        rows = "rows.csv"
        [defaults]
        labels = { repo = "api" }
        folder = "nowhere"
        retry_delay = "later"
        agent = "clod"
        [[job]]
        name = "second"
        prompt = "say second"
        labels = ["repo=api"]
        max_turns = "many"
        promt = "x"
        agent = "claude"
    "#;
    let folder = stage.path("nowhere").display().to_string();
    let folder = format!("jobs.toml, [defaults]: cannot use the folder {folder}: No such file or directory (os error 2)");
    let expected = [
        "rows.csv, line 3: timeout: `soon` is not a time: write it like 90s, 10m or 1h30m",
        "jobs.toml, job 1 (`first`): retry: `twice` is not a whole number",
        "jobs.toml, [defaults]: labels: a list of texts is expected, such as [\"repo=api\", \"gpu=yes\"]",
        &folder,
        "jobs.toml, [defaults]: retry_delay: `later` is not a time: write it like 90s, 10m or 1h30m",
        "jobs.toml, [defaults]: agent: `clod` is not one of claude, codex",
        "jobs.toml, job 2 (`second`): max_turns: `many` is not a whole number",
        "jobs.toml, job 2 (`second`): `promt` is not a key of a job: did you mean `prompt`?",
    ];
    assert_eq!(stage.faults("jobs.toml", text), expected);
    let folder = "[defaults]\nfolder = \"nowhere\"\n[[job]]\nprompt = \"x\"\n[[job]]\nprompt = \"y\"\n";
    let faults = stage.faults("jobs.toml", folder);
    assert!(faults.len() == 1 && faults[0].starts_with("jobs.toml, [defaults]: cannot use the folder"), "{faults:?}");
}

#[test]
fn a_worktree_needs_a_repository_with_a_commit() {
    let stage = Stage::new();
    let job = |more: &str| format!("[[job]]\nname = \"a\"\nprompt = \"say a\"\nworktree = true\nfolder = \"repo\"\n{more}\n");
    std::fs::create_dir(stage.path("repo")).unwrap();
    let faults = stage.faults("jobs.toml", &job(""));
    let repo = stage.path("repo").display().to_string();
    let none = format!("jobs.toml, job 1 (`a`): worktree: {repo} is not in a git repository");
    assert!(faults.len() == 1 && faults[0].starts_with(&none), "{faults:?}");
    tapline_testkit::git(stage.path("repo"), &["init", "--quiet"]);
    let faults = stage.faults("jobs.toml", &job(""));
    assert!(faults.len() == 1 && faults[0].contains(" has no commit `HEAD`"), "{faults:?}");
    std::fs::remove_dir_all(stage.path("repo")).unwrap();
    crate::worktrees::repository(&stage);
    assert_eq!(stage.faults("jobs.toml", &job("")), Vec::<String>::new());
    let faults = stage.faults("jobs.toml", &job("base = \"v9\""));
    assert!(faults.len() == 1 && faults[0].contains(" has no commit `v9`"), "{faults:?}");
    // Where it works is known when the first job has ended; workers have repositories of their own.
    let later = "[[job]]\nname = \"p\"\nprompt = \"here p\"\n[[job]]\nname = \"a\"\nneeds = [\"p\"]\nprompt = \"x\"\nworktree = true\nfolder = \"{p.answer}\"\n";
    assert_eq!(stage.faults("jobs.toml", later), Vec::<String>::new());
    let path = stage.file("jobs.toml", "[[job]]\nprompt = \"x\"\nworktree = true\nfolder = \"elsewhere\"\n");
    let there = tapline_fleet::Plan::read_for(&path, &std::collections::BTreeMap::new(), tapline_fleet::RunsOn::Workers);
    assert!(there.is_ok(), "{there:?}");
}

#[test]
fn cells_of_a_table_can_be_ids_schemas_and_servers() {
    let stage = Stage::new();
    stage.file("schema.json", r#"{"type":"object"}"#);
    stage.file("servers.json", r#"{"mcpServers":{}}"#);
    let csv = "id,prompt,schema,mcp_config\n\
               1,say a,\"{\"\"type\"\":\"\"object\"\",\"\"required\"\":[\"\"a\"\",\"\"b\"\"]}\",\"{\"\"mcpServers\"\":{\"\"a\"\":{\"\"command\"\":\"\"x\"\",\"\"args\"\":[\"\"1\"\",\"\"2\"\"]}}}\"\n\
               2,say b,schema.json,servers.json\n\
               3,say c,,\n";
    assert_eq!(stage.faults("jobs.csv", csv), Vec::<String>::new());
    let plan = stage.plan("jobs.csv", csv).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.steps().iter().map(|step| step.jobs).sum::<usize>(), 3);
    let faults = stage.faults("jobs.csv", "id,prompt,schema\n1,say a,nowhere.json\n");
    assert!(faults.len() == 1 && faults[0].contains("line 2: schema: cannot read") && faults[0].contains("nowhere.json"));
    // What agents get is in the arguments.
    let ran = stage.run_file("jobs.csv", csv);
    assert!(ran.end.results.iter().all(|result| !result.is_failure()), "{:?}", ran.end.results);
    let args = stage.noted("a", "args").concat();
    assert!(args.contains(r#""required":["a","b"]"#) && args.contains(r#""args":["1","2"]"#), "{args}");
    assert!(stage.noted("b", "args").concat().contains(r#"{"type":"object"}"#));
}

#[test]
fn the_same_mistake_in_thousands_of_rows_is_advised_about_once() {
    let stage = Stage::new();
    let rows = |row: &dyn Fn(usize) -> String| (0..4_000).map(row).collect::<Vec<_>>().join("\n");
    let row = |n| format!("{{\"name\":\"job-number-{n}\",\"prompt\":\"x\",\"needs\":[\"job-nunber-{n}\"]}}");
    let faults = stage.faults("jobs.jsonl", &rows(&row));
    assert_eq!(faults.len(), 4_000);
    let advised = faults.iter().filter(|fault| fault.contains("did you mean `job-number-")).count();
    assert_eq!(advised, 20, "comparing each name with each other takes minutes");
    let row = |n| format!("{{\"name\":\"j{n}\",\"prompt\":\"x\",\"needs\":[\"stepp\"],\"step\":\"step\"}}");
    let faults = stage.faults("jobs.jsonl", &rows(&row));
    assert_eq!(faults.iter().filter(|fault| fault.contains("did you mean `step`?")).count(), 4_000);
}
