//! A job as it travels: everything that it is made of, with the contents of its files of rules. Values of environment variables never do;
//! whoever runs the job has its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tapline_protocol::Agent as Kind;
use tapline_runner::{Environment, Options, RetryRule};
use tapline_session::text::with_causes;
use tapline_session::{Category, warning_code};

use crate::job::{CutOff, Job, KeepAs, WorktreeRule, Written, is_inline, plain_name, without_blanks};

/// A job in plain values that can be written and read back. A key that this version does not know is an error: it may be a rule that must
/// not be left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Carried {
    pub(crate) name: String,
    step: String,
    label: String,
    account: String,
    agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bin: Option<String>,
    prompt: String,
    folder: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worktree: Option<CarriedWorktree>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    idle_timeout: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    permissions: Option<String>,
    #[serde(default)]
    retry: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_delay: Option<Duration>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    retry_on: Vec<Category>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    fail_on: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    require_clean: bool,
    cut_off: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    env: Vec<String>,
    #[serde(default)]
    clean_env: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    worker: Vec<String>,
    options: CarriedOptions,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CarriedWorktree {
    base: String,
    patch: bool,
}

/// The options that a job file has keys for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CarriedOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback_model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    fork: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed_tools: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disallowed_tools: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_turns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_budget_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mcp_config: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    add_dir: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    append_system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    args: Vec<String>,
}

/// A path as text. Other paths cannot travel.
fn text_of(path: &Path) -> Result<String, String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("{} cannot be sent to a worker: its name is not UTF-8", path.display()))
}

fn word_of(text: &OsString) -> Result<String, String> {
    text_of(Path::new(text))
}

impl Carried {
    /// Packs a job, or says what keeps it from travelling.
    pub(crate) fn pack(job: &Job) -> Result<Self, String> {
        let Environment { clean, set, remove: _ } = &job.environment;
        let RetryRule { times, delay, on } = &job.retry;
        Ok(Self {
            name: job.name.clone(),
            step: job.step.clone(),
            label: job.label.clone(),
            account: job.account.clone(),
            agent: job.agent.name().to_owned(),
            bin: job.bin.as_deref().map(text_of).transpose()?,
            prompt: job.prompt.clone(),
            folder: text_of(&job.folder)?,
            worktree: job
                .worktree
                .as_ref()
                .map(|rule| CarriedWorktree { base: rule.base.clone(), patch: rule.keep == KeepAs::Patch }),
            timeout: job.timeout,
            idle_timeout: job.idle_timeout,
            policy: job.policy.as_ref().map(|policy| policy.text.clone()),
            permissions: job.permissions.as_ref().map(|rules| rules.text.clone()),
            retry: *times,
            retry_delay: *delay,
            retry_on: on.clone(),
            fail_on: job.fail_on.iter().map(|code| (*code).to_owned()).collect(),
            require_clean: job.require_clean,
            cut_off: job.cut_off.word().to_owned(),
            // Names only, whatever values somebody gave them.
            env: set.iter().map(|(name, _)| word_of(name)).collect::<Result<_, _>>()?,
            clean_env: *clean,
            labels: job.labels.clone(),
            worker: job.worker.clone(),
            options: CarriedOptions::pack(&job.options)?,
        })
    }

    /// Reads the job again, or says what is wrong with it.
    pub(crate) fn unpack(self) -> Result<Job, String> {
        if self.name.is_empty() || plain_name(&self.name) != self.name {
            return Err(format!("`{}` cannot be the name of a job", self.name));
        }
        Ok(Job {
            agent: Kind::named(&self.agent).ok_or_else(|| format!("there is no agent `{}`", self.agent))?,
            cut_off: CutOff::named(&self.cut_off).ok_or_else(|| format!("cut_off: `{}` is not known", self.cut_off))?,
            fail_on: self
                .fail_on
                .iter()
                .map(|code| warning_code(code))
                .collect::<Result<_, _>>()
                .map_err(|error| error.to_string())?,
            require_clean: self.require_clean,
            policy: self.policy.map(|text| rules("policy", text)).transpose()?,
            permissions: self.permissions.map(|text| rules("permissions", text)).transpose()?,
            name: self.name,
            step: self.step,
            label: self.label,
            account: self.account,
            bin: self.bin.map(PathBuf::from),
            prompt: self.prompt,
            folder: PathBuf::from(self.folder),
            worktree: self.worktree.map(|CarriedWorktree { base, patch }| WorktreeRule {
                base,
                keep: if patch { KeepAs::Patch } else { KeepAs::Branch },
            }),
            options: self.options.unpack(),
            timeout: self.timeout,
            idle_timeout: self.idle_timeout,
            retry: RetryRule { times: self.retry, delay: self.retry_delay, on: self.retry_on },
            environment: Environment {
                clean: self.clean_env,
                set: self.env.into_iter().map(|name| (name.into(), None)).collect(),
                remove: Vec::new(),
            },
            labels: self.labels,
            worker: self.worker,
        })
    }
}

fn rules<T: std::str::FromStr<Err: std::error::Error>>(key: &str, text: String) -> Result<Written<T>, String> {
    let rules = text.parse().map_err(|error| format!("{key}: {}", with_causes(&error)))?;
    Ok(Written { text, rules })
}

/// What travels can be read by whoever may read the queue: a configuration of MCP servers must have no secrets.
fn check_secrets(mcp_config: &str) -> Result<(), String> {
    if !is_inline(mcp_config) {
        return Ok(());
    }
    let config: Value = serde_json::from_str(without_blanks(mcp_config)).map_err(|error| format!("mcp_config: {error}"))?;
    let mut left = vec![&config];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    if key != "env" && key != "headers" {
                        left.push(value);
                        continue;
                    }
                    let mut values = value.as_object().into_iter().flatten();
                    let is_secret = |value: &Value| value.as_str().is_none_or(|text| !is_name_only(text));
                    if let Some((name, _)) = values.find(|(_, value)| is_secret(value)) {
                        return Err(format!(
                            "mcp_config: the value of `{name}` in `{key}` would go through the queue, where others can read it. Put it \
                             into the environment of the workers, and name it here: \"${{NAME}}\""
                        ));
                    }
                }
            }
            Value::Array(values) => left.extend(values),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    Ok(())
}

/// Whether a text only names variables: `${NAME}`, perhaps after a word, such as `Bearer ${NAME}`.
fn is_name_only(text: &str) -> bool {
    let (mut rest, mut words) = (text, String::new());
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { return false };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return false;
        }
        words.push_str(before);
        rest = after;
    }
    words.push_str(rest);
    ["", "bearer", "basic", "token"].contains(&words.trim().to_ascii_lowercase().as_str())
}

impl CarriedOptions {
    fn pack(options: &Options) -> Result<Self, String> {
        // A new option is a mistake here until somebody decides about it.
        let Options {
            model,
            fallback_model,
            effort,
            resume,
            continue_last: _,
            fork,
            session_before: _,
            allowed_tools,
            disallowed_tools,
            permission_mode,
            max_turns,
            max_budget_usd,
            json_schema,
            mcp_config,
            agents: _,
            setting_sources: _,
            plugin_dir: _,
            add_dir,
            system_prompt,
            append_system_prompt,
            system_prompt_file: _,
            append_system_prompt_file: _,
            partial: _,
            extra,
        } = options.clone();
        mcp_config.iter().try_for_each(|config| check_secrets(config))?;
        Ok(Self {
            model,
            fallback_model,
            effort,
            resume,
            fork,
            allowed_tools,
            disallowed_tools,
            permission_mode,
            max_turns,
            max_budget_usd,
            schema: json_schema,
            mcp_config,
            add_dir: add_dir.iter().map(|path| text_of(path)).collect::<Result<_, _>>()?,
            system_prompt,
            append_system_prompt,
            args: extra.iter().map(word_of).collect::<Result<_, _>>()?,
        })
    }

    fn unpack(self) -> Options {
        Options {
            model: self.model,
            fallback_model: self.fallback_model,
            effort: self.effort,
            resume: self.resume,
            fork: self.fork,
            allowed_tools: self.allowed_tools,
            disallowed_tools: self.disallowed_tools,
            permission_mode: self.permission_mode,
            max_turns: self.max_turns,
            max_budget_usd: self.max_budget_usd,
            json_schema: self.schema,
            mcp_config: self.mcp_config,
            add_dir: self.add_dir.into_iter().map(PathBuf::from).collect(),
            system_prompt: self.system_prompt,
            append_system_prompt: self.append_system_prompt,
            extra: self.args.into_iter().map(OsString::from).collect(),
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tapline_testkit::TempFolder;

    use super::*;
    use crate::fields::{KEYS, Looked, Reading};

    /// What a key can be, as unlike the default as possible. `None` for those that decide whether and when a job runs: the batch does that.
    fn value(key: &str, rules: &Path) -> Option<Value> {
        Some(match key {
            "name" | "step" | "needs" | "for_each" | "if" | "rows" | "prompt_file" => return None,
            "agent" => json!("codex"),
            "worktree" => json!("patch"),
            "fork" | "clean_env" | "require_clean" => json!(true),
            "fail_on" => json!(["denied", "max-tokens"]),
            "max_turns" | "retry" => json!(7),
            "max_budget_usd" => json!(1.1),
            "timeout" | "idle_timeout" | "retry_delay" => json!("1500ms"),
            "retry_on" => json!(["rate_limit", "overloaded"]),
            "cut_off" => json!("fail"),
            "schema" => json!({"type": "object"}),
            "policy" => json!(rules.join("policy.toml")),
            "permissions" => json!(rules.join("permissions.toml")),
            "env" => json!(["GH_TOKEN", "OTHER"]),
            "allowed_tools" | "disallowed_tools" | "mcp_config" | "add_dir" | "args" | "labels" | "worker" => {
                json!([format!("{key}=a b"), "ü"])
            }
            _ => json!(format!("some {key}")),
        })
    }

    fn job(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Job {
        let fields = [("prompt", json!("do it"))].into_iter().chain(fields);
        let fields = fields.map(|(key, value)| (key.to_owned(), value)).collect();
        let look = |_: &str| Looked::Unknown(None);
        let mut reading = Reading::new(&fields, &look, Path::new("/base"));
        let job = reading.job("a-1".to_owned(), "a".to_owned());
        assert_eq!(reading.faults, Vec::new());
        job
    }

    fn travelled(job: &Job) -> Job {
        let packed = Carried::pack(job).unwrap_or_else(|why| panic!("{why}"));
        let text = serde_json::to_string(&packed).unwrap_or_default();
        let read: Carried = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(read, packed);
        read.unpack().unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn every_key_of_a_job_travels() {
        let folder = TempFolder::new();
        folder.write("policy.toml", "[tools]\nforbid = [\"Bash\"]\n");
        folder.write("permissions.toml", "[[allow]]\ntool = \"Read\"\n");
        let plain = job([]);
        assert_eq!(format!("{:?}", travelled(&plain)), format!("{plain:?}"));
        let mut all = Vec::new();
        for key in KEYS {
            let Some(value) = value(key, &folder) else { continue };
            all.push((*key, value.clone()));
            // A commit to begin with needs a worktree.
            let with = (*key == "base").then_some(("worktree", json!(true)));
            let one = job(with.into_iter().chain([(*key, value)]));
            assert_ne!(format!("{one:?}"), format!("{plain:?}"), "{key} changes the job");
            assert_eq!(format!("{:?}", travelled(&one)), format!("{one:?}"), "{key} travels");
        }
        let all = job(all);
        assert_eq!(format!("{:?}", travelled(&all)), format!("{all:?}"));
    }

    #[test]
    fn an_agent_does_not_hold_its_place_for_good() {
        let limits = |job: &Job| (job.agent().limits.timeout, job.agent().limits.linger, job.agent().limits.background);
        let (hour, half_a_minute) = (Some(Duration::from_secs(3600)), Duration::from_secs(30));
        for job in [job([]), travelled(&job([]))] {
            assert_eq!(limits(&job), (hour, half_a_minute, None), "after its result it may stay as long as in any run");
        }
        assert_eq!(limits(&job([("timeout", json!("2h"))])).0, Some(Duration::from_secs(7200)));
    }

    #[test]
    fn values_of_variables_stay_here() {
        let mut job = job([]);
        job.environment.set.push(("KEY".into(), Some("secret".into())));
        let text = Carried::pack(&job).map(|packed| serde_json::to_string(&packed).unwrap_or_default()).unwrap_or_default();
        assert!(text.contains("KEY") && !text.contains("secret"), "{text}");
    }

    #[test]
    fn secrets_of_mcp_servers_do_not_travel() {
        let packed = |server: Value| {
            let mut job = job([]);
            job.options.mcp_config.push(json!({ "mcpServers": { "a": server } }).to_string());
            let plain = Carried::pack(&job).map(|_| ());
            let config = job.options.mcp_config.pop().unwrap_or_default();
            job.options.mcp_config.push(format!("\u{feff} {config}"));
            assert_eq!(Carried::pack(&job).map(|_| ()), plain, "{config}");
            plain
        };
        for server in [
            json!({ "command": "a", "args": ["b"] }),
            json!({ "command": "a", "env": { "KEY": "${KEY}", "EMPTY": "" } }),
            json!({ "url": "https://a", "headers": { "Authorization": "Bearer ${TOKEN_2}" } }),
        ] {
            assert_eq!(packed(server), Ok(()));
        }
        for server in [
            json!({ "command": "a", "env": { "KEY": "secret" } }),
            json!({ "command": "a", "env": { "KEY": "${KEY:-secret}" } }),
            json!({ "command": "a", "env": { "KEY": "secret${KEY}" } }),
            json!({ "command": "a", "env": { "KEY": 5 } }),
            json!({ "url": "https://a", "headers": { "KEY": "Bearer secret" } }),
        ] {
            let why = packed(server).unwrap_err();
            assert!(why.contains("`KEY`") && why.contains("${NAME}") && !why.contains("secret"), "{why}");
        }
        let mut file = job([]);
        file.options.mcp_config.push("servers.json".to_owned());
        assert!(Carried::pack(&file).is_ok());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let read = |change: &dyn Fn(&mut Value)| {
            let packed = Carried::pack(&job([])).unwrap_or_else(|why| panic!("{why}"));
            let mut value = serde_json::to_value(packed).unwrap_or_default();
            change(&mut value);
            let read: Result<Carried, _> = serde_json::from_value(value);
            read.map_err(|error| error.to_string()).and_then(Carried::unpack).map(|job| job.name)
        };
        assert_eq!(read(&|_| {}).as_deref(), Ok("a-1"));
        for (key, value, why) in [
            ("name", json!("../../x"), "cannot be the name"),
            ("name", json!(""), "cannot be the name"),
            ("agent", json!("nobody"), "no agent"),
            ("cut_off", json!("perhaps"), "cut_off"),
            ("policy", json!("[what]"), "policy"),
            ("fail_on", json!(["denyed"]), "did you mean `denied`?"),
            ("a_new_limit", json!(1), "a_new_limit"),
        ] {
            let told = read(&|job| job[key] = value.clone()).err().unwrap_or_default();
            assert!(told.contains(why), "{key}: {told}");
        }
    }
}
