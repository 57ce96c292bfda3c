//! One attempt: starts the agent, shows it, and checks its policy until it ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tapline_recording::attempt_folder;
use tapline_runner::{Agent, Conclusion, Running, StartError, StopReason, Update, report, report_not_started};
use tapline_session::policy::{PolicyChecker, Violation};
use tapline_session::text::with_causes;
use tapline_session::{Category, Clock, Collector, Fold, Outcome, Report, Run as RunFacts, Summary, Warning, What, took_ms};

use super::NOT_TAKEN;
use super::prepare::Plan;
use super::redaction::{Clean, Redaction};
use super::show::Show;
use super::signals::{NotBegun, Signals, over};
use crate::agents::{habits, how_to_get};
use crate::args::run::{Run, RunFormat};
use crate::commands::check::doubts_of;
use crate::commands::guard_program;
use crate::push::Asks;
use crate::{errors, exit, store};

/// How many broken rules of one line are listed.
const TOLD: usize = 5;
/// How often the status line changes.
const TICK: Duration = Duration::from_millis(250);

pub(super) struct Attempt<'a> {
    pub(super) args: &'a Run,
    pub(super) plan: &'a Plan,
    pub(super) signals: &'a Signals,
    pub(super) number: u64,
    pub(super) started: Instant,
    pub(super) started_at: Option<String>,
    pub(super) folder: Option<&'a Path>,
    pub(super) policy: Option<&'a mut PolicyChecker>,
    pub(super) redaction: &'a Redaction,
    /// Whom to ask for permissions.
    pub(super) asks: Option<Arc<Asks>>,
}

/// What was found while the agent worked.
struct Followed {
    clean: Option<Box<Clean>>,
    violations: Vec<Violation>,
    /// What is missing from the recording.
    lost: Vec<String>,
}

/// How an attempt ended.
pub(super) struct Ended {
    /// The report that is printed.
    pub(super) report: Report,
    /// The report that people see, if secrets are removed only for them.
    pub(super) told: Option<Report>,
    pub(super) summary: Option<Summary>,
    /// Whether the agent started.
    pub(super) started: bool,
    /// What to do, if it did not.
    pub(super) advice: Option<String>,
    pub(super) violations: Vec<Violation>,
    pub(super) code: u8,
    pub(super) recorded: Option<PathBuf>,
}

impl Ended {
    /// Notes that a signal came before the retry. The view has already shown the attempt.
    pub(super) fn interrupt(&mut self, code: Option<u8>) {
        for report in std::iter::once(&mut self.report).chain(&mut self.told) {
            report.verdict.fail(Category::Interrupted, "interrupted".to_owned());
            report.verdict.outcome = Outcome::Interrupted;
        }
        self.summary = None;
        self.code = code.unwrap_or(exit::INTERRUPTED);
    }
}

impl Attempt<'_> {
    pub(super) async fn run(mut self, resume: Option<String>, show: &mut Show, whole: &mut Fold) -> Result<Ended> {
        let mut folder = self.folder.map(|folder| attempt_folder(folder.to_owned(), self.number));
        let agent = self.agent(resume.clone(), folder.clone());
        let fold = agent.fold();
        if self.number == 1 {
            *whole = agent.fold();
        }
        let mut started = match self.start(agent).await {
            Ok(started) => started,
            Err(why) => return Ok(self.not_begun(why, "before the agent was started", show)),
        };
        if let (true, Err(StartError::Recording(error))) = (self.number > 1, &started) {
            // The first attempt could be recorded. A later problem with the disk does not end the run.
            show.note(&format!("WARNING: this attempt is not recorded: {}", errors::told(error)));
            folder = None;
            started = self.agent(resume, None).start().await;
        }
        match started {
            Ok(running) => Ok(self.follow(running, fold, show, whole, folder).await),
            Err(error @ (StartError::NotFound { .. } | StartError::NotExecutable { .. } | StartError::System { .. })) => {
                Ok(self.not_started(&error))
            }
            // This is not about the agent: bad usage.
            Err(error) => bail!(error),
        }
    }

    /// Starts the agent. If that takes long because the disk does not answer, neither clock nor signal waits for it.
    async fn start(&self, agent: Agent) -> Result<Result<Running, StartError>, NotBegun> {
        let given_up = async {
            let why = over(self.signals, self.args.ending.timeout.and_then(|limit| self.started.checked_add(limit))).await;
            // An agent that is just starting is stopped properly.
            tokio::time::sleep(self.args.ending.grace.max(NOT_TAKEN)).await;
            why
        };
        tokio::select! {
            biased;
            started = agent.start() => Ok(started),
            why = given_up => Err(why),
        }
    }

    fn not_started(&self, error: &StartError) -> Ended {
        let path = self.args.whose.bin.as_ref().filter(|bin| bin.components().count() > 1);
        Ended {
            advice: Some(how_to_get(self.plan.kind, error.exit_code(), path.map(|_| "--bin"))),
            code: error.exit_code(),
            ..self.never_ran(with_causes(error))
        }
    }

    /// The end of an attempt that started nothing.
    fn never_ran(&self, why: String) -> Ended {
        let run = RunFacts {
            started_at: self.started_at.clone(),
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).ok(),
            attempts: self.number,
            label: self.args.shown.label.as_deref().map(|label| self.redaction.told(label)),
            recording: None,
        };
        Ended {
            report: report_not_started(self.plan.kind, why, run),
            told: None,
            summary: None,
            started: false,
            advice: None,
            violations: Vec::new(),
            code: exit::USAGE,
            recorded: None,
        }
    }

    /// Returns the result of a run that ended before it began.
    pub(super) fn not_begun(&self, why: NotBegun, when: &str, show: &Show) -> Ended {
        let mut ended = self.never_ran(String::new());
        if why == NotBegun::Interrupted {
            ended.interrupt(self.signals.code());
            return ended;
        }
        let clock = show.clock(StopReason::Timeout).unwrap_or_default();
        ended.report.verdict.fail(Category::Timeout, "timeout".to_owned());
        let limit = self.args.ending.timeout.and_then(|limit| u64::try_from(limit.as_millis()).ok());
        ended.report.verdict.clock = Clock::of(StopReason::Timeout, limit);
        *ended.report.verdict.clock_words = Some(format!("{clock} {when}"));
        Ended { code: ended.report.verdict.exit_code(), ..ended }
    }

    fn agent(&self, resume: Option<String>, folder: Option<PathBuf>) -> Agent {
        let mut agent = self.plan.agent(self.args, resume);
        // The whole run has one limit.
        agent.limits.spent = self.started.elapsed();
        agent.record = folder.map(|folder| store::record_to(&self.args.kept, folder, self.args.shown.redact));
        agent.redactor = self.redaction.redactor.clone();
        agent.guard = guard_program();
        match &self.asks {
            Some(asks) => {
                // The page shows what the agent is told, too.
                agent.options.extra.extend(habits(self.plan.kind).repeats.iter().map(Into::into));
                asks.answer(agent, self.args.pushed.within())
            }
            None => agent,
        }
    }

    async fn follow(
        &mut self,
        running: Running,
        fold: Fold,
        show: &mut Show,
        whole: &mut Fold,
        recorded: Option<PathBuf>,
    ) -> Ended {
        let for_document = if self.plan.format == RunFormat::Json { &["turns", "structured"][..] } else { &[] };
        let paths = || self.args.shown.get.iter().map(String::as_str).chain(for_document.iter().copied());
        let prints_all = matches!(self.plan.format, RunFormat::Report | RunFormat::Steps);
        let wants_all = self.wants_summary() || prints_all && self.args.shown.get.is_empty();
        let collector = if wants_all { Collector::default() } else { Collector::for_paths(paths()) };
        let mut clean = self.redaction.clean(fold, collector);
        let mut running = match wants_all {
            // The report is made from the clean records.
            _ if self.redaction.printed => running.collect_only(""),
            true => running,
            false => running.collect_for(paths()),
        };
        self.signals.watch(running.stopper());
        if let Some(asks) = &self.asks {
            asks.reach(running.control());
        }
        let (mut violations, mut lost) = (Vec::new(), Vec::new());
        let mut tick = tokio::time::interval(TICK);
        loop {
            let update = tokio::select! {
                update = running.next_update() => update,
                violation = self.out_of_time(), if violations.is_empty() => {
                    show.note(&format!("policy violated: {}", self.told(&violation)));
                    running.stopper().violated(self.told(&violation));
                    violations.push(violation);
                    continue;
                }
                _ = tick.tick(), if show.is_live() => {
                    show.tick(self.started.elapsed());
                    continue;
                }
            };
            let Some(update) = update else { break };
            let elapsed = self.started.elapsed();
            match &update {
                Update::Record(seen) => {
                    let raw = std::slice::from_ref(&**seen);
                    let cleaned = clean.as_mut().map(|clean| clean.take(&seen.record));
                    let told = cleaned.as_deref().unwrap_or(raw);
                    show.all(if self.redaction.printed { told } else { raw }, told, elapsed);
                    if self.args.ending.retry > 0 {
                        whole.apply(&seen.record);
                    }
                    violations.extend(self.check(&seen.steps, &running, show));
                }
                Update::Sent(steps) => {
                    let cleaned = clean.as_mut().map(|clean| clean.sent(steps)).unwrap_or_default();
                    show.sent(if self.redaction.printed { &cleaned } else { steps }, elapsed);
                }
                Update::Stderr(line) => clean.iter_mut().for_each(|clean| clean.stderr(line)),
                Update::Lost(what) => lost.push(what.clone()),
                Update::Stopping(_) | Update::Left(_) | Update::Over(_) | Update::Settled(_) | Update::Trouble(_) => {}
            }
            show.update(&update);
            if !running.is_ready() {
                show.flush();
                tokio::select! {
                    biased;
                    () = show.ready() => {}
                    () = tired(running.stopper(), self.signals) => show.give_up(),
                }
            }
        }
        let rest = clean.as_mut().map(|clean| clean.rest()).unwrap_or_default();
        show.all(if self.redaction.printed { &rest } else { &[] }, &rest, self.started.elapsed());
        self.end(running, Followed { clean, violations, lost }, show, recorded).await
    }

    /// Handles the end of the agent, and returns the outcome of the run.
    async fn end(&mut self, running: Running, followed: Followed, show: &mut Show, recorded: Option<PathBuf>) -> Ended {
        let Followed { clean, mut violations, lost } = followed;
        let (conclusion, collector, run) = running.conclude().await;
        let silent = conclusion.summary.verdict.warnings.iter().any(|warning| warning.code == "no-result");
        // An agent that did not get that far has said why, and that is shown.
        let began = conclusion.summary.verdict.category != Some(Category::Startup);
        if silent && began && conclusion.ending.stopped.is_none() {
            show.note("the stream ended without a result");
        }
        let duration_ms = u64::try_from(self.started.elapsed().as_millis()).ok();
        let run = match self.number {
            1 => run,
            // These facts are for the whole run, not its last attempt.
            attempts => RunFacts { attempts, duration_ms, started_at: self.started_at.clone(), ..run },
        };
        // If no session has started, this was not reported yet.
        self.doubt(show);
        let mut code = exit_code(&conclusion, self.signals);
        let took = run.duration_ms.map(Duration::from_millis);
        let at_the_end = self.policy.as_deref_mut().map(|policy| {
            let mut found = policy.rejected(&conclusion.summary.rejected);
            found.extend(policy.conclude(!violations.is_empty() || !found.is_empty(), code == 0, took));
            found
        });
        for violation in at_the_end.into_iter().flatten() {
            show.note(&format!("policy violated: {}", self.told(&violation)));
            violations.push(violation);
        }
        if !violations.is_empty() {
            code = exit::VIOLATED;
        }
        let mut summary = conclusion.summary.clone();
        let clean = clean.map(|clean| clean.conclude(&conclusion, run.clone()));
        let (mut report, mut told_report) = match clean {
            Some((clean, report)) if self.redaction.printed => {
                summary = clean;
                (report, None)
            }
            clean => (report(collector, &conclusion, run), clean.map(|(_, report)| report)),
        };
        summary.duration_ms = took_ms(summary.duration_ms, &summary.verdict, &report.run);
        if let Some(clock) = conclusion.ending.stopped.and_then(|reason| show.clock(reason)) {
            let reports = std::iter::once(&mut report).chain(&mut told_report).map(|report| &mut report.verdict);
            for verdict in reports.chain([&mut summary.verdict]) {
                *verdict.clock_words = Some(clock.clone());
            }
        }
        if let Some(first) = violations.first() {
            // It was found too late to stop the run for it.
            let reports = told_report.as_mut().map(|report| &mut report.verdict);
            for verdict in [&mut report.verdict, &mut summary.verdict].into_iter().chain(reports) {
                verdict.fail(Category::Policy, format!("policy violated: {}", self.told(first)));
            }
        }
        for report in std::iter::once(&mut report).chain(&mut told_report) {
            report.verdict.warnings.extend(lost.iter().map(|message| Warning::new("recording-incomplete", message)));
        }
        Ended { report, told: told_report, summary: Some(summary), started: true, advice: None, violations, code, recorded }
    }

    fn wants_summary(&self) -> bool {
        self.args.shown.summary.is_some()
            || self.args.shown.report.is_some()
            || std::env::var_os("GITHUB_STEP_SUMMARY").is_some()
    }

    /// Reports once what is most likely a mistake in the policy.
    fn doubt(&mut self, show: &mut Show) {
        let doubts = self.policy.as_deref_mut().map(|policy| doubts_of(self.args.ending.policy.as_deref(), policy));
        doubts.into_iter().flatten().for_each(|doubt| show.note(&doubt));
    }

    /// Stops the run at the first broken rule.
    fn check(&mut self, steps: &[tapline_session::Step], running: &Running, show: &mut Show) -> Vec<Violation> {
        let Some(policy) = self.policy.as_deref_mut() else { return Vec::new() };
        let found: Vec<Violation> = steps.iter().flat_map(|step| policy.accept(step)).collect();
        if steps.iter().any(|step| matches!(step.what, What::Session(_))) {
            self.doubt(show);
        }
        for violation in found.iter().take(TOLD) {
            show.note(&format!("policy violated: {}", self.told(violation)));
        }
        if found.len() > TOLD {
            show.note(&format!("policy violated: … and {} more (`tapline check --policy` lists them)", found.len() - TOLD));
        }
        if let Some(first) = found.first() {
            running.stopper().violated(self.told(first));
        }
        found
    }

    /// Describes a broken rule. What the agent did may contain a secret.
    fn told(&self, violation: &Violation) -> String {
        let line = violation.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        self.redaction.told(&format!("{line}{}: {}", violation.rule, violation.message))
    }

    /// Waits for the policy's time limit. The time of the turns cannot exceed the run's.
    async fn out_of_time(&self) -> Violation {
        let seconds = self
            .policy
            .as_deref()
            .and_then(PolicyChecker::seconds)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let until = seconds.and_then(|limit| self.started.checked_add(limit));
        match until {
            Some(at) => {
                tokio::time::sleep_until(at.into()).await;
                match self.policy.as_deref().and_then(PolicyChecker::too_long) {
                    Some(violation) => violation,
                    None => std::future::pending().await,
                }
            }
            None => std::future::pending().await,
        }
    }
}

fn exit_code(conclusion: &Conclusion, signals: &Signals) -> u8 {
    let code = conclusion.summary.verdict.exit_code();
    let interrupted = matches!(code, exit::INTERRUPTED | exit::TERMINATED);
    match (conclusion.ending.stopped, signals.code()) {
        (Some(StopReason::Interrupted), _) if interrupted => exit::INTERRUPTED,
        (Some(StopReason::Terminated), _) if interrupted => exit::TERMINATED,
        (_, Some(asked)) if interrupted => asked,
        _ => code,
    }
}

/// Waits until a stopped run must end even if nobody reads its output; its recording is closed by then. A good run may
/// be read slowly, until somebody stops waiting.
async fn tired(stopper: tapline_runner::Stopper, signals: &Signals) {
    if matches!(stopper.ended().await, None | Some(StopReason::Linger)) {
        signals.came().await;
    }
    tokio::time::sleep(NOT_TAKEN).await;
}
