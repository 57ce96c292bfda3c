//! Arguments of a command without their secrets: what stands behind a flag whose name says so, inline JSON by key, and
//! whatever looks like a secret by itself.

use super::names::{self, Name};
use super::{REDACTED, Redactor};

impl Redactor {
    /// Arguments without their secrets: also a value that stands behind its flag, as in `--api-key VALUE`.
    ///
    /// ```
    /// let redactor = tapline_recording::Redactor::default();
    /// assert_eq!(redactor.args(["--token", "abc", "-p"]), ["--token", "[redacted]", "-p"]);
    /// assert_eq!(redactor.args(["--mcp", r#"{"env":{"API_KEY":"abc"}}"#]), ["--mcp", r#"{"env":{"API_KEY":"[redacted]"}}"#]);
    /// ```
    pub fn args<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let mut hide = false;
        let mut redacted = |arg: &str| {
            let flag = arg.strip_prefix('-').map(|flag| flag.trim_start_matches('-'));
            // A flag takes no flag: `--token --verbose` has no value.
            let value_of_flag = std::mem::take(&mut hide) && !(arg.starts_with("--") && arg.len() > 2);
            if value_of_flag {
                return if names::is_placeholder(arg) { arg.to_owned() } else { REDACTED.to_owned() };
            }
            if let Some(flag) = flag {
                match flag.split_once('=') {
                    Some((name, value)) if is_secret_flag(name) && !names::is_placeholder(value) => {
                        return format!("{}={REDACTED}", &arg[..arg.len() - value.len() - 1]);
                    }
                    Some(_) => {}
                    None => hide = is_secret_flag(flag),
                }
            }
            String::from_utf8_lossy(&self.line(arg.as_bytes())).into_owned()
        };
        args.into_iter().map(&mut redacted).collect()
    }
}

/// Whether a flag's value is a secret: a flag is called so for nothing else.
pub(super) fn is_secret_flag(flag: &str) -> bool {
    match names::name(flag) {
        Some(Name::Secret | Name::Likely | Name::Authorization | Name::Cookie) => true,
        None => matches!(flag, "key" | "apikey" | "apiKey" | "pw"),
    }
}
