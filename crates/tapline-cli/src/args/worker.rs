//! The command line of `tapline worker`.

use std::path::PathBuf;

use clap::Args;
use tapline_protocol::Agent;

use super::engine::Engine;

/// Run the jobs of batches on this machine: takes them from the queue of a NATS server
///
/// `tapline batch FILE --engine URL` puts jobs on the queue; workers on any number of machines take them. A job runs as in a local batch, with
/// this machine's folders, programs, environment and secrets: none of them come from the queue. Its result is stored before the job
/// is taken off the queue, so a worker that dies loses nothing. `tapline help fleet` has more.
///
/// Whoever may write to the queue can let agents do here whatever the rules of the job allow them, in any folder of this user. So give
/// only those people the right to write to it who may use this account, and let workers run as a user who may do no more than they need.
///
/// Ctrl-C lets the runs end, and takes no more. A second Ctrl-C stops them, and they go on elsewhere; a third kills them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tapline worker --engine nats://broker:4222 --jobs 4
  tapline worker --engine tls://broker:4222 --nats-creds worker.creds --label gpu=yes
  tapline worker --engine nats://broker:4222 --require repo=api --require size=small

Exit codes:
  0         it was told to end, and let its runs end
  2         it could not begin: the server cannot be reached, for example
  130, 143  a second signal stopped its runs")]
pub(crate) struct Worker {
    #[command(flatten)]
    pub(crate) engine: Engine,
    /// How many jobs run here at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = super::at_least_one)]
    pub(crate) jobs: usize,
    /// What this worker has, such as gpu=yes: jobs can ask for it with `worker`; can be repeated
    #[arg(long, value_name = "LABEL", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) label: Vec<String>,
    /// Take only jobs with this label, such as repo=api or agent=NAME; can be repeated: jobs have all of them
    #[arg(long, value_name = "LABEL", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) require: Vec<String>,
    /// The program of all agents, or of one (AGENT=PATH); can be repeated. Jobs cannot name another one [default: as for `tapline run`]
    #[arg(long, value_name = "[AGENT=]PATH", value_parser = program)]
    pub(crate) bin: Vec<(Option<Agent>, PathBuf)>,
    /// Take jobs that bring arguments for their agent (`args`), or MCP servers (`mcp_config` as JSON). Both can name programs that are
    /// started here
    #[arg(long)]
    pub(crate) allow_args: bool,
    /// What this worker is called in messages [default: the name of the machine]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// Replace secrets (keys, tokens, passwords) in the results and recordings of all jobs (`tapline help redact`)
    #[arg(long)]
    pub(crate) redact: bool,
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
