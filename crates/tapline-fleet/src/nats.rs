//! Many machines: jobs, results and recordings travel through NATS JetStream, a broker that others keep.

mod collect;
mod connect;
mod copies;
mod growth;
mod names;
mod outbox;
mod pieces;
mod post;
mod ship;

pub use collect::{CollectNews, CollectOptions, Collector};
pub use connect::{Broker, BrokerError};
pub use copies::Collected;
pub use outbox::Outbox;
pub use post::Post;
pub use ship::{Sealed, Shipper, resend};
