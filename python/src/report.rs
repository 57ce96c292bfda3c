//! The report as a value that Python asks for its parts.

use pyo3::exceptions::{PyAttributeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::json::raw;
use crate::source;

/// The report on one stream, as Rust made it.
#[pyclass(frozen, module = "tapline._native")]
pub(crate) struct Report(pub(crate) tapline::Report);

/// The parts by their names.
macro_rules! parts {
    ($report:ident, $name:ident, $py:ident: $($part:ident)+) => {
        match $name {
            "agent" => $report.agent.map_or("unknown", |agent| agent.name()).into_pyobject($py)?.into_any(),
            $( stringify!($part) => raw(&$report.$part).into_pyobject($py)?, )+
            _ => return Err(PyAttributeError::new_err($name.to_owned())),
        }
    };
}

#[pymethods]
impl Report {
    /// One part of the report, by its key.
    fn part<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let report = &self.0;
        Ok(parts!(report, name, py:
            schema format run session verdict answer text main_text last_text thinking prompts tools turns ledger retries
            rate_limit rate_limit_events tasks hooks assistant_errors partial background_launches codex structured stream
        ))
    }

    /// The number of tool calls.
    fn calls(&self) -> usize {
        self.0.tools.calls.len()
    }

    /// The exit code that the command `tapline` has for this verdict.
    fn exit_code(&self) -> u8 {
        self.0.verdict.exit_code()
    }

    /// The whole report as JSON.
    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.to_json())
    }

    /// Reads a report back from its JSON.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        serde_json::from_str(text).map(Self).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// One value of the report by its path (`turns[-1].result`), as `tapline inspect --get` prints it; None if it is not there.
    fn get(&self, path: &str) -> PyResult<Option<String>> {
        tapline::check_path(path).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(tapline::get(&self.0.to_json(), path).ok())
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// The report on a source.
#[pyfunction]
pub(crate) fn report(source: &Bound<'_, PyAny>, known: Option<&Bound<'_, PyDict>>) -> PyResult<Report> {
    let stream = source::open(source, source::options(known)?)?;
    source.py().detach(|| stream.report()).map(Report).map_err(source::error)
}
