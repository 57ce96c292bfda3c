//! What is to be started, from the keyword arguments of `run`, `start` and `Session`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tapline::Agent;
use tapline::runner::{GuardProgram, RecordTo};

use crate::answers::{self, Asker};
use crate::source;
use crate::time::duration;

/// An agent with these options. Those of who answers are read by [`answers`].
pub(crate) fn agent(options: &Bound<'_, PyDict>, asker: Option<Asker>) -> PyResult<Agent> {
    let kind = options.get_item("agent")?.map_or_else(|| Ok(tapline::AgentKind::default()), |name| source::agent(&name))?;
    let mut agent = Agent::new(kind);
    let mut redact = false;
    for (key, value) in options {
        let key: String = key.extract()?;
        if value.is_none() {
            continue;
        }
        let wrong = |error: PyErr| PyTypeError::new_err(format!("{key}: {error}"));
        let text = || value.extract::<String>().map_err(wrong);
        let texts = || value.extract::<Vec<String>>().map_err(wrong);
        let path = || value.extract::<PathBuf>().map_err(wrong);
        let flag = || value.extract::<bool>().map_err(wrong);
        let time = || duration(&key, &value);
        agent = match key.as_str() {
            "prompt" => agent.prompt(text()?),
            "model" => agent.model(text()?),
            "resume" => agent.resume(text()?),
            "continue_last" if flag()? => agent.continue_last(),
            "fork" if flag()? => agent.fork(),
            "partial" if flag()? => agent.partial(),
            "clean_env" if flag()? => agent.clean_env(),
            "agent" | "continue_last" | "fork" | "partial" | "clean_env" => agent,
            "allowed_tools" => agent.allowed_tools(texts()?),
            "disallowed_tools" => agent.disallowed_tools(texts()?),
            "permission_mode" => agent.permission_mode(text()?),
            "max_turns" => agent.max_turns(value.extract::<u64>().map_err(wrong)?),
            "max_budget_usd" => agent.max_budget_usd(value.extract::<f64>().map_err(wrong)?),
            "json_schema" => agent.json_schema(text()?),
            "system_prompt" => agent.system_prompt(text()?),
            "append_system_prompt" => agent.append_system_prompt(text()?),
            "mcp_config" => texts()?.into_iter().fold(agent, Agent::mcp_config),
            "add_dirs" => value.extract::<Vec<PathBuf>>().map_err(wrong)?.into_iter().fold(agent, Agent::add_dir),
            "extra_args" => value.extract::<Vec<OsString>>().map_err(wrong)?.into_iter().fold(agent, Agent::arg),
            "program" => agent.bin(path()?),
            "cwd" => agent.cwd(path()?),
            "env" => agent.envs(value.extract::<HashMap<String, OsString>>().map_err(wrong)?),
            "timeout" => agent.timeout(time()?),
            "idle_timeout" => agent.idle_timeout(time()?),
            "linger" => agent.linger(time()?),
            "grace" => agent.grace(time()?),
            "background_timeout" => agent.background_timeout(time()?),
            "request_timeout" => agent.request_timeout(time()?),
            "answer_within" => agent.answer_within(time()?),
            "label" => agent.label(text()?),
            "record" => agent.record(path()?),
            "redact" => {
                redact = flag()?;
                agent
            }
            "heuristics" => {
                agent.no_heuristics = !flag()?;
                agent
            }
            "guard" => {
                agent.guard = Some(GuardProgram { program: path()?, args: vec!["__guard".into()] });
                agent
            }
            "permissions" => {
                let rules = text()?.parse().map_err(|error| PyValueError::new_err(format!("permissions: {error}")))?;
                agent.permissions(rules)
            }
            _ => answers::answer(agent, &key, &value, asker.as_ref())?,
        };
    }
    match &mut agent.record {
        Some(RecordTo { redact: wanted, .. }) => *wanted = redact,
        None if redact => return Err(PyValueError::new_err("redact is for a recording: give record too")),
        None => {}
    }
    agent.pricing = Some(tapline::archive::list_price);
    let variable = |name: &str| agent.variable(name).map(PathBuf::from);
    agent.options.session_before =
        agent.options.resume.as_deref().and_then(|id| tapline::archive::used_before(agent.kind, id, &variable));
    Ok(agent)
}
