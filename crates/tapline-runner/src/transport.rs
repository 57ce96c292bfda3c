//! What a run is driven over: the agent's three streams, and what can be done about its processes. A child process is one
//! transport; a pair in memory, for tests in paused time, is another.

pub(crate) mod child;
#[cfg(test)]
pub(crate) mod memory;

use std::fmt::Debug;
use std::process::ExitStatus;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::tree::{Firmness, Left};

/// An agent that can be heard, spoken to and ended.
pub(crate) trait Transport: Send + 'static {
    /// Its standard input.
    type Input: AsyncWrite + Unpin + Send + 'static;
    /// Its output.
    type Output: Source;
    /// Its error output.
    type Errors: Source;

    /// Its streams, to be taken once.
    fn streams(&mut self) -> Streams<Self::Input, Self::Output, Self::Errors>;

    /// Waits for the agent's end; none if its status cannot be had. Nothing is lost if the wait is given up.
    fn ended(&mut self) -> impl Future<Output = Option<ExitStatus>> + Send;

    /// Interrupts it, as Ctrl-C does.
    fn interrupt(&self);

    /// Signals everything that is left of the run, and says what that was.
    fn signal(&mut self, firmness: Firmness) -> impl Future<Output = Left> + Send;

    /// What is left of the run.
    fn left(&mut self) -> impl Future<Output = Left> + Send;

    /// Kills whoever holds the agent's output though nobody else is left.
    fn kill_holders(&mut self) -> impl Future<Output = ()> + Send;

    /// Nothing of the run is left.
    fn close(&mut self) -> impl Future<Output = ()> + Send;

    /// Ends the run when its caller drops it.
    fn killer(&self) -> Arc<dyn Killer>;
}

/// An agent's streams, those that there are.
#[derive(Debug)]
pub(crate) struct Streams<I, O, E> {
    pub(crate) input: Option<I>,
    pub(crate) output: Option<O>,
    pub(crate) errors: Option<E>,
}

/// Something to read from.
pub(crate) trait Source: AsyncRead + Unpin + Send + 'static {
    /// Whether nothing is there to be read, whatever the runtime knows of it.
    fn is_drained(&self) -> bool;
}

/// Ends a run at once, from wherever its caller drops it.
pub(crate) trait Killer: Debug + Send + Sync {
    /// Kills everything that is left.
    fn kill(self: Arc<Self>);
}
