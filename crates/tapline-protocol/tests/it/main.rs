//! The wire, held against every fixture: nothing lost, nothing unknown, nothing that breaks it.

#[cfg(test)]
mod catalogue;
#[cfg(test)]
mod chunks;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod odd_streams;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod read_stream;
#[cfg(test)]
mod strings;
