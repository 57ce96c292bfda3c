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
mod steps;
#[cfg(test)]
mod worktrees;
