//! A git worktree for a job. What the agent changed becomes a branch or a patch before the worktree is removed. The user's checkout, its
//! index and its branches stay as they are.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tapline_recording::create_private_folder;
use tokio::io::AsyncWriteExt as _;
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
    /// Its `.git` is not the one that it was made with, so git cannot be trusted there.
    #[error("its `.git` was changed")]
    Changed,
    /// A repository inside of it, whose commits git does not keep.
    #[error("{0} is a repository of its own, which git does not keep")]
    Nested(String),
    /// The folder is not in a repository.
    #[error("worktree: {0} is not in a git repository: make one with `git init` and a commit, or leave out `worktree`")]
    NoRepository(PathBuf),
    /// The repository does not have the commit that the worktree begins with.
    #[error("worktree: the repository in {folder} has no commit `{base}`: commit something first, or name another `base`")]
    NoCommit {
        /// The folder.
        folder: PathBuf,
        /// The commit.
        base: String,
    },
    /// A branch of the user's is in the way.
    #[error("a branch is called `tapline`, so there can be no branch `tapline/…`: rename it, or use `worktree = \"patch\"`")]
    BranchInTheWay,
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

/// What must be known about a worktree to keep what is in it and to remove it. Nothing of it is read from the worktree itself, because an
/// agent can write there.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Facts {
    repository: PathBuf,
    base: String,
    /// Where in the repository the job works.
    prefix: String,
    /// Where git keeps what it knows of the worktree.
    git_dir: PathBuf,
    /// The text of its `.git`.
    link: String,
    /// What is in it is nowhere else, so it stays for good.
    #[serde(default)]
    left: bool,
    /// What git has of it is kept elsewhere.
    #[serde(default)]
    kept: bool,
}

/// Where the worktrees of a batch are, and the notes about them.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) worktrees: PathBuf,
    pub(crate) notes: PathBuf,
}

impl Places {
    fn of(&self, job: &str) -> (PathBuf, PathBuf) {
        (self.worktrees.join(job), self.notes.join(format!("{job}.json")))
    }
}

/// Git changes the list of worktrees one at a time.
static LIST: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

impl Worktree {
    /// Makes the worktree of a job, or opens the one that an earlier run left. With `cut_off`, that run was cut off: what it did stays. Otherwise
    /// the job begins with its base again, if what the run changed is kept elsewhere; files that git does not take stay. With `fresh`, nothing
    /// of an earlier run is left in it.
    pub(crate) async fn open(
        places: &Places,
        job: &str,
        repository: &Path,
        rule: &WorktreeRule,
        cut_off: bool,
        fresh: bool,
    ) -> Result<Self, WorktreeError> {
        let (path, note) = places.of(job);
        let known = std::fs::read(&note).ok().and_then(|text| serde_json::from_slice::<Facts>(&text).ok());
        if let Some(facts) = known.filter(|_| path.is_dir()) {
            let mut worktree = Self { job: job.to_owned(), path, note, facts };
            if let Err(error) = worktree.check() {
                worktree.leave();
                return Err(error);
            }
            worktree.unlock();
            if worktree.facts.kept {
                if !cut_off {
                    worktree.check_out_base().await?;
                }
                (worktree.facts.kept, worktree.facts.left) = (false, false);
                worktree.write()?;
            }
            if fresh && !worktree.facts.left {
                worktree.check_out_base().await?;
                worktree.git(&["clean", "--quiet", "-ffdx"]).await?;
            }
            return Ok(worktree);
        }
        for folder in [&places.worktrees, &places.notes] {
            create_private_folder(folder).map_err(|error| WorktreeError::File { path: folder.clone(), error })?;
        }
        let top = git(repository, &SHOW_TOP).await?;
        let prefix = git(repository, &["rev-parse", "--show-prefix"]).await?;
        let base = git(repository, &show_commit(&rule.base).each_ref().map(String::as_str)).await?;
        // It is found now, before anything is paid for.
        let in_the_way = ["rev-parse", "--verify", "--quiet", "refs/heads/tapline"];
        if rule.keep == KeepAs::Branch && git(repository, &in_the_way).await.is_ok() {
            return Err(WorktreeError::BranchInTheWay);
        }
        let (git_dir, link) = (PathBuf::new(), String::new());
        let facts = Facts { repository: PathBuf::from(top), base, prefix, git_dir, link, left: false, kept: false };
        let mut worktree = Self { job: job.to_owned(), path, note, facts };
        let _one = LIST.lock().await;
        // Half of one may be left.
        worktree.discard().await;
        let place = worktree.path.to_string_lossy().into_owned();
        git(&worktree.facts.repository, &["worktree", "add", "--quiet", "--detach", &place, &worktree.facts.base]).await?;
        worktree.facts.git_dir = PathBuf::from(git(&worktree.path, &["rev-parse", "--absolute-git-dir"]).await?);
        worktree.facts.link = worktree.link().ok_or(WorktreeError::Changed)?;
        worktree.write()?;
        Ok(worktree)
    }

    /// Returns where the agent works.
    pub(crate) fn cwd(&self) -> PathBuf {
        self.path.join(&self.facts.prefix)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is to stay for good.
    pub(crate) fn stays(&self) -> bool {
        self.facts.left
    }

    /// Writes the note. After a crash, there is the old one or the new one.
    fn write(&self) -> Result<(), WorktreeError> {
        let part = self.note.with_extension("part");
        let write = || -> io::Result<()> {
            let mut to = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
            to.write_all(&serde_json::to_vec(&self.facts)?)?;
            to.sync_all()?;
            std::fs::rename(&part, &self.note)?;
            self.note.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
        };
        write().map_err(|error| WorktreeError::File { path: self.note.clone(), error })
    }

    /// The text of `.git`, if it is a file.
    fn link(&self) -> Option<String> {
        String::from_utf8(beginning(&self.path.join(".git"), LINK)?).ok()
    }

    /// An agent that may do no more than write files could have git run commands for it, if git believed what is in the worktree.
    fn check(&self) -> Result<(), WorktreeError> {
        if self.link().as_ref() == Some(&self.facts.link) { Ok(()) } else { Err(WorktreeError::Changed) }
    }

    /// An agent that was killed may have left a lock. Nobody else works here.
    fn unlock(&self) {
        let _ = std::fs::remove_file(self.facts.git_dir.join("index.lock"));
    }

    /// Runs git in the worktree, with what was noted about it.
    async fn git(&self, args: &[&str]) -> Result<String, WorktreeError> {
        Ok(text(&self.git_bytes(args, &[]).await?))
    }

    async fn git_bytes(&self, args: &[&str], input: &[u8]) -> Result<Vec<u8>, WorktreeError> {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.path).arg("--git-dir").arg(&self.facts.git_dir).arg("--work-tree").arg(&self.path);
        output(command, args, input).await
    }

    async fn check_out_base(&self) -> Result<(), WorktreeError> {
        self.git(&["checkout", "--quiet", "--detach", "--force", &self.facts.base]).await.map(drop)
    }

    /// Files that differ from the index, and files that are not in it. Only plumbing: it runs nothing in repositories inside of this one.
    async fn changed(&self, filter: &str) -> Result<Vec<u8>, WorktreeError> {
        self.git_bytes(&["diff-files", "--name-only", "-z", "--ignore-submodules=dirty", filter], &[]).await
    }

    async fn untracked(&self) -> Result<Vec<u8>, WorktreeError> {
        self.git_bytes(&["ls-files", "--others", "--exclude-standard", "-z"], &[]).await
    }

    /// Puts all files into the index.
    async fn stage(&self) -> Result<(), WorktreeError> {
        let (gone, other) = (self.changed("--diff-filter=D").await?, self.changed("--diff-filter=d").await?);
        let new = self.untracked().await?;
        if let Some(nested) = new.split(|byte| *byte == 0).find(|path| path.ends_with(b"/")) {
            return Err(WorktreeError::Nested(text(nested)));
        }
        self.git_bytes(&["update-index", "-z", "--force-remove", "--stdin"], &gone).await?;
        let rest = [other, new].concat();
        self.git_bytes(&["update-index", "-z", "--add", "--remove", "--replace", "--stdin"], &rest).await?;
        Ok(())
    }

    /// Files that git never takes into a commit of this repository: what is in the folders of submodules, and what is ignored. Caches are
    /// none of them: they can be made again.
    pub(crate) async fn not_taken(&self) -> Result<Vec<String>, WorktreeError> {
        let staged = self.git_bytes(&["ls-files", "--stage", "-z"], &[]).await?;
        let modules = staged.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 "));
        let modules = modules.filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1)).map(text);
        let is_used = |path: &String| std::fs::read_dir(self.path.join(path)).is_ok_and(|mut entries| entries.next().is_some());
        let ignored = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "--no-empty-directory", "-z"];
        let ignored = self.git_bytes(&ignored, &[]).await?;
        let ignored = ignored.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(text);
        Ok(modules.filter(is_used).chain(ignored.filter(|path| !is_cache(&self.path.join(path)))).collect())
    }

    /// Whether an agent did something here that is nowhere else. What cannot be found out is taken for that.
    async fn has_work(&self) -> bool {
        let looks = async {
            let is_same = self.git(&["rev-parse", "HEAD"]).await? == self.facts.base;
            let mut files = [self.changed("--").await?, self.untracked().await?].into_iter().flatten();
            Ok::<_, WorktreeError>(
                (!is_same || files.next().is_some()) && !self.facts.kept || !self.not_taken().await?.is_empty(),
            )
        };
        self.check().is_err() || looks.await.unwrap_or(true)
    }

    /// Keeps what the agent changed: files and commits.
    pub(crate) async fn keep(&mut self, keep: KeepAs, patches: &Path) -> Result<Changes, WorktreeError> {
        let changes = self.keep_commits(keep, patches).await?;
        // Also what an earlier run could not keep.
        (self.facts.kept, self.facts.left) = (true, false);
        self.write()?;
        Ok(changes)
    }

    async fn keep_commits(&self, keep: KeepAs, patches: &Path) -> Result<Changes, WorktreeError> {
        self.check()?;
        self.unlock();
        self.stage().await?;
        let (before, tree) = (self.git(&["rev-parse", "HEAD"]).await?, self.git(&["write-tree"]).await?);
        let mut head = before.clone();
        if self.git(&["rev-parse", "HEAD^{tree}"]).await? != tree {
            let named = self.git(&["var", "GIT_COMMITTER_IDENT"]).await.is_ok();
            let author: &[&str] = if named { &[] } else { &["-c", "user.name=tapline", "-c", "user.email=tapline@localhost"] };
            let message = format!("tapline: {}", self.job);
            head =
                self.git(&[author, &["commit-tree", "--no-gpg-sign", "-p", &before, "-m", &message, &tree]].concat()).await?;
            // Not the branch that the agent may have checked out: it can be one of the user's.
            self.git(&["update-ref", "--no-deref", "HEAD", &head, &before]).await?;
        }
        if head == self.facts.base {
            return Ok(Changes::default());
        }
        self.check_nested(&head).await?;
        match keep {
            KeepAs::Branch => Ok(Changes { branch: Some(self.branch(&head).await?), patch: None }),
            KeepAs::Patch => {
                let changes = self.git_bytes(&[PATCH, &[&self.facts.base, &head]].concat(), &[]).await?;
                let path = patches.join(format!("{}.patch", self.job));
                let write = || {
                    create_private_folder(patches)?;
                    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?.write_all(&changes)
                };
                write().map_err(|error| WorktreeError::File { path: path.clone(), error })?;
                Ok(Changes { branch: None, patch: Some(path) })
            }
        }
    }

    /// The commits of a repository inside of this one are nowhere but in the worktree.
    async fn check_nested(&self, head: &str) -> Result<(), WorktreeError> {
        let raw = ["diff-tree", "-r", "--raw", "-z", "--no-renames", "--ignore-submodules=none", &self.facts.base, head];
        let changes = self.git_bytes(&raw, &[]).await?;
        let mut parts = changes.split(|byte| *byte == 0);
        while let (Some(modes), Some(path)) = (parts.next(), parts.next()) {
            // `:OLD-MODE NEW-MODE …`
            if modes.split(|byte| *byte == b' ').nth(1) == Some(b"160000") {
                return Err(WorktreeError::Nested(text(path)));
            }
        }
        Ok(())
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
        let _ = std::fs::remove_file(&self.note);
    }

    /// Removes the folder and what git knows of it. Other worktrees of the repository stay, also those whose folder is not there now.
    async fn discard(&self) {
        let place = self.path.to_string_lossy().into_owned();
        let remove = ["worktree", "remove", "--force", "--force", &place];
        let _ = git(&self.facts.repository, &remove).await;
        if self.path.exists() {
            let _ = std::fs::remove_dir_all(&self.path);
            let _ = git(&self.facts.repository, &remove).await;
        }
    }

    /// Leaves the worktree where it is, for good, also for a job that is run again: what git has of it is nowhere else.
    pub(crate) fn leave_whole(&mut self) {
        self.facts.kept = false;
        self.leave();
    }

    /// Leaves the worktree where it is, for good.
    pub(crate) fn leave(&mut self) {
        self.facts.left = true;
        if self.write().is_err() {
            // On a full disk this still works. What has no note is not removed when the batch is resumed.
            let _ = std::fs::remove_file(&self.note);
        }
    }
}

/// Removes the worktrees that no unfinished job needs any more, unless they are to stay.
pub(crate) async fn clean(places: &Places, unfinished: &[&str]) {
    for job in jobs(places).into_iter().filter(|job| !unfinished.contains(&job.as_str())) {
        remove_of(places, job).await;
    }
}

/// The jobs that have a worktree.
pub(crate) fn jobs(places: &Places) -> Vec<String> {
    let names = std::fs::read_dir(&places.notes).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect()
}

/// Removes the worktree of a job, unless something in it is nowhere else: then it returns where that is.
pub(crate) async fn remove_of(places: &Places, job: String) -> Option<PathBuf> {
    let (path, note) = places.of(&job);
    let facts = std::fs::read(&note).ok().and_then(|text| serde_json::from_slice::<Facts>(&text).ok());
    let mut worktree = Worktree { job, path, note, facts: facts.filter(|facts| !facts.left)? };
    if worktree.path.is_dir() && worktree.has_work().await {
        worktree.leave();
        return Some(worktree.path);
    }
    worktree.remove().await;
    None
}

/// Whether a folder says that it is a cache (CACHEDIR.TAG, as cargo and pytest write it), or is always one.
fn is_cache(folder: &Path) -> bool {
    let is_named = folder.file_name().is_some_and(|name| name == "node_modules" || name == "__pycache__");
    let is_tagged = || beginning(&folder.join("CACHEDIR.TAG"), CACHE.len()).is_some_and(|tag| tag == CACHE);
    folder.is_dir() && (is_named || is_tagged())
}

/// At most so many bytes of a file that an agent may have made. A pipe, a device or a link is none.
fn beginning(file: &Path, most: usize) -> Option<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(file).ok()?;
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut read = Vec::new();
    file.take(most as u64).read_to_end(&mut read).ok()?;
    Some(read)
}

/// No `.git` of a worktree is longer: it is a path.
const LINK: usize = 8192;

/// How the file begins that says so.
const CACHE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// The id of a ref that does not exist.
const NONE: &str = "0000000000000000000000000000000000000000";

/// A patch that does not depend on the user's configuration.
const PATCH: &[&str] = &[
    "diff-tree",
    "-p",
    "--binary",
    "--full-index",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
];

/// Variables that make git work elsewhere than in its folder.
pub(crate) const ELSEWHERE: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
];

/// Runs git in a folder of the user's, and returns what it printed.
async fn git(folder: &Path, args: &[&str]) -> Result<String, WorktreeError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder);
    Ok(text(&output(command, args, &[]).await?))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned()
}

/// Asks whether a worktree can be made of a folder and a commit.
pub(crate) fn check(folder: &Path, base: &str) -> Result<(), WorktreeError> {
    let ask = |args: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.arg("-C").arg(folder);
        prepare(&mut command, args);
        let output = command.stdin(Stdio::null()).output().map_err(WorktreeError::Start)?;
        said(&output, args).map(drop)
    };
    match ask(&SHOW_TOP) {
        Err(WorktreeError::Git { said, .. }) if said.contains("not a git repository") => {
            Err(WorktreeError::NoRepository(folder.to_owned()))
        }
        Err(error) => Err(error),
        Ok(()) => match ask(&show_commit(base).each_ref().map(String::as_str)) {
            Err(WorktreeError::Git { .. }) => Err(WorktreeError::NoCommit { folder: folder.to_owned(), base: base.to_owned() }),
            asked => asked,
        },
    }
}

/// Asks for the top folder of a repository.
const SHOW_TOP: [&str; 2] = ["rev-parse", "--show-toplevel"];

/// Asks for the id of a commit.
fn show_commit(base: &str) -> [String; 4] {
    ["rev-parse", "--verify", "--end-of-options", &format!("{base}^{{commit}}")].map(str::to_owned)
}

/// Lets git do this as for nobody in particular.
fn prepare(command: &mut std::process::Command, args: &[&str]) {
    // Hooks of the user's are for the user's own work.
    let settings = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"];
    command.args(settings).args(args);
    for name in ELSEWHERE.iter().chain(&["GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS"]) {
        command.env_remove(name);
    }
    // Ctrl-C at a terminal is for tapline, which lets git finish what it does.
    std::os::unix::process::CommandExt::process_group(command, 0);
    command.env("LC_ALL", "C");
}

/// What git printed, or why it did not do what it was told.
fn said(output: &std::process::Output, args: &[&str]) -> Result<Vec<u8>, WorktreeError> {
    if output.status.success() {
        return Ok(output.stdout.clone());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let what = args.iter().find(|arg| !arg.starts_with('-') && !arg.contains('=')).copied().unwrap_or_default().to_owned();
    Err(WorktreeError::Git { what, said })
}

async fn output(mut command: Command, args: &[&str], input: &[u8]) -> Result<Vec<u8>, WorktreeError> {
    prepare(command.as_std_mut(), args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(WorktreeError::Start)?;
    let stdin = child.stdin.take();
    let write = async {
        if let Some(mut stdin) = stdin {
            // If git does not read all of it, it says why.
            let _ = stdin.write_all(input).await;
        }
    };
    let (output, ()) = tokio::join!(child.wait_with_output(), write);
    said(&output.map_err(WorktreeError::Start)?, args)
}
