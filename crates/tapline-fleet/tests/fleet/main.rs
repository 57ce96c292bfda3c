//! Tests of the fleet on many machines: each with a NATS server of its own. `scripts/fleet` installs it and runs them.

#[cfg(test)]
mod broker_away;
#[cfg(test)]
mod broker_roles;
#[cfg(test)]
mod broker_security;
#[cfg(test)]
mod changed_files;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod crew;
#[cfg(test)]
mod duplicate_work;
#[cfg(test)]
mod expired_credentials;
#[cfg(test)]
mod killed_processes;
#[cfg(test)]
mod lost_state;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod many_jobs;
#[cfg(test)]
mod notices;
#[cfg(test)]
mod recording_pieces;
#[cfg(test)]
mod recordings;
#[cfg(test)]
mod recordings_after_crashes;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod shared_limits;
#[cfg(test)]
mod sick_workers;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod worker_panic;
