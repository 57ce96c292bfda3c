//! Checks each job of a plan before anything starts: its values, and what it needs from the machine that runs it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tapline_runner::{RunOption, StartError};
use tapline_session::policy::{meant_mode, unknown_mode};
use tapline_session::text::with_causes;

use super::{Entry, Plan, RunsOn};
use crate::fields::{Fault, Reading, has_places};
use crate::job::{Job, WorktreeRule};
use crate::mistake::{Mistake, Place};
use crate::worktree;

/// What the jobs of a plan are checked for.
pub(super) struct Checks {
    on: RunsOn,
    /// What keeps a worktree from being made of a folder and a commit, if anything does.
    repositories: BTreeMap<(PathBuf, String), Option<String>>,
}

impl Checks {
    pub(super) fn on(on: RunsOn) -> Self {
        Self { on, repositories: BTreeMap::new() }
    }

    /// Says what keeps a job from being started. If its values are not all right, only what does not depend on them is checked.
    fn start(&mut self, job: &Job, reading: &Reading<'_>, sound: bool) -> Vec<(Fault, Option<StartError>)> {
        let (agent, is_here) = (job.agent(), self.on == RunsOn::ThisMachine);
        let of_machine = |error: &StartError| {
            matches!(error, StartError::NotFound { .. } | StartError::NotExecutable { .. } | StartError::Cwd { .. })
        };
        let error = agent.check().err().filter(|error| is_here || !of_machine(error));
        let refuses_mode = matches!(&error, Some(StartError::Refused(refusal)) if refusal.option == RunOption::PermissionMode);
        let is_told = matches!(&error, Some(StartError::Cwd { .. })) && sound;
        // A folder that is not known yet cannot be checked, and the default is there.
        let folder = agent.check_cwd().err().filter(|_| is_here && !is_told);
        let mut found = Vec::new();
        for error in error.filter(|_| sound).into_iter().chain(folder) {
            let keys = match &error {
                StartError::NotFound { .. } | StartError::NotExecutable { .. } => vec!["bin".to_owned()],
                StartError::Cwd { .. } => vec!["folder".to_owned()],
                StartError::Refused(refusal) if reading.fields.contains_key(refusal.option.name()) => {
                    vec!["agent".to_owned(), refusal.option.name().to_owned()]
                }
                _ => Vec::new(),
            };
            found.push((Fault { keys, why: with_causes(&error) }, Some(error)));
        }
        // A name that resembles no known mode may be a mode of a newer version.
        let mode = job.options.permission_mode.as_deref().filter(|mode| !refuses_mode && meant_mode(mode).is_some());
        let mode = mode.and_then(unknown_mode);
        found.extend(mode.map(|why| (Fault::of_key("permission_mode", why), None)));
        let is_known = !["folder", "base"].iter().any(|key| reading.later.contains(*key));
        if let Some(rule) = job.worktree.as_ref().filter(|_| sound && found.is_empty() && is_known && is_here)
            && let Some(why) = self.repository(job, rule)
        {
            let keys = ["worktree", "folder", "base"].map(str::to_owned).to_vec();
            found.push((Fault { keys, why }, None));
        }
        found
    }

    fn repository(&mut self, job: &Job, rule: &WorktreeRule) -> Option<String> {
        let asked = (job.folder.clone(), rule.base.clone());
        let looked = self.repositories.entry(asked);
        looked.or_insert_with(|| worktree::check(&job.folder, &rule.base).err().map(|error| with_causes(&error))).clone()
    }
}

impl Entry {
    /// Where a mistake in the values of these keys stands: where the values do, or in the row that fills them in.
    pub(super) fn place_of<'p>(&'p self, row: &'p Place, keys: &[String]) -> &'p Place {
        let values = || keys.iter().filter_map(|key| Some((key, self.fields.get(key)?)));
        if keys.is_empty() || values().any(|(_, value)| has_places(value)) {
            return row;
        }
        values().map(|(key, _)| self.homes.get(key).unwrap_or(&self.place)).max().unwrap_or(&self.place)
    }
}

impl Plan {
    /// Reads a job as far as it is known, and checks that it could be started.
    pub(super) fn check_job(&self, at: usize, checks: &mut Checks) -> Vec<Mistake> {
        let (node, entry) = (&self.nodes[at], self.entry(&self.nodes[at]));
        let look = |name: &str| self.look(node, name, None, None);
        let mut reading = Reading::new(&entry.fields, &look, &self.source.base);
        if let Some(list) = &node.for_each {
            match node.referred(list) {
                Some((_, Ok(_))) => {}
                Some((_, Err(why))) => reading.wrong("for_each", why),
                None => reading.wrong(
                    "for_each",
                    format!("`{list}` is not a part of a job in `needs`: write it like plan.structured.files"),
                ),
            }
        }
        let before = reading.faults.len();
        let job = reading.job(node.name.clone(), node.step.clone());
        let sound = reading.faults.len() == before;
        let mistake = |fault: Fault| Mistake::new(entry.place_of(&node.place, &fault.keys), fault.why);
        let started = checks.start(&job, &reading, sound);
        let mut mistakes: Vec<Mistake> = reading.faults.into_iter().map(mistake).collect();
        for (fault, error) in started {
            let (agent, exit_code) = match &error {
                Some(error @ (StartError::NotFound { .. } | StartError::NotExecutable { .. })) => {
                    (Some(job.agent), error.exit_code())
                }
                _ => (None, tapline_session::exit::USAGE),
            };
            // Each job that needs a program is counted.
            let place = if agent.is_some() { &node.place } else { entry.place_of(&node.place, &fault.keys) };
            let names_program = agent.is_some() && job.bin.as_ref().is_some_and(|bin| bin.components().count() > 1);
            mistakes.push(Mistake { agent, names_program, exit_code, ..Mistake::new(place, fault.why) });
        }
        #[cfg(feature = "nats")]
        if sound
            && checks.on == RunsOn::Workers
            && let Err(why) = crate::carried::Carried::pack(&job)
        {
            mistakes.push(mistake(Fault::of_job(why)));
        }
        mistakes
    }
}
