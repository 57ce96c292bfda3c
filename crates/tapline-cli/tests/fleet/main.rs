//! Tests of the commands for many machines, each with a NATS server of its own. `scripts/fleet` installs it and runs them.

#[cfg(test)]
mod collect;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod program_output;
#[cfg(test)]
mod worker;
