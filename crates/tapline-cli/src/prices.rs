//! The user's prices: the file that the command line names.

use anyhow::{Context as _, Result};
use tapline_archive::Prices;

use crate::args::archive;
use crate::errors;

/// Reads the user's file once (it may be a pipe). Without a file there are no rows: add them to tapline's table with
/// [`Prices::with`].
pub(crate) fn own(args: &archive::Prices) -> Result<Prices> {
    let Some(path) = &args.prices else { return Ok(Prices::default()) };
    let name = path.display();
    let advice = "`tapline help prices` has an example to start from";
    let text = std::fs::read_to_string(path).map_err(|error| errors::unreadable(error, "prices", path, advice))?;
    Prices::read(&text).with_context(|| format!("the prices {name} are wrong (`tapline help prices` describes them)"))
}
