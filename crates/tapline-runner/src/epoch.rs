//! When a run began, by both clocks. Every time of the run is counted from here, so the recording and a live view
//! agree.

use std::time::{Duration, SystemTime};

use tapline_protocol::Moment;
use tapline_session::rfc3339;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch {
    instant: Instant,
    moment: Moment,
}

impl Epoch {
    pub(crate) fn now() -> Self {
        Self { instant: Instant::now(), moment: moment() }
    }

    pub(crate) fn instant(self) -> Instant {
        self.instant
    }

    pub(crate) fn moment(self) -> Moment {
        self.moment
    }

    /// Returns when it began (RFC 3339).
    pub(crate) fn stamp(self) -> Option<String> {
        stamp(self.moment)
    }

    /// Returns how long ago it began.
    pub(crate) fn elapsed(self) -> Duration {
        self.time_of(Instant::now())
    }

    /// Returns how long after the start this was.
    pub(crate) fn time_of(self, at: Instant) -> Duration {
        at.saturating_duration_since(self.instant)
    }

    /// Returns this time as a moment.
    pub(crate) fn moment_of(self, at: Instant) -> Moment {
        self.moment.after(self.time_of(at))
    }
}

/// Returns the current moment.
pub fn moment() -> Moment {
    Moment::from_millis(0).after(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// Returns the current time (RFC 3339).
pub fn now() -> Option<String> {
    stamp(moment())
}

/// Formats a moment to the second.
fn stamp(moment: Moment) -> Option<String> {
    rfc3339(Duration::from_millis(moment.as_millis()).as_secs_f64())
}
