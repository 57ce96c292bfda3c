//! Times that Python gives as numbers of seconds.

use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A time in seconds.
pub(crate) fn duration(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    seconds(key, value.extract().map_err(|_| PyTypeError::new_err(format!("{key} is a number of seconds")))?)
}

/// The same, from a number.
pub(crate) fn seconds(key: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{key} is a number of seconds, not {seconds}")))
}
