//! JSON as Python objects. The reader is tapline's own, so that no line is lost for half an emoji, a number of any size or
//! brackets of any depth; nothing here recurses.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use tapline::protocol::{Kind, Tape};
use tapline::{Json, Value};

/// A text of JSON that becomes a Python object.
pub(crate) struct Raw(String);

/// Anything that can be written as JSON, as a Python object.
pub(crate) fn raw(value: &impl serde::Serialize) -> Raw {
    Raw(Json::of(value).as_str().to_owned())
}

impl Raw {
    /// A text that is JSON.
    pub(crate) fn of(text: String) -> Self {
        Self(text)
    }
}

impl<'py> IntoPyObject<'py> for Raw {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0)
    }
}

/// A text of JSON as a Python object; `None` for a text that is not JSON.
pub(crate) fn to_python<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    match Tape::default().parse(text) {
        Ok(value) => build(py, value),
        Err(_) => Ok(py.None().into_bound(py)),
    }
}

/// A container that is being filled.
enum Open<'py> {
    Dict(Bound<'py, PyDict>, Option<Bound<'py, PyString>>),
    List(Bound<'py, PyList>),
}

/// A value as a Python object. Lone surrogates become U+FFFD; of repeated keys the last counts.
pub(crate) fn build<'py>(py: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    let walk = value.walk();
    let text = walk.text();
    let mut open: Vec<Open<'py>> = Vec::new();
    let mut root = None;
    let mut scratch = Tape::default();
    for token in walk {
        open.truncate(token.depth);
        let raw = &text[token.place];
        if token.is_key {
            if let Some(Open::Dict(_, key)) = open.last_mut() {
                *key = Some(string(py, raw, token.is_escaped, &mut scratch));
            }
            continue;
        }
        let (made, container) = match token.kind {
            Kind::Null => (py.None().into_bound(py), None),
            Kind::True => (PyBool::new(py, true).to_owned().into_any(), None),
            Kind::False => (PyBool::new(py, false).to_owned().into_any(), None),
            Kind::Number => (number(py, raw), None),
            Kind::String => (string(py, raw, token.is_escaped, &mut scratch).into_any(), None),
            Kind::Array => {
                let list = PyList::empty(py);
                (list.clone().into_any(), Some(Open::List(list)))
            }
            Kind::Object => {
                let dict = PyDict::new(py);
                (dict.clone().into_any(), Some(Open::Dict(dict, None)))
            }
        };
        match open.last_mut() {
            None => root = Some(made),
            Some(Open::List(list)) => list.append(made)?,
            Some(Open::Dict(dict, key)) => {
                if let Some(key) = key.take() {
                    dict.set_item(key, made)?;
                }
            }
        }
        open.extend(container);
    }
    Ok(root.unwrap_or_else(|| py.None().into_bound(py)))
}

fn string<'py>(py: Python<'py>, quoted: &str, is_escaped: bool, scratch: &mut Tape) -> Bound<'py, PyString> {
    if is_escaped {
        let text = scratch.parse(quoted).ok().and_then(Value::as_str);
        return PyString::new(py, text.as_deref().unwrap_or_default());
    }
    PyString::new(py, quoted.get(1..quoted.len() - 1).unwrap_or_default())
}

/// Python's own `int` reads what is larger than 64 bits, and gives up above some thousand digits.
fn number<'py>(py: Python<'py>, text: &str) -> Bound<'py, PyAny> {
    if !text.contains(['.', 'e', 'E']) {
        if let Ok(small) = text.parse::<i64>() {
            return PyInt::new(py, small).into_any();
        }
        if let Ok(large) = py.get_type::<PyInt>().call1((text,)) {
            return large;
        }
    }
    PyFloat::new(py, text.parse().unwrap_or(f64::NAN)).into_any()
}
