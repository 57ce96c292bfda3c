//! The plan of a batch: the jobs of all steps, and which of them wait for which. It is checked as a whole before anything starts.

mod check;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tapline_session::text::nearest;

use crate::fields::{Fields, Looked, Reading};
use crate::job::{Job, plain_name};
use crate::mistake::{Mistake, Mistakes, Place};
use crate::reference::{Condition, Reference, at};
use crate::result::JobResult;
use crate::template::{self, Piece};
use crate::waits::Waits;
use check::Checks;

/// For how many different names advice is looked for.
const ADVISED: usize = 20;

/// What is wrong with a file without jobs.
pub(crate) const NO_JOBS: &str = "it has no jobs";

/// An entry of a job file: a template, and the rows that it is filled with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    pub(crate) fields: Fields,
    /// Without rows, it is one job.
    pub(crate) rows: Option<Vec<Row>>,
    /// Where the value of a key stands, if it is not the place of the entry.
    #[serde(skip)]
    pub(crate) homes: BTreeMap<String, Place>,
}

/// A row of a table: its columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) place: Place,
    pub(crate) columns: BTreeMap<String, String>,
}

/// Where the jobs of a plan are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunsOn {
    /// On this machine: folders and programs are looked for before anything starts.
    #[default]
    ThisMachine,
    /// On workers: folders and programs are theirs.
    Workers,
    /// Nowhere: only the file itself is checked.
    Nowhere,
}

/// What a plan is made from. It can be written and read back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// The folder that paths are relative to.
    pub(crate) base: PathBuf,
    /// The name of the file, which jobs without a name are called after.
    pub(crate) name: String,
    pub(crate) entries: Vec<Entry>,
}

/// A job of the plan, or with `for_each` one for each item of a list that is not known yet.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) step: String,
    place: Place,
    entry: usize,
    row: Option<usize>,
    needs: Vec<Need>,
    for_each: Option<String>,
    condition: Option<Condition>,
}

/// What a job needs, by the name that it uses for it.
#[derive(Clone, Debug)]
struct Need {
    alias: String,
    /// Shared by all jobs that need the same step.
    nodes: Arc<[usize]>,
}

/// The plan of a batch.
#[derive(Clone, Debug)]
pub struct Plan {
    source: Source,
    nodes: Vec<Node>,
}

/// What becomes of a node once everything that it needs has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expanded {
    /// One job, or one for each item.
    Jobs(Vec<Planned>),
    /// It is not started, for this reason.
    Skip(String),
    /// It cannot be started, for this reason.
    Fail(String),
}

/// A job that can be made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) node: usize,
    pub(crate) item: Option<Value>,
}

/// The results of a node's jobs.
pub(crate) type ResultsOf<'r> = dyn Fn(usize) -> Vec<&'r JobResult> + 'r;

impl Node {
    /// The nodes that it needs, each once.
    fn needs(&self) -> BTreeSet<usize> {
        self.needs.iter().flat_map(|need| need.nodes.iter().copied()).collect()
    }

    /// The jobs that a text refers to, and which part of them: `plan.structured.files`.
    fn referred<'n, 't>(&'n self, text: &'t str) -> Option<(&'n [usize], Result<Reference<'t>, String>)> {
        let of = |need: &'n Need| {
            let part = text.strip_prefix(need.alias.as_str())?.strip_prefix('.')?;
            Some((need.alias.len(), &*need.nodes, part))
        };
        let (_, nodes, part) = self.needs.iter().filter_map(of).max_by_key(|(length, ..)| *length)?;
        Some((nodes, Reference::parse(part)))
    }
}

impl Plan {
    /// Checks everything and makes the plan, or lists all that is wrong.
    pub(crate) fn new(source: Source, on: RunsOn) -> Result<Self, Mistakes> {
        let (plan, mut faults) = Self::connected(source);
        let mut checks = Checks::on(on);
        for node in 0..plan.nodes.len() {
            faults.extend(plan.check_job(node, &mut checks));
        }
        if plan.nodes.is_empty() && faults.is_empty() {
            faults.push(Mistake::new(&Place::new(0, plan.source.name.as_str()), NO_JOBS));
        }
        if faults.is_empty() { Ok(plan) } else { Err(Mistakes::sorted(faults)) }
    }

    /// Makes the plan of a batch in which these jobs have ended. What is wrong with others fails them one by one, unless all are wrong: then
    /// something is missing that can be mended.
    pub(crate) fn again(source: Source, ended: &BTreeSet<String>, on: RunsOn) -> Result<Self, Mistakes> {
        let (plan, mut faults) = Self::connected(source);
        if !faults.is_empty() {
            return Err(Mistakes::sorted(faults));
        }
        let (mut checks, mut is_sound) = (Checks::on(on), false);
        for (at, node) in plan.nodes.iter().enumerate() {
            // Of a list, the first item has ended.
            if ended.contains(&node.name) || node.for_each.is_some() && ended.contains(&format!("{}-1", node.name)) {
                continue;
            }
            let found = plan.check_job(at, &mut checks);
            is_sound |= found.is_empty();
            faults.extend(found);
        }
        if faults.is_empty() || is_sound { Ok(plan) } else { Err(Mistakes::sorted(faults)) }
    }

    /// Makes the plan without looking at what jobs need from this machine.
    fn connected(source: Source) -> (Self, Vec<Mistake>) {
        let mut faults = Vec::new();
        let mut plan = Self { source, nodes: Vec::new() };
        for entry in 0..plan.source.entries.len() {
            let rows = plan.source.entries[entry].rows.as_ref().map(Vec::len);
            for row in rows.map_or(vec![None], |count| (0..count).map(Some).collect()) {
                let node = plan.node(entry, row, &mut faults);
                plan.nodes.push(node);
            }
        }
        let before = faults.len();
        plan.check_names(&mut faults);
        let are_unique = faults.len() == before;
        plan.connect(&mut faults);
        // Of two jobs with the same name, it is not known which one is needed.
        if are_unique {
            plan.check_circles(&mut faults);
        }
        (plan, faults)
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns how many jobs there are. A step with `for_each` counts as one until its list is known.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether there are no jobs. No plan of a file is empty.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the columns of the rows that jobs were made of, by the names of the jobs.
    pub fn rows(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let row = |node: &Node| Some((node.name.clone(), self.columns(node.entry, node.row)?.columns.clone()));
        self.nodes.iter().filter_map(row).collect()
    }

    fn entry(&self, node: &Node) -> &Entry {
        &self.source.entries[node.entry]
    }

    fn columns(&self, entry: usize, row: Option<usize>) -> Option<&Row> {
        self.source.entries[entry].rows.as_ref()?.get(row?)
    }

    /// Reads the name of a job and what it waits for.
    fn node(&self, entry_at: usize, row_at: Option<usize>, faults: &mut Vec<Mistake>) -> Node {
        let entry = &self.source.entries[entry_at];
        let row = self.columns(entry_at, row_at);
        let place = row.map_or(&entry.place, |row| &row.place).clone();
        let look = |name: &str| match row.and_then(|row| row.columns.get(name)) {
            Some(text) => Looked::Text(text.clone()),
            None => Looked::Unknown(None),
        };
        let mut reading = Reading::new(&entry.fields, &look, &self.source.base);
        let number = row_at.unwrap_or(entry_at) + 1;
        let is_alone = entry.rows.as_ref().is_none_or(|rows| rows.len() == 1);
        let named = reading.name("name").filter(|name| !name.is_empty());
        let template = entry.fields.get("name").and_then(Value::as_str).unwrap_or_default();
        let has_places =
            template::pieces(template).is_ok_and(|pieces| pieces.iter().any(|piece| matches!(piece, Piece::Place(_))));
        let texts = template::pieces(template).unwrap_or_default().into_iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text),
            Piece::Place(_) => None,
        });
        let told = plain_name(&texts.collect::<String>());
        let step = reading.name("step").or(Some(told)).filter(|name| !name.is_empty());
        let step = step.unwrap_or_else(|| plain_name(&self.source.name));
        let name = match named {
            Some(name) if is_alone || has_places => name,
            Some(name) => format!("{name}-{number}"),
            None => format!("{step}-{number}"),
        };
        let condition = reading.text("if").and_then(|text| match Condition::parse(&text) {
            Ok(condition) => Some(condition),
            Err(why) => {
                reading.wrong("if", why);
                None
            }
        });
        let for_each = entry.fields.get("for_each").and_then(Value::as_str).map(str::to_owned);
        faults.extend(reading.faults.into_iter().map(|fault| Mistake::new(entry.place_of(&place, &fault.keys), fault.why)));
        Node { name, step, place, entry: entry_at, row: row_at, needs: Vec::new(), for_each, condition }
    }

    /// No two jobs have the same name.
    fn check_names(&self, faults: &mut Vec<Mistake>) {
        let mut seen: BTreeMap<&str, &Node> = BTreeMap::new();
        let lists: BTreeSet<&str> =
            self.nodes.iter().filter(|node| node.for_each.is_some()).map(|node| node.name.as_str()).collect();
        for node in &self.nodes {
            let of_list =
                node.name.rsplit_once('-').filter(|(list, number)| lists.contains(list) && number.parse::<usize>().is_ok());
            if let Some(other) = seen.insert(&node.name, node) {
                let why = format!("the name `{}` is taken by {}: give it another `name`", node.name, other.place);
                faults.push(Mistake::new(&node.place, why));
            } else if let Some((list, _)) = of_list {
                let why = format!("the name `{}` can be that of an item of `{list}`: give it another `name`", node.name);
                faults.push(Mistake::new(&node.place, why));
            }
        }
    }

    /// Finds the jobs that are needed.
    fn connect(&mut self, faults: &mut Vec<Mistake>) {
        let mut steps: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            steps.entry(node.step.clone()).or_default().push(at);
        }
        let steps: BTreeMap<String, Arc<[usize]>> = steps.into_iter().map(|(step, nodes)| (step, nodes.into())).collect();
        let names: BTreeMap<String, usize> = self.nodes.iter().enumerate().map(|(at, node)| (node.name.clone(), at)).collect();
        // The same mistake in many rows is advised about once, and nobody reads the advice for more than these.
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        let mut advise = |name: &str| {
            if !known.contains_key(name) && known.len() < ADVISED {
                let meant = nearest(name, names.keys().chain(steps.keys()).map(String::as_str));
                let meant = meant.map(|meant| format!(": did you mean `{meant}`?")).unwrap_or_default();
                known.insert(name.to_owned(), meant);
            }
            known.get(name).cloned().unwrap_or_default()
        };
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            let mut wrong = |why: String| faults.push(Mistake::new(&node.place, why));
            let mut needs = Vec::new();
            for (alias, name) in self.wanted(node, &mut wrong) {
                let plain = plain_name(&name);
                if let Some(nodes) = names.get(&plain).map(|node| Arc::from([*node])).or_else(|| steps.get(&plain).cloned()) {
                    needs.push(Need { alias, nodes });
                } else {
                    wrong(format!("needs: no job or step is called `{name}`{}", advise(&name)));
                }
            }
            let known = |alias: &str| needs.iter().any(|need| need.alias == alias);
            if let Some(condition) = node.condition.as_ref().filter(|condition| !known(&condition.needs)) {
                wrong(format!("if: add `{}` to `needs`", condition.needs));
            }
            self.nodes[at].needs = needs;
        }
    }

    /// The names that a job needs, each with the name that it uses for it.
    fn wanted(&self, node: &Node, wrong: &mut dyn FnMut(String)) -> Vec<(String, String)> {
        let row = self.columns(node.entry, node.row);
        let texts: Vec<(Option<&String>, &Value)> = match self.entry(node).fields.get("needs") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(names)) => names.iter().map(|name| (None, name)).collect(),
            Some(Value::Object(aliases)) => aliases.iter().map(|(alias, name)| (Some(alias), name)).collect(),
            Some(name) => vec![(None, name)],
        };
        let mut wanted = Vec::new();
        for (alias, text) in texts {
            let Some(text) = text.as_str() else {
                wrong("needs: a list of names is expected, or a table of names".to_owned());
                continue;
            };
            match template::fill(text, |name| row?.columns.get(name).cloned()) {
                Ok(name) if name.is_empty() => {}
                Ok(name) => wanted.push((alias.unwrap_or(&name).clone(), name)),
                Err(error) => wrong(format!("needs: {error}")),
            }
        }
        wanted
    }

    /// No job waits for itself.
    fn check_circles(&self, faults: &mut Vec<Mistake>) {
        let mut waits = self.waits();
        let mut free: Vec<usize> = (0..self.nodes.len()).filter(|at| waits.is_free(*at)).collect();
        while let Some(at) = free.pop() {
            free.extend(waits.done(at));
        }
        // Whoever is left waits for a circle. Following what is left leads into one.
        let Some(first) = (0..self.nodes.len()).find(|at| !waits.is_free(*at)) else { return };
        let mut way = vec![first];
        loop {
            let last = &self.nodes[way[way.len() - 1]];
            let Some(next) = last.needs().into_iter().find(|next| !waits.is_free(*next)) else { return };
            if let Some(begin) = way.iter().position(|at| *at == next) {
                let names: Vec<_> =
                    way[begin..].iter().chain([&next]).map(|at| format!("`{}`", self.nodes[*at].name)).collect();
                let why = format!("needs: jobs wait for each other: {}", names.join(" needs "));
                faults.push(Mistake::new(&self.nodes[next].place, why));
                return;
            }
            way.push(next);
        }
    }

    /// Which nodes wait for which, before anything has run.
    pub(crate) fn waits(&self) -> Waits {
        Waits::new(self.nodes.iter().map(|node| node.needs.iter().map(|need| &need.nodes)))
    }

    /// What a place stands for: a column, an item, or a part of an earlier result.
    fn look(&self, node: &Node, name: &str, item: Option<&Value>, results: Option<&ResultsOf<'_>>) -> Looked {
        if let Some(text) = self.columns(node.entry, node.row).and_then(|row| row.columns.get(name)) {
            return Looked::Text(text.clone());
        }
        let of_item =
            name.strip_prefix("item").filter(|rest| node.for_each.is_some() && (rest.is_empty() || rest.starts_with('.')));
        if let Some(path) = of_item {
            let Some(item) = item else { return Looked::Later };
            let value = path.strip_prefix('.').map_or(Some(item), |path| at(item, path));
            return match value {
                Some(Value::String(text)) => Looked::Text(text.clone()),
                Some(value) => Looked::Text(value.to_string()),
                None => Looked::Unknown(Some(format!("the item has no such part: {item}"))),
            };
        }
        match (node.referred(name), results) {
            (Some((_, Err(why))), _) => Looked::Unknown(Some(why)),
            (Some((_, Ok(_))), None) => Looked::Later,
            (Some((nodes, Ok(part))), Some(results)) => {
                let found: Vec<_> = nodes.iter().flat_map(|node| results(*node)).collect();
                part.text(&found).map_or_else(|| Looked::Unknown(Some("the job has ended without it".to_owned())), Looked::Text)
            }
            (None, _) => Looked::Unknown(self.guess(node, name)),
        }
    }

    /// What was probably meant by a name that nothing has.
    fn guess(&self, node: &Node, name: &str) -> Option<String> {
        let columns = self.columns(node.entry, node.row).into_iter().flat_map(|row| row.columns.keys().map(String::as_str));
        let before = name.split_once('.').map(|(before, _)| before);
        if let Some(other) = before.filter(|before| self.nodes.iter().any(|node| node.name == *before || node.step == *before))
        {
            return Some(format!("add `{other}` to `needs`"));
        }
        let meant = nearest(name, columns.clone()).map(|meant| format!("nothing has this name: did you mean `{meant}`?"));
        let all = columns.collect::<Vec<_>>().join(", ");
        meant.or_else(|| (!all.is_empty()).then(|| format!("nothing has this name (the columns are {all})")))
    }

    /// What becomes of a node, now that everything that it needs has ended.
    pub(crate) fn expand(&self, at: usize, results: &ResultsOf<'_>) -> Expanded {
        let node = &self.nodes[at];
        for need in &node.needs {
            let found: Vec<_> = need.nodes.iter().flat_map(|node| results(*node)).collect();
            match node.condition.as_ref().filter(|condition| condition.needs == need.alias) {
                Some(condition) if condition.holds(&found) => {}
                Some(_) => return Expanded::Skip("its condition does not hold".to_owned()),
                None => {
                    if let Some(other) = found.iter().find(|result| result.outcome != crate::result::JobOutcome::Success) {
                        let how = other.outcome.word();
                        return Expanded::Skip(format!("it needs `{}`, which did not succeed ({how})", other.job));
                    }
                }
            }
        }
        let Some(list) = &node.for_each else {
            return Expanded::Jobs(vec![Planned { name: node.name.clone(), node: at, item: None }]);
        };
        let items = node.referred(list).and_then(|(nodes, part)| {
            let found: Vec<_> = nodes.iter().flat_map(|node| results(*node)).collect();
            part.ok()?.items(&found)
        });
        let Some(items) = items else { return Expanded::Fail(format!("for_each: `{list}` is not a list")) };
        let planned =
            |(number, item): (usize, Value)| Planned { name: format!("{}-{number}", node.name), node: at, item: Some(item) };
        Expanded::Jobs((1..).zip(items).map(planned).collect())
    }

    /// Makes a job, or says what is wrong with it.
    pub(crate) fn job(&self, planned: &Planned, results: &ResultsOf<'_>) -> Result<Job, String> {
        let node = &self.nodes[planned.node];
        let look = |name: &str| self.look(node, name, planned.item.as_ref(), Some(results));
        let mut reading = Reading::new(&self.entry(node).fields, &look, &self.source.base);
        let job = reading.job(planned.name.clone(), node.step.clone());
        let faults: Vec<String> = reading.faults.into_iter().map(|fault| fault.why).collect();
        if faults.is_empty() { Ok(job) } else { Err(faults.join("; ")) }
    }

    /// Returns each step with its label, its agent and how many jobs it has, in the order of the file, and what it waits for.
    pub fn steps(&self) -> Vec<PlannedStep> {
        self.steps_of(&|_| None)
    }

    /// The steps, with as many jobs of each node as are left. `None` is one, or as many as its list has items.
    pub(crate) fn steps_of(&self, left: &dyn Fn(usize) -> Option<usize>) -> Vec<PlannedStep> {
        let mut steps: Vec<PlannedStep> = Vec::new();
        for (at, node) in self.nodes.iter().enumerate().filter(|(at, _)| left(*at) != Some(0)) {
            let jobs = left(at).unwrap_or(1);
            let look = |name: &str| self.look(node, name, None, None);
            let mut reading = Reading::new(&self.entry(node).fields, &look, &self.source.base);
            let job = reading.job(node.name.clone(), node.step.clone());
            let same = steps.iter_mut().find(|step| step.name == node.step && step.label == job.label);
            let Some(step) = same else {
                steps.push(PlannedStep {
                    name: node.step.clone(),
                    label: job.label,
                    agent: job.agent.name(),
                    jobs,
                    needs: node.needs.iter().map(|need| need.alias.clone()).collect(),
                    for_each: node.for_each.clone().filter(|_| left(at).is_none()),
                });
                continue;
            };
            step.jobs += jobs;
        }
        steps
    }
}

/// A step of a plan, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedStep {
    /// Its name.
    pub name: String,
    /// The label of its runs.
    pub label: String,
    /// The agent's name.
    pub agent: &'static str,
    /// How many jobs it has, as far as that is known.
    pub jobs: usize,
    /// What it needs.
    pub needs: Vec<String>,
    /// The list that it has a job for each item of.
    pub for_each: Option<String>,
}

impl Source {
    /// Makes paths relative to this folder.
    pub(crate) fn based_on(base: &Path) -> PathBuf {
        std::path::absolute(base).unwrap_or_else(|_| base.to_owned())
    }
}
