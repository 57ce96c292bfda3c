//! Shows a batch: on a terminal a table of what runs, below the lines of what has ended; elsewhere a line for each change. A thread of its
//! own writes it, so nobody waits for a slow reader.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tapline_fleet::{AccountLimit, BatchNews, EngineNews, JobResult, WaitingJobs, json_line};
use tapline_session::render::{Style, clock};
use tapline_session::text::{count_of, dollars, fit, one_line, visible};
use tapline_session::{rfc3339, short_duration};
use tokio::sync::{mpsc, oneshot};

use crate::args::batch::Told;
use crate::ci::{self, Filtered, Kind};
use crate::output;

/// How often the table changes.
const TICK: Duration = Duration::from_millis(250);
/// How long unread output is waited for.
const NOT_TAKEN: Duration = Duration::from_secs(2);
/// How long jobs that no worker takes wait before people are told: the worker may be there, and not known yet.
const UNMET: Duration = Duration::from_secs(3);
/// How many steps that others wait for are named.
const NAMED: usize = 3;
/// How many columns the name of a job takes.
const NAME: usize = 28;

/// The columns of the rows that jobs were made of, by the names of the jobs.
type Rows = BTreeMap<String, BTreeMap<String, String>>;

/// Shows a batch.
pub(super) struct Show {
    live: bool,
    style: Style,
    redact: bool,
    /// The columns of each job's row, if each result is a line of JSON.
    rows: Option<Rows>,
    out: Box<dyn Write + Send>,
    running: BTreeMap<String, Running>,
    /// The order in which they began.
    began: u64,
    jobs: usize,
    done: usize,
    failed: usize,
    spent: f64,
    waiting: WaitingJobs,
    /// What no worker does, and how many jobs wait for one that does.
    unmet: BTreeMap<String, Unmet>,
    /// Whether other machines run the jobs: then a job that begins here is only on the queue.
    is_remote: bool,
    /// How many lines of the table are on the screen.
    drawn: usize,
    /// Nobody reads it any more.
    closed: bool,
}

/// Jobs that no worker takes.
struct Unmet {
    jobs: usize,
    since: Instant,
    told: bool,
}

struct Running {
    place: u64,
    attempt: u64,
    since: Instant,
    doing: String,
}

/// The thread that writes.
pub(super) struct Showing {
    over: oneshot::Receiver<()>,
}

impl Showing {
    /// Waits until all is written, unless nobody reads it.
    pub(super) async fn over(self) {
        let _ = tokio::time::timeout(NOT_TAKEN, self.over).await;
    }
}

impl Show {
    /// Whether a table shows what runs.
    pub(super) fn is_live(told: &Told) -> bool {
        !told.is_for_programs() && output::is_capable() && !ci::is_log()
    }

    pub(super) fn new(
        told: &Told,
        redact: bool,
        id: &str,
        (jobs, done): (usize, usize),
        is_remote: bool,
        rows: Option<Rows>,
    ) -> Self {
        let live = Self::is_live(told);
        let out: Box<dyn Write + Send> = if told.is_for_programs() {
            Box::new(Filtered::new(io::stderr(), Kind::Text))
        } else {
            Box::new(Filtered::new(io::stdout(), Kind::Text))
        };
        let style = if told.is_for_programs() { Style::plain() } else { told.look.style() };
        let mut show = Self {
            live,
            is_remote,
            style,
            redact: redact || ci::is_log(),
            rows,
            out,
            running: BTreeMap::new(),
            began: 0,
            jobs,
            done,
            failed: 0,
            spent: 0.0,
            waiting: WaitingJobs::default(),
            unmet: BTreeMap::new(),
            drawn: 0,
            closed: false,
        };
        let before = if done > 0 { format!(", {done} of them ended before") } else { String::new() };
        show.line(&format!("batch {id}: {}{before}", count_of(jobs, "job")));
        show
    }

    /// Shows what happens, until nothing more can.
    pub(super) fn follow(self, mut happened: mpsc::UnboundedReceiver<BatchNews>) -> Showing {
        let (send, events) = channel();
        tokio::spawn(async move {
            while let Some(event) = happened.recv().await {
                if send.send(event).is_err() {
                    break;
                }
            }
        });
        let (ended, over) = oneshot::channel();
        // If no thread can be started, nothing is shown, and the batch goes on.
        let _ = std::thread::Builder::new().name("show".to_owned()).spawn(move || {
            self.run(&events);
            let _ = ended.send(());
        });
        Showing { over }
    }

    fn run(mut self, events: &Receiver<BatchNews>) {
        loop {
            self.tell_unmet();
            match events.recv_timeout(TICK) {
                Ok(event) => {
                    self.event(event);
                    // One drawing for all that happened.
                    while let Ok(event) = events.try_recv() {
                        self.event(event);
                    }
                    self.draw();
                }
                Err(RecvTimeoutError::Timeout) => self.draw(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.erase();
    }

    fn event(&mut self, event: BatchNews) {
        let Style { dim, yellow, reset, .. } = self.style;
        match event {
            BatchNews::Started { job, attempt } => {
                self.began += 1;
                let again = if attempt > 1 { format!(" (run {attempt})") } else { String::new() };
                if !self.live {
                    let word = if self.is_remote { "queued" } else { "started" };
                    self.line(&format!("{dim}▸{reset} {} {word}{again}", plain(&job)));
                }
                let running = Running { place: self.began, attempt, since: Instant::now(), doing: String::new() };
                self.running.insert(job, running);
            }
            BatchNews::Doing { job, what } => {
                if let Some(running) = self.running.get_mut(&job) {
                    running.doing = what;
                }
            }
            BatchNews::Again(again) => {
                self.running.remove(&again.job);
                let why = again.error.as_deref().map(|why| format!(": {}", plain(why))).unwrap_or_default();
                let at = if again.at <= time_now() { "at once".to_owned() } else { format!("at {}", time_of(again.at)) };
                self.line(&format!("{yellow}↻{reset} {} failed, tried again {at}{why}", plain(&again.job)));
            }
            BatchNews::CutOff { job } => {
                self.running.remove(&job);
                self.line(&format!("{yellow}!{reset} {} stopped; it goes on when the batch is resumed", plain(&job)));
            }
            BatchNews::Ended(result) => {
                self.running.remove(&result.job);
                self.done += 1;
                self.failed += usize::from(result.is_failure());
                self.spent += result.cost_usd.unwrap_or_default();
                let line = self.told(&result);
                self.line(&line);
                if let Some(rows) = &self.rows {
                    let line = json_line(&result, rows.get(&result.job));
                    let line = if self.redact { ci::redactor().text(&line).into_owned() } else { line };
                    // Nobody reads it any more: the batch goes on.
                    let _ = output::json(&line);
                }
            }
            BatchNews::Limit(AccountLimit { account, until }) => {
                let line =
                    format!("{yellow}!{reset} {}: limit reached, no further run before {}", plain(&account), time_of(until));
                self.line(&line);
            }
            BatchNews::Waiting(waiting) => self.waiting = waiting,
            BatchNews::Engine(news) => self.engine(news),
        }
    }

    fn engine(&mut self, news: EngineNews) {
        let Style { dim, yellow, reset, .. } = self.style;
        match news {
            EngineNews::Workers { workers: 0, .. } => {
                self.line(&format!(
                    "{yellow}!{reset} no worker that takes these jobs is there; they wait for one (`tapline worker` starts one)"
                ));
            }
            EngineNews::Workers { workers, places } => {
                let (workers, places) = (count_of(workers, "worker"), count_of(places, "job"));
                self.line(&format!("{dim}·{reset} {workers}, for {places} at once"));
            }
            EngineNews::NoWorker { missing, jobs } => {
                let unmet = self.unmet.entry(missing).or_insert_with(|| Unmet { jobs, since: Instant::now(), told: false });
                unmet.jobs = jobs;
            }
            EngineNews::Gone { worker, job, is_same: true, attempt, .. } => {
                self.line(&format!(
                    "{yellow}!{reset} worker {} died and was started again: {} goes on there (run {attempt})",
                    plain(&worker),
                    plain(&job)
                ));
            }
            EngineNews::Gone { worker, job, by, is_same: false, attempt } => {
                self.line(&format!(
                    "{yellow}!{reset} worker {} is gone: {} is tried again on worker {} (run {attempt})",
                    plain(&worker),
                    plain(&job),
                    plain(&by)
                ));
            }
            EngineNews::Trouble(what) => self.line(&format!("{yellow}!{reset} {}", plain(&what))),
        }
    }

    /// Says once what no worker does, and once that one has come.
    fn tell_unmet(&mut self) {
        let Style { dim, yellow, reset, .. } = self.style;
        let mut lines = Vec::new();
        self.unmet.retain(|missing, unmet| {
            if unmet.jobs == 0 && unmet.told {
                lines.push(format!("{dim}·{reset} a worker that {} is there now", plain(missing)));
            } else if unmet.jobs > 0 && !unmet.told && unmet.since.elapsed() >= UNMET {
                unmet.told = true;
                lines.push(format!("{yellow}!{reset} {}", no_worker(missing, unmet.jobs)));
            }
            unmet.jobs > 0
        });
        for line in lines {
            self.line(&line);
        }
    }

    /// A result in one line.
    fn told(&self, result: &JobResult) -> String {
        let Style { dim, reset, .. } = self.style;
        let mut line = result.glance(self.style);
        let kept = result.branch.iter().map(|branch| format!("branch {branch}"));
        let kept = kept.chain(result.patch.iter().map(|patch| format!("patch {patch}")));
        let runs = (result.attempts > 1).then(|| format!("{} runs", result.attempts));
        let took = result.duration_ms.map(short_duration);
        let worker = result.worker.iter().map(|worker| format!("worker {worker}"));
        let parts = result.cost().into_iter().chain(took).chain(runs).chain(worker).chain(kept);
        for part in parts {
            let _ = write!(line, "{dim} · {}{reset}", plain(&part));
        }
        if let Some(why) = result.why() {
            let _ = write!(line, ": {}", plain(why));
        }
        // Where work is that nothing else has.
        for told in result.warnings.iter().filter(|told| told.starts_with("worktree: ") || told.starts_with("patch: ")) {
            let _ = write!(line, ": {}", plain(told));
        }
        line
    }

    /// Writes a line above the table.
    fn line(&mut self, text: &str) {
        self.erase();
        let text = if self.redact { ci::redactor().text(text).into_owned() } else { text.to_owned() };
        self.write(&format!("{text}\n"));
    }

    fn erase(&mut self) {
        if self.drawn > 0 {
            let drawn = std::mem::take(&mut self.drawn);
            // The terminal may have written `^C` behind the table, so the cursor need not be in the first column.
            self.write(&format!("\r\x1b[{drawn}A\x1b[J"));
        }
    }

    /// Draws the table: what runs, the longest first, what waits, and where the batch stands.
    fn draw(&mut self) {
        if !self.live || self.closed {
            return;
        }
        let (columns, rows) = output::size();
        let room = rows.saturating_sub(5).max(1);
        let mut running: Vec<_> = self.running.iter().collect();
        running.sort_by_key(|(_, running)| running.place);
        let mut lines = Vec::new();
        for (job, running) in running.iter().take(room) {
            let again = if running.attempt > 1 { format!(" (run {})", running.attempt) } else { String::new() };
            let name = fit(&plain(job), NAME).into_owned();
            let doing = plain(&running.doing);
            lines.push(format!("▸ {name:<NAME$} {:>7}{again}  {doing}", clock(running.since.elapsed())));
        }
        if running.len() > room {
            lines.push(format!("  … and {} more", running.len() - room));
        }
        lines.extend(waiting(&self.waiting));
        let unmet = self.unmet.iter().filter(|(_, unmet)| unmet.told);
        let unmet: Vec<_> = unmet.map(|(missing, unmet)| no_worker(missing, unmet.jobs)).collect();
        lines.extend((!unmet.is_empty()).then(|| format!("  {}", unmet.join(" · "))));
        let failed = if self.failed > 0 { format!(" · {} failed", self.failed) } else { String::new() };
        let spent = if self.spent > 0.0 { format!(" · {}", dollars(self.spent)) } else { String::new() };
        lines.push(format!("{} of {} done{failed} · {} running{spent}", self.done, self.jobs.max(self.done), running.len()));
        let Style { dim, reset, .. } = self.style;
        let drawn = lines.iter().map(|line| format!("{dim}{}{reset}\n", fit(line, columns.saturating_sub(1))));
        let text = drawn.collect::<Vec<_>>().concat();
        self.erase();
        self.drawn = lines.len();
        let text = if self.redact { ci::redactor().text(&text).into_owned() } else { text };
        self.write(&text);
    }

    fn write(&mut self, text: &str) {
        if !self.closed {
            self.closed = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).is_err();
        }
    }
}

/// How many jobs wait, and for what, in one line.
fn waiting(jobs: &WaitingJobs) -> Option<String> {
    let mut parts = Vec::new();
    let mut all = jobs.for_place;
    for (account, (count, until)) in &jobs.for_limit {
        all += count;
        parts.push(format!("{count} for the limit of {} (until {})", plain(account), time_of(*until)));
    }
    if let Some((count, at)) = jobs.for_retry {
        all += count;
        parts.push(format!("{count} to be tried again (the first at {})", time_of(at)));
    }
    if jobs.for_place > 0 {
        parts.push(format!("{} for a free place", jobs.for_place));
    }
    let mut needs: Vec<(&String, &usize)> = jobs.for_needs.iter().collect();
    needs.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    all += needs.iter().map(|(_, count)| **count).sum::<usize>();
    parts.extend(needs.iter().take(NAMED).map(|(name, count)| format!("{count} for {}", fit(&plain(name), NAME))));
    let others: usize = needs.iter().skip(NAMED).map(|(_, count)| **count).sum();
    parts.extend((others > 0).then(|| format!("{others} for others")));
    (all > 0).then(|| format!("  {all} waiting: {}", parts.join(", ")))
}

/// A text of somebody else's in a line of ours.
fn plain(text: &str) -> String {
    visible(&one_line(text)).into_owned()
}

/// Says what no worker does.
fn no_worker(missing: &str, jobs: usize) -> String {
    let waits = if jobs == 1 { "waits" } else { "wait" };
    format!("no worker {}: {} {waits}", plain(missing), count_of(jobs, "job"))
}

fn time_now() -> i64 {
    tapline_runner::now().as_deref().and_then(tapline_session::parse_rfc3339).unwrap_or(0)
}

/// A time for people.
pub(crate) fn time_of(seconds: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "seconds of this millennium")]
    let told = rfc3339(seconds as f64);
    told.unwrap_or_else(|| "some later time".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_one_line() {
        let mut jobs = WaitingJobs::default();
        assert_eq!(waiting(&jobs), None);
        jobs.for_place = 2;
        jobs.for_needs = [("a", 1), ("b", 7), ("c", 3), ("d", 1)].map(|(name, count)| (name.to_owned(), count)).into();
        jobs.for_limit = [("claude".to_owned(), (5, 0))].into();
        jobs.for_retry = Some((1, 60));
        let expected = "  20 waiting: 5 for the limit of claude (until 1970-01-01T00:00:00Z), 1 to be tried again (the first at \
                        1970-01-01T00:01:00Z), 2 for a free place, 7 for b, 3 for c, 1 for a, 1 for others";
        assert_eq!(waiting(&jobs).as_deref(), Some(expected));
    }
}
