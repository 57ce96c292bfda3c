//! Records: the lines of a stream with their exact bytes. What is in them is read when it is asked for.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};
use tapline::protocol::{Kind, Tape};
use tapline::{Envelope, Moment};

use crate::ahead::Ahead;
use crate::json::build;
use crate::line::{Line, Lines};
use crate::source;

/// One line of a stream: its exact bytes, and what they say.
#[pyclass(frozen, module = "tapline")]
pub(crate) struct Record(Line);

#[pymethods]
impl Record {
    /// The exact bytes of the line, with its line end. All of them joined are the stream.
    #[getter]
    fn raw<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.bytes)
    }

    /// The line's text without blanks and the line end.
    #[getter]
    fn text(&self) -> String {
        self.0.text().into_owned()
    }

    /// The line's `type`; None for a line that has none or is not JSON.
    #[getter]
    fn kind(&self) -> Option<&str> {
        self.0.envelope().kind.as_deref()
    }

    /// The `subtype` of a `system` line.
    #[getter]
    fn subtype(&self) -> Option<&str> {
        self.0.envelope().subtype.as_deref()
    }

    /// The line as a dict, made again at each access; None for a line that is not a JSON object.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match Tape::default().parse(&self.0.text()) {
            Ok(value) if value.kind() == Kind::Object => build(py, value).map(Some),
            _ => Ok(None),
        }
    }

    /// The line's `session_id`, if that is a string and not empty.
    #[getter]
    fn session_id(&self) -> Option<&str> {
        self.0.envelope().session_id.as_deref()
    }

    /// The line's `uuid`.
    #[getter]
    fn uuid(&self) -> Option<&str> {
        self.0.envelope().uuid.as_deref()
    }

    /// The call that started the sub-agent that wrote the line; None for the main agent.
    #[getter]
    fn parent(&self) -> Option<&str> {
        self.0.envelope().parent.as_deref()
    }

    /// The line's number, from 1. Blank lines count.
    #[getter]
    fn line(&self) -> u64 {
        self.0.number
    }

    /// When the line arrived, as an aware datetime; None for a plain file, which has no times.
    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.arrived.map(|moment| datetime(py, moment)).transpose()
    }

    fn __repr__(&self) -> String {
        let Envelope { kind, subtype, .. } = self.0.envelope();
        let kind = kind.as_deref().unwrap_or("no type");
        let subtype = subtype.as_ref().map(|subtype| format!("/{subtype}")).unwrap_or_default();
        format!("<Record line {}: {kind}{subtype}, {} bytes>", self.0.number, self.0.bytes.len())
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0.number == other.0.number && self.0.bytes == other.0.bytes && self.0.arrived == other.0.arrived
    }

    fn __hash__(&self) -> u64 {
        self.0.number
    }
}

/// A moment as Python's aware datetime.
pub(crate) fn datetime(py: Python<'_>, moment: Moment) -> PyResult<Bound<'_, PyAny>> {
    static FROM: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();
    let (from, utc) = FROM.get_or_try_init(py, || -> PyResult<_> {
        let module = py.import("datetime")?;
        let from = module.getattr("datetime")?.getattr("fromtimestamp")?;
        Ok((from.unbind(), module.getattr("timezone")?.getattr("utc")?.unbind()))
    })?;
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 have 41 bits")]
    let seconds = moment.as_millis() as f64 / 1000.0;
    from.bind(py).call1((seconds, utc.bind(py)))
}

/// The records of a stream.
#[pyclass(module = "tapline")]
pub(crate) struct Records(Ahead<Lines>);

#[pymethods]
impl Records {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Record>> {
        Ok(self.0.next(py)?.map(Record))
    }
}

/// Opens a source for its records.
#[pyfunction]
pub(crate) fn read(source: &Bound<'_, PyAny>, known: Option<&Bound<'_, PyDict>>) -> PyResult<Records> {
    let options = source::options(known)?;
    let opened = match source::path(source)? {
        Some(path) => Err(path),
        None => Ok(source::opened(source)?),
    };
    let lines = source.py().detach(|| match opened {
        Ok(opened) => Lines::of(opened, options),
        Err(path) => Lines::open(&path, options),
    });
    lines.map(|lines| Records(Ahead::new(lines))).map_err(source::error)
}
