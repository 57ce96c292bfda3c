//! Why a run was stopped before it ended by itself: one enum for the runner, which decides it, the recording, which
//! keeps it, and the verdict, which uses it.

/// Why a run was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The whole run took too long.
    Timeout,
    /// The agent wrote nothing for too long.
    Idle,
    /// The agent kept running after its final result.
    Linger,
    /// A person interrupted the run.
    Interrupted,
    /// The program that ran the agent received SIGTERM or a similar signal.
    Terminated,
    /// The program that ran the agent stopped it: it had what it needed, or the run broke a rule.
    Stopped,
}

impl StopReason {
    /// Returns whether the run took too long or was silent for too long, which makes it a failure.
    pub fn is_timeout(self) -> bool {
        match self {
            Self::Timeout | Self::Idle => true,
            Self::Linger | Self::Interrupted | Self::Terminated | Self::Stopped => false,
        }
    }

    /// Returns whether a person or a program stopped the run.
    pub fn is_interrupt(self) -> bool {
        match self {
            Self::Interrupted | Self::Terminated | Self::Stopped => true,
            Self::Timeout | Self::Idle | Self::Linger => false,
        }
    }

    /// Returns the name of the clock that stopped the run, if one did.
    pub fn clock(self) -> Option<&'static str> {
        match self {
            Self::Timeout => Some("timeout"),
            Self::Idle => Some("idle-timeout"),
            Self::Linger => Some("linger"),
            Self::Interrupted | Self::Terminated | Self::Stopped => None,
        }
    }
}
