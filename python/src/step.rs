//! Steps: what happened, each kind a class of its own with typed attributes, so that `match` can take them apart.

mod kinds;

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use pyo3::PyTypeInfo as _;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use tapline::SourceError;

use crate::ahead::{Ahead, Feed};
use crate::json::raw;
use crate::record::datetime;
use crate::source::{self, Stream};

pub(crate) use kinds::{classes, object};

/// One thing that happened, with its place in the stream. Its class says what: see `tapline.step`.
#[pyclass(frozen, subclass, module = "tapline")]
pub(crate) struct Step(tapline::Step);

/// The keys that every step has, and the attributes that stand for them.
const PLACE: [&str; 7] = ["step", "line", "at", "arrived_ms", "parent", "depth", "turn"];

#[pymethods]
impl Step {
    /// What kind of step it is, in a word: `call`, `text`, `turn`, ...
    #[getter]
    fn step<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.get_item("step")
    }

    /// The line of the stream, from 1.
    #[getter]
    fn line(&self) -> u64 {
        self.0.line
    }

    /// The agent's own timestamp.
    #[getter]
    fn at(&self) -> Option<&str> {
        self.0.at.as_deref()
    }

    /// When the line arrived, as an aware datetime; None for a plain file, which has no times.
    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.arrived.map(|moment| datetime(py, moment)).transpose()
    }

    /// The call that started the sub-agent; None for the main agent.
    #[getter]
    fn parent(&self) -> Option<&str> {
        self.0.parent.as_deref()
    }

    /// How deep it is in sub-agents: 0 is the main agent.
    #[getter]
    fn depth(&self) -> usize {
        self.0.depth
    }

    /// The index of its turn, from 0. What comes after a turn has ended belongs to it until the next one begins.
    #[getter]
    fn turn(&self) -> usize {
        self.0.turn
    }

    /// The session's id, on the first step that knows it, and again when it changes.
    #[getter]
    fn session_id(&self) -> Option<&str> {
        self.0.session_id.as_deref()
    }

    /// The model that wrote the message that this is a part of.
    #[getter]
    fn model(&self) -> Option<&str> {
        self.0.message.as_ref()?.model.as_deref()
    }

    /// The API's id of the request that the message answers that this is a part of.
    #[getter]
    fn request(&self) -> Option<&str> {
        self.0.message.as_ref()?.request.as_deref()
    }

    /// Why the message that this is a part of ended.
    #[getter]
    fn stop_reason(&self) -> Option<&str> {
        self.0.message.as_ref()?.stop_reason.as_deref()
    }

    /// What the message used that this is a part of, as the agent writes it. All its steps repeat it: do not add it up.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let usage = self.0.message.as_ref().and_then(|message| message.usage.as_ref());
        usage.map(|usage| raw(usage).into_pyobject(py)).transpose()
    }

    /// The step as a dict, with the keys of docs/STEPS.md.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        raw(&self.0).into_pyobject(py)
    }

    /// The step as one line of JSON, as `tapline convert --to steps` writes it.
    fn to_json(&self) -> String {
        tapline::protocol::without_lone_surrogates(tapline::Json::of(&self.0).as_str()).into_owned()
    }

    /// Reads a step back from its JSON.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
        let step = serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))?;
        object(py, step)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let fields = slf.get().to_dict(slf.py())?.cast_into::<PyDict>()?;
        let mut shown = format!("{}(line={}", slf.get_type().name()?, slf.get().0.line);
        for (key, value) in fields {
            let key: String = key.extract()?;
            // What is not there, or empty, says nothing.
            if !PLACE.contains(&key.as_str()) && value.is_truthy()? {
                shown.extend([", ", &key, "=", &short(&value)?]);
            }
        }
        Ok(shown + ")")
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.0.line, self.0.depth, std::mem::discriminant(&self.0.what)).hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let read = Self::type_object(py).getattr("from_json")?;
        (read, (self.to_json(),)).into_pyobject(py)
    }
}

/// A value as `repr` shows it, cut where it is long.
fn short(value: &Bound<'_, PyAny>) -> PyResult<String> {
    const LONGEST: usize = 80;
    let shown: String = match value.cast::<PyString>() {
        // A text is cut before it is quoted, so that it stays one.
        Ok(text) if text.len()? > LONGEST => {
            let cut: String = text.to_string_lossy().chars().take(LONGEST).collect();
            PyString::new(value.py(), &(cut + "…")).repr()?.extract()?
        }
        _ => value.repr()?.extract()?,
    };
    let too_long = shown.char_indices().nth(LONGEST + 10).map(|(at, _)| at);
    Ok(match too_long {
        Some(at) => format!("{}…", &shown[..at]),
        None => shown,
    })
}

/// Steps as a list of objects.
pub(crate) fn objects(py: Python<'_>, steps: impl IntoIterator<Item = tapline::Step>) -> PyResult<Vec<Py<PyAny>>> {
    steps.into_iter().map(|step| object(py, step)).collect()
}

/// A stream as steps.
pub(crate) struct Folded(Stream);

impl Feed for Folded {
    type Item = tapline::Step;

    fn feed(&mut self, ready: &mut VecDeque<tapline::Step>) -> Result<bool, SourceError> {
        let Some((_, steps)) = self.0.advance()? else {
            // What was being written when the stream was cut.
            ready.extend(self.0.unfinished());
            return Ok(false);
        };
        ready.extend(steps);
        Ok(true)
    }

    fn is_ready(&self) -> bool {
        self.0.is_ready()
    }
}

/// The steps of a stream.
#[pyclass(module = "tapline")]
pub(crate) struct Steps(Ahead<Folded>);

#[pymethods]
impl Steps {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.0.next(py)?.map(|step| object(py, step)).transpose()
    }
}

/// Opens a source for its steps.
#[pyfunction]
pub(crate) fn steps(source: &Bound<'_, PyAny>, known: Option<&Bound<'_, PyDict>>) -> PyResult<Steps> {
    Ok(Steps(Ahead::new(Folded(source::open(source, source::options(known)?)?))))
}
