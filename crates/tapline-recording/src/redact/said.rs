//! Secrets that a sentence reveals: `my password is …`, `the API key for staging is …`, `set the password to …`, and
//! names in capitals with only a space before the value. Most sentences about passwords do not contain one, so here the
//! value itself must look like a secret.

use super::looks::{HEAD, is_file, is_random};
use super::names::{self, Name};
use super::scan::Scan;
use super::words::Words;

/// The greatest distance from the name to its value.
const FAR: usize = 80;
/// The most words between them.
const WORDS: usize = 8;

/// Words that come before the value of a name.
static IS: Words = Words::of("is was are be ist is: was: are: be:");
/// Words that may come between the name and `is`: `the password for the staging database is …`.
static OF: Words = Words::of("for of to on in at as should must will you we für");
/// Verbs after which `to` and `as` announce a password: `set the password to …`.
static SETS: Words = Words::of(
    "set sets setting change changes changed changing reset resets resetting update updates updated updating setze ändere",
);
/// The most words between the verb and the password: `set the new admin user's password to …`.
const SET_WORDS: usize = 5;
/// Words that continue a sentence after a value. Any other word shows that the value is a description: `k8s-native
/// objects`.
static GOES_ON: Words = Words::of(
    "and or but until for on in at with thanks please so if when then not ok now as by from the since \
    while because again here today",
);
/// Words that follow the name of a thing: `the password "field1" is missing`.
static OF_A_THING: Words = Words::of(
    "is was are has had does must should can cannot needs will field column input parameter property \
    option variable key attribute setting entry already created deleted configured unchanged patched edited labeled not",
);
/// Units: `the password is 12chars`.
static UNITS: Words = Words::of(
    "char chars character characters bit bits byte bytes digit digits letter letters word words hex day days \
    hour hours minute minutes min mins second seconds sec secs time times month months year years week weeks",
);
/// Words that may follow `is`.
const NOW: &[&str] = &["now", "just", "still", "currently", "simply", "actually"];

/// Prefixes of encodings, algorithms, standards and versions, which a number follows.
static TECHNICAL: Words = Words::of(
    "base sha md argon pbkdf utf aes rsa ed oauth rfc hs rs es ascii http scram blake chacha x v version \
    python iso hmac jwt tls ipv p secp des crc pkcs uuid uuidv ecma json php java node ripemd gpt win hkdf kdf",
);

/// How a sentence announces a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// With no word: the value just follows.
    Nothing,
    /// `is VALUE`
    Is,
    /// `to VALUE`, `as VALUE`
    To,
}

impl Scan<'_> {
    /// Hides a value that only the words of a sentence join to a name. Returns the position from which more text could
    /// change the decision.
    pub(super) fn said(&mut self, name: Name, start: usize, to: usize) -> usize {
        if !matches!(name, Name::Secret | Name::Likely) {
            return to;
        }
        let text = self.text;
        let is_sure = name == Name::Secret || names::is_one_with(&self.bytes[..start]);
        let name = &text[start..to];
        let is_capital = !name.bytes().any(|byte| byte.is_ascii_lowercase());
        let Some((at, said)) = self.told(name, to) else { return to };
        let (from, end) = self.said_value(at);
        let value = &text[from..end];
        let is_quoted = from > at && text[at..from].ends_with(['"', '\'', '`']);
        // `WITH PASSWORD '…'`
        let is_sql = is_capital && is_password(name) && &text[at..from] == "'" && text[end..].starts_with('\'');
        let is_one = is_sql && value.len() > 2 && !names::is_prose(value) && !names::is_placeholder(value);
        let set = if said == Said::To { setting(&text[..start]) } else { None };
        let is_meant = match said {
            Said::Is => true,
            Said::To => set.is_some() && (is_short_password(name) || is_random(value)),
            // Without a word between, it must be a name in capitals or a value in quotes.
            Said::Nothing if is_quoted => !self.is_followed_by(end, |word| OF_A_THING.has(word)),
            Said::Nothing => is_capital && is_sure && (is_password(name) || is_long_mix(value)),
        };
        if is_one || is_meant && looks_secret(name, is_sure, value) && !self.only_describes(name, said, is_quoted, from, end) {
            self.hide(from..end);
        }
        set.unwrap_or(to)
    }

    /// Returns whether a compound (`k8s-native`, `app-config-v2`) is not a password: secrets often have such names, and
    /// a word after it shows that it is a description.
    fn only_describes(&mut self, name: &str, said: Said, is_quoted: bool, from: usize, end: usize) -> bool {
        said != Said::To
            && is_password(name)
            && is_compound(&self.text[from..end])
            && (!is_short_password(name)
                || !is_quoted && (is_adjective(&self.text[from..end]) || self.is_followed_by(end, |word| !GOES_ON.has(word))))
    }

    /// Returns whether a lower-case word that satisfies `is_such` follows the value, after only a space.
    fn is_followed_by(&mut self, end: usize, is_such: impl Fn(&str) -> bool) -> bool {
        let rest = &self.text[end..];
        let word = rest.trim_start_matches(['"', '\'', '`', '*']);
        let Some(word) = word.strip_prefix(' ').map(|word| word.trim_start_matches(' ')) else {
            self.touched |= word.is_empty();
            return false;
        };
        let length = word.bytes().take(HEAD).take_while(u8::is_ascii_lowercase).count();
        self.touched |= length == word.len();
        length > 0 && !word[length..].starts_with(|c: char| c.is_ascii_alphanumeric()) && is_such(&word[..length])
    }

    /// Hides the value in `api key: VALUE` or `access key = VALUE`, where two words are the name. Returns the position
    /// from which more text could change the decision.
    pub(super) fn named_by_two_words(&mut self, start: usize, to: usize) -> usize {
        if !names::is_bare_key(&self.bytes[start..to]) || !names::is_one_with(&self.bytes[..start]) {
            return usize::MAX;
        }
        if let Some(at) = self.joined(start, to) {
            let (from, end) = self.said_value(at);
            if looks_secret("key", true, &self.text[from..end]) {
                self.hide(from..end);
            }
            return at;
        }
        self.said(Name::Secret, start, to)
    }

    /// Returns where the value may begin that the words after the name announce, and how they announce it.
    fn told(&mut self, name: &str, to: usize) -> Option<(usize, Said)> {
        let quote = usize::from(matches!(self.byte(to), Some(b'"' | b'\'' | b'`')));
        let (mut at, mut is_first, mut second, mut goes_on) = (to + quote, true, None, false);
        for _ in 0..WORDS {
            let blanks = self.bytes[at..].iter().take(FAR).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            at += blanks;
            self.touched |= at == self.bytes.len();
            if blanks == 0 || at == self.bytes.len() || at > to + FAR {
                break;
            }
            let rest = &self.bytes[at..self.bytes.len().min(at + FAR)];
            let length = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            self.touched |= at + length == self.bytes.len();
            let word = self.text.get(at..at + length)?;
            if IS.has(word) {
                let mut value = at + length;
                value += self.bytes[value..].iter().take(FAR).take_while(|byte| **byte == b' ').count();
                for now in NOW {
                    let rest = &self.bytes[value..];
                    let is_it = rest.get(..now.len()).is_some_and(|word| word.eq_ignore_ascii_case(now.as_bytes()));
                    if is_it && rest.get(now.len()) == Some(&b' ') {
                        value += now.len() + 1;
                    }
                }
                // It may be one of these words, cut off.
                self.touched |= self.bytes.len() - value < 12;
                return Some((value, Said::Is));
            }
            if is_first {
                is_first = false;
                second = Some((at, Said::Nothing));
                goes_on = OF.has(word);
                if goes_on {
                    let is_to = matches!(word, "to" | "as");
                    let blanks = rest[length..].iter().take_while(|byte| **byte == b' ').count();
                    second = (is_to && blanks > 0).then_some((at + length + blanks, Said::To));
                    // `the secret to success is …`
                    goes_on = !is_to || is_short_password(name);
                }
            }
            if !goes_on || word.ends_with(['.', ',', ';', ':', '!', '?']) {
                break;
            }
            at += length;
        }
        second.filter(|(at, _)| *at < self.bytes.len())
    }

    /// Returns where the value here begins and ends, without its quotes.
    fn said_value(&mut self, at: usize) -> (usize, usize) {
        let from = at + self.bytes[at..].iter().take(3).take_while(|byte| matches!(byte, b'"' | b'\'' | b'`' | b'*')).count();
        let end = self.end_of_bare(from, HEAD);
        // The full stop of a sentence is not part of the value, not even at the end of the text.
        let value = self.text[from..end].trim_end_matches(['*', '`', '"', '\'']).trim_end_matches(['.', ',']);
        let end = from + value.len();
        // A long value extends to its own end.
        if end - from >= HEAD { (from, self.end_of_bare(from, usize::MAX)) } else { (from, end) }
    }
}

/// Returns the position of a verb that sets what is named after this text.
fn setting(before: &str) -> Option<usize> {
    let mut head = before.len().saturating_sub(FAR);
    while !before.is_char_boundary(head) {
        head += 1;
    }
    let mut end = before.len();
    for _ in 0..=SET_WORDS {
        let words = before[head..end].trim_end_matches([' ', '\t']);
        let word = &words[words.rfind(|c: char| c.is_whitespace() || c == '\\').map_or(0, |at| at + 1)..];
        if word.is_empty() || word.ends_with(['.', ',', ';', ':', '!', '?']) {
            return None;
        }
        end = head + words.len() - word.len();
        // The letter of an escape is not part of the word.
        let behind_escape = if before[..end].ends_with('\\') { word.get(1..).unwrap_or_default() } else { word };
        if SETS.has(word) || SETS.has(behind_escape) {
            return Some(end);
        }
    }
    None
}

/// Returns whether a name is that of a password in the narrow sense. Any value it is set to counts.
fn is_short_password(name: &str) -> bool {
    ["pass", "pwd"].iter().any(|word| names::find_ignoring_case(name, word))
}

/// Returns whether a name is that of a password, which may be short.
fn is_password(name: &str) -> bool {
    ["pass", "pwd", "secret", "cred"].iter().any(|word| names::find_ignoring_case(name, word))
}

fn has(value: &str, is: fn(&u8) -> bool) -> bool {
    value.as_bytes().iter().any(is)
}

/// Returns whether a value is long and mixes capitals, lower case and digits.
fn is_long_mix(value: &str) -> bool {
    let is_mixed = has(value, u8::is_ascii_digit) && has(value, u8::is_ascii_lowercase) && has(value, u8::is_ascii_uppercase);
    value.len() >= 16 && is_mixed || is_random(value)
}

/// Returns whether a word of a sentence looks like a secret of this name.
fn looks_secret(name: &str, is_sure: bool, value: &str) -> bool {
    let is_other = value.starts_with(['(', '[', '{', '<', '-', '/', '.', '~', '#', '%']) || value.contains("://");
    if value.len() < 6 || is_other || names::is_placeholder(value) || names::is_code(value) {
        return false;
    }
    if value.starts_with(['$', '@']) && !(is_short_password(name) && is_sign_for_letter(value)) {
        return false;
    }
    if !is_sure {
        return is_random(value);
    }
    let number = value.trim_end_matches(['!', '?', ';', ':']);
    if number.bytes().all(|byte| byte.is_ascii_digit()) {
        return number.len() >= if is_password(name) { 6 } else { 10 };
    }
    if !has(value, u8::is_ascii_alphabetic) || is_technical(value) {
        return false;
    }
    let is_sign = |byte: u8| b"!@#$%^&*+=".contains(&byte);
    let is_letter = |byte: u8| byte.is_ascii_alphabetic();
    let has_sign = value.as_bytes().windows(3).any(|three| is_letter(three[0]) && is_sign(three[1]) && is_letter(three[2]));
    let digits = has(value, u8::is_ascii_digit);
    if is_password(name) { digits || has_sign } else { value.len() >= 8 && digits && !is_compound(value) }
}

/// Returns whether a sign replaces a letter, as in `$ecret99` or `@dmin123`, which are not a variable and a user name.
fn is_sign_for_letter(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    value.len() >= 8 && digits > 1 && !value.contains(['/', '.', '_']) && !names::speaks_of_secret(value)
}

/// Returns whether a part of a compound is a word or a number.
fn is_plain(part: &str) -> bool {
    let is = |is: fn(&u8) -> bool| part.as_bytes().iter().all(is);
    part.len() <= 3 && is(u8::is_ascii_alphanumeric) || is(u8::is_ascii_digit) || is(u8::is_ascii_alphabetic)
}

/// Returns whether all parts are words or numbers: `claude-3-5-sonnet`.
fn is_compound(value: &str) -> bool {
    value.contains(['-', '_', '.', '/']) && value.split(['-', '_', '.', '/', ':']).all(is_plain)
}

/// Returns whether a compound consists of words and one short name with a number: `k8s-managed`, not `winter-2025`.
fn is_adjective(value: &str) -> bool {
    let is_word = |part: &&str| part.len() > 2 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    let (words, others): (Vec<&str>, Vec<&str>) = value.split(['-', '_']).partition(is_word);
    !words.is_empty() && matches!(others[..], [one] if one.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Returns whether this is a technical prefix with its number and suffix: `sha256`, `base64url`, `UTF16LE`. `v2` is
/// one; `v2secret` and `x1234567` are not.
fn is_technical_word(part: &str) -> bool {
    let letters = part.bytes().take_while(u8::is_ascii_alphabetic).count();
    let digits = part[letters..].bytes().take_while(u8::is_ascii_digit).count();
    let rest = &part.as_bytes()[letters + digits..];
    TECHNICAL.has(&part[..letters])
        && (1..=5).contains(&digits)
        && rest.len() <= if letters > 1 { 8 } else { 0 }
        && (rest.iter().all(u8::is_ascii_lowercase) || rest.iter().all(u8::is_ascii_uppercase))
}

/// Returns whether this is such a word alone, or with others after it: `PBKDF2-HMAC-SHA256`, `UTF-16LE`,
/// `base64-encoded`.
fn is_technical_name(value: &str) -> bool {
    let mut parts = value.split(['-', '_', '.', '/', '+']);
    let first = parts.next().unwrap_or_default();
    let is_of_number = |part: &str| {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        (1..=4).contains(&digits) && part.len() <= digits + 3 && part[digits..].bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    (is_technical_word(first) || TECHNICAL.has(first))
        && parts.all(|part| is_plain(part) || is_technical_word(part) || is_of_number(part))
}

/// Returns whether this names an ordinary thing: `base64-encoded`, `16-character`, `file2.txt`, `2026-11-16T10:00:00Z`,
/// `me2@example.com`, `old_password2`, `src/auth2`.
fn is_technical(value: &str) -> bool {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let behind = &value[digits..];
    let is_count = (1..=3).contains(&digits)
        && (UNITS.has(behind)
            || behind.starts_with('-') && behind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
    let is_date = value.bytes().all(|byte| byte.is_ascii_digit() || b"-:.TZ+/,".contains(&byte));
    let is_mail = value.split_once('@').is_some_and(|(_, host)| host.contains('.'));
    let is_identifier = value.contains('_') && names::speaks_of_secret(value);
    let is_path = value.contains('/') && !is_long_mix(value);
    is_count || is_date || is_technical_name(value) || is_file(value) || is_mail || is_identifier || is_path
}
