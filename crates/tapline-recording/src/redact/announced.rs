//! What text says of a secret that follows: found by the sieve and by the automaton, checked by the scan.

use super::programs::Command;
use super::table::Shape;

/// What a piece of text announces.
#[derive(Clone, Copy, Debug)]
pub(super) enum Announced {
    /// A secret of this shape.
    Shape(&'static Shape),
    /// The last word of a name; its value may follow.
    Name,
    /// A name that is too short to be looked for alone, with the sign behind it.
    ShortName,
    /// A private key.
    Key,
    /// An address; a password may be in it.
    Address,
    /// A token behind `Bearer`.
    Bearer,
    /// `-u USER:PASSWORD`
    User,
    /// `-p PASSWORD`
    Password,
    /// A program some of whose flags take a password.
    Command(&'static Command),
    /// `--from-literal=NAME=VALUE`
    Literal,
    /// A manifest of Kubernetes that holds secrets.
    Manifest,
    /// A signature in an address.
    Signature,
    /// A value that is to be hidden wherever it stands.
    Value,
}
