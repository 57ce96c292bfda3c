//! Worktrees in trouble: nothing that an agent did is lost, nothing of the user's is touched, and git runs nothing for an agent.

use std::path::Path;

use tapline_testkit::{git, rerun};

use crate::stage::{Ran, Stage};
use crate::worktrees::{repository, stands};

/// A batch with one job, which runs this script in its worktree.
fn script(stage: &Stage, text: &str, more: &str) -> String {
    let script = stage.file("script", text);
    format!(
        "[[job]]\nname = \"job\"\nfolder = \"repo\"\nworktree = true\nprompt = \"sh job {}\"\n{more}\n",
        script.display().to_string().replace('{', "{{")
    )
}

fn error(ran: &Ran) -> &str {
    ran.result("job").error.as_deref().unwrap_or_default()
}

#[test]
fn a_second_cut_off_loses_neither_the_session_nor_the_work() {
    let stage = Stage::new();
    let repo = repository(&stage);
    let text = "[[job]]\nname = \"job\"\nfolder = \"repo\"\nworktree = true\nprompt = \"work job\"\n";
    let said = || {
        let recordings = stage.store().list().unwrap_or_default();
        recordings
            .iter()
            .any(|folder| std::fs::read_to_string(folder.join("stdout")).is_ok_and(|out| out.contains("does work")))
    };
    let first = stage.run_until(text, "it works", || stage.path("traces/job.first").exists() && said());
    assert!(first.end.stopped && first.outcomes().is_empty());
    let second = stage.resume_until("it goes on", || stage.path("traces/job.second").exists());
    assert!(second.end.stopped && second.outcomes().is_empty());
    let third = stage.resume(|_| {});
    assert_eq!(third.outcomes(), [("job", "success")], "{:?}", third.end.results);
    assert_eq!(third.result("job").attempts, 3);
    let resumed = stage.noted("job", "args").iter().filter(|args| args.contains("--resume=s-job")).count();
    assert_eq!(resumed, 2, "both later runs go on with the session");
    assert_eq!(git(&repo, &["diff", "--name-status", "main", "tapline/job"]), "A\tso-far.txt");
}

#[test]
fn a_worktree_that_must_stay_stays() {
    let stage = Stage::new();
    let repo = repository(&stage);
    let before = stands(&repo);
    let nested = "mkdir inner; cd inner; git init -q; echo x >file; git add file\n\
                  git -c user.name=a -c user.email=a@b commit -q -m inner\n";
    let ran = stage.run(&script(&stage, nested, ""), |_| {});
    let inner = stage.batch().join("worktrees/job/inner");
    let is_kept = |ran: &Ran| {
        assert_eq!(ran.outcomes(), [("job", "failure")], "{:?}", ran.end.results);
        assert!(error(ran).contains("inner/ is a repository of its own"), "{}", error(ran));
        assert!(error(ran).contains(stage.batch().join("worktrees/job").to_str().unwrap()), "{}", error(ran));
        assert_eq!(git(&inner, &["show", "HEAD:file"]), "x");
    };
    is_kept(&ran);
    // As if it had been killed just before this was noted.
    stage.forget_results();
    is_kept(&stage.resume(|_| {}));
    is_kept(&stage.resume(|_| {}));
    assert_eq!(stage.traces("job").len(), 1, "it is not repeated");
    assert_eq!(stands(&repo), before);
}

#[test]
fn a_repository_that_the_agent_committed_is_not_lost_either() {
    let stage = Stage::new();
    repository(&stage);
    let nested = "git init -q inner; git -C inner -c user.name=a -c user.email=a@b commit -q --allow-empty -m inner\n\
                  git add inner; git -c user.name=a -c user.email=a@b commit -q -m outer\n";
    let ran = stage.run(&script(&stage, nested, ""), |_| {});
    assert!(error(&ran).contains("inner is a repository of its own"), "{}", error(&ran));
    assert!(stage.batch().join("worktrees/job/inner/.git").exists());
}

#[test]
fn worktrees_of_the_user_on_a_drive_that_is_not_mounted_stay() {
    let stage = Stage::new();
    let repo = repository(&stage);
    std::fs::create_dir(stage.path("drive")).unwrap();
    let own = stage.path("drive/own");
    git(&repo, &["worktree", "add", "--quiet", "--detach", own.to_str().unwrap()]);
    std::fs::rename(stage.path("drive"), stage.path("away")).unwrap();
    let ran = stage.run(&script(&stage, "echo x >new.txt\n", ""), |_| {});
    assert_eq!(ran.outcomes(), [("job", "success")], "{:?}", ran.end.results);
    std::fs::rename(stage.path("away"), stage.path("drive")).unwrap();
    assert_eq!(git(&own, &["rev-parse", "HEAD"]), git(&repo, &["rev-parse", "main"]));
    assert_eq!(git(&repo, &["worktree", "list"]).lines().count(), 2, "only that one is left");
}

#[test]
fn git_runs_nothing_for_an_agent_that_writes_files() {
    let stage = Stage::new();
    repository(&stage);
    let ran_by_git = stage.path("ran");
    let hook = stage.file("hook", &format!("#!/bin/sh\n: >'{}'\n", ran_by_git.display()));
    let evil = format!(
        "chmod +x '{hook}'; git init -q evil; git -C evil config core.fsmonitor '{hook}'\n\
         git -C evil config core.worktree \"$PWD\"\n\
         printf 'gitdir: %s/evil/.git\\n' \"$PWD\" >.git\n",
        hook = hook.display()
    );
    let ran = stage.run(&script(&stage, &evil, ""), |_| {});
    assert_eq!(ran.outcomes(), [("job", "failure")]);
    assert!(error(&ran).contains("its `.git` was changed"), "{}", error(&ran));
    assert!(stage.batch().join("worktrees/job/evil").exists(), "it stays");
    let again = stage.resume(|_| {});
    assert_eq!(again.end.results, ran.end.results);
    assert!(stage.batch().join("worktrees/job/evil").exists(), "it stays");
    assert!(!ran_by_git.exists(), "nothing was run");
}

#[test]
fn a_patch_does_not_depend_on_the_configuration_of_git() {
    let stage = Stage::new();
    let repo = repository(&stage);
    for (key, value) in
        [("diff.noprefix", "true"), ("color.ui", "always"), ("diff.external", "false"), ("diff.renames", "copies")]
    {
        git(&repo, &["config", key, value]);
    }
    let text = script(&stage, "mv gone.txt moved.txt\n", "").replace("worktree = true", "worktree = \"patch\"");
    let ran = stage.run(&text, |_| {});
    let patch = std::fs::read_to_string(ran.result("job").patch.as_deref().unwrap()).unwrap();
    let first: Vec<&str> = patch.lines().filter(|line| line.starts_with("diff")).collect();
    assert_eq!(first, ["diff --git a/gone.txt b/gone.txt", "diff --git a/moved.txt b/moved.txt"], "{patch}");
}

#[test]
fn a_branch_of_the_user_that_the_agent_checked_out_is_not_changed() {
    let stage = Stage::new();
    let repo = repository(&stage);
    git(&repo, &["branch", "feature"]);
    let before = git(&repo, &["rev-parse", "feature"]);
    let ran = stage.run(&script(&stage, "git checkout -q feature; echo x >new.txt; rm -r sub; echo y >sub\n", ""), |_| {});
    assert_eq!(ran.outcomes(), [("job", "success")], "{:?}", ran.end.results);
    assert_eq!(git(&repo, &["rev-parse", "feature"]), before);
    let changed = git(&repo, &["diff", "--name-status", "--no-renames", "feature", "tapline/job"]);
    assert_eq!(changed, "A\tnew.txt\nA\tsub\nD\tsub/deep.txt");
}

#[test]
fn an_agent_in_a_worktree_does_not_inherit_the_repository_of_the_user() {
    const STAGE: &str = "FLEET_STAGE";
    const TEST: &str = "an_agent_in_a_worktree_does_not_inherit_the_repository_of_the_user";
    if let Some(path) = std::env::var_os(STAGE) {
        let stage = Stage::at(Path::new(&path));
        let commit = "echo x >new.txt; git add new.txt; git -c user.name=a -c user.email=a@b commit -q -m agent\n";
        let ran = stage.run(&script(&stage, commit, ""), |_| {});
        assert_eq!(ran.outcomes(), [("job", "success")], "{:?}", ran.end.results);
        return;
    }
    let stage = Stage::new();
    let repo = repository(&stage);
    let before = stands(&repo);
    let mut command = rerun(module_path!(), TEST);
    let output =
        command.env(STAGE, stage.path("")).env("GIT_DIR", repo.join(".git")).env("GIT_WORK_TREE", &repo).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stands(&repo), before, "nothing was committed there");
    assert_eq!(git(&repo, &["log", "-1", "--format=%s", "tapline/job"]), "agent");
}

#[test]
fn names_of_jobs_do_not_get_in_each_others_way() {
    let stage = Stage::new();
    let repo = repository(&stage);
    let job = |name: &str| format!("[[job]]\nname = \"{name}\"\nprompt = \"touch {name} new.txt\"\n");
    let long = "ü".repeat(90);
    let text =
        ["[defaults]\nfolder = \"repo\"\nworktree = true\n", &job("package"), &job("package.json"), &job(&long)].concat();
    let ran = stage.run(&text, |_| {});
    assert_eq!(ran.end.results.iter().filter(|result| !result.is_failure()).count(), 3, "{:?}", ran.end.results);
    for name in ["package", "package.json"] {
        assert_eq!(git(&repo, &["show", &format!("tapline/{name}:new.txt")]), name);
    }
}

#[test]
fn a_branch_in_the_way_is_found_before_anything_is_paid_for() {
    let stage = Stage::new();
    let repo = repository(&stage);
    git(&repo, &["branch", "tapline"]);
    let ran = stage.run(&script(&stage, "echo x >new.txt\n", ""), |_| {});
    assert!(error(&ran).contains("a branch is called `tapline`"), "{}", error(&ran));
    assert!(stage.traces("job").is_empty());
    assert_eq!(git(&repo, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_batch_that_is_stopped_while_git_works_notes_no_failure() {
    let stage = Stage::new();
    let repo = repository(&stage);
    // Git calls this when it takes the new file. It fails once the agent of the other job is gone, which shows that the batch was stopped.
    let filter = format!(
        "cd '{traces}'; : >../filtering; cat >../given\n\
         while pid=$(ls | sed -n 's/^other\\.\\([0-9]*\\)\\.began$/\\1/p'); [ -z \"$pid\" ] || kill -0 \"$pid\" 2>../said; do\n\
         [ -d '{traces}' ] || exit 1; sleep 0.02; done; exit 1\n",
        traces = stage.path("traces").display()
    );
    let filter = stage.file("filter", &filter);
    git(&repo, &["config", "filter.x.clean", &format!("sh '{}'", filter.display())]);
    git(&repo, &["config", "filter.x.required", "true"]);
    std::fs::create_dir_all(repo.join(".git/info")).unwrap();
    std::fs::write(repo.join(".git/info/attributes"), "new.txt filter=x\n").unwrap();
    let go = stage.path("go");
    let other = format!("[[job]]\nname = \"other\"\nprompt = \"wait other {}\"", go.display());
    let text = script(&stage, "echo x >new.txt\n", &other);
    let is_so = || stage.path("filtering").exists() && !stage.noted("other", "began").is_empty();
    let stopped = stage.run_until(&text, "git works and the other job runs", is_so);
    assert!(stopped.end.stopped && stopped.outcomes().is_empty(), "{:?}", stopped.end.results);
    git(&repo, &["config", "filter.x.clean", "cat"]);
    stage.file("go", "");
    let rest = stage.resume(|_| {});
    assert_eq!(rest.outcomes(), [("job", "success"), ("other", "success")], "{:?}", rest.end.results);
    assert_eq!(stage.traces("job").len(), 1, "its run is not repeated");
    assert_eq!(git(&repo, &["show", "tapline/job:new.txt"]), "x");
}

/// The warnings that say that a worktree stays.
fn stays(ran: &Ran) -> Vec<&String> {
    ran.result("job").warnings.iter().filter(|warning| warning.starts_with("worktree: ")).collect()
}

#[test]
fn files_that_no_branch_has_stay_with_their_worktree() {
    for (writes, name, is_left) in [
        ("echo x >mod/precious.txt", "mod", true),
        ("mkdir -p logs; echo x >logs/precious.log", "logs/", true),
        ("echo x >precious.log", "precious.log", true),
        ("mkdir -p node_modules; echo x >node_modules/a.log", "node_modules", false),
        (
            "mkdir cache; printf 'Signature: 8a477f597d28d172789f06886806bc55\\n' >cache/CACHEDIR.TAG; echo '*' >cache/.gitignore",
            "cache",
            false,
        ),
        ("mkdir cache; echo x >cache/CACHEDIR.TAG; echo '*' >cache/.gitignore", "cache/", true),
        // Nobody waits for a pipe, and nobody follows a link.
        ("mkdir cache; mkfifo cache/CACHEDIR.TAG; echo '*' >cache/.gitignore", "cache/", true),
        (
            "mkdir cache; printf 'Signature: 8a477f597d28d172789f06886806bc55\\n' >cache/tag; ln -s tag cache/CACHEDIR.TAG; echo '*' >cache/.gitignore",
            "cache/",
            true,
        ),
    ] {
        for keep in ["true", "\"patch\""] {
            let stage = Stage::new();
            let repo = repository(&stage);
            let commit = git(&repo, &["rev-parse", "main"]);
            git(&repo, &["update-index", "--add", "--cacheinfo", &format!("160000,{commit},mod")]);
            git(&repo, &["commit", "--quiet", "-m", "a submodule"]);
            let text = script(&stage, &format!("{writes}; echo x >new.txt\n"), "").replace("= true", &format!("= {keep}"));
            let ran = stage.run(&text, |_| {});
            assert_eq!(ran.outcomes(), [("job", "success")], "{writes}: {:?}", ran.end.results);
            let worktree = stage.batch().join("worktrees/job");
            assert_eq!(worktree.exists(), is_left, "{writes}");
            let told = stays(&ran);
            assert_eq!(told.len(), usize::from(is_left), "{writes}: {told:?}");
            for told in told {
                assert!(told.contains(worktree.to_str().unwrap()) && told.ends_with(&format!(": {name}")), "{writes}: {told}");
            }
            if keep == "true" {
                assert_eq!(git(&repo, &["show", "tapline/job:new.txt"]), "x");
            }
            stage.resume(|_| {});
            assert_eq!(worktree.exists(), is_left, "{writes}: after a resume");
        }
    }
}

#[test]
fn a_job_that_is_run_again_begins_with_its_base() {
    let stage = Stage::new();
    let repo = repository(&stage);
    let seen = stage.path("seen");
    let text = format!(
        "if [ -e traces/again ]; then ls >'{seen}'; echo x >two.txt; exit; fi\n\
         : >traces/again; rm gone.txt; echo x >one.txt; echo x >precious.log; exit 1\n",
        seen = seen.display()
    )
    .replace("traces", stage.path("traces").to_str().unwrap());
    let text = script(&stage, &text, "");
    let first = stage.run(&text, |_| {});
    assert_eq!(first.outcomes(), [("job", "failure")], "{:?}", first.end.results);
    assert_eq!(stays(&first).len(), 1);
    let ran = stage.retry_failed();
    assert_eq!(ran.outcomes(), [("job", "success")], "{:?}", ran.end.results);
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), "gone.txt\nkept.txt\nprecious.log\nsub\n");
    assert_eq!(git(&repo, &["diff", "--name-status", "main", "tapline/job"]), "D\tgone.txt\nA\tone.txt");
    assert_eq!(ran.result("job").branch.as_deref(), Some("tapline/job-2"));
    assert_eq!(git(&repo, &["diff", "--name-status", "main", "tapline/job-2"]), "A\ttwo.txt");
}

#[test]
fn work_of_a_run_that_was_cut_off_is_not_removed_when_its_job_has_ended_without_it() {
    let stage = Stage::new();
    repository(&stage);
    let text = "[[job]]\nname = \"job\"\nfolder = \"repo\"\nworktree = true\nprompt = \"work job\"\n";
    let first = stage.run_until(text, "it works", || stage.path("traces/job.first").exists());
    assert!(first.end.stopped && first.outcomes().is_empty());
    // As if it had been made elsewhere.
    let result = r#"{"ended":{"job":"job","outcome":"success"}}"#;
    let journal = stage.batch().join("journal");
    let notes = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, format!("{notes}{result}\n")).unwrap();
    stage.resume(|_| {});
    assert!(stage.batch().join("worktrees/job/so-far.txt").exists());
}
