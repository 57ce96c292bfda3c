//! Jobs in git worktrees: what the agent changed is kept, and nothing of the user's is touched.

use std::path::Path;
use std::process::Stdio;

use tapline_testkit::{TestProcess, git, rerun, wait_until};

use crate::stage::Stage;

/// A repository with a commit, and with changes of the user's that are not committed.
pub(crate) fn repository(stage: &Stage) -> std::path::PathBuf {
    let folder = stage.path("repo");
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    git(&folder, &["init", "--quiet", "--initial-branch=main"]);
    std::fs::write(folder.join("kept.txt"), "one\n").unwrap();
    std::fs::write(folder.join("gone.txt"), "two\n").unwrap();
    std::fs::write(folder.join("sub/deep.txt"), "three\n").unwrap();
    std::fs::write(folder.join(".gitignore"), "*.log\n").unwrap();
    git(&folder, &["add", "--all"]);
    git(&folder, &["commit", "--quiet", "-m", "first"]);
    std::fs::write(folder.join("kept.txt"), "changed by the user\n").unwrap();
    std::fs::write(folder.join("staged.txt"), "staged\n").unwrap();
    git(&folder, &["add", "staged.txt"]);
    folder
}

pub(crate) fn stands(folder: &Path) -> [String; 4] {
    [&["status", "--porcelain"][..], &["rev-parse", "HEAD"], &["diff"], &["symbolic-ref", "HEAD"]].map(|args| git(folder, args))
}

#[test]
fn what_the_agent_changed_is_kept() {
    let stage = Stage::new();
    let repo = repository(&stage);
    git(&repo, &["branch", "tapline/taken"]);
    let before = stands(&repo);
    let ran = stage.run(
        r#"
        [defaults]
        folder = "repo"
        worktree = true
        [[job]]
        name = "branch"
        prompt = "touch branch new.txt"
        [[job]]
        name = "patch"
        worktree = "patch"
        prompt = "touch patch new.txt"
        [[job]]
        name = "nothing"
        prompt = "say nothing"
        [[job]]
        name = "ignored"
        worktree = "patch"
        folder = "repo/sub"
        prompt = "here ignored"
        [[job]]
        name = "taken"
        prompt = "touch taken new.txt"
        [[job]]
        name = "wrong"
        needs = ["nothing"]
        base = "{nothing.answer}"
        prompt = "say wrong"
        "#,
        |options| options.jobs = 3,
    );
    let outcomes = ran.outcomes();
    assert_eq!(outcomes.iter().filter(|(_, outcome)| *outcome == "success").count(), 5, "{:?}", ran.end.results);
    assert_eq!(ran.result("branch").branch.as_deref(), Some("tapline/branch"));
    assert_eq!(git(&repo, &["show", "tapline/branch:new.txt"]), "branch");
    assert_eq!(git(&repo, &["diff", "--name-status", "main", "tapline/branch"]), "D\tgone.txt\nA\tnew.txt");
    let patch = ran.result("patch").patch.clone().unwrap();
    assert!(std::fs::read_to_string(&patch).unwrap().contains("+patch"), "{patch}");
    git(&repo, &["apply", "--check", "--cached", &patch]);
    assert_eq!((&ran.result("nothing").branch, &ran.result("nothing").patch), (&None, &None));
    assert!(ran.result("ignored").answer.as_deref().unwrap().ends_with("/ignored/sub"), "{:?}", ran.result("ignored").answer);
    assert_eq!(ran.result("taken").branch.as_deref(), Some("tapline/taken-2"), "a branch that is there is not changed");
    assert!(ran.result("wrong").error.as_deref().unwrap().starts_with("worktree: git rev-parse"), "{:?}", ran.result("wrong"));
    assert_eq!(stands(&repo), before, "nothing of the user's is touched");
    assert_eq!(git(&repo, &["worktree", "list"]).lines().count(), 1, "no worktree is left");
    let batch = std::fs::read_dir(stage.path("home/batches")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(std::fs::read_dir(batch.join("worktrees")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(batch.join("worktree-notes")).unwrap().count(), 0);
}

#[test]
fn a_worktree_of_a_job_that_was_cut_off_is_used_again() {
    const STAGE: &str = "FLEET_STAGE";
    const TEST: &str = "a_worktree_of_a_job_that_was_cut_off_is_used_again";
    let text = |stage: &Stage| {
        let go = stage.path("go").display().to_string();
        format!(
            "[defaults]\nfolder = \"repo\"\nworktree = true\n\
             [[job]]\nname = \"ready\"\nprompt = \"touch ready new.txt\"\n\
             [[job]]\nname = \"cut\"\nprompt = \"wait cut {go}\"\n"
        )
    };
    if let Some(path) = std::env::var_os(STAGE) {
        let stage = Stage::at(Path::new(&path));
        stage.run(&text(&stage), |options| options.jobs = 1);
        return;
    }
    let stage = Stage::new();
    let repo = repository(&stage);
    let before = stands(&repo);
    let batch = TestProcess::spawn(rerun(module_path!(), TEST).env(STAGE, stage.path("")).stdout(Stdio::null()));
    let recorded = || {
        let recordings = stage.store().list().unwrap_or_default();
        let said = |folder: &std::path::PathBuf| std::fs::read_to_string(folder.join("stdout")).unwrap_or_default();
        recordings.iter().any(|folder| said(folder).contains("does wait"))
    };
    wait_until("the second job works", recorded);
    drop(batch);
    let batch = std::fs::read_dir(stage.path("home/batches")).unwrap().next().unwrap().unwrap().path();
    // What the agent did so far is not lost. And a worktree whose job has ended was left behind.
    std::fs::write(batch.join("worktrees/cut/so-far.txt"), "so far\n").unwrap();
    git(&repo, &["worktree", "add", "--quiet", "--detach", batch.join("worktrees/ready").to_str().unwrap(), "main"]);
    let note = std::fs::read_to_string(batch.join("worktree-notes/cut.json")).unwrap();
    std::fs::write(batch.join("worktree-notes/ready.json"), note.replace("worktrees/cut", "worktrees/ready")).unwrap();
    std::fs::write(repo.join(".git/worktrees/cut/index.lock"), "").unwrap();
    stage.file("go", "");
    let ran = stage.resume(|_| {});
    assert_eq!(ran.outcomes(), [("ready", "success"), ("cut", "success")], "{:?}", ran.end.results);
    assert_eq!(git(&repo, &["show", "tapline/cut:so-far.txt"]), "so far");
    assert_eq!(git(&repo, &["show", "tapline/ready:new.txt"]), "ready");
    assert_eq!(git(&repo, &["worktree", "list"]).lines().count(), 1, "no worktree is left");
    assert_eq!(stands(&repo), before);
}
