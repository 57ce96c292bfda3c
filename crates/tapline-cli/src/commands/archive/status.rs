//! `tapline archive status`: what is counted, what is kept, what is gone, and what will vanish and when.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;
use tapline_archive::kept::{ArchiveStatus, CopyState, Lifetime, Vanishing, lifetimes, status};
use tapline_session::render::Style;
use tapline_session::text::{count_of, grouped, one_line};

use super::size;
use crate::archive::{kept, path_of};
use crate::args::archive::Status;
use crate::when::now;
use crate::{archive, output};

/// What vanishes within this time is worth a warning.
const SOON: u64 = 7 * 24 * 60 * 60 * 1_000;

pub(super) fn run(args: &Status) -> Result<u8> {
    let opened = archive::open_checked(&[], args.quiet || args.json)?;
    let lifetimes = lifetimes(&path_of);
    let status = status(&opened.index, &kept::kept()?, &archive::places(&[])?, &lifetimes)?;
    if args.json {
        output::json(&as_json(&status, &lifetimes)?.to_string())?;
        return Ok(0);
    }
    let mut out = output::stdout();
    out.write_all(text(&status, &lifetimes, now(), args.look.style()).as_bytes())?;
    out.flush()?;
    Ok(0)
}

fn as_json(status: &ArchiveStatus, lifetimes: &[Lifetime]) -> Result<serde_json::Value> {
    let mut all = serde_json::to_value(status)?;
    let lifetime = |lifetime: &Lifetime| {
        json!({
            "agent": lifetime.agent.name(), "days": lifetime.days,
            "said_in": lifetime.said_in.as_ref().map(|path| path.to_string_lossy()),
        })
    };
    all["lifetimes"] = lifetimes.iter().map(lifetime).collect();
    Ok(all)
}

fn text(status: &ArchiveStatus, lifetimes: &[Lifetime], now: u64, style: Style) -> String {
    let files = |count: u64| count_of(usize::try_from(count).unwrap_or(usize::MAX), "file");
    let (indexed, kept, gone) = (&status.indexed, &status.kept, &status.gone);
    let mut out = String::new();
    let sessions = count_of(usize::try_from(indexed.sessions).unwrap_or(usize::MAX), "session");
    let _ = writeln!(out, "counted   {} in {}, {}", sessions, files(indexed.files), size(indexed.bytes));
    let folder = one_line(&kept.folder.display().to_string());
    if kept.files == 0 {
        let _ = writeln!(out, "kept      nothing: `tapline archive keep` copies transcripts to {folder}");
    } else {
        let earlier = if kept.earlier > 0 { format!(", and {} earlier states", grouped(kept.earlier)) } else { String::new() };
        let copied = files(kept.files);
        let _ = writeln!(
            out,
            "kept      {copied}{earlier}, {} (uncompressed {}), in {folder}",
            size(kept.bytes),
            size(kept.original_bytes)
        );
    }
    let Style { yellow, reset, .. } = style;
    for path in &kept.unreadable {
        let _ = writeln!(out, "          {yellow}damaged copy: {}{reset}", one_line(&path.display().to_string()));
    }
    let _ = match (gone.kept, gone.lost) {
        (0, 0) => writeln!(out, "gone      nothing"),
        (kept, 0) => writeln!(out, "gone      {}, all of them kept", files(kept)),
        (0, _) => writeln!(out, "gone      {}; their numbers still count", files(gone.files)),
        (kept, lost) => {
            writeln!(
                out,
                "gone      {}: {} kept; of {} only the numbers are left",
                files(gone.files),
                grouped(kept),
                grouped(lost)
            )
        }
    };
    let mut label = "vanishing ";
    for lifetime in lifetimes {
        vanishing(&mut out, label, status, lifetime, now, style);
        label = "          ";
    }
    out
}

/// Says what one agent will delete.
fn vanishing(out: &mut String, label: &str, status: &ArchiveStatus, lifetime: &Lifetime, now: u64, style: Style) {
    let agent = lifetime.agent.title();
    let Some(days) = lifetime.days else {
        let _ = writeln!(out, "{label}{agent} deletes nothing");
        return;
    };
    let by = lifetime.said_in.as_ref().map_or("its default".to_owned(), |path| one_line(&path.display().to_string()));
    let _ = writeln!(
        out,
        "{label}{agent} deletes transcripts {} after their last change ({by})",
        count_of(usize::try_from(days).unwrap_or(usize::MAX), "day")
    );
    let all = || status.vanishing.iter().filter(|file| file.agent == lifetime.agent);
    let Some(first) = all().next() else { return };
    let missing = |files: &mut dyn Iterator<Item = &Vanishing>| files.filter(|file| file.copy != CopyState::Current).count();
    let soon = || all().filter(|file| file.at < now.saturating_add(SOON));
    let when = Timestamp::from_millisecond(first.at.cast_signed()).unwrap_or_default().to_zoned(TimeZone::system());
    let _ = writeln!(
        out,
        "            {} within 7 days, the first on {}; {} in all",
        count_of(soon().count(), "file"),
        when.strftime("%Y-%m-%d %H:%M"),
        count_of(all().count(), "file"),
    );
    let (not_kept, not_kept_soon) = (missing(&mut all()), missing(&mut soon()));
    let Style { yellow, reset, .. } = style;
    if not_kept > 0 {
        let (on, off) = if not_kept_soon > 0 { (yellow, reset) } else { ("", "") };
        let _ = writeln!(
            out,
            "            {on}{} no current copy, {not_kept_soon} of them vanish within 7 days: `tapline archive keep` copies them{off}",
            if not_kept == 1 { "1 file has".to_owned() } else { format!("{not_kept} files have") },
        );
    }
}
