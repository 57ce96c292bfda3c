//! The tests of the façade.

#![cfg(feature = "run")]

#[cfg(test)]
mod threads;
