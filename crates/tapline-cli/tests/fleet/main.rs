//! Tests of the commands for many machines, each with a NATS server of its own. `scripts/fleet` installs it and runs them.

#[cfg(test)]
#[path = "../../../tapline-fleet/tests/fleet/broker.rs"]
#[expect(dead_code, reason = "the fleet's own tests need more of it")]
mod broker;
#[cfg(test)]
mod collecting;
#[cfg(test)]
mod doctoring;
#[cfg(test)]
mod started;
#[cfg(test)]
mod working;
