//! `tapline archive keep`: copies transcripts before their agents delete them.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use serde_json::json;
use tapline_session::text::{count_of, one_line};

use super::size;
use crate::archive::kept::{self, Counter};
use crate::args::archive::Keep;
use crate::{archive, exit, output};

/// How many files that could not be copied are named.
const NAMED: usize = 20;

pub(super) fn run(args: &Keep) -> Result<u8> {
    let quiet = args.quiet || args.json;
    // Counted first: numbers are smaller than copies, and stay even if the disk is too full for these.
    let opened = archive::open_checked(&args.paths, quiet)?;
    let (kept, mut places) = (kept::kept()?, archive::places(&args.paths)?);
    // Other files can have such names, too. A file that cannot be read is named.
    let sessions: HashSet<PathBuf> = opened.index.files()?.into_iter().map(|(file, _)| file.path).collect();
    places.files.retain(|found| sessions.contains(&found.path) || File::open(&found.path).is_err());
    let mut counter = Counter::new("keeping sessions", quiet);
    let report = kept.keep(&places, &AtomicBool::new(false), |done, of| counter.show(done, of));
    counter.clear();
    let report = report?;
    for (path, error) in report.failed.iter().take(NAMED) {
        output::fail(&format!("cannot keep {}: {error}", one_line(&path.display().to_string())));
    }
    let more = report.failed.len().saturating_sub(NAMED);
    if more > 0 {
        output::tell(&format!("and {} more that cannot be kept", count_of(more, "file")));
    }
    if report.left > 0 {
        output::tell(&format!("{} were not tried: make room on the disk and run this again", count_of(report.left, "file")));
    }
    if args.json {
        let failed: Vec<_> = report
            .failed
            .iter()
            .map(|(path, error)| json!({"path": path.to_string_lossy(), "error": error.to_string()}))
            .collect();
        let all = json!({
            "folder": kept.folder().to_string_lossy(), "new": report.new, "renewed": report.renewed, "healed": report.healed,
            "current": report.current, "bytes": report.bytes, "failed": failed, "left": report.left,
        });
        output::json(&all.to_string())?;
    } else if !args.quiet {
        let mut out = output::stdout();
        let copied = report.new + report.renewed;
        writeln!(
            out,
            "Copied {} ({} new, {} changed, {}); {} had a current copy.",
            count_of(copied, "file"),
            report.new,
            report.renewed,
            size(report.bytes),
            report.current,
        )?;
        if report.healed > 0 {
            writeln!(out, "{} had a damaged copy, which was made again.", count_of(report.healed, "file"))?;
        }
        writeln!(out, "The copies are in {}.", one_line(&kept.folder().display().to_string()))?;
        out.flush()?;
    }
    Ok(if report.failed.is_empty() && report.left == 0 { 0 } else { exit::USAGE })
}
