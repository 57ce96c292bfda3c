//! Tests of the fleet, with an agent that does what its prompt says.

#[cfg(test)]
mod fake;
#[cfg(test)]
mod files;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod limited;
#[cfg(test)]
mod many;
#[cfg(test)]
#[cfg(feature = "s3")]
mod partitions;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod worktrees;
