//! Many machines: jobs, results and recordings travel through NATS JetStream, a broker that others keep.

mod arrivals;
mod bucket;
mod ceiling;
mod checkup;
mod collect;
mod connect;
mod copies;
mod engine;
mod files;
mod fitness;
mod growth;
mod key;
mod made;
mod meanwhile;
mod names;
mod order;
mod outbox;
mod pieces;
mod post;
mod queue;
mod role;
mod ship;
mod taken;
mod trouble;
mod waiting;
mod workbench;
mod worker;
mod workers;

pub use arrivals::{CollectNews, CollectOptions};
pub use checkup::{Checkup, RoleRights, SeenWorker, StoreState, checkup};
pub use collect::RecordingCollector;
pub use connect::{Broker, BrokerError};
pub use copies::Collected;
pub use engine::{Nats, NatsError};
pub use key::{WrongKey, check_key, data_folder_key};
pub use outbox::Outbox;
pub use post::Post;
pub use queue::setup;
pub use role::BrokerRole;
pub use ship::{Sealed, Shipper, resend};
pub use workbench::{WorkerNews, WorkerOptions};
pub use worker::{Worker, WorkerError};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks what no panic can leave half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
