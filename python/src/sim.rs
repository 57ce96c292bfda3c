//! The scripted model and the agent that plays recordings, for tests in Python.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use tapline_sim::{FakeAgent, ReplayOptions, Scenario, SimError, SimOptions, Speed};

use crate::json::to_python;
use crate::runtime::Owned;

fn error(error: SimError) -> PyErr {
    PyRuntimeError::new_err(tapline::session::text::with_causes(&error))
}

/// A scripted model. It serves from a thread of its own until it is closed.
#[pyclass(frozen, module = "tapline._native")]
pub(crate) struct Sim(Mutex<Owned<tapline_sim::Sim>>);

impl Sim {
    fn with<T>(&self, use_it: impl FnOnce(&tapline_sim::Sim) -> T) -> PyResult<T> {
        let sim = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sim.get().map(use_it).ok_or_else(|| PyRuntimeError::new_err("the sim is closed"))
    }
}

#[pymethods]
impl Sim {
    /// Starts a model with this scenario: TOML, or the same as JSON.
    #[new]
    fn new(scenario: &str) -> PyResult<Self> {
        let scenario = Scenario::parse(scenario).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let sim = tapline_sim::Sim::start_with(scenario, SimOptions::default()).map_err(error)?;
        Ok(Self(Mutex::new(Owned::new(sim))))
    }

    fn url(&self) -> PyResult<String> {
        self.with(tapline_sim::Sim::url)
    }

    fn home(&self) -> PyResult<PathBuf> {
        self.with(|sim| sim.home().to_owned())
    }

    fn environment(&self) -> PyResult<BTreeMap<String, String>> {
        self.with(|sim| {
            sim.environment().into_iter().map(|(name, value)| (name, value.to_string_lossy().into_owned())).collect()
        })
    }

    /// The requests so far, each as a dict.
    fn requests<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let lines: Vec<_> = self.with(|sim| sim.requests().iter().map(tapline_sim::Logged::to_line).collect())?;
        lines.iter().map(|line| to_python(py, line.trim_end())).collect()
    }

    fn failures(&self) -> PyResult<Vec<String>> {
        self.with(tapline_sim::Sim::failures)
    }

    fn notes(&self) -> PyResult<Vec<String>> {
        self.with(tapline_sim::Sim::notes)
    }

    fn close(&self, py: Python<'_>) {
        let sim = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(sim));
    }
}

/// A program that plays a recording each time it is started.
#[pyclass(frozen, module = "tapline._native")]
pub(crate) struct Replay(Mutex<Owned<FakeAgent>>);

#[pymethods]
impl Replay {
    #[new]
    #[pyo3(signature = (recording, speed, stop_after, hang_at, drop_result, strict))]
    fn new(
        recording: PathBuf,
        speed: Option<f64>,
        stop_after: Option<u64>,
        hang_at: Option<u64>,
        drop_result: bool,
        strict: bool,
    ) -> PyResult<Self> {
        let speed = speed.map_or(Speed::Instant, Speed::Times);
        let options = ReplayOptions { speed, stop_after, hang_at, drop_result, strict, ..ReplayOptions::default() };
        let agent = FakeAgent::replaying(recording, options).map_err(error)?;
        Ok(Self(Mutex::new(Owned::new(agent))))
    }

    /// The program, for a host to start.
    fn program(&self) -> PyResult<PathBuf> {
        let agent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        agent.get().map(|agent| agent.program().to_owned()).ok_or_else(|| PyRuntimeError::new_err("the replay is closed"))
    }

    fn close(&self, py: Python<'_>) {
        let agent = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(agent));
    }
}
