//! Tests of the server over real connections.

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod control;
#[cfg(test)]
mod days;
#[cfg(test)]
mod ingest;
#[cfg(test)]
mod links;
#[cfg(test)]
mod many_readers;
#[cfg(test)]
mod otlp;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod signing_in;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod strays;
