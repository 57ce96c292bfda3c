//! Why a run was stopped before it ended by itself: one enum for the runner, which decides it, the recording, which keeps it, and
//! the verdict, which weighs it.

/// Why a run was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The whole run took too long.
    Timeout,
    /// The agent wrote nothing for too long.
    Idle,
    /// The agent kept running after its final result.
    Linger,
    /// A person interrupted it.
    Interrupted,
    /// The program that ran it received SIGTERM or similar.
    Terminated,
    /// The program that ran it stopped it: it needed no more of it, or the run broke a rule.
    Stopped,
}

impl StopReason {
    /// Whether it took too long, or was silent too long: then the run has failed.
    pub fn is_timeout(self) -> bool {
        match self {
            Self::Timeout | Self::Idle => true,
            Self::Linger | Self::Interrupted | Self::Terminated | Self::Stopped => false,
        }
    }

    /// Whether a person or a program stopped it.
    pub fn is_interrupt(self) -> bool {
        match self {
            Self::Interrupted | Self::Terminated | Self::Stopped => true,
            Self::Timeout | Self::Idle | Self::Linger => false,
        }
    }

    /// The name of the clock that stopped it, if one did.
    pub fn clock(self) -> Option<&'static str> {
        match self {
            Self::Timeout => Some("timeout"),
            Self::Idle => Some("idle-timeout"),
            Self::Linger => Some("linger"),
            Self::Interrupted | Self::Terminated | Self::Stopped => None,
        }
    }
}
