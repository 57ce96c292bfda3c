//! What a worker lets jobs do, whatever the queue says: where they work, in which permission mode, under which rules, and with whose programs.
//! It is decided on what the agent will take an order for, before anything starts.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tapline_protocol::Agent as Kind;
use tapline_runner::StartError;
use tapline_session::text::with_causes;

use super::workbench::WorkerOptions;
use crate::job::{Job, Written, is_inline};
use crate::mode::PermissionMode;

/// Words in arguments of agents with which they ask about nothing.
const ASKS_NOTHING: &[&str] = &["dangerously", "danger-full-access", "--yolo"];

/// A folder of this worker, and what makes it one.
struct Grounds {
    /// Jobs work beneath these.
    folders: Vec<PathBuf>,
    /// No job works beneath this: recordings of other jobs are there.
    data: PathBuf,
}

impl WorkerOptions {
    /// Returns the job as this worker runs it, or says what would be needed. `data` is the worker's data folder.
    pub(super) fn admit(&self, mut job: Job, data: &Path) -> Result<Job, String> {
        let own = self.program(job.agent);
        if let Some(bin) = &job.bin
            && own != Some(bin)
            && bin != Path::new(job.agent.name())
        {
            let bin = bin.display();
            return Err(format!(
                "`bin` names {bin}, and a worker starts only its own programs: start the worker with this one"
            ));
        }
        let grounds = Grounds { folders: self.grounds()?, data: data.canonicalize().unwrap_or_else(|_| data.to_owned()) };
        let folder = grounds.of_worker("its folder", &job.folder)?;
        for added in &mut job.options.add_dir {
            *added = grounds.of_worker("`add_dir`", added)?;
        }
        let programs = |what: &str| {
            let why = "which can name programs: a worker takes it only if it was started with `allow-args`";
            if self.allow_args { Ok(()) } else { Err(format!("the job has {what}, {why}")) }
        };
        if !job.options.extra.is_empty() {
            programs("`args`")?;
        }
        for config in &mut job.options.mcp_config {
            // What begins like a path can be nothing else. Anything else may be the servers themselves.
            if !config.starts_with('/') {
                let kind = if is_inline(config) { "with MCP servers of its own" } else { "that is no whole path" };
                programs(&format!("an `mcp_config` {kind}"))?;
                continue;
            }
            let real = grounds.of_job("`mcp_config`", Path::new(config), &folder)?;
            real.to_str().ok_or("the name of the file in `mcp_config` is not UTF-8")?.clone_into(config);
        }
        if let Some(session) = job.options.resume.as_deref().filter(|session| session.contains('/')) {
            return Err(format!("`resume` names {session}, and a worker goes on with sessions only, not with files"));
        }
        self.check_mode(&job)?;
        if let Some(ceiling) = &self.permissions {
            if !job.options.allowed_tools.is_empty() {
                return Err("`allowed_tools` would allow what the rules of this worker leave open: leave it out, and let \
                            the rules of the worker allow what the job needs"
                    .to_owned());
            }
            job.permissions = Some(match job.permissions.take() {
                Some(own) => Written { rules: own.rules.beneath(ceiling.clone()), text: own.text },
                None => Written { text: String::new(), rules: ceiling.clone() },
            });
        }
        job.bin = own.map(Path::to_owned);
        job.folder = folder;
        // An agent that asks nobody takes no rules.
        match job.agent().check() {
            Err(error @ StartError::Refused(_)) => Err(with_causes(&error)),
            _ => Ok(job),
        }
    }

    /// The program of an agent.
    pub(super) fn program(&self, agent: Kind) -> Option<&Path> {
        let of = |wanted: Option<Kind>| {
            let found = self.programs.iter().rev().find(|(kind, _)| *kind == wanted);
            found.map(|(_, path)| path.as_path())
        };
        of(Some(agent)).or_else(|| of(None))
    }

    /// The folders that jobs work beneath, as they are without links.
    pub(super) fn grounds(&self) -> Result<Vec<PathBuf>, String> {
        let here = || std::env::current_dir().map(|here| vec![here]);
        let named = if self.folders.is_empty() { here() } else { Ok(self.folders.clone()) };
        let named = named.map_err(|error| format!("the folder of this worker cannot be used: {error}"))?;
        let real = |folder: &PathBuf| {
            folder.canonicalize().map_err(|error| format!("the folder {} cannot be used: {error}", folder.display()))
        };
        named.iter().map(real).collect()
    }

    fn check_mode(&self, job: &Job) -> Result<(), String> {
        let most = self.max_permission_mode;
        let above = |what: String, needed: PermissionMode| {
            Err(format!(
                "{what} is above what this worker allows ({most}): start the worker with `max-permission-mode` {needed}, or \
                 change the job"
            ))
        };
        // Without one, the agent's settings on this machine say which it is. They are the worker's.
        match job.options.permission_mode.as_deref().unwrap_or("default").parse::<PermissionMode>() {
            Ok(mode) if mode <= most => {}
            Ok(mode) => return above(format!("`permission_mode = \"{mode}\"`"), mode),
            // The agent may know it, and it may allow everything.
            Err(_) if most == PermissionMode::BypassPermissions => {}
            Err(why) => return above(format!("`permission_mode`: {why}, so it"), PermissionMode::BypassPermissions),
        }
        for arg in job.options.extra.iter().map(|arg| arg.to_string_lossy()) {
            for text in texts(&arg) {
                let asks_nothing = ASKS_NOTHING.iter().any(|word| text.contains(word));
                let mode = if asks_nothing { Ok(PermissionMode::BypassPermissions) } else { text.parse() };
                if let Some(mode) = mode.ok().filter(|mode| *mode > most) {
                    return above(format!("`{text}` in `args`"), mode);
                }
            }
        }
        Ok(())
    }
}

impl Grounds {
    /// A folder of a job, without links. It must be one of this worker.
    fn of_worker(&self, what: &str, folder: &Path) -> Result<PathBuf, String> {
        let real = real(what, folder)?;
        if !self.folders.iter().any(|ours| real.starts_with(ours)) {
            let ours: Vec<String> = self.folders.iter().map(|folder| folder.display().to_string()).collect();
            return Err(format!(
                "{what} is {}, and this worker lets jobs work beneath {} only: start the worker with {} among its `folders`",
                real.display(),
                ours.join(", "),
                real.display()
            ));
        }
        self.checked(what, real)
    }

    /// A file that a job names, without links. It must be beneath the job's folder.
    fn of_job(&self, what: &str, file: &Path, folder: &Path) -> Result<PathBuf, String> {
        let real = real(what, file)?;
        if !real.starts_with(folder) {
            return Err(format!(
                "{what} names {}, and a worker takes files beneath the folder of the job only",
                real.display()
            ));
        }
        self.checked(what, real)
    }

    fn checked(&self, what: &str, real: PathBuf) -> Result<PathBuf, String> {
        if real.starts_with(&self.data) {
            return Err(format!(
                "{what} names {}, which is in the data folder of this worker: what is recorded there was written by agents",
                real.display()
            ));
        }
        Ok(real)
    }
}

fn real(what: &str, path: &Path) -> Result<PathBuf, String> {
    if !path.is_absolute() {
        return Err(format!("{what} names {}, which is no whole path", path.display()));
    }
    path.canonicalize().map_err(|error| format!("{what} names {}, which cannot be used: {error}", path.display()))
}

/// What an argument says: itself, the value after `=`, and the texts of JSON.
fn texts(arg: &str) -> Vec<String> {
    let mut texts = vec![arg.to_owned()];
    let value = arg.split_once('=').map_or(arg, |(_, value)| value);
    texts.push(value.to_owned());
    let mut left: Vec<Value> = serde_json::from_str(value.trim_start_matches('\u{feff}')).into_iter().collect();
    while let Some(value) = left.pop() {
        match value {
            Value::String(text) => texts.push(text),
            Value::Array(values) => left.extend(values),
            Value::Object(fields) => left.extend(fields.into_iter().map(|(_, value)| value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use tapline_protocol::Json;
    use tapline_session::permission::{PendingCall, Permissions, Ruling};
    use tapline_testkit::TempFolder;

    use super::*;
    use crate::fields::{Looked, Reading};

    /// A worker for jobs in `work`, whose data folder is `work/data`, and what it says of a job with these keys.
    struct Stage {
        root: TempFolder,
        worker: WorkerOptions,
    }

    impl Stage {
        fn new() -> Self {
            let root = TempFolder::new();
            for folder in ["work/repo/sub", "work/data/recordings/old", "other"] {
                std::fs::create_dir_all(root.join(folder)).unwrap();
            }
            for file in ["work/repo/servers.json", "work/data/recordings/old/stdin", "other/servers.json", "work/servers.json"]
            {
                std::fs::write(root.join(file), r#"{"mcpServers":{}}"#).unwrap();
            }
            std::os::unix::fs::symlink("../../other", root.join("work/repo/out")).unwrap();
            std::os::unix::fs::symlink("../data/recordings/old/stdin", root.join("work/repo/stdin")).unwrap();
            let worker = WorkerOptions { folders: vec![root.join("work")], ..WorkerOptions::default() };
            Self { root, worker }
        }

        fn at(&self, path: &str) -> String {
            self.root.join(path).display().to_string()
        }

        fn admit(&self, change: impl FnOnce(&mut Job)) -> Result<Job, String> {
            let fields = BTreeMap::from([("prompt".to_owned(), json!("do it"))]);
            let look = |_: &str| Looked::Unknown(None);
            let mut job =
                Reading::new(&fields.into_iter().collect(), &look, Path::new("/")).job("a".to_owned(), "a".to_owned());
            job.folder = self.root.join("work/repo");
            change(&mut job);
            self.worker.admit(job, &self.root.join("work/data"))
        }

        fn refused(&self, change: impl FnOnce(&mut Job)) -> String {
            self.admit(change).expect_err("it must be refused")
        }
    }

    #[test]
    fn a_job_works_beneath_the_folders_of_its_worker() {
        let stage = Stage::new();
        for folder in ["work", "work/repo", "work/repo/sub/../sub"] {
            assert!(stage.admit(|job| job.folder = stage.root.join(folder)).is_ok(), "{folder}");
        }
        for folder in ["other", "work/../other", "work/repo/out", ""] {
            let why = stage.refused(|job| job.folder = stage.root.join(folder));
            assert!(why.contains("among its `folders`") && why.contains(&stage.at("work")), "{folder}: {why}");
            let why = stage.refused(|job| job.options.add_dir = vec![stage.root.join(folder)]);
            assert!(why.contains("`add_dir`") && why.contains("among its `folders`"), "{folder}: {why}");
        }
        for (folder, told) in
            [("work/data", "data folder"), ("work/data/recordings/old", "data folder"), ("work/no", "cannot be used")]
        {
            let why = stage.refused(|job| job.folder = stage.root.join(folder));
            assert!(why.contains(told), "{folder}: {why}");
        }
        let why = stage.refused(|job| job.folder = "repo".into());
        assert!(why.contains("no whole path"), "{why}");
    }

    #[test]
    fn a_worker_without_folders_has_the_one_that_it_works_in() {
        let mut stage = Stage::new();
        stage.worker.folders.clear();
        let why = stage.refused(|_| {});
        assert!(
            why.contains("among its `folders`") && why.contains(&std::env::current_dir().unwrap().display().to_string()),
            "{why}"
        );
    }

    #[test]
    fn no_mode_is_looser_than_the_workers() {
        let mut stage = Stage::new();
        let mut with = |most: &str, mode: Option<&str>| {
            stage.worker.max_permission_mode = most.parse().unwrap();
            stage.admit(|job| job.options.permission_mode = mode.map(str::to_owned)).map(|_| ())
        };
        assert_eq!(PermissionMode::default().to_string(), "auto");
        for mode in ["plan", "default", "manual", "dontAsk", "acceptEdits", "auto"] {
            assert_eq!(with("auto", Some(mode)), Ok(()), "{mode}");
        }
        for (most, mode, needed) in [
            ("auto", "bypassPermissions", "bypassPermissions"),
            // The next version of an agent may have it.
            ("auto", "everything", "bypassPermissions"),
            ("auto", "BypassPermissions", "bypassPermissions"),
            ("default", "acceptEdits", "acceptEdits"),
            ("plan", "default", "default"),
        ] {
            let why = with(most, Some(mode)).unwrap_err();
            assert!(why.contains(&format!("({most})")) && why.contains(&format!("`max-permission-mode` {needed},")), "{why}");
        }
        assert!(with("plan", None).unwrap_err().contains("`max-permission-mode` default"));
        assert_eq!(with("default", None), Ok(()));
        assert_eq!(with("bypassPermissions", Some("everything")), Ok(()));
    }

    #[test]
    fn arguments_are_no_way_around_the_mode() {
        let mut stage = Stage::new();
        stage.worker.allow_args = true;
        let with = |args: &[&str]| stage.admit(|job| job.options.extra = args.iter().map(Into::into).collect()).map(|_| ());
        assert_eq!(
            with(&["--verbose", "--settings={\"permissions\":{\"defaultMode\":\"auto\"}}", "-s", "workspace-write"]),
            Ok(())
        );
        for args in [
            &["--dangerously-skip-permissions"][..],
            &["--allow-dangerously-skip-permissions"],
            &["--permission-mode", "bypassPermissions"],
            &["--permission-mode=bypassPermissions"],
            &["--settings={\"permissions\":{\"defaultMode\":\"bypass\\u0050ermissions\"}}"],
            &["--settings", "\u{feff}{\"permissions\":{\"defaultMode\":\"bypassPermissions\"}}"],
            &["--dangerously-bypass-approvals-and-sandbox"],
            &["-sdanger-full-access"],
            &["-c", "sandbox_mode=\"danger-full-access\""],
        ] {
            let why = with(args).unwrap_err();
            assert!(why.contains("in `args`") && why.contains("`max-permission-mode` bypassPermissions"), "{args:?}: {why}");
        }
    }

    #[test]
    fn servers_are_a_file_of_the_job_or_need_the_workers_word() {
        let mut stage = Stage::new();
        let inline = r#"{"mcpServers":{"a":{"command":"sh"}}}"#;
        let with = |stage: &Stage, config: &str| stage.admit(|job| job.options.mcp_config = vec![config.to_owned()]);
        let named = with(&stage, &stage.at("work/repo/sub/../servers.json")).unwrap();
        assert_eq!(named.options.mcp_config, [stage.at("work/repo/servers.json")], "as it is without links");
        let outside = [
            ("work/servers.json", "beneath the folder of the job only"),
            ("other/servers.json", "beneath the folder of the job only"),
            ("work/repo/out/servers.json", "beneath the folder of the job only"),
            ("work/repo/stdin", "beneath the folder of the job only"),
            ("work/data/recordings/old/stdin", "beneath the folder of the job only"),
            ("work/repo/none.json", "cannot be used"),
        ];
        let unread = [
            inline.to_owned(),
            format!("\u{feff}{inline}"),
            format!(" \n\u{feff} {inline}"),
            format!("\u{a0}{inline}"),
            "servers.json".to_owned(),
            "./servers.json".to_owned(),
            "[]".to_owned(),
            String::new(),
        ];
        for config in &unread {
            let why = with(&stage, config).expect_err(config);
            assert!(why.contains("`mcp_config`") && why.contains("`allow-args`"), "{config}: {why}");
        }
        for allow_args in [false, true] {
            stage.worker.allow_args = allow_args;
            for (path, told) in outside {
                let why = with(&stage, &stage.at(path)).expect_err(path);
                assert!(why.contains("`mcp_config`") && why.contains(told), "{path}: {why}");
            }
            // A job that works where recordings are is refused as a whole.
            stage.refused(|job| {
                job.folder = stage.root.join("work/data/recordings/old");
                job.options.mcp_config = vec![stage.at("work/data/recordings/old/stdin")];
            });
            // Here the data folder is beneath the job's own.
            let why = stage.refused(|job| {
                job.folder = stage.root.join("work");
                job.options.mcp_config = vec![stage.at("work/data/recordings/old/stdin")];
            });
            assert!(why.contains("data folder"), "{why}");
        }
        for config in &unread {
            assert!(with(&stage, config).is_ok(), "{config}: the worker allows it");
        }
    }

    #[test]
    fn a_session_is_no_file() {
        let stage = Stage::new();
        assert!(stage.admit(|job| job.options.resume = Some("0f0e-a b".to_owned())).is_ok());
        let why = stage.refused(|job| job.options.resume = Some(stage.at("work/repo/x.jsonl")));
        assert!(why.contains("`resume`"), "{why}");
    }

    #[test]
    fn the_workers_rules_stand_above_those_of_the_job() {
        let mut stage = Stage::new();
        let rules = |text: &str| text.parse::<Permissions>().unwrap();
        stage.worker.permissions =
            Some(rules("allow = [{ tool = \"Bash\", command = \"git *\" }]\ndeny = [{ tool = \"WebFetch\" }]"));
        let decide = |own: Option<&str>, command: &str| {
            let own = own.map(|text| Written { text: text.to_owned(), rules: rules(text) });
            let job = stage.admit(|job| job.permissions = own).unwrap();
            let input = Json::parse(&json!({ "command": command }).to_string()).unwrap();
            job.permissions.unwrap().rules.decide(&PendingCall::of("Bash", Some(&input), None)).ruling
        };
        let all = Some("allow = [{ tool = \"Bash\" }]");
        assert_eq!((decide(all, "git status"), decide(all, "rm x")), (Ruling::Allow, Ruling::Ask));
        let little = Some("allow = [{ tool = \"Bash\", command = \"git status\" }]");
        assert_eq!((decide(little, "git status"), decide(little, "git push")), (Ruling::Allow, Ruling::Ask));
        assert_eq!((decide(None, "git status"), decide(None, "rm x")), (Ruling::Allow, Ruling::Ask), "the worker's alone");
        let why = stage.refused(|job| job.agent = Kind::Codex);
        assert!(why.contains("codex asks nobody"), "{why}");
        let why = stage.refused(|job| job.options.allowed_tools = vec!["Bash".to_owned()]);
        assert!(why.contains("`allowed_tools`") && why.contains("rules of the worker"), "{why}");
    }
}
