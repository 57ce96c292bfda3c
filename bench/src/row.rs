//! A row of the one table: what was measured, beside a peer, and what is promised. Every benchmark gives rows. `scripts/bench` reads them as
//! JSON, and its `table.py` shows and judges them.

use std::fmt;

use serde::Serialize;

/// A number with its unit. Times are in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub value: f64,
    pub unit: &'static str,
    /// What stands in brackets: the worst round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aside: Option<f64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Figure {
    pub fn new(value: f64, unit: &'static str) -> Self {
        Self { value, unit, aside: None, note: String::new() }
    }

    pub fn seconds(value: f64) -> Self {
        Self::new(value, "s")
    }

    pub fn worst(self, aside: f64) -> Self {
        Self { aside: Some(aside), ..self }
    }

    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// The median of several rounds, with the largest in brackets if there is more than one.
    pub fn median(mut values: Vec<f64>, unit: &'static str) -> Self {
        values.sort_by(f64::total_cmp);
        let figure = Self::new(values.get(values.len() / 2).copied().unwrap_or(f64::NAN), unit);
        if values.len() > 1 { figure.worst(values[values.len() - 1]) } else { figure }
    }
}

/// What the project promises about a row.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// So many times better than the peer.
    RatioAtLeast(f64),
    AtLeast(f64),
    AtMost(f64),
    /// At most so many times the peer's figure.
    Within(f64),
    /// At most so much more than the peer's figure.
    AtMostMore(f64),
}

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub benchmark: String,
    pub tapline: Figure,
    pub peer: Option<Figure>,
    pub promised: Option<Promise>,
}

impl Row {
    pub fn new(benchmark: impl Into<String>, tapline: Figure) -> Self {
        Self { benchmark: benchmark.into(), tapline, peer: None, promised: None }
    }

    pub fn beside(self, peer: Figure) -> Self {
        Self { peer: Some(peer), ..self }
    }

    pub fn promised(self, promise: Promise) -> Self {
        Self { promised: Some(promise), ..self }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.unit {
            "s" if self.value < 1e-3 => (1e6, "µs"),
            "s" if self.value < 1.0 => (1e3, "ms"),
            unit => (1.0, unit),
        };
        write!(f, "{:.1} {unit}", self.value * scale)?;
        if let Some(aside) = self.aside {
            write!(f, " ({:.1})", aside * scale)?;
        }
        if self.note.is_empty() { Ok(()) } else { write!(f, ", {}", self.note) }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.benchmark, self.tapline)?;
        if let Some(peer) = &self.peer { write!(f, "; the peer: {peer}") } else { Ok(()) }
    }
}
