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
    S3,
}

impl Feature {
    /// Returns its name in Cargo.toml.
    const fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Nats => "nats",
            Self::Otlp => "otlp",
            Self::Parquet => "parquet",
            Self::S3 => "s3",
        }
    }

    /// Returns whether this build has it.
    const fn is_here(self) -> bool {
        match self {
            Self::Https => cfg!(feature = "https"),
            Self::Nats => cfg!(feature = "nats"),
            Self::Otlp => cfg!(feature = "otlp"),
            Self::Parquet => cfg!(feature = "parquet"),
            Self::S3 => cfg!(feature = "s3"),
        }
    }
}

/// What a build may leave out: commands, and arguments of commands.
const PARTS: [(&str, Option<&str>, Feature); 8] = [
    ("worker", None, Feature::Nats),
    ("collect", None, Feature::Nats),
    ("collect", Some("dest"), Feature::S3),
    ("batch", Some("engine"), Feature::Nats),
    ("serve", Some("engine"), Feature::Nats),
    ("doctor", Some("engine"), Feature::Nats),
    ("serve", Some("otlp"), Feature::Otlp),
    ("export", Some("endpoint"), Feature::Otlp),
];

/// Marks in the help what this build does not have.
pub(crate) fn marked(command: clap::Command) -> clap::Command {
    marked_without(command, |feature| !feature.is_here())
}

fn marked_without(mut command: clap::Command, is_left_out: impl Fn(Feature) -> bool) -> clap::Command {
    for (name, argument, feature) in PARTS.into_iter().filter(|(_, _, feature)| is_left_out(*feature)) {
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn what_is_left_out_is_marked_in_both_helps() {
        let whole = marked_without(crate::args::Cli::command(), |_| false);
        let marked = marked_without(crate::args::Cli::command(), |_| true);
        for (name, argument, feature) in PARTS {
            let helps = |command: &clap::Command| {
                let sub = command.find_subcommand(name).unwrap();
                let of_argument = |id| sub.get_arguments().find(|one| one.get_id() == id).unwrap();
                match argument.map(of_argument) {
                    Some(arg) => (arg.get_help().unwrap().to_string(), arg.get_long_help().map(ToString::to_string)),
                    None => (sub.get_about().unwrap().to_string(), sub.get_long_about().map(ToString::to_string)),
                }
            };
            let mark = format!("[not in this build: feature `{}`]", feature.name());
            let (short, long) = helps(&marked);
            assert!(short.contains(&mark) && long.is_none_or(|long| long.contains(&mark)), "{name} {argument:?}: {short}");
            assert!(!helps(&whole).0.contains("not in this build"), "{name} {argument:?}");
        }
    }

    #[test]
    fn what_is_left_out_is_refused_with_where_to_get_it() {
        let refused = missing("--push https://host", Feature::Https).to_string();
        for words in [
            "--push https://host: this tapline was built without the feature `https`",
            "downloads of a release",
            "--features https",
        ] {
            assert!(refused.contains(words), "{refused}");
        }
    }
}
