//! Exit codes. The table is in the library (README.md shows it); here are the reasons in words, and the codes for
//! signals.

pub(crate) use tapline_session::exit::*;
use tapline_session::text::one_line;
use tapline_session::{Category, Outcome, Verdict, Warning};

/// Says what went wrong.
pub(crate) fn failure(verdict: &Verdict) -> Option<String> {
    if verdict.outcome == Outcome::Success {
        return None;
    }
    let word = verdict.category.map_or(verdict.outcome.word(), |category| category.word());
    let without_mark = |error| ["Error: ", "error: "].iter().find_map(|mark| str::strip_prefix(error, mark)).unwrap_or(error);
    let error = verdict.error_for_people().map(without_mark);
    Some(match error {
        Some(error) if error == word || verdict.category == Some(Category::Timeout) => error.to_owned(),
        Some(error) => format!("{error} ({word})"),
        None => "there is no result: the run did not end, or its last lines are missing".to_owned(),
    })
}

/// Warnings that turn a success into a failure.
pub(crate) struct Warned<'v> {
    pub(crate) first: &'v Warning,
    /// How many others there are.
    more: usize,
}

/// Returns why a success counts as a failure: it has some of these warnings.
pub(crate) fn warning<'v>(verdict: &'v Verdict, codes: &[&str]) -> Option<Warned<'v>> {
    let mut found = verdict.warnings.iter().filter(|warning| codes.contains(&&*warning.code));
    Some(Warned { first: found.next()?, more: found.count() })
}

/// Describes these warnings.
pub(crate) fn warned(Warned { first, more }: &Warned<'_>) -> String {
    let more = if *more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{}: {}{more} (--fail-on)", first.code, one_line(&first.message))
}

/// Describes these warnings for people, who may have already seen the denied calls.
pub(crate) fn warned_after(warning: &Warned<'_>, denials_told: bool) -> String {
    let named = denials_told && warning.first.code == "permission-denied";
    if named { "exit code 1, because calls were denied (--fail-on)".to_owned() } else { warned(warning) }
}

/// Ends this process by a signal, as the program that it stands for was. Returns only if that fails.
pub(crate) fn die_of(number: i32) {
    use std::os::unix::process::CommandExt as _;
    // Another program has none of our handlers, and its core file would be of no use.
    let script = format!("ulimit -c 0; kill -{number} $$; exit {}", 128 + number);
    let _ = std::process::Command::new("/bin/sh").args(["-c", &script]).exec();
}

/// Returns the number of a signal.
pub(crate) fn signal_number(name: &str) -> Option<i32> {
    (1..=31).find(|number| tapline_session::signal_name(*number) == name)
}

/// Returns the exit code for how a process ended, as a shell has it.
pub(crate) fn code_of_status(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED)
}

/// Returns the table at the end of help texts.
pub(crate) fn codes() -> String {
    let also = |code| match code {
        FAILED => " (or --get found nothing, or --fail-on)",
        VIOLATED => " (sim, replay --strict: an expectation was not met)",
        _ => "",
    };
    let rows: Vec<_> = TABLE.iter().map(|(code, meaning)| format!("{code} {meaning}{}", also(*code))).collect();
    format!("Exit codes: {}.", rows.join(", "))
}
