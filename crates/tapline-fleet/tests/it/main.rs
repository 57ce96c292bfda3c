//! Tests of the fleet, with an agent that does what its prompt says.

#[cfg(test)]
mod job_files;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod many_jobs;
#[cfg(test)]
#[cfg(feature = "s3")]
mod partitions;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod worktree_faults;
#[cfg(test)]
mod worktrees;
