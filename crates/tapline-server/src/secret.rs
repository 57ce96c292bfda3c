//! Secrets that let somebody in: how they are made, read and compared.

use std::hint::black_box;

use uuid::Uuid;

/// The shortest token that may be given: 128 bits, written with six bits a character.
const SHORTEST: usize = 22;
/// The longest token: longer headers are refused anyway.
const LONGEST: usize = 1_024;

/// A secret text. It is never shown.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// Makes a random secret of more than 128 bits.
    pub(crate) fn random() -> Self {
        Self(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
    }

    /// Takes a text as a secret. `Err` says what is wrong with it.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        if text.len() < SHORTEST {
            return Err("has fewer than 22 characters: write a longer one, for example with `openssl rand -hex 32`");
        }
        if text.len() > LONGEST {
            return Err("has more than 1024 characters: write a shorter one, for example with `openssl rand -hex 32`");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(
                "has characters other than letters, digits and signs: write another one, for example with `openssl rand -hex 32`",
            );
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the text, to put it into a header or a link.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Compares without telling by the time it takes where the first difference is.
    pub(crate) fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let mut difference = usize::from(own.len() != given.len());
        for (at, byte) in given.iter().take(LONGEST).enumerate() {
            difference |= usize::from(byte ^ own[at % own.len()]);
        }
        black_box(difference) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_only_itself() {
        let secret = Secret::read("0123456789abcdef0123456789abcdef").unwrap();
        assert!(secret.is("0123456789abcdef0123456789abcdef"));
        for other in
            ["", "0", "0123456789abcdef0123456789abcdeg", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"]
        {
            assert!(!secret.is(other), "{other}");
        }
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }

    #[test]
    fn a_weak_token_is_refused() {
        for weak in ["", "short", "two words that are long enough"] {
            assert!(Secret::read(weak).is_err(), "{weak}");
        }
    }
}
