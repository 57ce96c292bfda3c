//! Tokens of programs, and what each may do: the token file has a line for each.

use serde::Serialize;

use crate::secret::Secret;

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// Push runs, and get the commands for them.
    Push,
    /// See sessions, costs and metrics.
    Read,
    /// Answer, interrupt and stop runs, and send them messages.
    Control,
}

impl Right {
    /// All rights.
    pub(crate) const ALL: [Self; 3] = [Self::Push, Self::Read, Self::Control];

    /// Returns the word for it in a token file.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Read => "read",
            Self::Control => "control",
        }
    }
}

/// What whoever asks may do, in words.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Rights(Vec<&'static str>);

impl Rights {
    pub(crate) fn of(rights: &[Right]) -> Self {
        Self(rights.iter().map(|right| right.name()).collect())
    }
}

/// The tokens that let programs in, and the rights of each.
#[derive(Clone, Debug, Default)]
pub struct ServerTokens(Vec<Token>);

#[derive(Clone, Debug)]
pub(crate) struct Token {
    secret: Secret,
    /// What a browser gets for it.
    pub(crate) cookie: Secret,
    pub(crate) rights: Vec<Right>,
}

/// What is wrong with a token file. No token is part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// It has no token.
    #[error("it has no token: write a line, for example with `openssl rand -hex 32`")]
    Empty,
    /// A line cannot be used.
    #[error("line {line} {why}")]
    Line {
        /// The number of the line, from 1 on.
        line: usize,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl ServerTokens {
    /// Reads the text of a token file. Each line has a token, and before it the rights that it has (`push`, `read`, `control`); a token alone has
    /// all. Empty lines and those that begin with `#` say nothing.
    pub fn read(text: &str) -> Result<Self, TokensError> {
        let mut tokens = Self::default();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('#')) {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            let Some(token) = words.pop() else { continue };
            let wrong = |why| TokensError::Line { line: at + 1, why };
            let secret = Secret::read(token).map_err(wrong)?;
            if tokens.find(token).is_some() {
                return Err(wrong("has a token that an earlier line has: name all of its rights in one line"));
            }
            let right = |word: &str| Right::ALL.into_iter().find(|right| right.name() == word);
            // The word is not told: it may be a part of a token.
            let named = words.into_iter().map(right).collect::<Option<Vec<Right>>>();
            let named = named.ok_or_else(|| wrong("has something else than push, read and control before its token"))?;
            let rights = if named.is_empty() { Right::ALL.to_vec() } else { named };
            tokens.0.push(Token { secret, cookie: Secret::random(), rights });
        }
        if tokens.is_empty() {
            return Err(TokensError::Empty);
        }
        Ok(tokens)
    }

    /// Returns whether there are none. Then only the page can use the API.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the token with this text.
    pub(crate) fn find(&self, text: &str) -> Option<&Token> {
        self.0.iter().find(|token| token.secret.is(text))
    }

    /// Returns the token with this cookie.
    pub(crate) fn with_cookie(&self, cookie: &str) -> Option<&Token> {
        self.0.iter().find(|token| token.cookie.is(cookie))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "0123456789abcdef0123456789abcdef";
    const TWO: &str = "fedcba9876543210fedcba9876543210";

    #[test]
    fn a_line_names_the_rights_of_its_token() {
        let text = format!("# of the CI\n push\t{ONE}\r\n\n  read control {TWO}\nan-older-file-has-only-this\n");
        let tokens = ServerTokens::read(&text).unwrap();
        let rights = |text: &str| tokens.find(text).map(|token| token.rights.as_slice());
        assert_eq!(rights(ONE), Some([Right::Push].as_slice()));
        assert_eq!(rights(TWO), Some([Right::Read, Right::Control].as_slice()));
        assert_eq!(rights("an-older-file-has-only-this"), Some(Right::ALL.as_slice()));
        for none in ["", "push", "read control", &format!("push {ONE}"), "# of the CI"] {
            assert_eq!(rights(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_no_right_is_never_taken_for_one() {
        let refused = |text: &str| ServerTokens::read(text).unwrap_err().to_string();
        for text in
            [format!("# x\npuhs {ONE}"), format!("# x\nPUSH {ONE}"), format!("\n{TWO} {ONE}"), format!("\npush,read {ONE}")]
        {
            assert_eq!(refused(&text), "line 2 has something else than push, read and control before its token", "{text}");
        }
        assert!(refused(&format!("{ONE}\npush")).starts_with("line 2 has fewer than 22 characters"), "a right without a token");
        assert!(refused(&format!("{ONE} push")).starts_with("line 1 has fewer than 22 characters"), "the token is last");
        assert!(refused(&format!("push {ONE}\nread {ONE}")).contains("an earlier line"));
        for empty in ["", "\n \n", "# only this\n"] {
            assert!(refused(empty).starts_with("it has no token"), "{empty:?}");
        }
    }
}
