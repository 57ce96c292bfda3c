//! The command line of `tapline worker`.

use std::path::PathBuf;

use clap::Args;
use tapline_fleet::PermissionMode;
use tapline_protocol::Agent;

use super::engine::Engine;

/// Run the jobs of batches on this machine: takes them from the queue of a NATS server
///
/// `tapline batch FILE --engine URL` puts jobs on the queue; workers on any number of machines take them. A job runs as in a local batch, with
/// this machine's folders, programs, environment and secrets: none of them come from the queue. Its result is stored before the job
/// is taken off the queue, so a worker that dies loses nothing. `tapline help fleet` has more.
///
/// Jobs work beneath the folder that the worker is started in, and not in the permission mode bypassPermissions. Whoever can write to the
/// queue can still make agents do there what the agents' settings, the job and these options allow: `tapline help fleet` says what that is.
/// So let only people write to the queue who may use this account, and run workers as a user who has no more rights than the jobs need.
///
/// After Ctrl-C, the worker takes no more jobs, lets its runs end, and ends. A second Ctrl-C stops the runs, and they go on elsewhere; a
/// third kills them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tapline worker --engine nats://broker:4222 --jobs 4 --folders /srv/repos
  tapline worker --engine tls://broker:4222 --nats-creds worker.creds --label gpu=yes
  tapline worker --engine nats://broker:4222 --require repo=api --require size=small

Exit codes:
  0         the worker was told to end, and its runs have ended
  2         the worker could not start, for example because the server cannot be reached
  130, 143  a second signal stopped its runs")]
pub(crate) struct Worker {
    /// How many jobs run here at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = super::at_least_one)]
    pub(crate) jobs: usize,
    /// A label of this worker, such as gpu=yes: a job with `worker = ["gpu=yes"]` needs a worker that has it; can be repeated
    #[arg(long, value_name = "LABEL", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) label: Vec<String>,
    /// Take only jobs with this label, such as repo=api or agent=NAME; can be repeated: then a job must have all of them
    #[arg(long, value_name = "LABEL", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) require: Vec<String>,
    /// The program of all agents, or of one (AGENT=PATH); can be repeated. A job that names another program (`bin`) is refused [default:
    /// as for `tapline run`]
    #[arg(long, value_name = "[AGENT=]PATH", value_parser = program)]
    pub(crate) bin: Vec<(Option<Agent>, PathBuf)>,
    /// Take jobs that work beneath this folder; can be repeated [default: the folder that the worker is started in]
    #[arg(long, value_name = "DIR")]
    pub(crate) folders: Vec<PathBuf>,
    /// The loosest permission mode that a job may have: plan, default, acceptEdits, auto or bypassPermissions
    #[arg(long, value_name = "MODE", default_value_t)]
    pub(crate) max_permission_mode: PermissionMode,
    /// Hold these rules, too, for every call of every job (TOML; `tapline help permissions`). A job cannot loosen them, and takes no
    /// `allowed_tools`
    #[arg(long, value_name = "FILE")]
    pub(crate) permissions: Option<PathBuf>,
    /// Take jobs that bring arguments for their agent (`args`), or MCP servers (`mcp_config` as JSON). Both can name programs that are
    /// started here
    #[arg(long)]
    pub(crate) allow_args: bool,
    /// Take only jobs that a machine with this key has ordered (`tapline doctor --engine URL` shows a machine's key); can be repeated
    /// [default: of everybody who may write to the queue]
    #[arg(long, value_name = "KEY")]
    pub(crate) trust: Vec<String>,
    /// What this worker is called in messages [default: the name of the machine]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// Replace secrets (keys, tokens, passwords) in the results and recordings of all jobs (`tapline help redact`)
    #[arg(long)]
    pub(crate) redact: bool,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

/// `AGENT=PATH` or `PATH`.
fn program(text: &str) -> Result<(Option<Agent>, PathBuf), String> {
    let of_agent = text.split_once('=').and_then(|(agent, path)| Some((Some(Agent::named(agent)?), path)));
    let (agent, path) = of_agent.unwrap_or((None, text));
    if path.is_empty() {
        return Err("the path is missing".to_owned());
    }
    let path = PathBuf::from(path);
    // A name is looked for on PATH; a path is meant from here.
    let is_name = path.components().count() == 1 && !text.contains('/');
    let path = if is_name { path } else { std::path::absolute(&path).map_err(|error| error.to_string())? };
    Ok((agent, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_one_agent_or_of_all() {
        let of = |text: &str| program(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!(of("/bin/x"), (None, "/bin/x".into()));
        assert_eq!(of("claude=/bin/x"), (Some(Agent::Claude), "/bin/x".into()));
        assert_eq!(of("claude"), (None, "claude".into()));
        assert_eq!(of("/opt/a=b/x"), (None, "/opt/a=b/x".into()));
        assert!(of("./x").1.is_absolute());
        assert!(program("claude=").is_err() && program("").is_err());
    }
}
