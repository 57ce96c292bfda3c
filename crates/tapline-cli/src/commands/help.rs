//! `tapline help`: the help of a command, or a page about a topic.

use std::io::Write as _;

use anyhow::Result;

use crate::args::{Help, Look, When, print_help};
use crate::{output, page, topics};

/// Longer lines are hard to read.
const WIDEST: usize = 100;

pub(crate) fn run(args: &Help) -> Result<u8> {
    let name = args.name.as_deref();
    let Some(topic) = name.and_then(topics::named) else {
        print_help(name)?;
        return Ok(0);
    };
    let style = Look { color: When::Auto }.style();
    let mut out = output::stdout();
    out.write_all(page::render(topic.text, style, output::size().0.min(WIDEST)).as_bytes())?;
    out.flush()?;
    Ok(0)
}
