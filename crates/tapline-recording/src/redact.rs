//! Secrets, found by their shape and replaced: keys of Anthropic, `OpenAI`, GitHub and AWS, web tokens, private keys,
//! `Authorization` headers, and whatever stands behind a name like `password`. Errs on the side of hiding.

mod lines;

use std::borrow::Cow;

pub use lines::redact_line;

/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// Prefixes that give a secret away, and how many characters must follow.
const PREFIXES: &[(&str, usize)] = &[
    ("sk-ant-", 8),
    ("sk-proj-", 8),
    ("sk-svcacct-", 8),
    ("sk-", 20),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("AKIA", 16),
    ("ASIA", 16),
    ("eyJ", 20),
];

/// Names whose value is a secret whatever it looks like: `NAME=value`, `"name": "value"`, `name: value`.
const NAMES: &[&str] = &[
    "api_key",
    "apikey",
    "api-key",
    "auth_token",
    "access_token",
    "refresh_token",
    "session_token",
    "secret_access_key",
    "secret_key",
    "client_secret",
    "password",
    "authorization",
];

/// The text without its secrets.
///
/// ```
/// use tapline_recording::redact;
///
/// assert_eq!(redact("key sk-ant-REDACTED, go"), "key [redacted], go");
/// assert_eq!(redact("Authorization: Bearer abc.def"), "Authorization: [redacted]");
/// assert_eq!(redact("nothing to hide"), "nothing to hide");
/// ```
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut kept, mut at) = (0, 0);
    while at < text.len() {
        if let Some((from, to)) = secret_at(text, at) {
            out.push_str(&text[kept..from]);
            out.push_str(REDACTED);
            at = to;
            kept = to;
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[kept..]);
    Cow::Owned(out)
}

/// Takes secrets out of text that comes line by line: a private key goes over many.
#[derive(Debug, Default)]
pub struct LineRedactor {
    in_key: bool,
}

impl LineRedactor {
    /// The line without its secrets; none for one that is a secret whole.
    pub fn line<'t>(&mut self, line: &'t str) -> Option<Cow<'t, str>> {
        let inside = self.in_key;
        let begins = line.contains("-----BEGIN") && line.contains("PRIVATE KEY");
        self.in_key = (inside || begins) && !line.contains("-----END");
        (!inside).then(|| redact(line))
    }
}

/// Arguments without their secrets: also a value that stands behind its flag, as in `--api-key VALUE`.
///
/// ```
/// assert_eq!(tapline_recording::redact_args(["--token", "abc", "-p"]), ["--token", "[redacted]", "-p"]);
/// ```
pub fn redact_args<'a>(args: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    const FLAGS: &[&str] = &["key", "token", "secret", "password", "authorization", "credential"];
    let mut hide = false;
    let mut redacted = |arg: &str| {
        let flag = if arg.starts_with('-') { arg.trim_start_matches('-').to_ascii_lowercase() } else { String::new() };
        let (name, value) = flag.split_once('=').map_or((flag.as_str(), false), |(name, _)| (name, true));
        let secret = FLAGS.iter().any(|word| name.split(['-', '_']).any(|part| part == *word));
        let shown = match (hide, secret && value) {
            (true, _) => REDACTED.to_owned(),
            (false, true) => format!("{}={REDACTED}", arg.split('=').next().unwrap_or_default()),
            (false, false) => redact(arg).into_owned(),
        };
        hide = secret && !value;
        shown
    };
    args.into_iter().map(&mut redacted).collect()
}

/// The secret that is told here, if one is: what of it to hide.
fn secret_at(text: &str, at: usize) -> Option<(usize, usize)> {
    let rest = &text[at..];
    if rest.starts_with("-----BEGIN ") {
        return private_key(rest).map(|length| (at, at + length));
    }
    let starts_word = !text[..at].bytes().next_back().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let by_shape = || {
        PREFIXES.iter().find_map(|(prefix, least)| {
            let body = rest.strip_prefix(prefix)?;
            let length = body.bytes().take_while(|byte| is_key_byte(*byte)).count();
            (length >= *least).then_some((at, at + prefix.len() + length))
        })
    };
    starts_word.then(by_shape).flatten().or_else(|| named(text, at))
}

fn private_key(rest: &str) -> Option<usize> {
    let first = rest.lines().next().unwrap_or_default();
    let first = first.split("\\n").next().unwrap_or_default();
    if !first.contains("PRIVATE KEY") {
        return None;
    }
    let end = rest.find("-----END ").and_then(|end| Some(end + 9 + rest[end + 9..].find("-----")? + 5));
    Some(end.unwrap_or(rest.len()))
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/' | b'+' | b'=')
}

/// A value behind a name: what follows `=` or `:`, quotes and a scheme (`Bearer`) left out.
fn named(text: &str, at: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let name = NAMES
        .iter()
        .find(|name| bytes.get(at..at + name.len()).is_some_and(|part| part.eq_ignore_ascii_case(name.as_bytes())))?;
    let mut from = at + name.len();
    let skip = |from: &mut usize, what: &[u8]| {
        while bytes.get(*from).is_some_and(|byte| what.contains(byte)) {
            *from += 1;
        }
    };
    skip(&mut from, b"\\\"' ");
    if !bytes.get(from).is_some_and(|byte| matches!(byte, b'=' | b':')) {
        return None;
    }
    from += 1;
    skip(&mut from, b"\\\"' ");
    let quoted = matches!(bytes.get(from.wrapping_sub(1)), Some(b'"' | b'\''));
    let whole_line = quoted || name.eq_ignore_ascii_case("authorization");
    let ends = |byte: &u8| match byte {
        b'"' | b'\'' | b'\\' | b'\n' | b'\r' => true,
        b',' | b';' => !quoted,
        byte => !whole_line && byte.is_ascii_whitespace(),
    };
    let length = bytes[from..].iter().position(ends).unwrap_or(bytes.len() - from);
    (length > 0 && &text[from..from + length] != REDACTED).then_some((from, from + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_every_kind() {
        for secret in [
            "sk-ant-REDACTED",
            "sk-proj-abcdefgh12345678",
            "sk-abcdefghijklmnopqrstuvwxyz",
            "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
            "github_pat_11ABCDEFG0abcdefghijklmnop",
            "AKIAIOSFODNN7EXAMPLE",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_123",
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----",
        ] {
            assert_eq!(redact(&format!("a {secret} b")), format!("a {REDACTED} b"), "{secret}");
            assert_eq!(redact(&format!("\"{secret}\"")), format!("\"{REDACTED}\""), "{secret}");
        }
    }

    #[test]
    fn values_behind_names() {
        assert_eq!(redact("AWS_SECRET_ACCESS_KEY=wJalr/XUtn next"), format!("AWS_SECRET_ACCESS_KEY={REDACTED} next"));
        assert_eq!(redact(r#"{"password": "hunter2", "a": 1}"#), format!(r#"{{"password": "{REDACTED}", "a": 1}}"#));
        assert_eq!(redact(r#"{"password": "two words, more", "a": 1}"#), format!(r#"{{"password": "{REDACTED}", "a": 1}}"#));
        assert_eq!(redact(r#"{\"api_key\":\"x\"}"#), format!(r#"{{\"api_key\":\"{REDACTED}\"}}"#));
        assert_eq!(redact("Authorization: Basic dXNlcjpw\nnext"), format!("Authorization: {REDACTED}\nnext"));
    }

    #[test]
    fn a_key_that_comes_line_by_line() {
        let mut redactor = LineRedactor::default();
        let lines = ["before", "-----BEGIN PRIVATE KEY-----", "MIIE", "abcd", "-----END PRIVATE KEY-----", "after"];
        let shown: Vec<_> = lines.iter().filter_map(|line| redactor.line(line)).collect();
        assert_eq!(shown, ["before", REDACTED, "after"]);
    }

    #[test]
    fn words_that_only_look_alike_stay() {
        for text in
            ["risk-averse", "sk-short", "the password is required", "task-and-more-and-more-and-more", "eyJ", "日本語 password"]
        {
            assert_eq!(redact(text), text);
        }
    }
}
