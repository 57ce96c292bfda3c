//! Exit codes: the table is the library's (README.md shows it); here is why a run gets one, in words, and what stands for a signal.

pub(crate) use tapline_session::exit::*;
use tapline_session::text::one_line;
use tapline_session::{Category, Outcome, Verdict, Warning};

/// What went wrong, in the words a person should read.
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
        None => {
            let why = verdict.warnings.iter().find(|warning| warning.code == "no-result");
            why.map_or_else(|| "there is no result".to_owned(), |why| why.message.clone())
        }
    })
}

/// Warnings that make a failure of a success.
pub(crate) struct Warned<'v> {
    pub(crate) first: &'v Warning,
    /// How many others there are.
    more: usize,
}

/// Why a success counts as a failure: it has some of these warnings.
pub(crate) fn warning<'v>(verdict: &'v Verdict, codes: &[&str]) -> Option<Warned<'v>> {
    let mut found = verdict.warnings.iter().filter(|warning| codes.contains(&&*warning.code));
    Some(Warned { first: found.next()?, more: found.count() })
}

/// The same in words.
pub(crate) fn warned(Warned { first, more }: &Warned<'_>) -> String {
    let more = if *more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{}: {}{more} (--fail-on)", first.code, one_line(&first.message))
}

/// The same for people, who may have been told the calls that were denied.
pub(crate) fn warned_after(warning: &Warned<'_>, denials_told: bool) -> String {
    let named = denials_told && warning.first.code == "permission-denied";
    if named { "exit code 1, because calls were denied (--fail-on)".to_owned() } else { warned(warning) }
}

/// Ends this process by a signal, as the one that it stands for was ended. Returns only if that cannot be done.
pub(crate) fn die_of(number: i32) {
    use std::os::unix::process::CommandExt as _;
    // Another program has no handlers of ours, and a core file of it would tell nobody anything.
    let script = format!("ulimit -c 0; kill -{number} $$; exit {}", 128 + number);
    let _ = std::process::Command::new("/bin/sh").args(["-c", &script]).exec();
}

/// The number of a signal, by its name.
pub(crate) fn signal_number(name: &str) -> Option<i32> {
    (1..=31).find(|number| tapline_session::signal_name(*number) == name)
}

/// The exit code that stands for how a process ended, as a shell has it.
pub(crate) fn code_of_status(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED)
}

/// The table as help texts end with it.
pub(crate) fn codes() -> String {
    let also = |code| match code {
        FAILED => " (or --get found nothing, or --fail-on)",
        VIOLATED => " (sim, replay --strict: an expectation was not met)",
        _ => "",
    };
    let rows: Vec<_> = TABLE.iter().map(|(code, meaning)| format!("{code} {meaning}{}", also(*code))).collect();
    format!("Exit codes: {}.", rows.join(", "))
}
