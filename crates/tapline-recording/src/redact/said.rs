//! Secrets that a sentence tells: `my password is …`, `the API key for staging is …`, `set the password to …`, and names in
//! capitals with nothing but a blank before the value. Sentences speak of passwords more often than they tell one, so the value
//! itself must look like a secret here.

use super::names::{self, Name};
use super::scan::Scan;
use super::values::is_random;

/// From the name to its value it is no further.
const FAR: usize = 80;
/// Nor are there more words between.
const WORDS: usize = 8;
/// So much of a value is looked at.
const HEAD: usize = 256;

/// What a name is said to be stands behind one of these.
const IS: &[&str] = &["is", "was", "are", "be", "ist", "is:", "was:", "are:", "be:"];
/// What may stand before them, behind the name: `the password for the staging database is …`.
const OF: &[&str] = &["for", "of", "to", "on", "in", "at", "as", "should", "must", "will", "you", "we", "für"];
/// What may stand behind them.
const NOW: &[&str] = &["now", "just", "still", "currently", "simply", "actually"];

/// What begins the names of encodings, algorithms, standards and versions, with a number behind it.
const TECHNICAL: &[&str] = &[
    "base", "sha", "md", "argon", "pbkdf", "utf", "aes", "rsa", "ed", "oauth", "rfc", "hs", "rs", "es", "ascii", "http",
    "scram", "blake", "chacha", "x", "v", "version", "python", "iso", "hmac", "jwt", "tls", "ipv", "p", "secp", "des",
];

/// How names of files and hosts end.
const ENDINGS: &[&str] = &[
    "txt", "json", "yaml", "yml", "toml", "env", "md", "rs", "py", "js", "ts", "go", "sh", "conf", "cfg", "ini", "com", "org",
    "net", "io", "dev", "html", "pem", "key", "xml", "log", "local", "lock", "java", "rb", "kt", "c", "h", "cpp", "tf", "csv",
];

impl Scan<'_> {
    /// A name that nothing joins to a value but the words of a sentence. Returns from where on more text could change that.
    pub(super) fn said(&mut self, name: Name, start: usize, to: usize) -> usize {
        if !matches!(name, Name::Secret | Name::Likely) {
            return to;
        }
        let text = self.text;
        let is_sure = name == Name::Secret || names::is_one_with(&self.bytes[..start]);
        let name = &text[start..to];
        let is_capital = !name.bytes().any(|byte| byte.is_ascii_lowercase());
        if let Some((at, is_told)) = self.told(to) {
            let (from, end) = self.said_value(at);
            let value = &text[from..end];
            // `WITH PASSWORD '…'`
            let is_sql = is_capital && is_password(name) && &text[at..from] == "'" && text[end..].starts_with('\'');
            let is_one = is_sql && value.len() > 2 && !names::is_prose(value) && !names::is_placeholder(value);
            // Without a word between, only a name in capitals is meant, or a value in quotes.
            let is_meant = is_told
                || from > at && text[at..from].ends_with(['"', '\'', '`'])
                || is_capital && is_sure && (is_password(name) || is_long_mix(value));
            if is_one || is_meant && looks_secret(name, is_sure, value) {
                self.hide(from..end);
            }
        }
        to
    }

    /// `api key: VALUE`, `access key = VALUE`: two words that are one name. Returns from where on more text could change that.
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

    /// Where a value may begin that words behind the name announce, and whether they say that it is the value.
    fn told(&mut self, to: usize) -> Option<(usize, bool)> {
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
            if IS.contains(&word) {
                let mut value = at + length;
                value += self.bytes[value..].iter().take(FAR).take_while(|byte| **byte == b' ').count();
                for now in NOW {
                    if self.text[value..].strip_prefix(now).is_some_and(|rest| rest.starts_with(' ')) {
                        value += now.len() + 1;
                    }
                }
                // It may be one of these, not yet whole.
                self.touched |= self.bytes.len() - value < 12;
                return Some((value, true));
            }
            if is_first {
                is_first = false;
                second = Some((at, false));
                goes_on = OF.contains(&word);
                if goes_on {
                    let is_value = matches!(word, "to" | "as") && rest.get(length) == Some(&b' ');
                    second = is_value.then_some((at + length + 1, true));
                }
            }
            if !goes_on || word.ends_with(['.', ',', ';', ':', '!', '?']) {
                break;
            }
            at += length;
        }
        second.filter(|(at, _)| *at < self.bytes.len())
    }

    /// Where the value that begins here begins and ends without its quotes.
    fn said_value(&mut self, at: usize) -> (usize, usize) {
        let from = at + self.bytes[at..].iter().take(3).take_while(|byte| matches!(byte, b'"' | b'\'' | b'`' | b'*')).count();
        let end = self.end_of_bare(from, HEAD);
        let value = self.text[from..end].trim_end_matches(['*', '`', '"', '\'']);
        let end = from + value.len();
        // A long one goes to its end.
        if end - from >= HEAD { (from, self.end_of_bare(from, usize::MAX)) } else { (from, end) }
    }
}

/// Whether the name is one of a password, which may be short.
fn is_password(name: &str) -> bool {
    ["pass", "pwd", "secret", "cred"].iter().any(|word| names::find_ignoring_case(name, word))
}

fn has(value: &str, is: fn(&u8) -> bool) -> bool {
    value.as_bytes().iter().any(is)
}

/// Whether it is long, of capitals, small letters and digits.
fn is_long_mix(value: &str) -> bool {
    let is_mixed = has(value, u8::is_ascii_digit) && has(value, u8::is_ascii_lowercase) && has(value, u8::is_ascii_uppercase);
    value.len() >= 16 && is_mixed || is_random(value)
}

/// Whether a word of a sentence looks like a secret of this name.
fn looks_secret(name: &str, is_sure: bool, value: &str) -> bool {
    let is_other = value.starts_with(['(', '[', '{', '<', '$', '-', '/', '.', '~', '@', '#', '%']) || value.contains("://");
    if value.len() < 6 || is_other || names::is_placeholder(value) || names::is_code(value) {
        return false;
    }
    if !is_sure {
        return is_random(value);
    }
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        return value.len() >= if is_password(name) { 6 } else { 10 };
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

/// Whether all of its parts are words or numbers: `claude-3-5-sonnet`.
fn is_compound(value: &str) -> bool {
    let is_plain = |part: &str| {
        part.len() <= 3 || part.bytes().all(|byte| byte.is_ascii_digit()) || part.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    value.contains(['-', '_', '.', '/']) && value.split(['-', '_', '.', '/', ':']).all(is_plain)
}

/// Whether it names something of a program or of the world: `base64-encoded`, `16-character`, `file2.txt`, `2026-11-16T10:00:00Z`,
/// `me2@example.com`, `old_password2`, `src/auth2`.
fn is_technical(value: &str) -> bool {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let behind = value[digits..].trim_start_matches('-');
    let is_count = (1..=3).contains(&digits) && behind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let is_date = value.bytes().all(|byte| byte.is_ascii_digit() || b"-:.TZ+/,".contains(&byte));
    let letters = value.bytes().take_while(u8::is_ascii_alphabetic).count();
    let number = value[letters..].trim_start_matches(['-', '_']);
    let is_named = number.starts_with(|c: char| c.is_ascii_digit())
        && TECHNICAL.iter().any(|word| value[..letters].eq_ignore_ascii_case(word))
        // `v8Kd93jf…` is none.
        && number.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let is_file = value.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending));
    let is_mail = value.split_once('@').is_some_and(|(_, host)| host.contains('.'));
    let is_identifier = value.contains('_') && names::speaks_of_secret(value);
    let is_path = value.contains('/') && !is_long_mix(value);
    is_count || is_date || is_named || is_file || is_mail || is_identifier || is_path
}
