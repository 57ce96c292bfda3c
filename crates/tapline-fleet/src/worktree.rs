//! A git worktree for a job. What the agent changed becomes a branch or a patch before the worktree is removed. The user's checkout, its
//! index and its branches stay as they are.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::{Deserialize, Serialize};
use tapline_recording::create_private_folder;
use tokio::process::Command;

use crate::job::{KeepAs, WorktreeRule};

/// Why a worktree cannot be made, or what is in it not be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorktreeError {
    /// Git cannot be started.
    #[error("cannot start git")]
    Start(#[source] io::Error),
    /// Git says no.
    #[error("git {what}: {said}")]
    Git {
        /// The command.
        what: String,
        /// What git said.
        said: String,
    },
    /// A file cannot be read or written.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
}

/// What an agent changed in its worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) branch: Option<String>,
    pub(crate) patch: Option<PathBuf>,
}

/// A worktree.
#[derive(Clone, Debug)]
pub(crate) struct Worktree {
    job: String,
    path: PathBuf,
    /// Written when the worktree is complete, and removed with it.
    note: PathBuf,
    facts: Facts,
}

/// What must be known about a worktree to keep what is in it and to remove it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Facts {
    repository: PathBuf,
    base: String,
    /// Where in the repository the job works.
    prefix: String,
}

/// Git changes the list of worktrees one at a time.
static LIST: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

impl Worktree {
    /// Makes the worktree of a job below this folder, or opens the one that an earlier run left. With `fresh`, nothing of an earlier run is
    /// left in it.
    pub(crate) async fn open(
        folder: &Path,
        job: &str,
        repository: &Path,
        rule: &WorktreeRule,
        fresh: bool,
    ) -> Result<Self, WorktreeError> {
        let (path, note) = (folder.join(job), folder.join(format!("{job}.json")));
        let known = std::fs::read(&note).ok().and_then(|text| serde_json::from_slice::<Facts>(&text).ok());
        if let Some(facts) = known.filter(|_| path.is_dir()) {
            let worktree = Self { job: job.to_owned(), path, note, facts };
            if fresh {
                worktree.unlock().await;
                git(&worktree.path, &["checkout", "--quiet", "--detach", "--force", &worktree.facts.base]).await?;
                git(&worktree.path, &["clean", "--quiet", "-ffdx"]).await?;
            }
            return Ok(worktree);
        }
        create_private_folder(folder).map_err(|error| WorktreeError::File { path: folder.to_owned(), error })?;
        let top = git(repository, &["rev-parse", "--show-toplevel"]).await?;
        let prefix = git(repository, &["rev-parse", "--show-prefix"]).await?;
        let base =
            git(repository, &["rev-parse", "--verify", "--end-of-options", &format!("{}^{{commit}}", rule.base)]).await?;
        let facts = Facts { repository: PathBuf::from(top), base, prefix };
        let worktree = Self { job: job.to_owned(), path, note, facts };
        let _one = LIST.lock().await;
        // Half of one may be left.
        worktree.discard().await;
        let place = worktree.path.to_string_lossy().into_owned();
        git(&worktree.facts.repository, &["worktree", "add", "--quiet", "--detach", &place, &worktree.facts.base]).await?;
        let text = serde_json::to_vec(&worktree.facts).unwrap_or_default();
        std::fs::write(&worktree.note, text).map_err(|error| WorktreeError::File { path: worktree.note.clone(), error })?;
        Ok(worktree)
    }

    /// Returns where the agent works.
    pub(crate) fn cwd(&self) -> PathBuf {
        self.path.join(&self.facts.prefix)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An agent that was killed may have left a lock. Nobody else works here.
    async fn unlock(&self) {
        if let Ok(lock) = git(&self.path, &["rev-parse", "--path-format=absolute", "--git-path", "index.lock"]).await {
            let _ = std::fs::remove_file(lock);
        }
    }

    /// Keeps what the agent changed: files and commits.
    pub(crate) async fn keep(&self, keep: KeepAs, patches: &Path) -> Result<Changes, WorktreeError> {
        self.unlock().await;
        git(&self.path, &["add", "--all"]).await?;
        if git(&self.path, &["diff", "--cached", "--quiet"]).await.is_err() {
            let named = git(&self.path, &["var", "GIT_COMMITTER_IDENT"]).await.is_ok();
            let author: &[&str] = if named { &[] } else { &["-c", "user.name=tapline", "-c", "user.email=tapline@localhost"] };
            let message = format!("tapline: {}", self.job);
            let commit = ["commit", "--quiet", "--no-verify", "--no-gpg-sign", "-m", &message];
            git(&self.path, &[author, &commit].concat()).await?;
        }
        let head = git(&self.path, &["rev-parse", "HEAD"]).await?;
        if head == self.facts.base {
            return Ok(Changes::default());
        }
        match keep {
            KeepAs::Branch => Ok(Changes { branch: Some(self.branch(&head).await?), patch: None }),
            KeepAs::Patch => {
                let changes = git_bytes(&self.path, &["diff", "--binary", "--full-index", &self.facts.base, &head]).await?;
                let path = patches.join(format!("{}.patch", self.job));
                let write = || create_private_folder(patches).and_then(|()| std::fs::write(&path, &changes));
                write().map_err(|error| WorktreeError::File { path: path.clone(), error })?;
                Ok(Changes { branch: None, patch: Some(path) })
            }
        }
    }

    /// Makes a branch for this commit. One that is there already is not changed.
    async fn branch(&self, head: &str) -> Result<String, WorktreeError> {
        let mut number = 1;
        loop {
            let branch = if number == 1 { format!("tapline/{}", self.job) } else { format!("tapline/{}-{number}", self.job) };
            let name = format!("refs/heads/{branch}");
            let made = git(&self.facts.repository, &["update-ref", &name, head, NONE]).await;
            match (made, git(&self.facts.repository, &["rev-parse", "--verify", "--quiet", &name]).await) {
                (Ok(_), _) => return Ok(branch),
                // An earlier try made it.
                (Err(_), Ok(there)) if there == head => return Ok(branch),
                (Err(error), Err(_)) => return Err(error),
                (Err(_), Ok(_)) => number += 1,
            }
        }
    }

    /// Removes the worktree.
    pub(crate) async fn remove(&self) {
        let _one = LIST.lock().await;
        self.discard().await;
    }

    async fn discard(&self) {
        let _ = std::fs::remove_file(&self.note);
        if self.path.exists() {
            let place = self.path.to_string_lossy().into_owned();
            let _ = git(&self.facts.repository, &["worktree", "remove", "--force", "--force", &place]).await;
            let _ = std::fs::remove_dir_all(&self.path);
            let _ = git(&self.facts.repository, &["worktree", "prune"]).await;
        }
    }

    /// Leaves the worktree where it is, for good.
    pub(crate) fn leave(&self) {
        let _ = std::fs::remove_file(&self.note);
    }
}

/// Removes the worktrees below this folder that no unfinished job needs any more.
pub(crate) async fn clean(folder: &Path, unfinished: &[&str]) {
    let names =
        std::fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    for job in names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)) {
        let note = folder.join(format!("{job}.json"));
        let facts = std::fs::read(&note).ok().and_then(|text| serde_json::from_slice(&text).ok());
        if let Some(facts) = facts.filter(|_| !unfinished.contains(&job.as_str())) {
            Worktree { path: folder.join(&job), note, job, facts }.remove().await;
        }
    }
}

/// The id of a ref that does not exist.
const NONE: &str = "0000000000000000000000000000000000000000";

/// Runs git there, and returns what it printed.
async fn git(folder: &Path, args: &[&str]) -> Result<String, WorktreeError> {
    Ok(String::from_utf8_lossy(&git_bytes(folder, args).await?).trim_end_matches('\n').to_owned())
}

async fn git_bytes(folder: &Path, args: &[&str]) -> Result<Vec<u8>, WorktreeError> {
    let mut command = Command::new("git");
    // Hooks of the user's are for the user's own work.
    command.arg("-C").arg(folder).args(["-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"]).args(args);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().await.map_err(WorktreeError::Start)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(WorktreeError::Git { what: args.first().copied().unwrap_or_default().to_owned(), said })
}
