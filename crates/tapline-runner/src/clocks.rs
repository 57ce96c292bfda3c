//! The three clocks of a run: for the whole run, for silence, and for how long it stays after its final result. Pure:
//! it is told what happened when, and says what is due.

use tapline_protocol::StopReason;
use tokio::time::Instant;

use crate::activity::Activity;
use crate::spec::Limits;

/// When a run must be stopped.
#[derive(Debug)]
pub(crate) struct Clocks {
    limits: Limits,
    started: Instant,
    heard: Instant,
    /// When the agent closed its output.
    silent: Option<Instant>,
    /// Whether more may be sent to the agent, so that it may wait.
    input_open: bool,
    /// Whether the agent waits for our answer.
    asked: bool,
    /// Whether the agent owes us a turn, even if one has ended.
    owes: bool,
}

impl Clocks {
    /// Starts the clocks now.
    pub(crate) fn new(limits: Limits, now: Instant, input_open: bool) -> Self {
        Self { limits, started: now, heard: now, silent: None, input_open, asked: false, owes: false }
    }

    /// Returns the limits.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Notes output of any kind, which is a sign of life.
    pub(crate) fn hear(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Sets whether the agent waits for our answer, and so may be silent, and whether it owes us a turn, and so may
    /// not.
    pub(crate) fn ask(&mut self, asked: bool, owes: bool, now: Instant) {
        if self.asked && !asked || owes && !self.owes {
            self.heard = now;
        }
        (self.asked, self.owes) = (asked, owes);
    }

    /// Notes that nothing more will be sent to the agent.
    pub(crate) fn input_closed(&mut self, now: Instant) {
        self.input_open = false;
        self.heard = now;
    }

    /// Notes that the agent has closed its stdout.
    pub(crate) fn output_closed(&mut self, now: Instant) {
        self.silent = Some(now);
    }

    /// Returns what is due next, and when. While we do not read, the agent does not count as silent.
    pub(crate) fn next(&self, activity: &Activity, reading: bool) -> Option<(Instant, StopReason)> {
        let waiting = activity.rests.is_some() && self.input_open && !self.owes;
        let over = activity.rests.filter(|_| !self.input_open);
        let wait = if activity.tasks.is_empty() { self.limits.linger } else { self.limits.with_tasks() };
        let lingers = [over.map(|at| at.checked_add(wait)), self.silent.map(|at| at.checked_add(self.limits.linger))];
        // A time beyond the range of the clock never comes.
        let linger = lingers.into_iter().flatten().flatten().min();
        let Limits { timeout, spent, .. } = self.limits;
        let timeout = timeout.and_then(|limit| self.started.checked_add(limit.saturating_sub(spent)));
        let silent = reading && !waiting && !self.asked;
        let idle = self.limits.idle.filter(|_| silent).and_then(|limit| self.heard.checked_add(limit));
        let late = [timeout.map(|at| (at, StopReason::Timeout)), idle.map(|at| (at, StopReason::Idle))].into_iter().flatten();
        // A run that has said everything is judged by that, whichever clock stops it.
        let is_over = over.is_some() && activity.tasks.is_empty();
        let late = late.min_by_key(|(at, _)| *at).map(|(at, reason)| (at, if is_over { StopReason::Linger } else { reason }));
        let linger = linger.map(|at| (at, StopReason::Linger));
        [late, linger].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use tapline_protocol::Decoder;
    use tapline_session::Fold;

    const SECOND: Duration = Duration::from_secs(1);

    struct ClockedRun {
        clocks: Clocks,
        activity: Activity,
        fold: Fold,
        decoder: Decoder,
        zero: Instant,
    }

    impl ClockedRun {
        fn new(limits: Limits, input_open: bool) -> Self {
            let zero = Instant::now();
            Self {
                clocks: Clocks::new(limits, zero, input_open),
                activity: Activity::new(false, zero),
                fold: Fold::default(),
                decoder: Decoder::default(),
                zero,
            }
        }

        fn tell(&mut self, at: u32, line: &str) {
            let now = self.zero + SECOND * at;
            self.clocks.hear(now);
            for record in self.decoder.push(format!("{line}\n").as_bytes()) {
                let steps = self.fold.apply(&record);
                self.activity.accept(&record, &steps, now);
            }
        }

        fn due(&self) -> Option<(u64, StopReason)> {
            self.clocks.next(&self.activity, true).map(|(at, reason)| ((at - self.zero).as_secs(), reason))
        }
    }

    const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s"}"#;
    const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"ok"}"#;
    const ALIVE: &str = r#"{"type":"keep_alive"}"#;
    const STARTED: &str = r#"{"type":"system","subtype":"task_started","task_id":"t","task_type":"local_agent"}"#;
    const ENDED: &str = r#"{"type":"system","subtype":"task_notification","task_id":"t","status":"completed"}"#;

    fn limits() -> Limits {
        Limits { timeout: Some(SECOND * 100), idle: Some(SECOND * 10), ..Limits::default() }
    }

    #[test]
    fn silence_is_counted_from_the_last_sign_of_life() {
        let mut run = ClockedRun::new(limits(), false);
        assert_eq!(run.due(), Some((10, StopReason::Idle)));
        run.tell(8, ALIVE);
        assert_eq!(run.due(), Some((18, StopReason::Idle)));
        for at in (9..99).step_by(9) {
            run.tell(at, r#"{"type":"tool_progress","tool_use_id":"x","tool_name":"Bash","elapsed_time_seconds":3}"#);
        }
        assert_eq!(run.due(), Some((100, StopReason::Timeout)), "the whole run has its own limit");
    }

    #[test]
    fn a_result_starts_the_linger_and_signs_of_life_do_not_prolong_it() {
        let mut run = ClockedRun::new(Limits::default(), false);
        run.tell(1, INIT);
        assert_eq!(run.due(), None);
        run.tell(5, RESULT);
        run.tell(20, ALIVE);
        assert_eq!(run.due(), Some((35, StopReason::Linger)));
        run.tell(22, INIT);
        assert_eq!(run.due(), None, "another turn has begun");
        run.tell(30, RESULT);
        assert_eq!(run.due(), Some((60, StopReason::Linger)));
    }

    #[test]
    fn a_task_in_the_background_may_wake_the_agent() {
        let mut run = ClockedRun::new(Limits::default(), false);
        run.tell(1, INIT);
        run.tell(2, STARTED);
        run.tell(5, RESULT);
        assert_eq!(run.due(), Some((605, StopReason::Linger)));
        run.tell(50, ENDED);
        assert_eq!(run.due(), Some((80, StopReason::Linger)));
    }

    #[test]
    fn how_long_tasks_are_waited_for_does_not_depend_on_a_longer_linger() {
        let (short, long) = (Some(SECOND * 4), Some(SECOND * 600));
        let never = (Some(Duration::MAX), 30, u64::MAX);
        for (background, linger, due) in [(short, 30, 9), never, (None, 700, 705), (None, 30, 605), (long, 700, 605)] {
            let limits = Limits { background, linger: SECOND * linger, ..Limits::default() };
            let mut run = ClockedRun::new(limits, false);
            run.tell(1, INIT);
            run.tell(2, STARTED);
            run.tell(5, RESULT);
            assert_eq!(run.due().map_or(u64::MAX, |(at, _)| at), due, "{background:?}, {linger}");
        }
    }

    #[test]
    fn a_task_that_ended_without_a_word_may_wake_it_too() {
        let mut run = ClockedRun::new(Limits::default(), false);
        run.tell(1, INIT);
        run.tell(2, STARTED);
        run.tell(5, RESULT);
        run.tell(40, r#"{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"t"}]}"#);
        assert_eq!(run.due(), Some((605, StopReason::Linger)));
        run.tell(50, r#"{"type":"system","subtype":"background_tasks_changed","tasks":[]}"#);
        assert_eq!(run.due(), Some((80, StopReason::Linger)));
    }

    #[test]
    fn whichever_clock_stops_a_run_that_is_over_it_counts_as_what_it_said() {
        let mut run = ClockedRun::new(limits(), false);
        run.tell(1, INIT);
        run.tell(95, RESULT);
        assert_eq!(run.due(), Some((100, StopReason::Linger)));
    }

    #[test]
    fn while_more_may_be_sent_nothing_is_over() {
        let mut run = ClockedRun::new(limits(), true);
        run.tell(1, INIT);
        run.tell(2, RESULT);
        assert_eq!(run.due(), Some((100, StopReason::Timeout)), "neither silence nor linger");
        run.clocks.hear(run.zero + SECOND * 30);
        run.activity.sent();
        assert_eq!(run.due(), Some((40, StopReason::Idle)), "it is the agent's turn");
        run.tell(35, RESULT);
        run.clocks.input_closed(run.zero + SECOND * 50);
        run.activity.input_closed(run.zero + SECOND * 50);
        assert_eq!(run.due(), Some((60, StopReason::Linger)), "silent for so long, with everything said");
    }

    #[test]
    fn an_agent_that_is_not_read_is_not_silent() {
        let run = ClockedRun::new(limits(), false);
        assert_eq!(run.clocks.next(&run.activity, false).map(|(at, _)| (at - run.zero).as_secs()), Some(100));
    }

    #[test]
    fn times_beyond_every_clock() {
        let forever =
            Limits { timeout: Some(Duration::MAX), idle: Some(Duration::MAX), linger: Duration::MAX, ..Limits::default() };
        let mut run = ClockedRun::new(forever, false);
        run.tell(1, RESULT);
        assert_eq!(run.due(), None);
    }

    #[test]
    fn a_closed_stdout_ends_a_run_without_a_result_too() {
        let mut run = ClockedRun::new(Limits::default(), false);
        run.tell(1, INIT);
        run.clocks.output_closed(run.zero + SECOND * 3);
        assert_eq!(run.due(), Some((33, StopReason::Linger)));
    }
}
