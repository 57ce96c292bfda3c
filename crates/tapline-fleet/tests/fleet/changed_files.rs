//! What an agent changed on a worker: it gets to the batch, or people are told where it is.

use std::path::{Path, PathBuf};

use tapline_fleet::{JobOutcome, WorkerNews};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::{git, wait_until};

use crate::crew::{Crew, options};

pub(crate) fn repository(crew: &Crew) -> PathBuf {
    let folder = crew.path("repo");
    std::fs::create_dir_all(&folder).unwrap();
    git(&folder, &["init", "--quiet", "--initial-branch=main"]);
    std::fs::write(folder.join("gone.txt"), "two\n").unwrap();
    git(&folder, &["add", "--all"]);
    git(&folder, &["commit", "--quiet", "-m", "first"]);
    folder
}

fn job(crew: &Crew, prompt: &str) -> String {
    let folder = repository(crew);
    format!("[[job]]\nname = \"a\"\nfolder = \"{}\"\nworktree = \"patch\"\nprompt = \"{prompt}\"\n", folder.display())
}

/// The patches that a worker has.
fn kept(crew: &Crew, worker: &str) -> Vec<PathBuf> {
    let batches = std::fs::read_dir(crew.path(worker).join("fleet/patches")).into_iter().flatten().flatten();
    batches.flat_map(|batch| std::fs::read_dir(batch.path()).unwrap()).map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_patch_is_in_the_folder_of_the_batch_and_stays_on_the_worker() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let _worker = crew.worker("w1", 1);
    let ran = crew.run(&job(&crew, "touch a new.txt"), |_| {});
    let result = ran.result("a");
    assert_eq!((result.outcome, &result.warnings), (JobOutcome::Success, &Vec::new()));
    let here = std::fs::read(result.patch.as_deref().unwrap()).unwrap();
    assert!(result.patch.as_deref().unwrap().starts_with(crew.path("home").to_str().unwrap()), "{:?}", result.patch);
    assert!(String::from_utf8_lossy(&here).contains("+++ b/new.txt"));
    assert_eq!(kept(&crew, "w1").iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>(), [here]);
}

#[test]
fn a_patch_that_is_too_large_is_a_failure_and_the_worktree_stays() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let mut options = options("w1", 1);
    options.largest_patch = Some(20);
    let worker = crew.worker_with("w1", options);
    // Also if the worktree stays anyway, because of files that no patch has.
    let script = crew.path("script");
    std::fs::write(&script, "mkdir dist; echo '*' >dist/.gitignore; echo a >new.txt\n").unwrap();
    let touched = job(&crew, "touch a new.txt");
    let ignored = format!(
        "[[job]]\nname = \"ignored\"\nfolder = \"{}\"\nworktree = \"patch\"\nprompt = \"sh ignored {}\"\n",
        crew.path("repo").display(),
        script.display()
    );
    let ran = crew.run(&[touched, ignored].concat(), |_| {});
    // The worker has stored the results before it removes what is not needed.
    worker.stop(1);
    for job in ["a", "ignored"] {
        let result = ran.result(job);
        assert_eq!((result.outcome, &result.patch), (JobOutcome::Failure, &None), "{job}");
        let error = result.error.as_deref().unwrap();
        assert!(error.contains("worker w1") && error.contains("the broker takes 20"), "{error}");
        let place = Path::new(error.rsplit_once("it is in ").unwrap().1);
        assert!(place.starts_with(crew.path("w1")), "{error}");
        assert_eq!(std::fs::read_to_string(place.join("new.txt")).unwrap(), "a\n");
    }
}

#[test]
fn a_patch_that_the_broker_lost_is_still_on_the_worker() {
    const TEST: &str = "a_patch_that_the_broker_lost_is_still_on_the_worker";
    if let Some(crew) = Crew::of_process() {
        let text = std::fs::read_to_string(crew.path("text")).unwrap();
        crew.run(&text, |_| {});
        return;
    }
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let (go, script) = (crew.path("go"), crew.path("script"));
    let waits = format!("while [ ! -e {0} ] && [ -e {1} ]; do sleep 0.02; done", go.display(), script.display());
    std::fs::write(&script, format!("{waits}\necho a >new.txt\n")).unwrap();
    std::fs::write(crew.path("text"), job(&crew, &format!("sh a {}", script.display()))).unwrap();
    let worker = crew.worker("w1", 1);
    let batch = crew.process(module_path!(), TEST, "batch");
    wait_until("the agent works", || !crew.noted("a", "began").is_empty());
    drop(batch);
    std::fs::write(&go, "").unwrap();
    worker.until("its outcome is stored", |event| matches!(event, WorkerNews::Ended { .. }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let context = async_nats::jetstream::new(async_nats::connect(server.url()).await.unwrap());
        context.get_stream("OBJ_tapline-files").await.unwrap().purge().await.unwrap();
    });
    let ran = crew.resume(|_| {});
    let result = ran.result("a");
    assert_eq!((result.outcome, &result.patch), (JobOutcome::Success, &None));
    let path = kept(&crew, "w1").pop().unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().contains("+++ b/new.txt"));
    let told = result.warnings.iter().find(|told| told.starts_with("patch: ")).unwrap();
    assert!(told.contains("worker w1") && told.contains(path.to_str().unwrap()), "{told}");
}
