//! Recordings as they are written, cut, filled up and read; streams without their secrets.

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod recordings;
#[cfg(test)]
mod redaction;
#[cfg(test)]
mod redaction_pieces;
#[cfg(test)]
mod redaction_printed;
#[cfg(test)]
mod redaction_review;
#[cfg(test)]
mod redaction_said;
#[cfg(test)]
mod redaction_speed;
#[cfg(test)]
mod redaction_table;
#[cfg(test)]
mod store;
