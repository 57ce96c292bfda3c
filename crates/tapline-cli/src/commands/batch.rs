//! `tapline batch`: runs the jobs of a file, shows how they come along, and says what they came to.

mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::Value;
use tapline_fleet::{
    Batch, BatchEnd, BatchError, BatchFolder, BatchNote, BatchOptions, EXAMPLE, Embedded, Engine, EngineError, Halt,
    JobFileError, JobResult, Mistake, Mistakes, Plan, PlannedStep, RepeatJobs, RunsOn, Workplace, counted, json, junit,
    markdown, median_costs, steps_left, worst_exit_code,
};
#[cfg(feature = "nats")]
use tapline_fleet::{Broker, Nats, NatsError};
use tapline_protocol::Agent;
use tapline_recording::Store;
use tapline_session::render::Style;
use tapline_session::text::{count_of, dollars, one_line, visible};
use tokio::signal::unix::SignalKind;
use tokio::sync::{mpsc, watch};

use super::guard_program;
use super::run::job_summary;
use crate::args::batch::{Batch as Args, JobDefaults, Told};
#[cfg(feature = "nats")]
use crate::args::engine::trusted;
use crate::args::run::span;
#[cfg(not(feature = "nats"))]
use crate::features::{Feature, missing};
use crate::output::OutputFile;
use crate::signals::Signals;
use crate::{agents, ci, config, errors, exit, output, push, secrets, store};
use show::Show;
#[cfg(feature = "nats")]
pub(super) use show::time_of;

/// How many mistakes of a job file are listed.
const LISTED: usize = 100;
/// How many failures, and how many successes that are not clean, are annotated in a CI log.
const ANNOTATED: usize = 10;

pub(crate) fn run(args: &Args) -> Result<u8> {
    batch(args).or_else(|error| {
        let NotInstalled { code, words } = error.downcast()?;
        output::fail(&words);
        Ok(code)
    })
}

/// The agents of the jobs are not there: nothing was started, as with `tapline run`.
#[derive(Debug)]
struct NotInstalled {
    code: u8,
    words: String,
}

impl std::fmt::Display for NotInstalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for NotInstalled {}

fn batch(args: &Args) -> Result<u8> {
    if args.example {
        let mut out = output::stdout();
        out.write_all(EXAMPLE.as_bytes())?;
        out.flush()?;
        return Ok(0);
    }
    let store = store::store()?;
    #[cfg_attr(not(feature = "nats"), expect(unused_mut, reason = "only a batch with an engine goes on with one"))]
    let mut broker = args.engine.broker()?;
    let on = if broker.is_some() { RunsOn::Workers } else { RunsOn::ThisMachine };
    let repeat = if args.retry_failed { RepeatJobs::Failed } else { RepeatJobs::Nothing };
    let (folder, plan) = match (&args.resume, &args.file) {
        (Some(id), _) if args.dry_run => return show_left(id, repeat, &store),
        (Some(id), _) => {
            let (folder, plan) = BatchFolder::open_for(&store, id, on, repeat).map_err(told)?;
            // It goes on with the engine that it began with, unless another is named.
            #[cfg(feature = "nats")]
            {
                let noted = Broker::noted(&folder);
                if let (Some(broker), Some(noted)) = (&mut broker, &noted) {
                    broker.trusted.clone_from(&noted.trusted);
                }
                broker = broker.or(noted);
            }
            #[cfg(not(feature = "nats"))]
            if folder.engine().is_some() {
                return Err(missing(&format!("batch {id} began with --engine"), Feature::Nats));
            }
            (Some(folder), plan)
        }
        (None, Some(file)) if args.dry_run => return dry_run(file, &args.defaults, on, &store),
        (None, Some(file)) => (None, read(file, &args.defaults, on)?),
        (None, None) => bail!("no job file"),
    };
    #[cfg(feature = "nats")]
    if let Some(broker) = broker.as_mut().filter(|_| !args.trust.is_empty()) {
        broker.trusted = trusted(&args.trust)?;
    }
    let files = EndFiles::open(&args.told)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    #[cfg(feature = "nats")]
    if let Some(broker) = &broker {
        // Before anything is made for the batch.
        drop(runtime.block_on(broker.connect("tapline batch"))?);
    }
    let folder = match folder {
        Some(folder) => folder,
        None => BatchFolder::create(&store, &plan).map_err(told)?,
    };
    let id = folder.id().to_owned();
    // A batch that began with it goes on with it.
    let redact = args.told.redact || folder.is_redacted();
    let mut options = BatchOptions::default();
    (options.budget_usd, options.until_failures) = (folder.keep_budget(args.budget_usd).map_err(told)?, args.until_failures);
    (options.jobs, options.by_workers) = (args.jobs.unwrap_or(options.jobs), args.jobs.is_none() && broker.is_some());
    (options.doing, options.repeat) = (Show::is_live(&args.told), repeat);
    let run = Run { args, id: &id, redact, is_remote: broker.is_some(), options, runtime: &runtime };
    let ended = match broker {
        #[cfg(feature = "nats")]
        Some(broker) => run.run_on_workers(&broker, folder, plan, store),
        #[cfg(not(feature = "nats"))]
        Some(broker) => match broker {},
        None => {
            let (engine, notes) = Embedded::open(folder, place(&store, redact)?).map_err(told)?;
            run.run(engine, plan, notes, store)
        }
    };
    runtime.shutdown_background();
    let signal = SIGNAL.get().copied();
    let end = ended?.with_context(|| format!("the batch stopped; `tapline batch --resume {id}` goes on with it"))?;
    conclude(args, redact, &id, &end, files, signal)
}

/// What this machine adds to the jobs that it runs.
fn place(store: &Store, redact: bool) -> Result<Workplace> {
    let mut place = Workplace::new(store.clone());
    place.guard = guard_program();
    place.redact = redact;
    place.redactor = if redact { secrets::redactor()? } else { config::redactor()?.0 };
    place.environment = push::kept_from_agents();
    Ok(place)
}

/// A batch that is about to run.
struct Run<'a> {
    args: &'a Args,
    id: &'a str,
    redact: bool,
    /// Whether other machines run the jobs.
    is_remote: bool,
    options: BatchOptions,
    runtime: &'a tokio::runtime::Runtime,
}

impl Run<'_> {
    /// Runs it, and shows what happens.
    fn run<E: Engine>(
        self,
        engine: E,
        plan: Plan,
        notes: Vec<BatchNote>,
        store: Store,
    ) -> Result<Result<BatchEnd, EngineError>> {
        let (events, happened) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(0);
        let rows = self.args.told.jsonl.then(|| plan.rows());
        let batch = Batch::new(engine, plan, notes, store, self.options, events, stopped);
        let show = Show::new(&self.args.told, self.redact, self.id, batch.counts(), self.is_remote, rows);
        self.runtime.block_on(async {
            let signal = tokio::spawn(listen(Signals::listen()?, stop));
            let showing = show.follow(happened);
            let end = batch.run().await;
            showing.over().await;
            signal.abort();
            anyhow::Ok(end)
        })
    }
}

/// How long a worker may be silent, if nothing is said.
#[cfg(feature = "nats")]
const WORKER_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(feature = "nats")]
impl Run<'_> {
    /// Has workers on other machines run it.
    fn run_on_workers(
        self,
        broker: &Broker,
        folder: BatchFolder,
        plan: Plan,
        store: Store,
    ) -> Result<Result<BatchEnd, EngineError>> {
        broker.note(&folder).map_err(told)?;
        let opened = self.runtime.block_on(Nats::open(folder, broker, store.clone(), self.redact));
        let (engine, notes) = opened.map_err(|error| match error {
            NatsError::Folder(error) => told(error),
            error => error.into(),
        })?;
        let wanted = self.args.worker_timeout;
        let engine = engine.with_patience(wanted.unwrap_or(WORKER_TIMEOUT)).map_err(told)?;
        if wanted.is_some_and(|wanted| wanted != engine.patience()) {
            let stays = span(engine.patience());
            output::tell(&format!("--worker-timeout stays {stays}, as the batch began: its jobs are on queues with that time"));
        }
        self.run(engine, plan, notes, store)
    }
}

/// The first signal that came.
static SIGNAL: std::sync::OnceLock<u8> = std::sync::OnceLock::new();

/// Counts signals: the first stops the batch properly, the second kills what still runs.
async fn listen(mut signals: Signals, stop: watch::Sender<u32>) {
    loop {
        let number = signals.next().await;
        let code = if number == SignalKind::interrupt().as_raw_value() { exit::INTERRUPTED } else { exit::TERMINATED };
        let _ = SIGNAL.set(code);
        let now = number == SignalKind::quit().as_raw_value();
        stop.send_modify(|count| *count += if now { 2 } else { 1 });
    }
}

/// Says what is wrong with a batch.
fn told(error: BatchError) -> anyhow::Error {
    match error {
        BatchError::Plan(mistakes) => {
            let words = "the plan of the batch does not hold any more, so nothing was started";
            nothing_started(&mistakes, words, |agent, Mistake { exit_code, names_program, .. }| {
                agents::how_to_get_again(agent, *exit_code, *names_program)
            })
        }
        error => error.into(),
    }
}

/// Says what to do about an agent that is missing.
type Advice = fn(Agent, &Mistake) -> String;

/// The advice for a new batch: as for `tapline run`.
fn advice(agent: Agent, mistake: &Mistake) -> String {
    agents::how_to_get(agent, mistake.exit_code, mistake.names_program.then_some("`bin` or --bin"))
}

/// Lists mistakes, and says that nothing was started because of them.
fn nothing_started(mistakes: &Mistakes, words: &str, advice: Advice) -> anyhow::Error {
    match list(mistakes, advice) {
        Some(code) => NotInstalled { code, words: "nothing was started".to_owned() }.into(),
        None => anyhow!("{words}"),
    }
}

/// Lists mistakes, one per line. Returns the exit code if nothing is wrong but that programs of agents are missing.
fn list(Mistakes(mistakes): &Mistakes, advice: Advice) -> Option<u8> {
    let (missing, wrong): (Vec<&Mistake>, Vec<&Mistake>) = mistakes.iter().partition(|mistake| mistake.agent.is_some());
    for mistake in wrong.iter().take(LISTED) {
        output::tell(&one_line(&mistake.to_string()));
    }
    if wrong.len() > LISTED {
        output::tell(&format!("… and {} more", wrong.len() - LISTED));
    }
    // A program is named once, however many jobs need it.
    let mut programs: BTreeMap<&str, Vec<&Mistake>> = BTreeMap::new();
    for mistake in &missing {
        programs.entry(&mistake.why).or_default().push(mistake);
    }
    for (why, needed) in programs {
        let jobs = count_of(needed.len(), "job");
        output::tell(&one_line(&format!("{why} ({jobs}; the first is {})", needed[0].place)));
        if let Some(agent) = needed[0].agent {
            output::tell(&advice(agent, needed[0]));
        }
    }
    missing.iter().map(|mistake| mistake.exit_code).max().filter(|_| wrong.is_empty())
}

fn read(file: &Path, defaults: &JobDefaults, on: RunsOn) -> Result<Plan> {
    Plan::read_for(file, &values(defaults)?, on).map_err(|error| match error {
        JobFileError::Wrong(mistakes) => {
            let count = count_of(mistakes.0.iter().filter(|mistake| mistake.agent.is_none()).count(), "mistake");
            let file = file.display();
            nothing_started(
                &mistakes,
                &format!("{file}: {count}, so nothing was started (`tapline help fleet` describes the file)"),
                advice,
            )
        }
        error => unread(error),
    })
}

/// Says why a job file is not read.
fn unread(error: JobFileError) -> anyhow::Error {
    match error {
        JobFileError::Read { path, error } => {
            let name = output::quoted(&path.display().to_string());
            errors::unreadable(error, "job file", &path, &format!("`tapline batch --example > {name}` writes an example"))
        }
        error => error.into(),
    }
}

/// The flags, as values of jobs.
fn values(defaults: &JobDefaults) -> Result<BTreeMap<String, Value>> {
    // Paths on the command line are meant from here, not from the folder of the file. Braces in them are no places to fill in.
    let here = |path: &PathBuf| -> Result<Value> {
        let path = std::path::absolute(path).with_context(|| format!("cannot use {}", path.display()))?;
        Ok(Value::from(path.display().to_string().replace('{', "{{").replace('}', "}}")))
    };
    let bin = |path: &PathBuf| if path.components().count() > 1 { here(path) } else { Ok(path.display().to_string().into()) };
    let text = |text: &Option<String>| text.clone().map(Value::from);
    let values = [
        ("prompt", text(&defaults.prompt)),
        ("agent", defaults.agent.map(|agent| agent.name().into())),
        ("bin", defaults.bin.as_ref().map(bin).transpose()?),
        ("model", text(&defaults.model)),
        ("account", text(&defaults.account)),
        ("folder", defaults.cwd.as_ref().map(here).transpose()?),
        ("timeout", defaults.timeout.map(|time| span(time).into())),
        ("retry", defaults.retry.map(Value::from)),
        ("fail_on", (!defaults.fail_on.is_empty()).then(|| defaults.fail_on.clone().into())),
        ("require_clean", defaults.require_clean.then_some(true.into())),
        ("policy", defaults.policy.as_ref().map(here).transpose()?),
        ("permissions", defaults.permissions.as_ref().map(here).transpose()?),
    ];
    Ok(values.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
}

/// Shows the plan and what it will probably cost, also where an agent or a folder is missing on this machine. Without an agent the plan
/// is as good as any.
fn dry_run(file: &Path, defaults: &JobDefaults, on: RunsOn, store: &Store) -> Result<u8> {
    let missing = match Plan::read_for(file, &values(defaults)?, on) {
        Ok(plan) => return show_plan(&plan.steps(), &count_of(plan.len(), "job"), store).map(|()| 0),
        Err(JobFileError::Wrong(mistakes)) => mistakes,
        Err(error) => return Err(unread(error)),
    };
    // If the file itself is wrong, this says so.
    let plan = read(file, defaults, RunsOn::Nowhere)?;
    show_plan(&plan.steps(), &count_of(plan.len(), "job"), store)?;
    let count = count_of(missing.0.iter().filter(|mistake| mistake.agent.is_none()).count(), "mistake");
    match list(&missing, advice) {
        Some(_) => Ok(0),
        None => bail!("{count} on this machine, so nothing would be started here"),
    }
}

/// Shows what is left of an earlier batch.
fn show_left(id: &str, repeat: RepeatJobs, store: &Store) -> Result<u8> {
    let (folder, plan) = BatchFolder::open_for(store, id, RunsOn::Nowhere, repeat).map_err(told)?;
    let mut notes = folder.notes().map_err(told)?;
    notes.extend(repeat.note(&notes));
    let steps = steps_left(plan, notes);
    if steps.is_empty() {
        let mut out = output::stdout();
        writeln!(out, "nothing is left to run of batch {}: all its jobs have ended", folder.id())?;
        out.flush()?;
        return Ok(0);
    }
    let jobs: usize = steps.iter().map(|step| step.jobs).sum();
    show_plan(&steps, &format!("{} left of batch {}", count_of(jobs, "job"), folder.id()), store)?;
    Ok(0)
}

/// Shows steps, and what they will probably cost.
fn show_plan(steps: &[PlannedStep], all: &str, store: &Store) -> Result<()> {
    let labels: Vec<String> = steps.iter().map(|step| step.label.clone()).collect();
    let costs = median_costs(store, &labels);
    let mut out = output::stdout();
    let mut total = Some(0.0);
    for step in steps {
        let many = match &step.for_each {
            Some(list) => format!("one job for each of {list}"),
            None => count_of(step.jobs, "job"),
        };
        let needs = if step.needs.is_empty() { String::new() } else { format!(" · needs {}", step.needs.join(", ")) };
        #[expect(clippy::cast_precision_loss, reason = "nobody has that many jobs")]
        let cost = costs.get(&step.label).map(|cost| cost * step.jobs as f64).filter(|_| step.for_each.is_none());
        let each = costs.get(&step.label).map(|cost| format!(" ({} each)", dollars(*cost))).unwrap_or_default();
        let told = cost.map_or("unknown".to_owned(), |cost| format!("about {}", dollars(cost)));
        total = total.zip(cost).map(|(total, cost)| total + cost);
        writeln!(out, "{}", visible(&format!("{}: {many} · {}{needs} · cost: {told}{each}", step.name, step.agent)))?;
    }
    let total = total.map_or("unknown".to_owned(), |total| format!("about {}", dollars(total)));
    writeln!(out, "{all} · cost: {total} (the median of earlier runs with the same label)")?;
    out.flush()?;
    Ok(())
}

/// The files that are written when the batch has ended. What is wrong with one is found before anything is paid for.
struct EndFiles {
    junit: Option<OutputFile>,
    summary: Option<OutputFile>,
}

impl EndFiles {
    fn open(told: &Told) -> Result<Self> {
        let open = |flag: &'static str, path: &Option<PathBuf>| path.as_deref().map(OutputFile::open).transpose().context(flag);
        Ok(Self { junit: open("--junit", &told.junit)?, summary: open("--summary", &told.summary)? })
    }
}

/// Says what the batch came to, and returns the exit code.
fn conclude(args: &Args, redact: bool, id: &str, end: &BatchEnd, files: EndFiles, signal: Option<u8>) -> Result<u8> {
    let public = redact || ci::is_log();
    let clean = |text: String| if public { ci::redactor().text(&text).into_owned() } else { text };
    let mut code = worst_exit_code(&end.results);
    if !end.is_complete() {
        code = match signal.filter(|_| end.stopped) {
            Some(signal) => signal,
            None if code == 0 => exit::INCOMPLETE,
            None => code,
        };
    }
    for (file, text) in [(files.junit, junit(id, end)), (files.summary, markdown(id, end))] {
        if let Some(mut file) = file {
            file.write_all(clean(text).as_bytes())?;
            file.keep()?;
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a thread")?;
    if let Err(error) = runtime.block_on(job_summary(clean(markdown(id, end)), Duration::from_secs(2))) {
        output::tell(&format!("{error:#}"));
    }
    for failed in end.results.iter().filter(|result| result.is_failure()).take(ANNOTATED) {
        ci::annotate(&format!("{}: {}", failed.job, failed.error.as_deref().unwrap_or(failed.outcome.word())));
    }
    for (result, doubt) in end.results.iter().filter_map(|result| Some((result, result.doubt.as_ref()?))).take(ANNOTATED) {
        ci::annotate_as(ci::Level::Warning, &format!("{}: {doubt}", result.glance(Style::plain())));
    }
    if args.told.json {
        output::json(&clean(json(id, end, code)))?;
    } else if args.told.jsonl {
        output::tell(&counted(end));
    } else {
        let mut out = output::stdout();
        writeln!(out, "{}", counted(end))?;
        out.flush()?;
    }
    let why = match end.halt {
        Some(Halt::Budget) => "the budget is used up; ",
        Some(Halt::Failures) => "there were too many failures; ",
        _ => "",
    };
    if !end.is_complete() {
        let more = if end.halt == Some(Halt::Budget) { " --budget-usd USD" } else { "" };
        output::tell(&format!("{why}to go on: tapline batch --resume {id}{more}"));
    } else if end.results.iter().any(JobResult::is_failure) {
        output::tell(&format!("to run what failed again: tapline batch --resume {id} --retry-failed"));
    }
    if !args.told.is_for_programs() {
        tell_places(id, end);
    }
    Ok(code)
}

/// Says where the answers and the recordings are.
fn tell_places(id: &str, end: &BatchEnd) {
    if end.is_complete() && end.results.iter().any(|result| result.answer.is_some()) {
        output::tell(&format!("for the answers: tapline batch --resume {id} --json"));
    }
    // What a worker recorded is there.
    let here = end.results.iter().filter(|result| result.worker.is_none()).filter_map(|result| result.recording.as_ref());
    let folders: BTreeSet<&Path> = here.filter_map(|recording| Path::new(recording).parent()).collect();
    for folder in folders {
        output::tell(&store::recorded_in(folder));
    }
}
