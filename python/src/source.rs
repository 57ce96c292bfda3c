//! What can be read: a path, bytes, a file that Python has opened, or an iterator of lines.

use std::io::{self, Cursor, Read};
use std::path::PathBuf;

use pyo3::exceptions::{PyIsADirectoryError, PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyIterator, PyMemoryView, PyString};
use tapline::archive::SourceOptions;
use tapline::{AgentKind, InputFormat, Source, SourceError};

/// An open stream.
pub(crate) type Stream = Source<Box<dyn Read + Send>>;

/// One read of a Python file asks for so much.
const CHUNK: usize = 64 << 10;

/// What is read, and what errors call it.
pub(crate) struct Opened {
    pub(crate) name: String,
    pub(crate) reader: Box<dyn Read + Send>,
}

/// Opens a source with all that is known of it.
pub(crate) fn open(source: &Bound<'_, PyAny>, options: SourceOptions) -> PyResult<Stream> {
    let py = source.py();
    if let Some(path) = path(source)? {
        return py.detach(|| Source::open(&path, options)).map_err(error);
    }
    let Opened { name, reader } = opened(source)?;
    py.detach(|| Source::of(name, reader, options)).map_err(error)
}

/// The path, if the source is one.
pub(crate) fn path(source: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    if source.is_instance_of::<PyString>() || source.hasattr("__fspath__")? { source.extract().map(Some) } else { Ok(None) }
}

/// Opens what is not a path.
pub(crate) fn opened(source: &Bound<'_, PyAny>) -> PyResult<Opened> {
    let py = source.py();
    let reader: Box<dyn Read + Send> = if source.is_instance_of::<PyBytes>() || source.is_instance_of::<PyByteArray>() {
        Box::new(Cursor::new(source.extract::<PyBackedBytes>()?))
    } else if source.is_instance_of::<PyMemoryView>() {
        Box::new(Cursor::new(py.get_type::<PyBytes>().call1((source,))?.extract::<PyBackedBytes>()?))
    } else if let Some(read) = reading(source)? {
        Box::new(Pieces { next: Next::Read(read.unbind()), left: Cursor::default() })
    } else {
        let Ok(lines) = source.try_iter() else {
            let kind = source.get_type().name()?;
            return Err(PyTypeError::new_err(format!("a path, bytes, a file or an iterator of lines is needed, not {kind}")));
        };
        Box::new(Pieces { next: Next::Line(lines.unbind()), left: Cursor::default() })
    };
    Ok(Opened { name: "the stream".to_owned(), reader })
}

/// How a binary file gives what is there without waiting for more. A text file gives lines.
fn reading<'py>(source: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Some(read) = source.getattr_opt("read1")? {
        return Ok(Some(read));
    }
    // A file without a buffer.
    if source.hasattr("readall")? { source.getattr_opt("read") } else { Ok(None) }
}

enum Next {
    Read(Py<PyAny>),
    Line(Py<PyIterator>),
}

/// Bytes that Python hands over piece by piece.
struct Pieces {
    next: Next,
    left: Cursor<Vec<u8>>,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.left.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            match Python::attach(|py| self.next.piece(py)).map_err(io::Error::other)? {
                None => return Ok(0),
                Some(piece) => self.left = Cursor::new(piece),
            }
        }
    }
}

impl Next {
    /// The next piece; none at the end. A line without an end gets one.
    fn piece(&self, py: Python<'_>) -> PyResult<Option<Vec<u8>>> {
        match self {
            Self::Read(read) => {
                let piece = read.bind(py).call1((CHUNK,))?;
                if piece.is_none() {
                    return Err(PyOSError::new_err("the file is not blocking: nothing is there to read yet"));
                }
                Ok(Some(bytes(&piece)?).filter(|piece| !piece.is_empty()))
            }
            Self::Line(lines) => {
                let Some(line) = lines.bind(py).clone().next() else { return Ok(None) };
                let mut line = bytes(&line?)?;
                if line.last() != Some(&b'\n') {
                    line.push(b'\n');
                }
                Ok(Some(line))
            }
        }
    }
}

/// The bytes of a line: `str`, or anything that holds bytes. Text that is not Unicode (half an emoji) is kept as well as can be.
pub(crate) fn bytes(line: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(text) = line.cast::<PyString>() {
        if let Ok(text) = text.to_str() {
            return Ok(text.as_bytes().to_vec());
        }
        let encoded = text.call_method1("encode", ("utf-8", "surrogateescape"));
        return encoded.or_else(|_| text.call_method1("encode", ("utf-8", "replace")))?.extract();
    }
    if let Ok(bytes) = line.extract::<PyBackedBytes>() {
        return Ok(bytes.to_vec());
    }
    let kind = line.get_type().name()?;
    match line.py().get_type::<PyBytes>().call1((line,)) {
        Ok(bytes) if line.is_instance_of::<PyMemoryView>() => bytes.extract(),
        _ => Err(PyTypeError::new_err(format!("a line is str or bytes, not {kind}"))),
    }
}

/// An error of a source in Python's terms. What the caller's own file or iterator raised is raised again as it was.
pub(crate) fn error(error: SourceError) -> PyErr {
    let words = error.to_string();
    match error {
        SourceError::Open { name, error } | SourceError::Read { name, error } => Python::attach(|py| {
            if let Some(raised) = error.get_ref().and_then(|inner| inner.downcast_ref::<PyErr>()) {
                return raised.clone_ref(py);
            }
            match error.raw_os_error() {
                // Python picks the subclass by the number.
                Some(number) => {
                    let meaning = io::Error::from_raw_os_error(number).to_string();
                    let meaning = meaning.split(" (os error").next().unwrap_or_default().to_owned();
                    PyOSError::new_err((number, meaning, name))
                }
                None => PyOSError::new_err(format!("{words}: {error}")),
            }
        }),
        SourceError::Folder(_) => PyIsADirectoryError::new_err(words),
        other => PyOSError::new_err(other.to_string()),
    }
}

/// What the caller knows of a source: which agent wrote it, its format, how the run ended.
pub(crate) fn options(known: Option<&Bound<'_, PyDict>>) -> PyResult<SourceOptions> {
    let mut options = SourceOptions::default();
    for (key, value) in known.into_iter().flatten() {
        let key: String = key.extract()?;
        if value.is_none() {
            continue;
        }
        let ending = &mut options.ending;
        match key.as_str() {
            "agent" => options.agent = Some(agent(&value)?),
            "format" => options.format = format(value.extract()?)?,
            "line_limit" => options.line_limit = Some(value.extract()?),
            "exit_code" => ending.exit_code = Some(value.extract()?),
            "signal" => ending.signal = Some(value.extract()?),
            "stderr" => ending.stderr = Some(value.extract()?),
            "last_message" => ending.last_message = Some(value.extract()?),
            "timed_out" => ending.stopped = value.extract::<bool>()?.then_some(tapline::StopReason::Timeout),
            "heuristics" => ending.no_heuristics = !value.extract::<bool>()?,
            _ => return Err(PyTypeError::new_err(format!("unexpected keyword argument '{key}'"))),
        }
    }
    Ok(options)
}

/// An agent by its name.
pub(crate) fn agent(name: &Bound<'_, PyAny>) -> PyResult<AgentKind> {
    let name: String = name.extract()?;
    AgentKind::named(&name).ok_or_else(|| {
        let known: Vec<_> = AgentKind::ALL.iter().map(|agent| format!("'{}'", agent.name())).collect();
        PyValueError::new_err(format!("agent is {}, not '{name}'", known.join(" or ")))
    })
}

fn format(name: String) -> PyResult<InputFormat> {
    match name.as_str() {
        "auto" => Ok(InputFormat::Auto),
        "stream-json" | "exec-json" => Ok(InputFormat::Lines),
        "json" => Ok(InputFormat::Document),
        _ => Err(PyValueError::new_err(format!("format is 'auto', 'stream-json', 'exec-json' or 'json', not '{name}'"))),
    }
}
