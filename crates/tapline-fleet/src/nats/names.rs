//! What everything is called on the broker. docs/FLEET.md lists it for operators.

use std::time::Duration;

/// The work queue: a message is a run that somebody should make. It is removed when its outcome is stored.
pub(crate) const JOBS: &str = "TAPLINE_JOBS";
/// The pieces of recordings, as they grow.
pub(crate) const RECORDINGS: &str = "TAPLINE_RECORDINGS";
/// How each run ended: one value for each that was ordered.
pub(crate) const OUTCOMES: &str = "tapline-outcomes";
/// Which worker makes which run of a job.
pub(crate) const RUNS: &str = "tapline-runs";
/// Until when the limit of an account is reached.
pub(crate) const LIMITS: &str = "tapline-limits";
/// Which labels the jobs of a class have and want.
pub(crate) const CLASSES: &str = "tapline-classes";
/// Which workers there are. A worker that says nothing is forgotten.
pub(crate) const WORKERS: &str = "tapline-workers";
/// Which batches are to be stopped.
pub(crate) const CONTROL: &str = "tapline-control";
/// What is too large for a message: of orders, and of what workers send.
pub(crate) const ORDERS: &str = "tapline-orders";
pub(crate) const FILES: &str = "tapline-files";

/// How long the broker keeps what belongs to a run. All parts of it live equally long.
pub(crate) const LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The subjects of the work queue.
pub(crate) const JOB_SUBJECTS: &str = "tapline.jobs.>";
/// The subjects of recordings.
pub(crate) const RECORDING_SUBJECTS: &str = "tapline.recordings.>";

/// The subject of a run that somebody should make. At most one message has it.
pub(crate) fn job_subject(class: &str, batch: &str, job: &str, order: u64) -> String {
    format!("tapline.jobs.{class}.{}.{}.{order}", token(batch), token(job))
}

/// The subjects of all jobs of a class.
pub(crate) fn class_subjects(class: &str) -> String {
    format!("tapline.jobs.{class}.>")
}

/// The consumer that has the jobs of a class.
pub(crate) fn consumer(class: &str) -> String {
    format!("jobs-{class}")
}

/// The key of the outcome of the run that this subject orders: all of it after the class.
pub(crate) fn outcome_of(subject: &str) -> Option<&str> {
    subject.strip_prefix("tapline.jobs.")?.split_once('.').map(|(_, key)| key)
}

/// The subjects of all jobs of a batch.
pub(crate) fn batch_subjects(batch: &str) -> String {
    format!("tapline.jobs.*.{}.>", token(batch))
}

/// The key of the outcome of a run that was ordered.
pub(crate) fn outcome_key(batch: &str, job: &str, order: u64) -> String {
    format!("{}.{}.{order}", token(batch), token(job))
}

/// The subject of an outcome with this key.
pub(crate) fn outcome_subject(key: &str) -> String {
    format!("$KV.{OUTCOMES}.{key}")
}

/// The key of a job.
pub(crate) fn job_key(batch: &str, job: &str) -> String {
    format!("{}.{}", token(batch), token(job))
}

/// The keys of all jobs of a batch.
pub(crate) fn batch_keys(batch: &str) -> String {
    format!("{}.>", token(batch))
}

/// The subject of the pieces of a recording.
pub(crate) fn recording_subject(batch: &str, recording: &str) -> String {
    format!("tapline.recordings.{}.{}", token(batch), token(recording))
}

/// The subjects of all recordings of a batch.
pub(crate) fn batch_recordings(batch: &str) -> String {
    format!("tapline.recordings.{}.*", token(batch))
}

/// The subject of what happens in a batch. Nobody stores it.
pub(crate) fn news_subject(batch: &str) -> String {
    format!("tapline.news.{}", token(batch))
}

/// Makes a text one token of a subject or of a key: everything but letters, digits, `-` and `_` is `=` and two hexadecimal digits a byte.
pub(crate) fn token(text: &str) -> String {
    use std::fmt::Write as _;
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            token.push(char::from(byte));
        } else {
            let _ = write!(token, "={byte:02x}");
        }
    }
    if token.is_empty() { "=".to_owned() } else { token }
}

/// The text that a token was made of.
pub(crate) fn text(token: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match first {
            b'=' if token == "=" => return Some(String::new()),
            b'=' => (u8::from_str_radix(std::str::from_utf8(after.get(..2)?).ok()?, 16).ok()?, &after[2..]),
            byte => (*byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_one_token_of_its_own() {
        for (text, expected) in
            [("job-1", "job-1"), ("a.b", "a=2eb"), ("a=2eb", "a=3d2eb"), ("ü *>", "=c3=bc=20=2a=3e"), ("", "=")]
        {
            assert_eq!(token(text), expected);
            assert_eq!(super::text(expected).as_deref(), Some(text));
        }
        assert_eq!((text("a="), text("=zz"), text("=ff")), (None, None, None));
    }
}
