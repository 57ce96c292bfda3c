//! The wire, held against every fixture: nothing lost, nothing unknown, nothing that breaks it.

#[cfg(test)]
mod catalogue;
#[cfg(test)]
mod chunks;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod tolerance;
