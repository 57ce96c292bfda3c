//! Chooses the turn that answers a request: the first one in the scenario that matches and is not used up.

use std::collections::HashSet;

use crate::scenario::{Facts, Fault, Lane, Repeat, Scenario, ScriptedBlock, ScriptedTurn};

/// A scenario and its progress.
#[derive(Debug)]
pub(crate) struct Script {
    scenario: Scenario,
    used: Vec<Used>,
    requests: u64,
    /// The prompts that sub-agents were started with.
    given: HashSet<String>,
}

/// The progress of a turn.
#[derive(Clone, Debug, Default)]
struct Used {
    answers: u64,
    /// How often each of its faults has happened.
    faults: Vec<u64>,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// A turn, its index in the scenario, and how often it has answered before.
    Turn { at: usize, turn: ScriptedTurn, before: u64 },
    /// A fault, instead of a turn or in the middle of it.
    Fault { at: usize, turn: ScriptedTurn, before: u64, fault: Fault },
    /// The short text for a request outside the conversation.
    Side(String),
    /// No turn answers it. The text says why.
    Nothing(String),
    /// The request is not what the turn expects. The text says why.
    Departs { at: usize, why: String },
}

impl Repeat {
    fn is_over(self, count: u64) -> bool {
        match self {
            Self::Exactly(times) => count >= times,
            Self::Forever => false,
        }
    }
}

impl Script {
    pub(crate) fn new(scenario: Scenario) -> Self {
        let used = scenario.turns.iter().map(|turn| Used { answers: 0, faults: vec![0; turn.faults.len()] }).collect();
        Self { scenario, used, requests: 0, given: HashSet::new() }
    }

    pub(crate) fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Returns the prompts that sub-agents were started with so far.
    pub(crate) fn given(&self) -> &HashSet<String> {
        &self.given
    }

    /// Chooses the answer to a request. It uses up a fault or a turn.
    pub(crate) fn choose(&mut self, facts: &Facts) -> Choice {
        let is_for =
            |turn: &ScriptedTurn| turn.when.departure(facts).is_none() && turn.when.agent.unwrap_or_default() == facts.lane;
        let turns = self.scenario.turns.iter().zip(&mut self.used).enumerate();
        let mut open = turns.filter(|(_, (turn, used))| !turn.repeat.is_over(used.answers) && is_for(turn));
        let Some((at, (turn, used))) = open.next() else {
            drop(open);
            if facts.lane == Lane::Side {
                return Choice::Side(self.scenario.side.clone().unwrap_or_else(|| "ok".to_owned()));
            }
            return Choice::Nothing(self.why_nothing(facts));
        };
        if let Some(why) = turn.expect.departure(facts) {
            return Choice::Departs { at, why };
        }
        self.requests += u64::from(facts.lane != Lane::Side);
        let before = used.answers;
        let due = turn.faults.iter().zip(&mut used.faults).find(|(fault, count)| !fault.times.is_over(**count));
        if let Some((fault, count)) = due {
            *count += 1;
            return Choice::Fault { at, turn: turn.clone(), before, fault: fault.clone() };
        }
        used.answers += 1;
        self.given.extend(turn.blocks.iter().filter_map(given_by));
        Choice::Turn { at, turn: turn.clone(), before }
    }

    fn why_nothing(&self, facts: &Facts) -> String {
        let all = self.scenario.turns.iter().zip(&self.used).enumerate();
        let mine: Vec<_> = all.filter(|(_, (turn, _))| turn.when.agent.unwrap_or_default() == facts.lane).collect();
        let answered: u64 = mine.iter().map(|(_, (_, used))| used.answers).sum();
        let open = mine.iter().find(|(_, (turn, used))| !turn.repeat.is_over(used.answers));
        let rest = match open {
            Some((at, (turn, _))) => {
                format!("{} is for another request: {}", turn.called(*at), turn.when.departure(facts).unwrap_or_default())
            }
            None if mine.is_empty() => "it has none".to_owned(),
            None => "all are used up".to_owned(),
        };
        let (lane, last) = (facts.lane.name(), crate::scenario::beginning(&facts.last));
        format!(
            "the scenario has run out: turn {} of the {lane} agent was asked for, and {rest} (last message: {last:?})",
            answered + 1
        )
    }

    /// Returns the expectations that are not met at the end.
    pub(crate) fn unmet(&self) -> Vec<String> {
        let expect = &self.scenario.expect;
        let requests = expect.requests.filter(|requests| *requests != self.requests);
        let requests = requests.map(|wanted| format!("requests answered by a turn: {}, not {wanted}", self.requests));
        let unused = self.scenario.turns.iter().zip(&self.used).enumerate();
        let unused = unused.filter(|(_, (turn, used))| {
            expect.all_turns
                && (used.answers == 0 || matches!(turn.repeat, Repeat::Exactly(times) if used.answers < times))
                && !turn.never_answers()
        });
        let unused = unused.map(|(at, (turn, used))| match used.answers {
            0 => format!("{} was not used", turn.called(at)),
            times => format!("{} was used only {times} times", turn.called(at)),
        });
        requests.into_iter().chain(unused).collect()
    }
}

/// Returns the prompt of the sub-agent that a block starts.
fn given_by(block: &ScriptedBlock) -> Option<String> {
    match block {
        ScriptedBlock::Tool(tool) if matches!(tool.name.as_str(), "Task" | "Agent") => {
            tool.input["prompt"].as_str().map(str::to_owned)
        }
        _ => None,
    }
}

impl ScriptedTurn {
    /// Returns the turn's name in messages.
    pub(crate) fn called(&self, at: usize) -> String {
        match &self.name {
            Some(name) => format!("turn {} ({name})", at + 1),
            None => format!("turn {}", at + 1),
        }
    }

    fn never_answers(&self) -> bool {
        self.faults.iter().any(Fault::stays)
    }
}
