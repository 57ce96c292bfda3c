//! Starts an agent: finds its program, prepares its environment, arguments and recording, and passes the child process
//! to the driver.

mod command;

use std::path::Path;

use crate::agent::Agent;
use crate::answers::Others;
use crate::environment::{self, Variables};
use crate::epoch::Epoch;
use crate::error::StartError;
use crate::guard::Guard;
use crate::harness::{self, Harness, Invocation, Wanted};
use crate::help;
use crate::locate::locate;
use crate::marker;
use crate::refusal::{Refusal, RunOption};
use crate::running::{Begun, Running};
use crate::spawn::{Group, spawn};
use crate::spec::AgentInput;
use crate::transport::child::ChildTransport;
use command::{command, not_started, recorder};

impl Agent {
    /// Starts the agent.
    pub async fn start(mut self) -> Result<Running, StartError> {
        let (epoch, kind) = (Epoch::now(), self.kind);
        if self.is_dialogue() && matches!(self.input, AgentInput::Messages { .. }) {
            let why = "they cannot be combined with callbacks: the program that sends the messages also answers the questions";
            return Err(Refusal::new(RunOption::Messages, why).into());
        }
        let harness = harness::of(kind);
        let mut invocation = harness::invocation(kind, &wanted(&self))?;
        let environment = environment(&self, harness);
        if let Some(home) = environment::value(&environment, "HOME") {
            let rules = self.answers.permissions.take();
            self.answers.permissions = rules.map(|rules| rules.with_home(&home.to_string_lossy()));
        }
        let program = locate(kind, self.bin.as_deref(), environment::value(&environment, "PATH").as_deref())?;
        self.check_cwd()?;
        let flag = harness.tell_of_hooks.filter(|_| self.answers.permissions.is_some());
        let others = others(flag, &program, &environment, &mut invocation).await;
        let no_background_tasks = harness.no_background_tasks.and_then(|name| environment::value(&environment, name));
        let no_background_tasks = no_background_tasks.is_some_and(|value| value == "1");
        let mark = marker::random();
        let facts = (epoch, no_background_tasks);
        let recorder = match recorder(&self, &program, &invocation, &environment, facts) {
            Some(begun) => Some(begun.await.map_err(|_| StartError::System {
                agent: kind.name(),
                error: std::io::Error::other("the thread that begins the recording has ended"),
            })??),
            None => None,
        };

        let guard = self.guard.as_ref().and_then(|program| Guard::post(program, &mark));
        let child = match spawn(command(&self, &program, &invocation, &environment, &mark), Group::Own).await {
            Ok(child) => child,
            Err(error) => {
                // No incomplete recording is left behind.
                if let Some(recorder) = recorder {
                    recorder.discard();
                }
                return Err(not_started(kind, program, error));
            }
        };
        let begun = Begun { epoch, recorder, others, no_background_tasks, invocation };
        Ok(Running::over(ChildTransport::new(child, mark, guard), self, begun))
    }
}

impl Agent {
    /// Checks what can be known before a start: that the agent has these options, and that its program and folder are there. Nothing is
    /// started.
    pub fn check(&self) -> Result<(), StartError> {
        harness::invocation(self.kind, &wanted(self))?;
        let environment = environment(self, harness::of(self.kind));
        locate(self.kind, self.bin.as_deref(), environment::value(&environment, "PATH").as_deref())?;
        self.check_cwd()
    }

    /// Checks that its folder is there.
    pub fn check_cwd(&self) -> Result<(), StartError> {
        let found = self.cwd.as_ref().map_or(Ok(()), |cwd| std::fs::read_dir(cwd).map(drop));
        found.map_err(|error| StartError::Cwd { path: self.cwd.clone().unwrap_or_default(), error })
    }
}

/// Returns the requirements for the agent's command line.
fn wanted(agent: &Agent) -> Wanted<'_> {
    Wanted {
        options: &agent.options,
        messages: matches!(agent.input, AgentInput::Messages { .. }),
        dialogue: agent.is_dialogue(),
        rules: agent.answers.permissions.is_some(),
        asks: agent.answers.asks_permission(),
        servers: agent.answers.mcp_config(),
    }
}

/// Returns the agent's environment without its mark.
fn environment(agent: &Agent, harness: &Harness) -> Variables {
    let mut environment = environment::of(&agent.environment, harness::is_of_another);
    for (name, value) in harness.dialogue.iter().filter(|_| agent.is_dialogue()) {
        match value {
            Some(value) => drop(environment.insert(name.into(), value.into())),
            None => drop(environment.remove(std::ffi::OsStr::new(name))),
        }
    }
    // Without a dialogue the agent holds its result back until its tasks have ended, so only it can keep the limit. Its own default is ours.
    // A limit that was given counts more than an inherited variable, and less than one that was named for this agent.
    if let (Some(name), Some(limit), false) = (harness.waits_for_tasks, agent.limits.background, agent.is_dialogue()) {
        if !agent.environment.set.iter().any(|(given, _)| given == name) {
            environment.remove(std::ffi::OsStr::new(name));
        }
        // A time beyond the range of its timers never comes.
        let waits = i32::try_from(limit.as_millis()).map_or(0, |waits| waits.max(1));
        environment.entry(name.into()).or_insert_with(|| waits.to_string().into());
    }
    environment
}

/// With rules, adds the flag that makes the agent report hooks of others, if it has one.
async fn others(flag: Option<&'static str>, program: &Path, environment: &Variables, invocation: &mut Invocation) -> Others {
    let tells = match flag {
        Some(flag) if help::names(program, environment, flag).await => {
            invocation.args.push(flag.into());
            true
        }
        Some(_) | None => false,
    };
    Others::new(tells)
}
