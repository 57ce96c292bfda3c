//! Errors: one line for a person, the cause kept, and no flag of the command line in it.

use std::error::Error;
use std::io;

use tapline_recording::RecordingError;
use tapline_runner::{Failure, SessionError, StartError};
use tapline_session::text::with_causes;

fn all() -> Vec<(StartError, &'static str)> {
    let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
    let path = || "/no/such".into();
    vec![
        (StartError::NotFound { agent: "claude", path: path() }, "claude: not found: /no/such"),
        (
            StartError::NotExecutable { agent: "claude", path: path(), error: denied() },
            "claude: not executable: /no/such: permission denied",
        ),
        (StartError::Cwd { path: path(), error: denied() }, "cannot use the folder /no/such: permission denied"),
        (StartError::System { agent: "codex", error: denied() }, "cannot start codex: permission denied"),
        (
            RecordingError::Create { path: path(), error: denied() }.into(),
            "cannot write the recording /no/such: permission denied",
        ),
    ]
}

#[test]
fn the_cause_is_kept_and_told_once() {
    for (error, said) in all() {
        assert_eq!(with_causes(&error), said);
        assert_eq!(error.source().is_some(), said.ends_with("permission denied"), "{said}");
    }
}

/// `fn main() -> Result<(), Failure>` prints it so.
#[test]
fn a_failure_reads_the_same_where_main_prints_it() {
    for (error, said) in all() {
        assert_eq!(format!("{:?}", Failure::from(error)), said);
    }
}

#[test]
fn errors_can_be_sent_to_other_threads() {
    fn is_error<E: Error + Send + Sync + 'static>() {}
    is_error::<StartError>();
    is_error::<Failure>();
    is_error::<SessionError>();
    is_error::<RecordingError>();
}
