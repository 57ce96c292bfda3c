//! What a run is driven over: the agent's three streams, and control of its processes. A child process is one
//! transport; a pair in memory, for tests in paused time, is another.

pub(crate) mod child;
#[cfg(test)]
pub(crate) mod memory;

use std::fmt::Debug;
use std::process::ExitStatus;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::tree::{Left, StopSignal};

/// An agent that can be read, written to, and ended.
pub(crate) trait Transport: Send + 'static {
    /// The standard input.
    type Input: AsyncWrite + Unpin + Send + 'static;
    /// The standard output.
    type Output: Source;
    /// The standard error.
    type Errors: Source;

    /// Takes the streams.
    fn streams(&mut self) -> Streams<Self::Input, Self::Output, Self::Errors>;

    /// Waits for the agent's end. Returns `None` if its status is not known. The wait can be abandoned safely.
    fn ended(&mut self) -> impl Future<Output = Option<ExitStatus>> + Send;

    /// Interrupts the agent, as Ctrl-C does.
    fn interrupt(&self);

    /// Signals everything that is left of the run, and returns what that was.
    fn signal(&mut self, signal: StopSignal) -> impl Future<Output = Left> + Send;

    /// Returns what is left of the run.
    fn left(&mut self) -> impl Future<Output = Left> + Send;

    /// Kills processes that hold the agent's output although nothing else is left.
    fn kill_holders(&mut self) -> impl Future<Output = ()> + Send;

    /// Finishes, because nothing of the run is left.
    fn close(&mut self) -> impl Future<Output = ()> + Send;

    /// Returns what ends the run when its caller drops it.
    fn killer(&self) -> Arc<dyn Killer>;
}

/// The streams of an agent.
#[derive(Debug)]
pub(crate) struct Streams<I, O, E> {
    pub(crate) input: Option<I>,
    pub(crate) output: Option<O>,
    pub(crate) errors: Option<E>,
}

/// A stream to read from.
pub(crate) trait Source: AsyncRead + Unpin + Send + 'static {
    /// Returns whether there is nothing to read, whatever the runtime says.
    fn is_drained(&self) -> bool;
}

/// Ends a run at once, wherever its caller drops it.
pub(crate) trait Killer: Debug + Send + Sync {
    /// Kills everything that is left.
    fn kill(self: Arc<Self>);
}
