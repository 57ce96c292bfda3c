//! Text that announces a secret. The sieve finds it, and the scan checks it.

use super::programs::Command;
use super::table::Shape;

/// What an announcement says about the text that follows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Announced {
    /// A secret of this shape.
    Shape(&'static Shape),
    /// The last word of a name. Its value may follow.
    Name,
    /// A name that is too short to search for on its own, with the sign after it.
    ShortName,
    /// A private key.
    Key,
    /// A URL, which may contain a password.
    Address,
    /// A token after `Bearer`.
    Bearer,
    /// `-u USER:PASSWORD`
    User,
    /// `-p PASSWORD`
    Password,
    /// A program with flags that take a password.
    Command(&'static Command),
    /// `--from-literal=NAME=VALUE`
    Literal,
    /// The end of a private key, whose beginning may be missing.
    KeyEnd,
    /// The lines of a private key of `PuTTY`.
    PrivateLines,
    /// A part of a patch, which may be of the middle of a key.
    Hunk,
    /// A key in JSON.
    Jwk,
    /// A program that reads a password from a pipe.
    Piped,
    /// A signature in a URL.
    Signature,
    /// A value that is hidden wherever it occurs.
    Value,
}
