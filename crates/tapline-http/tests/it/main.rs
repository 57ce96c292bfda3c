//! The client against servers of the tests' own.

#[cfg(test)]
mod client;
#[cfg(feature = "https")]
#[cfg(test)]
mod https;
#[cfg(test)]
mod server;
