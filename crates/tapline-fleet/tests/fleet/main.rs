//! Tests of the fleet on many machines: each with a NATS server of its own. `scripts/fleet` installs it and runs them.

#[cfg(test)]
mod away;
#[cfg(test)]
mod broker;
#[cfg(test)]
mod changed;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod crew;
#[cfg(test)]
mod expired;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod limited;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod many;
#[cfg(test)]
mod panicked;
#[cfg(test)]
mod pieces;
#[cfg(test)]
mod recordings;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod secured;
#[cfg(test)]
mod stopped;
#[cfg(test)]
mod survived;
#[cfg(test)]
mod told;
#[cfg(test)]
mod twice;
