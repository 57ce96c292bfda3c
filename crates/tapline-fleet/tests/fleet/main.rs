//! Tests of the fleet on many machines: each with a NATS server of its own. `scripts/fleet` installs it and runs them.

#[cfg(test)]
mod broker;
