//! Libraries know nothing of the command line: no text of theirs names one of its flags. What an agent's program calls its own
//! flags stands alone in its string (`"--model"`), or in arguments; a text is a string with a blank in it.

use std::collections::BTreeSet;
use std::path::Path;

use super::names;
use crate::tapline::tapline;

/// Where a flag may be named all the same: the file, what stands in the line, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[("tapline-sim/src/fake.rs", "--help ]", "a script: flags of an agent")];

fn flags() -> BTreeSet<String> {
    let completions = tapline(&["completions", "bash"]).out;
    let words = completions.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| word.len() > 3 && word.starts_with("--")).map(str::to_owned).collect()
}

/// The texts of a file, with the lines they stand in: what is quoted, also over several lines.
fn texts(code: &str) -> Vec<(usize, &str)> {
    let mut goes_on = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(code.lines()) {
        if !line.trim_start().starts_with("//") {
            let quoted = line.split('"').skip(usize::from(!goes_on)).step_by(2);
            found.extend(quoted.filter(|text| text.trim().contains(' ')).map(|text| (number, text)));
            goes_on = line.ends_with('\\');
        }
    }
    found
}

fn naming<'t>(code: &'t str, flags: &BTreeSet<String>) -> Vec<(usize, &'t str)> {
    let code = code.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let is_flag = |word: &str| flags.contains(word.trim_end_matches('-'));
    let names = |text: &str| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(is_flag);
    texts(code).into_iter().filter(|(_, text)| names(text)).collect()
}

#[test]
fn no_text_of_a_library_names_a_flag_of_the_command_line() {
    let flags = flags();
    assert!(flags.contains("--resume") && flags.contains("--permissions"), "{flags:?}");
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for (path, code) in names::sources().iter().filter(|(path, _)| !path.starts_with("tapline-cli")) {
        for (number, text) in naming(code, &flags) {
            match exception(path, text) {
                Some(at) => drop(used.insert(at)),
                None => wrong.push(format!("{}:{number}: {}", path.display(), text.trim())),
            }
        }
    }
    assert!(wrong.is_empty(), "the command line adds its flags itself (errors.rs):\n{}", wrong.join("\n"));
    assert_eq!(used.len(), EXCEPTIONS.len(), "every exception is needed: {used:?}");
}

fn exception(path: &Path, text: &str) -> Option<usize> {
    let place = path.to_string_lossy();
    EXCEPTIONS.iter().position(|(start, part, _)| place.starts_with(start) && text.contains(part))
}

#[test]
fn a_flag_is_found_however_it_is_written() {
    let flags = BTreeSet::from(["--fork".to_owned(), "--max-turns".to_owned()]);
    for code in [
        "Refused(\"--fork: give the session\".to_owned())",
        "format!(\"use `--max-turns` instead\")",
        "let why = \"one, \\\n    two --fork\";",
    ] {
        assert_eq!(naming(code, &flags).len(), 1, "{code}");
    }
    for code in [
        "value(\"--fork\", x)",
        "// --fork of old",
        "\"--forked or not\"",
        "fn f() {}\n\n#[cfg(test)]\nmod tests { \"a --fork\" }",
    ] {
        assert_eq!(naming(code, &flags), [], "{code}");
    }
}
