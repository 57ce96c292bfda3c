//! Reads records and steps ahead, without the GIL.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use tapline::SourceError;

use crate::source;

/// How many records or steps are read ahead at most. Only those that are available already are.
const AHEAD: usize = 256;

/// A source of records or steps.
pub(crate) trait Feed: Send {
    type Item: Send;
    /// Adds what comes next, and says whether more may come.
    fn feed(&mut self, ready: &mut VecDeque<Self::Item>) -> Result<bool, SourceError>;
    /// Whether more can be had without waiting.
    fn is_ready(&self) -> bool;
}

/// Reads ahead without the GIL: what is there, and no more. A failure is reported once everything before it was taken.
pub(crate) struct Ahead<F: Feed> {
    /// Only one thread reads at a time; the lock says so to the compiler.
    feed: Mutex<Option<F>>,
    ready: VecDeque<F::Item>,
    failed: Option<SourceError>,
}

impl<F: Feed> Ahead<F> {
    pub(crate) fn new(feed: F) -> Self {
        Self { feed: Mutex::new(Some(feed)), ready: VecDeque::new(), failed: None }
    }

    pub(crate) fn next(&mut self, py: Python<'_>) -> PyResult<Option<F::Item>> {
        if let Some(next) = self.ready.pop_front() {
            return Ok(Some(next));
        }
        let left = self.feed.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut feed) = left.take() {
            let ready = &mut self.ready;
            (self.failed, *left) = py.detach(|| {
                loop {
                    match feed.feed(ready) {
                        Err(error) => return (Some(error), None),
                        Ok(false) => return (None, None),
                        // At least one, and then what can be had without waiting.
                        Ok(true) if !ready.is_empty() && (ready.len() >= AHEAD || !feed.is_ready()) => {
                            return (None, Some(feed));
                        }
                        Ok(true) => {}
                    }
                }
            });
        }
        match self.ready.pop_front() {
            Some(next) => Ok(Some(next)),
            None => self.failed.take().map_or(Ok(None), |failed| Err(source::error(failed))),
        }
    }
}
