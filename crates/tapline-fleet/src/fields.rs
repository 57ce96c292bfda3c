//! The keys of a job in a file, and how they are read: each value is filled in, checked, and named if it is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tapline_protocol::Agent as Kind;
use tapline_runner::{Environment, Options, RetryRule};
use tapline_session::text::with_causes;
use tapline_session::{Category, parse_duration, warning_code};

use crate::job::{CutOff, Job, KeepAs, WorktreeRule, Written, is_inline, plain_name};
use crate::template::{self, Piece, TemplateError};

/// What a job is made from: values by their keys, with places to fill in.
pub(crate) type Fields = BTreeMap<String, Value>;

/// The keys that a job can have.
pub(crate) const KEYS: &[&str] = &[
    "name",
    "step",
    "label",
    "account",
    "agent",
    "bin",
    "prompt",
    "prompt_file",
    "folder",
    "worktree",
    "base",
    "model",
    "fallback_model",
    "effort",
    "resume",
    "fork",
    "allowed_tools",
    "disallowed_tools",
    "permission_mode",
    "permissions",
    "policy",
    "max_turns",
    "max_budget_usd",
    "schema",
    "mcp_config",
    "add_dir",
    "system_prompt",
    "append_system_prompt",
    "timeout",
    "idle_timeout",
    "retry",
    "retry_delay",
    "retry_on",
    "fail_on",
    "require_clean",
    "cut_off",
    "env",
    "clean_env",
    "args",
    "labels",
    "worker",
    "needs",
    "for_each",
    "if",
    "rows",
];

/// What a place stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    Text(String),
    /// It will be known when an earlier job has ended.
    Later,
    /// Nothing has this name, for this reason if there is a better one.
    Unknown(Option<String>),
}

/// A text that was filled in.
enum Got {
    Text(String),
    Later,
}

/// Reads the values of one job, and collects what is wrong with them.
pub(crate) struct Reading<'a> {
    pub(crate) fields: &'a Fields,
    pub(crate) look: &'a dyn Fn(&str) -> Looked,
    /// Paths are meant relative to it.
    pub(crate) base: &'a Path,
    pub(crate) faults: Vec<Fault>,
    /// The keys whose values will be known when an earlier job has ended.
    pub(crate) later: BTreeSet<String>,
}

/// What is wrong with the values of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The keys whose values are wrong, whatever else the job has. Without any, it is wrong for this job.
    pub(crate) keys: Vec<String>,
    pub(crate) why: String,
}

impl Fault {
    pub(crate) fn of_key(key: &str, why: impl std::fmt::Display) -> Self {
        Self { keys: vec![key.to_owned()], why: format!("{key}: {why}") }
    }

    pub(crate) fn of_job(why: impl Into<String>) -> Self {
        Self { keys: Vec::new(), why: why.into() }
    }
}

impl<'a> Reading<'a> {
    pub(crate) fn new(fields: &'a Fields, look: &'a dyn Fn(&str) -> Looked, base: &'a Path) -> Self {
        Self { fields, look, base, faults: Vec::new(), later: BTreeSet::new() }
    }

    pub(crate) fn wrong(&mut self, key: &str, why: impl std::fmt::Display) {
        self.faults.push(Fault::of_key(key, why));
    }

    /// Fills in a text. `None` if that failed, which is noted.
    fn filled(&mut self, key: &str, text: &str) -> Option<Got> {
        let (mut later, mut why) = (false, None);
        let filled = template::fill(text, |name| match (self.look)(name) {
            Looked::Text(text) => Some(text),
            Looked::Later => {
                later = true;
                Some(String::new())
            }
            Looked::Unknown(reason) => {
                why = reason;
                None
            }
        });
        match filled {
            Ok(_) if later => Some(Got::Later),
            Ok(text) => Some(Got::Text(text)),
            Err(error @ TemplateError::Unknown(_)) if why.is_some() => {
                let why = why.unwrap_or_default();
                self.wrong(key, format!("{}: {why}", error.to_string().split(": ").next().unwrap_or_default()));
                None
            }
            Err(error) => {
                self.wrong(key, error);
                None
            }
        }
    }

    fn got(&mut self, key: &str) -> Option<Got> {
        match self.fields.get(key)? {
            Value::String(text) => self.filled(key, text),
            Value::Number(number) => Some(Got::Text(number.to_string())),
            Value::Bool(flag) => Some(Got::Text(flag.to_string())),
            Value::Null => None,
            Value::Array(_) | Value::Object(_) => {
                let like = match key {
                    "fork" | "clean_env" | "require_clean" | "worktree" => "true",
                    "max_turns" | "retry" | "max_budget_usd" => "3",
                    "timeout" | "idle_timeout" | "retry_delay" => "\"10m\"",
                    _ => "\"a text\"",
                };
                self.wrong(key, format!("one value is expected, such as {like}, not a list or a table"));
                None
            }
        }
    }

    /// A text that is not empty. An empty cell of a table is as good as none.
    pub(crate) fn text(&mut self, key: &str) -> Option<String> {
        match self.got(key)? {
            Got::Text(text) => Some(text).filter(|text| !text.is_empty()),
            Got::Later => {
                self.later.insert(key.to_owned());
                None
            }
        }
    }

    fn read<T>(&mut self, key: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let text = self.text(key)?;
        match parse(text.trim()) {
            Ok(value) => Some(value),
            Err(why) => {
                self.wrong(key, why);
                None
            }
        }
    }

    fn count<T: std::str::FromStr>(&mut self, key: &str) -> Option<T> {
        self.read(key, |text| text.parse().map_err(|_| format!("`{text}` is not a whole number")))
    }

    fn flag(&mut self, key: &str) -> bool {
        let parse = |text: &str| text.parse().map_err(|_| format!("`{text}` is neither true nor false"));
        self.read(key, parse).unwrap_or_default()
    }

    fn time(&mut self, key: &str) -> Option<Duration> {
        self.read(key, |text| {
            parse_duration(text).ok_or_else(|| format!("`{text}` is not a time: write it like 90s, 10m or 1h30m"))
        })
    }

    fn limit(&mut self, key: &str) -> Option<Duration> {
        let time = self.time(key)?;
        if time.is_zero() {
            self.wrong(key, "a limit of 0 would stop the run at once");
        }
        Some(time)
    }

    /// Several texts: a list, or one text with commas.
    fn list(&mut self, key: &str) -> Vec<String> {
        let items = match self.fields.get(key) {
            Some(Value::Array(items)) if items.iter().all(Value::is_string) => items,
            Some(Value::Array(_) | Value::Object(_)) => {
                self.wrong(key, format!("a list of texts is expected, such as {}", list_like(key)));
                return Vec::new();
            }
            _ => {
                let Some(text) = self.text(key) else { return Vec::new() };
                // Its commas are its own.
                if is_inline(&text) {
                    return vec![text];
                }
                return text.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect();
            }
        };
        let mut list = Vec::new();
        for text in items.iter().filter_map(Value::as_str) {
            match self.filled(key, text) {
                Some(Got::Text(text)) => list.push(text),
                Some(Got::Later) | None => {}
            }
        }
        list
    }

    fn path(&mut self, key: &str) -> Option<PathBuf> {
        let path = self.text(key)?;
        Some(self.base.join(path))
    }

    /// A file with rules.
    fn rules<T: std::str::FromStr<Err: std::error::Error>>(&mut self, key: &str) -> Option<Written<T>> {
        let path = self.path(key)?;
        let read = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()));
        let parsed = read.and_then(|text| {
            let wrong = |error| format!("{} is wrong: {}", path.display(), with_causes(&error));
            text.parse::<T>().map_err(wrong).map(|rules| Written { text, rules })
        });
        parsed.map_err(|why| self.wrong(key, why)).ok()
    }

    /// JSON: itself, or the file that holds it. The cell of a table can be either.
    fn schema(&mut self) -> Option<String> {
        let is_filled =
            |text: &str| matches!(template::pieces(text).as_deref(), Ok([Piece::Place(name)]) if !name.contains('"'));
        match self.fields.get("schema") {
            Some(table @ Value::Object(_)) => return Some(table.to_string()),
            Some(Value::String(text)) if is_inline(text) && !is_filled(text) => return Some(text.clone()),
            _ => {}
        }
        let text = self.text("schema")?;
        if is_inline(&text) {
            return Some(text);
        }
        let path = self.base.join(text);
        let read = std::fs::read_to_string(&path);
        read.map_err(|error| self.wrong("schema", format!("cannot read {}: {error}", path.display()))).ok()
    }

    fn prompt(&mut self) -> Option<String> {
        let prompt = match self.got("prompt") {
            Some(Got::Later) => return Some(LATER.to_owned()),
            Some(Got::Text(text)) => Some(text),
            None if self.fields.contains_key("prompt") && !self.faults.is_empty() => return None,
            None => self.path("prompt_file").and_then(|path| match std::fs::read_to_string(&path) {
                Ok(text) => Some(text),
                Err(error) => {
                    self.wrong("prompt_file", format!("cannot read {}: {error}", path.display()));
                    None
                }
            }),
        };
        if prompt.as_deref().is_none_or(|prompt| prompt.trim().is_empty()) {
            let keys = ["prompt", "prompt_file"].map(str::to_owned).to_vec();
            self.faults.push(Fault { keys, why: NO_PROMPT.to_owned() });
        }
        prompt
    }

    fn worktree(&mut self) -> Option<WorktreeRule> {
        let keep = self.read("worktree", |text| match text {
            "false" => Ok(None),
            "true" | "branch" => Ok(Some(KeepAs::Branch)),
            "patch" => Ok(Some(KeepAs::Patch)),
            _ => Err(format!("`{text}` is not one of true, branch, patch")),
        });
        let base = self.text("base");
        if keep.flatten().is_none() && base.is_some() {
            self.faults.push(Fault::of_job("base: only a job with a worktree has a commit to begin with"));
        }
        Some(WorktreeRule { base: base.unwrap_or_else(|| "HEAD".to_owned()), keep: keep.flatten()? })
    }

    fn options(&mut self) -> Options {
        let here = |base: &Path, text: &String| {
            if is_inline(text) { text.clone() } else { base.join(text).display().to_string() }
        };
        let base = self.base;
        Options {
            model: self.text("model"),
            fallback_model: self.text("fallback_model"),
            effort: self.text("effort"),
            resume: self.text("resume"),
            fork: self.flag("fork"),
            allowed_tools: self.list("allowed_tools"),
            disallowed_tools: self.list("disallowed_tools"),
            permission_mode: self.text("permission_mode"),
            max_turns: self.count("max_turns"),
            max_budget_usd: self.read("max_budget_usd", |text| {
                let amount = text.parse().ok().filter(|usd: &f64| usd.is_finite() && *usd > 0.0);
                amount.ok_or_else(|| format!("`{text}` is not an amount of dollars"))
            }),
            json_schema: self.schema(),
            mcp_config: self.list("mcp_config").iter().map(|text| here(base, text)).collect(),
            add_dir: self.list("add_dir").iter().map(|path| base.join(path)).collect(),
            system_prompt: self.text("system_prompt"),
            append_system_prompt: self.text("append_system_prompt"),
            extra: self.list("args").into_iter().map(OsString::from).collect(),
            ..Options::default()
        }
    }

    fn retry(&mut self) -> RetryRule {
        let mut on = Vec::new();
        for word in self.list("retry_on") {
            match word.parse::<Category>() {
                Ok(category) => on.push(category),
                Err(error) => self.wrong("retry_on", error),
            }
        }
        RetryRule { times: self.count("retry").unwrap_or_default(), delay: self.time("retry_delay"), on }
    }

    fn fail_on(&mut self) -> Vec<&'static str> {
        let mut codes = Vec::new();
        for code in self.list("fail_on") {
            match warning_code(&code) {
                Ok(code) => codes.push(code),
                Err(why) => self.wrong("fail_on", format!("`{code}` is no warning. {why}")),
            }
        }
        codes
    }

    /// Labels, each once and in order: jobs with the same labels wait in the same queue.
    fn labels(&mut self, key: &str, own: impl IntoIterator<Item = String>) -> Vec<String> {
        let labels: BTreeSet<String> = own.into_iter().chain(self.list(key)).collect();
        if let Some(label) = labels.iter().find(|label| label.len() > LONGEST_LABEL || label.contains(char::is_control)) {
            let label: String = label.chars().filter(|c| !c.is_control()).take(40).collect();
            self.wrong(key, format!("`{label}` cannot be a label: it has at most {LONGEST_LABEL} bytes, and is one line"));
        }
        labels.into_iter().collect()
    }

    fn environment(&mut self) -> Environment {
        let names = self.list("env");
        if let Some(name) = names.iter().find(|name| name.contains('=')) {
            let name = name.split('=').next().unwrap_or_default().to_owned();
            self.wrong("env", format!("name variables only: the value of {name} comes from whoever runs the job"));
        }
        let set = names.into_iter().map(|name| (name.into(), None)).collect();
        Environment { clean: self.flag("clean_env"), set, remove: Vec::new() }
    }

    /// Reads the job. It is complete only if there are no faults.
    pub(crate) fn job(&mut self, name: String, step: String) -> Job {
        let agent = self.read("agent", |text| {
            let known = || Kind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
            Kind::named(text).ok_or_else(|| format!("`{text}` is not one of {}", known()))
        });
        let agent = agent.unwrap_or_default();
        let cut_off = self
            .read("cut_off", |text| CutOff::named(text).ok_or_else(|| format!("`{text}` is not one of resume, again, fail")));
        Job {
            label: self.text("label").unwrap_or_else(|| step.clone()),
            account: self.text("account").unwrap_or_else(|| agent.name().to_owned()),
            agent,
            bin: self.text("bin").map(|bin| if bin.contains('/') { self.base.join(bin) } else { bin.into() }),
            prompt: self.prompt().unwrap_or_default(),
            folder: self.path("folder").unwrap_or_else(|| self.base.to_owned()),
            worktree: self.worktree(),
            options: self.options(),
            timeout: self.limit("timeout").or(Some(TIMEOUT)),
            idle_timeout: self.limit("idle_timeout"),
            policy: self.rules("policy"),
            permissions: self.rules("permissions"),
            retry: self.retry(),
            fail_on: self.fail_on(),
            require_clean: self.flag("require_clean"),
            cut_off: cut_off.unwrap_or_default(),
            environment: self.environment(),
            labels: self.labels("labels", [format!("agent={}", agent.name())]),
            worker: self.labels("worker", []),
            name,
            step,
        }
    }

    /// Reads a name that can be a file and a branch.
    pub(crate) fn name(&mut self, key: &str) -> Option<String> {
        let text = self.text(key)?;
        let name = plain_name(&text);
        if name.is_empty() {
            self.wrong(key, format!("`{text}` has no letter or digit"));
        }
        Some(name)
    }
}

/// A list that the key can have.
fn list_like(key: &str) -> &'static str {
    match key {
        "env" => "[\"GH_TOKEN\", \"LANG\"]: names of variables, without values",
        "labels" | "worker" => "[\"repo=api\", \"gpu=yes\"]",
        "allowed_tools" | "disallowed_tools" => "[\"Read\", \"Bash(git:*)\"]",
        "fail_on" => "[\"denied\", \"max-tokens\"]",
        "retry_on" => "[\"rate_limit\", \"timeout\"]",
        "add_dir" => "[\"../docs\"]",
        "mcp_config" => "[\"servers.json\"]",
        _ => "[\"--flag\", \"value\"]",
    }
}

/// All texts in a value.
pub(crate) fn texts_of(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts_of).collect(),
        Value::Object(map) => map.values().flat_map(texts_of).collect(),
        _ => Vec::new(),
    }
}

/// Whether a value has places to fill in.
pub(crate) fn has_places(value: &Value) -> bool {
    let is_place = |piece: &Piece<'_>| matches!(piece, Piece::Place(_));
    texts_of(value).into_iter().any(|text| template::pieces(text).is_ok_and(|pieces| pieces.iter().any(is_place)))
}

/// When a run is stopped if nothing else is said: an agent that hangs must not hold its place for good.
const TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// How many bytes a label may have.
const LONGEST_LABEL: usize = 200;

/// What is wrong with a job without a prompt.
pub(crate) const NO_PROMPT: &str = "prompt: there is none";

/// Stands for a prompt that is not known yet.
const LATER: &str = "…";
