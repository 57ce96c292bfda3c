//! What was left out of this build, and what to say when somebody wants it.

use anyhow::{Error, Result, anyhow};

/// A part of tapline that a build may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    Https,
    Nats,
    Otlp,
    #[cfg_attr(feature = "parquet", expect(dead_code, reason = "only a build without it speaks of it"))]
    Parquet,
}

impl Feature {
    /// Returns its name in Cargo.toml.
    const fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Nats => "nats",
            Self::Otlp => "otlp",
            Self::Parquet => "parquet",
        }
    }

    /// Returns whether this build has it.
    const fn is_here(self) -> bool {
        match self {
            Self::Https => cfg!(feature = "https"),
            Self::Nats => cfg!(feature = "nats"),
            Self::Otlp => cfg!(feature = "otlp"),
            Self::Parquet => cfg!(feature = "parquet"),
        }
    }
}

/// What a build may leave out: commands, and arguments of commands.
const PARTS: [(&str, Option<&str>, Feature); 7] = [
    ("worker", None, Feature::Nats),
    ("collect", None, Feature::Nats),
    ("batch", Some("engine"), Feature::Nats),
    ("serve", Some("engine"), Feature::Nats),
    ("doctor", Some("engine"), Feature::Nats),
    ("serve", Some("otlp"), Feature::Otlp),
    ("export", Some("endpoint"), Feature::Otlp),
];

/// Marks in the help what this build does not have.
pub(crate) fn marked(mut command: clap::Command) -> clap::Command {
    for (name, argument, feature) in PARTS.into_iter().filter(|(_, _, feature)| !feature.is_here()) {
        let mark = format!("[not in this build: feature `{}`]", feature.name());
        command = command.mut_subcommand(name, |sub| {
            if let Some(argument) = argument {
                return sub.mut_arg(argument, |arg| {
                    let help = arg.get_help().map(|help| format!("{help} {mark}")).unwrap_or_default();
                    let more = arg.get_long_help().map(|more| format!("{mark} {more}"));
                    let arg = arg.help(help);
                    if let Some(more) = more { arg.long_help(more) } else { arg }
                });
            }
            let about = sub.get_about().map(|about| format!("{about} {mark}")).unwrap_or_default();
            let more = sub.get_long_about().map(|more| format!("{mark}\n\n{more}")).unwrap_or_default();
            sub.about(about).long_about(more)
        });
    }
    command
}

/// Says that something needs a part of tapline that this build does not have, and how to get it.
pub(crate) fn missing(what: &str, feature: Feature) -> Error {
    let name = feature.name();
    anyhow!(
        "{what}: this tapline was built without the feature `{name}`. The downloads of a release have it; \
         `cargo install tapline-cli --features {name}` builds it (`--features full`: with everything)"
    )
}

/// Refuses something that needs a part of tapline, unless this build has it.
pub(crate) fn require(what: &str, feature: Feature) -> Result<()> {
    if feature.is_here() { Ok(()) } else { Err(missing(what, feature)) }
}
