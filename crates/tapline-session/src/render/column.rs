//! The column of times at the left of a view: how long after the start each step arrived. A time that repeats is left out.

use std::fmt::Write as _;

use tapline_protocol::Moment;

use super::Style;
use crate::time::short_duration;

/// Which times a view shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// None.
    #[default]
    Hidden,
    /// Times since this moment.
    Since(Moment),
    /// Times since the first step that has one.
    SinceFirst,
}

/// Room for `12m05.4s`.
const DIGITS: usize = 8;

pub(super) struct Column {
    times: Times,
    /// A step had a time: until then there is no column.
    begun: bool,
    /// What the next line says, and what was said last.
    next: String,
    last: String,
    /// Whether the next character starts a line.
    at_start: bool,
}

impl Column {
    pub(super) fn new(times: Times) -> Self {
        Self { times, begun: false, next: String::new(), last: String::new(), at_start: true }
    }

    /// How wide it is.
    pub(super) fn width(&self) -> usize {
        if self.begun { DIGITS + 2 } else { 0 }
    }

    /// A step comes, which arrived then.
    pub(super) fn step(&mut self, arrived: Option<Moment>) {
        self.next.clear();
        let (Some(arrived), true) = (arrived, self.times != Times::Hidden) else { return };
        if self.times == Times::SinceFirst {
            self.times = Times::Since(arrived);
        }
        if let Times::Since(start) = self.times {
            self.begun = true;
            self.next = short_duration(arrived.millis_since(start).unwrap_or(0));
        }
    }

    /// Puts the column before every line that begins in this text.
    pub(super) fn before(&mut self, text: String, style: Style) -> String {
        if !self.begun {
            self.at_start = text.chars().next_back().map_or(self.at_start, |last| last == '\n');
            return text;
        }
        let mut out = String::with_capacity(text.len() * 2);
        for line in text.split_inclusive('\n') {
            if self.at_start && line != "\n" {
                let time = std::mem::take(&mut self.next);
                let (dim, reset) = if time.is_empty() { ("", "") } else { (style.dim, style.reset) };
                let shown = if time == self.last { "" } else { &time };
                let _ = write!(out, "{dim}{shown:>DIGITS$}{reset}  ");
                if !time.is_empty() {
                    self.last = time;
                }
            }
            out += line;
            self.at_start = line.ends_with('\n');
        }
        out
    }

    /// How long something took, if times are shown.
    pub(super) fn took(&self, ms: Option<u64>) -> Option<String> {
        ms.filter(|_| self.begun).map(short_duration)
    }
}
