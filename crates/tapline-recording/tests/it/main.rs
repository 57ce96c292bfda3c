//! Recordings as they are written, cut, filled up and read; streams without their secrets.

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod recordings;
#[cfg(test)]
mod redaction;
#[cfg(test)]
mod redaction_partial_messages;
#[cfg(test)]
mod redaction_program_output;
#[cfg(test)]
mod redaction_regressions;
#[cfg(test)]
mod redaction_sentences;
#[cfg(test)]
mod redaction_speed;
#[cfg(test)]
mod redaction_table;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod store;
