//! Exit codes. The table is in the library (README.md shows it); here are the reasons in words, and the codes for
//! signals.

pub(crate) use tapline_session::exit::*;
use tapline_session::{Category, Outcome, UNCLEAN_CODES, Verdict, Warned};

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
        None => {
            let why = verdict.warnings.iter().find(|warning| warning.code == "no-result");
            why.map_or_else(|| "there is no result".to_owned(), |why| why.message.clone())
        }
    })
}

/// Why a success counts as a failure, for people who have been told the warning itself.
pub(crate) fn warned_after(warned: &Warned<'_>) -> String {
    let flag = warned.flag;
    match &*warned.first.code {
        DENIED => format!("exit code 1, because calls were denied ({flag})"),
        code => format!("exit code 1, because of {code} ({flag})"),
    }
}

/// Says how to make a success that is not clean exit with 1, unless a flag already does.
pub(crate) fn unclean(verdict: &Verdict, fail_on: &[&str], require_clean: bool) -> Option<String> {
    if verdict.outcome != Outcome::Success || require_clean || !fail_on.is_empty() {
        return None;
    }
    let has = |code: &&&str| verdict.warnings.iter().any(|warning| warning.code == **code);
    let codes: Vec<_> = UNCLEAN_CODES.iter().filter(has).map(|code| if *code == DENIED { "denied" } else { code }).collect();
    let told = || format!("not a clean success: with --fail-on {}, such a run exits with 1", codes.join(","));
    (!codes.is_empty()).then(told)
}

/// Describes `--require-clean`. The first words differ between commands.
pub(crate) fn about_clean(exit: &str) -> String {
    format!("{exit} with 1 for a success that is not clean: short for --fail-on {}", UNCLEAN_CODES.join(","))
}

/// The code of the warning about denied calls. `--fail-on` has a shorter word for it, too.
const DENIED: &str = "permission-denied";

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
        FAILED => " (or --get or search found nothing, or there is a warning that --fail-on or --require-clean names)",
        VIOLATED => " (sim, replay --strict: an expectation was not met)",
        _ => "",
    };
    let rows: Vec<_> = TABLE.iter().map(|(code, meaning)| format!("{code} {meaning}{}", also(*code))).collect();
    format!("Exit codes: {}.", rows.join(", "))
}
