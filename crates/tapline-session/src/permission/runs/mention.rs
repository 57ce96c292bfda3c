//! Whether a text has a name in it, for texts that a program runs in its own way.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Returns whether a text has this word, in any quotes: `["rm", "x"]`, `-xrm`, `/bin/rm`. `--rm` is another word.
pub(super) fn mentions(text: &str, name: &str) -> bool {
    let plain: String = text.chars().filter(|c| !"\"'\\".contains(*c)).collect();
    [&*plain, text].into_iter().any(|text| has(text, name)) || has(&decoded(text), name)
}

fn has(text: &str, name: &str) -> bool {
    let of_word = |c: char| c.is_alphanumeric() || "-_./+~%".contains(c);
    text.split(|c: char| !of_word(c)).any(|word| {
        let file = word.rsplit('/').next().unwrap_or_default().trim_end_matches('.');
        let before = || {
            // An option or an address may stand directly before it: `-xrm`, `1erm`.
            let before = file.len().checked_sub(name.len()).and_then(|at| file.get(..at))?;
            let near = before.len() <= 3 && !before.starts_with("--") && file.ends_with(name);
            (near && before.contains(|c: char| c.is_ascii_alphanumeric())).then_some(before)
        };
        file.eq_ignore_ascii_case(name)
            || word == name
            // `${x:-rm}`
            || word.strip_prefix('-') == Some(name)
            || before().is_some_and(|before| before.contains(|c: char| !c.is_ascii_lowercase()))
    })
}

/// Decodes `\x72` and `\162`.
fn decoded(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (skip, radix, most) = match rest.as_bytes().first() {
            Some(b'x') => (1, 16, 2),
            Some(b'u') => (1, 16, 4),
            _ => (0, 8, 3),
        };
        let digits = rest[skip..].chars().take(most).take_while(|c| c.is_digit(radix)).count();
        if let Some(c) = u32::from_str_radix(&rest[skip..skip + digits], radix).ok().and_then(char::from_u32) {
            out.push(c);
            rest = &rest[skip + digits..];
        }
    }
    out + rest
}

/// Returns a text as it is after `rev`, and what its words are in base64.
pub(super) fn turned(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"+/=".contains(c)).filter(|word| word.len() >= 4);
    let decoded = words.filter_map(|word| String::from_utf8(STANDARD_NO_PAD.decode(word.trim_end_matches('=')).ok()?).ok());
    std::iter::once(text.chars().rev().collect()).chain(decoded)
}
