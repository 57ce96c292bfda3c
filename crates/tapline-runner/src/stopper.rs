//! How a run is stopped, from any task.

use tapline_protocol::StopReason;
use tokio::sync::{mpsc, watch};

/// An order to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Stop(StopReason),
    /// A rule was broken.
    Violated(String),
    /// The agent does not follow the protocol, for this reason.
    NotTalking(String),
}

/// Stops a run, from any task. The first call stops the run step by step, so that the agent can save its work. The
/// second kills it at once.
#[derive(Clone, Debug)]
pub struct Stopper {
    pub(crate) orders: mpsc::UnboundedSender<Order>,
    pub(crate) over: watch::Receiver<Option<StopReason>>,
}

impl Stopper {
    /// Interrupts the run, as Ctrl-C does.
    pub fn interrupt(&self) {
        let _ = self.orders.send(Order::Stop(StopReason::Interrupted));
    }

    /// Terminates the run, as SIGTERM does.
    pub fn terminate(&self) {
        let _ = self.orders.send(Order::Stop(StopReason::Terminated));
    }

    /// Stops the run because it broke this rule. The run then counts as failed.
    pub fn violated(&self, rule: impl Into<String>) {
        let _ = self.orders.send(Order::Violated(rule.into()));
    }

    pub(crate) fn not_talking(&self, why: String) {
        let _ = self.orders.send(Order::NotTalking(why));
    }

    /// Stops the run because this program has what it needs.
    pub fn stop(&self) {
        let _ = self.orders.send(Order::Stop(StopReason::Stopped));
    }

    /// Waits until the run has ended and its recording is closed, even if nobody reads its updates. Returns why it was stopped, if it
    /// was.
    pub async fn ended(&self) -> Option<StopReason> {
        self.orders.closed().await;
        *self.over.borrow()
    }
}
