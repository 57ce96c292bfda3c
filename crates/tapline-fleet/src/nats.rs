//! Many machines: jobs, results and recordings travel through NATS JetStream, a broker that others keep.

mod connect;
mod names;

pub use connect::{Broker, BrokerError};
