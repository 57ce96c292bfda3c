//! Recordings as they are written, cut, filled up and read; streams without their secrets.

#[cfg(test)]
mod recordings;
#[cfg(test)]
mod redaction;
