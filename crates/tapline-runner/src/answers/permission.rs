//! A permission question: rules first, then whoever is there to ask; where nobody is, no.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tapline_protocol::claude::control::{CanUseTool, HookInput, HookReply, PermissionReply, PermissionUpdate};
use tapline_protocol::{Json, Read};
use tapline_session::permission::{Call, Decision, Permissions, Ruling};

use super::callback::{Callback, guarded};

/// The agent asks whether a tool may run, and no rule says so.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PermissionQuestion {
    /// The tool.
    pub tool: String,
    /// What it would be called with.
    pub input: Json,
    /// What the rules say: to ask, and why.
    pub decision: Decision,
    /// Everything else that the agent says about it.
    pub request: CanUseTool,
}

impl PermissionQuestion {
    /// What the agent suggests to remember, so that it need not ask again.
    pub fn suggestions(&self) -> Vec<PermissionUpdate> {
        self.request.permission_suggestions.iter().filter_map(|json| json.with(PermissionUpdate::read).flatten()).collect()
    }
}

/// The answer to a permission question.
#[derive(Clone, Debug, PartialEq)]
pub enum Permission {
    /// It may run.
    Allow {
        /// With other input than it asked for.
        input: Option<Json>,
        /// What the agent is to remember.
        remember: Vec<PermissionUpdate>,
    },
    /// It may not.
    Deny {
        /// Why, for the model to read.
        message: String,
        /// And the turn ends.
        interrupt: bool,
    },
}

impl Permission {
    /// It may run, this once.
    pub fn allow() -> Self {
        Self::Allow { input: None, remember: Vec::new() }
    }

    /// It may run, with this input instead.
    pub fn allow_with(input: impl Into<Json>) -> Self {
        Self::Allow { input: Some(input.into()), remember: Vec::new() }
    }

    /// It may run, and the agent is to remember this (one of [`PermissionQuestion::suggestions`]).
    pub fn allow_and_remember(updates: impl IntoIterator<Item = PermissionUpdate>) -> Self {
        Self::Allow { input: None, remember: updates.into_iter().collect() }
    }

    /// It may not; the model reads why and goes on.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into(), interrupt: false }
    }

    /// It may not, and the turn ends.
    pub fn deny_and_stop(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into(), interrupt: true }
    }
}

/// Who settled a permission question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SettledBy {
    /// A rule.
    Rule,
    /// The callback: a program, or the person behind it.
    Callback,
    /// Nobody was there to ask.
    Nobody,
    /// The callback gave no answer in time.
    Deadline,
    /// The callback panicked.
    Panic,
}

/// How a permission question was settled: what a recording keeps of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Settled {
    /// The question.
    pub request_id: String,
    /// The call.
    pub tool_use_id: Option<String>,
    /// The tool.
    pub tool: String,
    /// `allow` or `deny`.
    pub ruling: Ruling,
    /// Who said so.
    pub by: SettledBy,
    /// The rule, where there is one: `allow[2]`.
    pub rule: Option<String>,
    /// Why, in the words of the rule or the answer.
    pub reason: Option<String>,
    /// It runs with other input than was asked for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rewritten: bool,
    /// The agent was told to remember something, so that it need not ask again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remembered: bool,
}

/// Settles a question: by the rules, else by the callback, else with no.
pub(super) async fn settle(
    rules: Option<&Permissions>,
    callback: Option<&Callback<PermissionQuestion, Permission>>,
    within: Duration,
    id: String,
    request: CanUseTool,
    places: &Places,
) -> (PermissionReply, Settled) {
    let tool = request.tool_name.clone().unwrap_or_default();
    let input = request.input.clone();
    let decision = match rules {
        Some(rules) => decide(rules, &tool, input.as_ref(), places, within).await,
        None => Decision { ruling: Ruling::Ask, rule: None, reason: None },
    };
    let Decision { ruling, rule, reason } = decision.clone();
    let tool_use_id = request.tool_use_id.clone();
    let (answer, by) = match (ruling, callback) {
        (Ruling::Allow, _) => (Permission::allow(), SettledBy::Rule),
        (Ruling::Deny, _) => {
            let why = reason.clone().unwrap_or_else(|| DENIED.to_owned());
            (Permission::deny(why), SettledBy::Rule)
        }
        (Ruling::Ask, None) => {
            let why = reason.clone().unwrap_or_else(|| "no permission rule allows it".to_owned());
            (Permission::deny(format!("{why}, and nobody is there to ask")), SettledBy::Nobody)
        }
        (Ruling::Ask, Some(callback)) => {
            let asked = input.clone().unwrap_or_else(|| serde_json::json!({}).into());
            let question = PermissionQuestion { tool: tool.clone(), input: asked, decision, request };
            match guarded(callback, question, within).await {
                Ok(Permission::Allow { input: Some(other), remember }) => {
                    // What is denied is denied, also where somebody else wrote it.
                    let again = match rules {
                        Some(rules) => Some(decide(rules, &tool, Some(&other), places, within).await),
                        None => None,
                    };
                    match again.filter(|decision| decision.ruling == Ruling::Deny) {
                        Some(denied) => {
                            let why = denied.reason.unwrap_or_else(|| DENIED.to_owned());
                            (Permission::deny(why), SettledBy::Rule)
                        }
                        None => (Permission::Allow { input: Some(other), remember }, SettledBy::Callback),
                    }
                }
                Ok(answer) => (answer, SettledBy::Callback),
                Err(failed) => {
                    let by = if matches!(failed, super::Failed::Panicked(_)) { SettledBy::Panic } else { SettledBy::Deadline };
                    (Permission::deny(format!("whoever was asked for permission {failed}")), by)
                }
            }
        }
    };
    let settled = |ruling, reason, rewritten, remembered| Settled {
        request_id: id.clone(),
        tool_use_id: tool_use_id.clone(),
        tool: tool.clone(),
        ruling,
        by,
        rule: rule.clone(),
        reason,
        rewritten,
        remembered,
    };
    let reply = PermissionReply { tool_use_id: tool_use_id.clone(), ..PermissionReply::default() };
    match answer {
        Permission::Allow { input: other, remember } => {
            let settled = settled(Ruling::Allow, reason, other.is_some(), !remember.is_empty());
            let reply = PermissionReply {
                behavior: Some("allow".to_owned()),
                // Earlier versions want it, changed or not.
                updated_input: other.or(input),
                updated_permissions: remember.iter().map(Json::of).collect(),
                ..reply
            };
            (reply, settled)
        }
        Permission::Deny { message, interrupt } => {
            // Without words the agent takes it for no answer at all.
            let message = if message.trim().is_empty() { "it was denied".to_owned() } else { message };
            let settled = settled(Ruling::Deny, Some(message.clone()), false, false);
            let interrupt = interrupt.then_some(true);
            (PermissionReply { behavior: Some("deny".to_owned()), message: Some(message), interrupt, ..reply }, settled)
        }
    }
}

/// Where an agent was started, and where it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub(crate) home: Option<String>,
    pub(crate) cwd: Option<String>,
}

/// What the rules decide. The disk is looked at, which may take a while: one that does not answer in time denies.
pub(super) async fn decide(
    rules: &Permissions,
    tool: &str,
    input: Option<&Json>,
    places: &Places,
    within: Duration,
) -> Decision {
    let (rules, tool, input, places) = (rules.clone(), tool.to_owned(), input.cloned(), places.clone());
    let decide = move || {
        let [home, cwd] = [places.home, places.cwd].map(|folder| folder.map(|folder| real(&folder)));
        let call = Call::of(&tool, input.as_ref(), cwd.as_deref()).at_home(home.as_deref()).behind_links(real);
        rules.behind_links(home.as_deref(), real).decide(&call)
    };
    let decided = tokio::time::timeout(within.min(LOOKS_WITHIN), tokio::task::spawn_blocking(decide)).await;
    let lost =
        || Decision { ruling: Ruling::Deny, rule: None, reason: Some("the rules could not be held against it".to_owned()) };
    decided.ok().and_then(Result::ok).unwrap_or_else(lost)
}

/// A disk that takes longer does not answer.
const LOOKS_WITHIN: Duration = Duration::from_secs(10);

/// Holds the rules against a call before anybody is asked: the agent runs much that it never asks about. What is denied or to be
/// asked about is; the rest is left to it.
pub(super) async fn hold(
    rules: &Permissions,
    id: String,
    hook: &HookInput,
    home: Option<String>,
    within: Duration,
) -> (HookReply, Option<Settled>) {
    let tool = hook.tool_name.clone().unwrap_or_default();
    let places = Places { home, cwd: hook.cwd.clone() };
    let decision = decide(rules, &tool, hook.tool_input.as_ref(), &places, within).await;
    match (decision.ruling, decision.rule) {
        (Ruling::Deny, rule) => {
            let why = decision.reason.unwrap_or_else(|| DENIED.to_owned());
            let settled = Settled {
                request_id: id,
                tool_use_id: hook.tool_use_id.clone(),
                tool,
                ruling: Ruling::Deny,
                by: SettledBy::Rule,
                rule,
                reason: Some(why.clone()),
                rewritten: false,
                remembered: false,
            };
            (HookReply::deny_tool(why), Some(settled))
        }
        (Ruling::Ask, Some(_)) => {
            let why = decision.reason.unwrap_or_else(|| "a permission rule wants it asked".to_owned());
            (HookReply::ask_tool(why), None)
        }
        // An agent that would ask nothing asks about what no rule is for, too.
        (Ruling::Ask, None) if hook.permission_mode.as_deref() == Some("bypassPermissions") => {
            (HookReply::ask_tool("no permission rule allows it"), None)
        }
        (Ruling::Ask, None) | (Ruling::Allow, _) => (HookReply::pass(), None),
    }
}

/// Why, where a rule does not say.
const DENIED: &str = "a permission rule denies it";

/// The system follows no more links than this in one path.
const LINKS: usize = 40;

/// A path as it is behind all links, also those to what is not there yet.
fn real(path: &str) -> String {
    fn follow(path: &Path, left: &mut usize) -> PathBuf {
        let mut there = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(there.pop()),
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => there.push(part),
            }
            if matches!(part, Component::Normal(_))
                && *left > 0
                && let Ok(target) = there.read_link()
            {
                *left -= 1;
                there.pop();
                there = follow(&there.join(target), left);
            }
        }
        there
    }
    follow(Path::new(path), &mut LINKS.clone()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with `inside`, `outside/deep`, and links.
    fn tree() -> std::io::Result<PathBuf> {
        let folder = std::env::temp_dir().join(format!("tapline-links-{}", crate::marker::random()));
        std::fs::create_dir_all(folder.join("inside"))?;
        std::fs::create_dir_all(folder.join("outside/deep"))?;
        let folder = folder.canonicalize()?;
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, folder.join(name));
        link("inside", "link")?;
        link("link/new", "dangling")?;
        link("../outside/deep", "inside/out")?;
        link("outside", "alias")?;
        Ok(folder)
    }

    #[test]
    fn a_path_is_what_is_behind_its_links() -> std::io::Result<()> {
        let folder = tree()?;
        let at = |name: &str| real(&folder.join(name).to_string_lossy());
        let wanted = |name: &str| folder.join(name).to_string_lossy().into_owned();
        assert_eq!(at("link/new.txt"), wanted("inside/new.txt"));
        assert_eq!(at("nothing/here"), wanted("nothing/here"));
        assert_eq!(at("dangling"), wanted("inside/new"), "a link to what is not there yet is followed, too");
        assert_eq!(at("inside/out/../secret"), wanted("outside/secret"), "up from where it leads");
        std::fs::remove_dir_all(&folder)
    }

    #[tokio::test]
    async fn no_link_leads_around_a_rule() -> std::io::Result<()> {
        let folder = tree()?;
        let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let rules = |text: String| toml::from_str::<Permissions>(&text).unwrap_or_default();
        let here = Places { home: Some(at("")), cwd: Some(at("")) };
        let decide = async |rules: &Permissions, input: serde_json::Value| {
            decide(rules, "Read", Some(&input.into()), &here, LOOKS_WITHIN).await.ruling
        };
        let allow = rules(format!("allow = [{{ tool = \"Read\", path = \"{}/**\" }}]", at("inside")));
        let read = |name: &str| serde_json::json!({"file_path": at(name)});
        assert_eq!(decide(&allow, read("inside/x")).await, Ruling::Allow);
        assert_eq!(decide(&allow, read("link/x")).await, Ruling::Allow, "it is where it is");
        for name in ["inside/out/x", "inside/out/../secret", "inside/../outside/x", "alias/x"] {
            assert_eq!(decide(&allow, read(name)).await, Ruling::Ask, "{name}");
        }
        let decoy = serde_json::json!({"file_path": at("inside/x"), "path": at("outside/x")});
        assert_eq!(decide(&allow, decoy).await, Ruling::Ask, "which of the two it reads, nobody knows");
        // A rule that is written with a link's name holds behind it, too.
        let deny =
            rules(format!("allow = [{{ tool = \"*\" }}]\ndeny = [{{ tool = \"Read\", path = \"{}/**\" }}]", at("alias")));
        for name in ["alias/key", "outside/key", "inside/out/../key"] {
            assert_eq!(decide(&deny, read(name)).await, Ruling::Deny, "{name}");
        }
        assert_eq!(decide(&deny, read("inside/key")).await, Ruling::Allow);
        std::fs::remove_dir_all(&folder)
    }
}
