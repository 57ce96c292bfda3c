//! Tests of the fleet on many machines: each with a NATS server of its own. `scripts/fleet` installs it and runs them.

#[cfg(test)]
mod broker;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod pieces;
#[cfg(test)]
mod recordings;
#[cfg(test)]
mod survived;
