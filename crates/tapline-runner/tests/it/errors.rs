//! Errors: one line for a person, the cause kept, and no flag of the command line in it.

use std::error::Error;
use std::io;

use tapline_protocol::Json;
use tapline_recording::RecordingError;
use tapline_runner::{Failure, SessionError, StartError, StructuredError};
use tapline_session::text::with_causes;
use tapline_session::{Category, Report};

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

/// What an agent says about its failure reaches the terminal of whoever prints the error.
#[test]
fn the_agents_own_words_stay_on_one_line_and_cannot_steer_a_terminal() {
    let mut report = Report::default();
    report.verdict.fail(Category::Overloaded, "overloaded\n\u{1b}]0;owned\u{7}\r\u{202e}later".into());
    let said = "failure (overloaded): overloaded ␛]0;owned␇␍<U+202E>later";
    let failure = Failure::Failed(Box::new(report.clone()));
    assert_eq!((failure.to_string().as_str(), format!("{failure:?}").as_str()), (said, said));

    report.verdict.category = Some(Category::Timeout);
    report.verdict.clock_words = Some("no output for 5 s".to_owned()).into();
    let failure = Failure::Failed(Box::new(report));
    assert_eq!(failure.to_string(), "failure (timeout): no output for 5 s", "for people, with the clock");

    let misfit: Result<Strict, _> = Json::parse("{\"a\\n\\u001b\": 1}").unwrap().to();
    let misfit = StructuredError::from(misfit.unwrap_err()).to_string();
    assert_eq!(misfit, "unknown field `a\\n\\u{1b}`, expected `one` at line 1 column 12");
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Strict {
    #[expect(dead_code, reason = "only its name matters")]
    one: u32,
}

#[test]
fn errors_can_be_sent_to_other_threads() {
    fn is_error<E: Error + Send + Sync + 'static>() {}
    is_error::<StartError>();
    is_error::<Failure>();
    is_error::<SessionError>();
    is_error::<RecordingError>();
}
