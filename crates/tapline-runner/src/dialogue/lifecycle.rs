//! Tracks which of our messages a result answers, and whether anything may still need the agent's standard input. Pure:
//! it is told what was sent and what arrived, and when.
//!
//! docs/SESSION.md describes what the agents were measured to do.

use std::time::Duration;

use tapline_protocol::Record;
use tapline_session::step::Turn;
use tapline_session::{Step, What};
use tokio::time::Instant;

use crate::activity::{Activity, AgentState};
use crate::update::{Delivery, Over};

/// What one line means for the messages that were sent.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) over: Vec<Over>,
    pub(crate) delivered: Vec<(String, Delivery)>,
}

/// How long to wait once no more messages come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For background tasks, between two turns.
    pub(crate) background: Duration,
    /// For an agent to report that it is idle.
    pub(crate) linger: Duration,
}

/// Whether the agent's input may be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It is needed.
    Open,
    /// It is needed until then, unless something happens.
    Until(Instant),
    /// Until then, too, but who has still not ended then was waited for long enough.
    Late(Instant),
    /// Nothing needs it.
    Nothing,
}

#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    /// Messages that were sent and are not finished.
    sent: Vec<Sent>,
    /// Whether the agent reports on each message, so that a result without uuids belongs to none of them.
    acknowledges: bool,
    /// The last turn, for messages that it handled without naming them.
    last: Option<Box<Turn>>,
}

#[derive(Debug)]
struct Sent {
    uuid: String,
    begun: bool,
    dealt_with: bool,
    /// How many turns had ended when it was sent.
    after: u64,
}

/// How soon a task that has ended starts its turn.
const WAKES_WITHIN: Duration = Duration::from_secs(5);

impl Lifecycle {
    /// Notes that a message was sent.
    pub(crate) fn send(&mut self, uuid: String, activity: &Activity) {
        self.sent.push(Sent { uuid, begun: false, dealt_with: false, after: activity.turns });
    }

    /// Takes a line. `activity` already includes it.
    pub(crate) fn accept(&mut self, record: &Record, steps: &[Step], activity: &Activity) -> Heard {
        let mut heard = Heard::default();
        let event = &record.event;
        for step in steps {
            if let What::Turn(turn) = &step.what {
                self.last = Some(turn.clone());
            }
        }
        if let Some(lifecycle) = event.as_command_lifecycle()
            && let Some(uuid) = &lifecycle.command_uuid
        {
            self.acknowledges = true;
            let delivery = delivery(lifecycle.state.as_deref().unwrap_or_default());
            let ended = matches!(delivery, Delivery::Completed | Delivery::Cancelled);
            if let Some(sent) = self.sent.iter_mut().find(|sent| sent.uuid == *uuid) {
                sent.begun |= delivery != Delivery::Queued;
                sent.dealt_with |= ended;
            }
            // It was cancelled before it had a turn. A message whose turn was aborted has a result, which came before
            // this.
            if delivery == Delivery::Cancelled && self.take(std::slice::from_ref(uuid)).contains(uuid) {
                heard.over.push(Over { messages: vec![uuid.clone()], turn: None });
            }
            heard.delivered.push((uuid.clone(), delivery));
        }
        if let Some(user) = event.as_user()
            && user.is_replay
            && let Some(uuid) = &record.envelope.uuid
            && self.sent.iter().any(|sent| sent.uuid == *uuid)
        {
            heard.delivered.push((uuid.clone(), Delivery::Replayed));
        }
        if let Some(result) = event.as_result() {
            let mut named = result.user_message_uuids.clone();
            named.extend(result.user_message_uuid.clone().filter(|uuid| !named.contains(uuid)));
            if named.is_empty() && !self.acknowledges {
                named.extend(self.sent.first().map(|sent| sent.uuid.clone()));
            }
            let messages = self.take(&named);
            heard.over.push(Over { messages, turn: self.last.clone() });
        }
        if event.as_session_state().is_some() {
            let idle = activity.state == Some(AgentState::Idle);
            // They were handled, but no result named them: a turn since then was theirs, or they had none.
            for sent in self.sent.extract_if(.., |sent| idle && sent.dealt_with) {
                let turn = self.last.clone().filter(|_| activity.turns > sent.after);
                heard.over.push(Over { messages: vec![sent.uuid], turn });
            }
        }
        heard
    }

    /// Returns when messages that no result names are finished. Versions that name none may have merged one into the
    /// turn of another; a turn of its own would follow at once.
    pub(crate) fn due(&self, activity: &Activity) -> Option<Instant> {
        let folded = self.sent.iter().any(|sent| sent.after < activity.turns);
        activity.ended.filter(|_| folded && !self.acknowledges && !activity.in_turn).map(|ended| ended + WAKES_WITHIN)
    }

    /// Ends the messages that are finished by now, with the turn that they were merged into.
    pub(crate) fn settle_due(&mut self, activity: &Activity, now: Instant) -> Option<Over> {
        self.due(activity).filter(|due| *due <= now)?;
        let turns = activity.turns;
        let folded: Vec<_> = self.sent.extract_if(.., |sent| sent.after < turns).map(|sent| sent.uuid).collect();
        Some(Over { messages: folded, turn: self.last.clone() })
    }

    /// Returns whether the agent may still report on a message.
    pub(crate) fn is_open(&self, uuid: &str, delivery: Option<&Delivery>) -> bool {
        let told = matches!(delivery, Some(Delivery::Completed | Delivery::Cancelled));
        self.sent.iter().any(|sent| sent.uuid == uuid) || self.acknowledges && !told
    }

    /// Takes those of these messages that are not finished.
    fn take(&mut self, uuids: &[String]) -> Vec<String> {
        let taken = self.sent.extract_if(.., |sent| uuids.contains(&sent.uuid));
        taken.map(|sent| sent.uuid).collect()
    }

    /// Returns whether a message waits for its turn or has it.
    pub(crate) fn has_sent(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Returns whether the agent's input may be closed, if that was requested at this time. Background tasks, and an
    /// agent that has not reported idle or how a message ended, are waited for from then on, or from the last turn.
    pub(crate) fn need(&self, activity: &Activity, patience: Patience, since: Instant) -> Need {
        let Patience { background: ceiling, linger } = patience;
        // A time beyond the range of the clock never comes.
        let until = |wait: Duration| activity.ended.unwrap_or(since).max(since).checked_add(wait);
        let late = |wait: Duration| until(wait).map_or(Need::Open, Need::Late);
        if activity.in_turn || !self.sent.is_empty() && !self.may_be_over(activity) {
            return Need::Open;
        }
        let begun = self.sent.iter().all(|sent| sent.begun);
        match (activity.tasks.is_empty() && begun, activity.state) {
            (false, _) => late(ceiling),
            (true, state) if !self.sent.is_empty() || state == Some(AgentState::Busy) => late(linger),
            (true, _) if !activity.waking => Need::Nothing,
            (true, _) => until(WAKES_WITHIN).map_or(Need::Open, Need::Until),
        }
    }

    /// Returns whether the agent may be done with every message without saying so: it reports on messages, but each was sent
    /// before a turn that has ended, and since then it rests.
    fn may_be_over(&self, activity: &Activity) -> bool {
        self.acknowledges && activity.rests.is_some() && self.sent.iter().all(|sent| sent.after < activity.turns)
    }
}

fn delivery(state: &str) -> Delivery {
    match state {
        "queued" => Delivery::Queued,
        "started" => Delivery::Started,
        "completed" => Delivery::Completed,
        "cancelled" => Delivery::Cancelled,
        other => Delivery::Other(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapline_protocol::Decoder;
    use tapline_session::Fold;

    const SECOND: Duration = Duration::from_secs(1);

    /// A stream with one line per second.
    struct Script {
        lifecycle: Lifecycle,
        activity: Activity,
        decoder: Decoder,
        fold: Fold,
        now: Instant,
        zero: Instant,
    }

    impl Script {
        fn new(sent: &[&str]) -> Self {
            let now = Instant::now();
            let (lifecycle, activity) = (Lifecycle::default(), Activity::default());
            let mut told = Self { lifecycle, activity, decoder: Decoder::default(), fold: Fold::default(), now, zero: now };
            for uuid in sent {
                told.send(uuid);
            }
            told
        }

        fn send(&mut self, uuid: &str) {
            self.lifecycle.send(uuid.to_owned(), &self.activity);
        }

        /// Takes a line, and returns the messages that it finishes and whether they had a turn.
        fn tell(&mut self, line: &str) -> Vec<(String, bool)> {
            self.now += SECOND;
            let records = self.decoder.push(format!("{line}\n").as_bytes());
            let mut over = Vec::new();
            for record in records {
                let steps = self.fold.apply(&record);
                self.activity.accept(&record, &steps, self.now);
                over.extend(self.lifecycle.accept(&record, &steps, &self.activity).over);
            }
            over.into_iter().map(|over| (over.messages.join("+"), over.turn.is_some())).collect()
        }

        /// Returns until which second the input is needed: `None` for ever, 0 for not at all.
        fn needed(&self) -> Option<u64> {
            let patience = Patience { background: 600 * SECOND, linger: 30 * SECOND };
            match self.lifecycle.need(&self.activity, patience, self.zero) {
                Need::Open => None,
                Need::Until(until) | Need::Late(until) => Some((until - self.zero).as_secs()),
                Need::Nothing => Some(0),
            }
        }
    }

    fn state(state: &str) -> String {
        format!(r#"{{"type":"system","subtype":"session_state_changed","state":"{state}","sdk_host_only":true}}"#)
    }

    fn command(uuid: &str, state: &str) -> String {
        format!(r#"{{"type":"command_lifecycle","command_uuid":"{uuid}","state":"{state}"}}"#)
    }

    fn result(uuids: &str) -> String {
        format!(r#"{{"type":"result","subtype":"success","result":"ok","is_error":false,"user_message_uuids":[{uuids}]}}"#)
    }

    const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#;
    const OLD_RESULT: &str = r#"{"type":"result","subtype":"success","result":"ok","is_error":false}"#;

    fn task(kind: &str, event: &str) -> String {
        format!(r#"{{"type":"system","subtype":"task_{event},"task_id":"t","task_type":"{kind}","description":"d"}}"#)
    }

    fn over(messages: &str) -> Vec<(String, bool)> {
        vec![(messages.to_owned(), true)]
    }

    #[test]
    fn a_turn_is_over_with_its_result_and_the_run_when_the_agent_is_idle() {
        let mut told = Script::new(&["a"]);
        for line in [state("running"), command("a", "queued"), command("a", "started"), INIT.to_owned()] {
            assert_eq!(told.tell(&line), []);
            assert_eq!(told.needed(), None);
        }
        assert_eq!(told.tell(&result("\"a\"")), over("a"));
        assert_eq!(told.needed(), Some(5 + 30), "it has not said that it is idle");
        assert_eq!(told.tell(&command("a", "completed")), []);
        assert_eq!(told.tell(&state("idle")), []);
        assert_eq!(told.needed(), Some(0));
    }

    #[test]
    fn messages_that_share_a_turn_share_its_result() {
        let mut told = Script::new(&["a", "b", "c"]);
        told.tell(&command("a", "started"));
        assert_eq!(told.tell(&result("\"a\"")), over("a"));
        assert_eq!(told.needed(), Some(2 + 600), "two are queued");
        // A message that is merged into a turn is completed before its result.
        assert_eq!(told.tell(&command("c", "completed")), []);
        assert_eq!(told.tell(&result("\"b\",\"c\"")), over("b+c"));
    }

    #[test]
    fn one_that_no_result_names_is_over_when_the_agent_is_idle() {
        let mut told = Script::new(&["a", "b"]);
        told.tell(&command("b", "completed"));
        told.tell(&result("\"a\""));
        assert_eq!(told.tell(&state("idle")), over("b"));
        assert_eq!(told.needed(), Some(0));
    }

    #[test]
    fn one_that_was_begun_and_that_no_result_names_is_not_waited_for_for_ever() {
        for ended in [None, Some("completed")] {
            let mut told = Script::new(&["a"]);
            told.tell(&command("a", "started"));
            told.tell(INIT);
            assert_eq!(told.needed(), None);
            told.tell(OLD_RESULT);
            if let Some(state) = ended {
                told.tell(&command("a", state));
            }
            assert_eq!(told.needed(), Some(3 + 30), "the agent rests and never says that it is idle");
            told.tell(INIT);
            assert_eq!(told.needed(), None, "another turn has begun");
        }
    }

    #[test]
    fn one_that_is_taken_back_has_no_turn() {
        let mut told = Script::new(&["a", "b"]);
        assert_eq!(told.tell(&command("b", "cancelled")), [("b".to_owned(), false)]);
        assert_eq!(told.tell(&result("\"a\"")), over("a"));
        assert_eq!(told.tell(&command("a", "cancelled")), [], "its turn was cut short: it had a result");
    }

    #[test]
    fn versions_that_name_no_message_may_fold_one_into_the_turn_of_another() {
        let mut told = Script::new(&["a"]);
        told.tell(INIT);
        told.send("b");
        assert_eq!(told.tell(OLD_RESULT), over("a"));
        let due = told.lifecycle.due(&told.activity).unwrap();
        assert_eq!(due, told.now + WAKES_WITHIN);
        assert!(told.lifecycle.settle_due(&told.activity, told.now).is_none());
        let folded = told.lifecycle.settle_due(&told.activity, due).unwrap();
        assert_eq!((folded.messages, folded.turn.is_some()), (vec!["b".to_owned()], true));
        assert_eq!(told.needed(), Some(0));
        // A message with its own turn has begun it by then.
        told.send("c");
        assert_eq!(told.lifecycle.due(&told.activity), None, "it was sent after the last turn");
    }

    #[test]
    fn versions_that_name_no_message_answer_them_in_order() {
        let mut told = Script::new(&["a", "b"]);
        told.tell(INIT);
        assert_eq!(told.tell(OLD_RESULT), over("a"));
        assert_eq!(told.needed(), None);
        assert_eq!(told.tell(OLD_RESULT), over("b"));
        assert_eq!(told.needed(), Some(0), "they never say that they are idle");
    }

    #[test]
    fn a_sub_agent_in_the_background_begins_a_turn_of_its_own() {
        let mut told = Script::new(&["a"]);
        told.tell(&command("a", "started"));
        told.tell(&state("running"));
        told.tell(&task("local_agent", "started\""));
        assert_eq!(told.tell(&result("\"a\"")), over("a"));
        assert_eq!(told.needed(), Some(4 + 600), "so long, and no longer");
        told.tell(&task("local_agent", "notification\",\"status\":\"completed\""));
        assert_eq!(told.needed(), Some(5 + 30), "it wakes the agent");
        told.tell(INIT);
        assert_eq!(told.needed(), None);
        assert_eq!(told.tell(OLD_RESULT), over(""), "a turn of nobody's");
        told.tell(&state("idle"));
        assert_eq!(told.needed(), Some(0));
    }

    #[test]
    fn a_command_in_the_background_may_wake_an_idle_agent_unless_it_is_stopped() {
        for (status, needed) in [("completed", Some(6 + 5)), ("stopped", Some(0))] {
            let mut told = Script::new(&["a"]);
            told.tell(&command("a", "started"));
            told.tell(&task("local_bash", "started\""));
            told.tell(&result("\"a\""));
            told.tell(&command("a", "completed"));
            told.tell(&state("idle"));
            assert_eq!(told.needed(), Some(3 + 600));
            told.tell(&task("local_bash", &format!("notification\",\"status\":\"{status}\"")));
            assert_eq!(told.needed(), needed, "{status}");
        }
    }
}
