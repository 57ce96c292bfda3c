//! `tapline schema`: the JSON Schema of what tapline writes.

use std::io::Write as _;

use anyhow::Result;
use tapline_session::schema;

use crate::args::Described;
use crate::ci::Kind;
use crate::output;

pub(crate) fn run(of: Described) -> Result<u8> {
    let text = match of {
        Described::Report => schema::REPORT,
        Described::Steps => schema::STEPS,
    };
    let mut out = output::stdout_for(Kind::Json);
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(0)
}
