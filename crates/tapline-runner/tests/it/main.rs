//! Tests of the runner: against an agent that misbehaves on demand, from the contract's point of view.

#[cfg(test)]
mod answering;
#[cfg(test)]
mod arguments;
#[cfg(test)]
mod chains;
#[cfg(test)]
mod dropping;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod many;
#[cfg(all(test, feature = "rmcp"))]
mod official;
#[cfg(test)]
mod requesting;
#[cfg(test)]
mod ruling;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod starting;
#[cfg(test)]
mod timing;
