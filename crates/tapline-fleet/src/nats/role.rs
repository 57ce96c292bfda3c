//! Whom a user of the broker is for. Each role hears answers on subjects of its own, so that no role can listen to another's.

/// Whom a user of the broker is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerRole {
    /// Takes runs.
    Worker,
    /// Orders runs.
    Batch,
    /// Reads recordings.
    Collector,
    /// Makes the streams and buckets.
    Setup,
}

impl BrokerRole {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Worker, Self::Batch, Self::Collector, Self::Setup];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Batch => "batch",
            Self::Collector => "collector",
            Self::Setup => "setup",
        }
    }

    /// The beginning of the subjects on which it hears answers.
    pub(crate) fn inbox(self) -> String {
        format!("_INBOX.{}", self.name())
    }
}
