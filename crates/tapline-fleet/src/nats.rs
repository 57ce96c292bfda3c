//! Many machines: jobs, results and recordings travel through NATS JetStream, a broker that others keep.

mod bucket;
mod connect;
mod engine;
mod names;
mod order;
mod queue;
mod taken;
mod trouble;
mod worker;

pub use connect::{Broker, BrokerError};
pub use engine::{Nats, NatsError};
pub use worker::{Worker, WorkerError, WorkerNews, WorkerOptions};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks what no panic can leave half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
