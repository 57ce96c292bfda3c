//! `tapline archive verify`: reads all copies, and says which are damaged.

use std::io::Write as _;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use serde_json::json;
use tapline_session::text::one_line;

use super::size;
use crate::archive::kept::{self, Counter};
use crate::args::archive::Verify;
use crate::{exit, output};

pub(super) fn run(args: &Verify) -> Result<u8> {
    let kept = kept::kept()?;
    let mut counter = Counter::new("checking copies", args.quiet || args.json);
    let verified = kept.verify(&AtomicBool::new(false), |done, of| counter.show(done, of));
    counter.clear();
    let mut out = output::stdout();
    if args.json {
        let bad = verified.bad.iter().map(|bad| {
            json!({
                "path": bad.path.to_string_lossy(), "original": bad.original.to_string_lossy(), "can_heal": bad.can_heal,
                "error": bad.error.to_string(),
            })
        });
        let aside = verified.aside.iter().map(|path| path.to_string_lossy());
        let all = json!({
            "folder": kept.folder().to_string_lossy(), "whole": verified.whole, "bytes": verified.bytes,
            "damaged": bad.collect::<Vec<_>>(), "aside": aside.collect::<Vec<_>>(),
        });
        output::json(&all.to_string())?;
    } else {
        for bad in &verified.bad {
            let what = if bad.can_heal {
                "`tapline archive keep` makes the copy again, because its original is there"
            } else {
                "its original is gone"
            };
            writeln!(
                out,
                "damaged  {} ({}): {what}",
                one_line(&bad.path.display().to_string()),
                one_line(&bad.error.to_string())
            )?;
        }
        for path in &verified.aside {
            writeln!(
                out,
                "aside    {}: it is damaged, and its copy was made again, so it can be removed",
                one_line(&path.display().to_string())
            )?;
        }
        if !args.quiet {
            let (content, damaged) = (size(verified.bytes), verified.bad.len());
            writeln!(out, "Read all copies: {} whole ({content} uncompressed), {damaged} damaged.", verified.whole)?;
        }
    }
    out.flush()?;
    Ok(if verified.bad.is_empty() { 0 } else { exit::USAGE })
}
