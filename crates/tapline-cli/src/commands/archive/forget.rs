//! `tapline archive forget`: removes what tapline keeps of a session, or of a project's sessions.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Result, bail};
use serde_json::json;
use tapline_archive::search::TextIndex;
use tapline_archive::sessions::{self, SessionFilter};
use tapline_archive::{Index, Prices, Selection, project};
use tapline_session::text::{count_of, one_line};

use crate::archive::{self, kept};
use crate::args::archive::Forget;
use crate::output;

pub(super) fn run(args: &Forget) -> Result<u8> {
    let mut opened = archive::open_checked(&[], args.quiet || args.json)?;
    let sessions = sessions_of(args, &opened.index)?;
    let files: Vec<_> = opened.index.files()?.into_iter().filter(|(_, session)| sessions.contains(session)).collect();
    let mut copies = Vec::new();
    if !args.dry_run {
        copies = kept::kept()?.forget(&opened.index, &sessions)?;
        // The search may have read copies instead.
        let paths: Vec<PathBuf> = files.iter().map(|(file, _)| &file.path).chain(&copies).cloned().collect();
        let folder = archive::folder()?;
        if folder.join("text.db").exists() {
            TextIndex::open(&folder)?.forget(&paths, &sessions)?;
        }
        // They have names of files, and only make the next run quicker.
        for name in ["folders", "copies"] {
            let _ = std::fs::remove_file(folder.join(name));
        }
        // Last: until then, the same command finds the rest again.
        opened.index.forget(&sessions)?;
    }
    let there = files.iter().filter(|(file, _)| file.path.exists() && !file.path.starts_with(folder_of_copies()));
    let there: Vec<PathBuf> = there.map(|(file, _)| file.recording.clone().unwrap_or_else(|| file.path.clone())).collect();
    let mut ids: Vec<&String> = sessions.iter().collect();
    ids.sort();
    if args.json {
        let there: Vec<_> = there.iter().map(|path| path.to_string_lossy()).collect();
        let all =
            json!({ "sessions": ids, "files": files.len(), "copies": copies.len(), "there": there, "dry_run": args.dry_run });
        output::json(&all.to_string())?;
        return Ok(0);
    }
    if !args.quiet {
        let mut out = output::stdout();
        for id in &ids {
            writeln!(out, "{}  {}", if args.dry_run { "would forget" } else { "forgot" }, one_line(id))?;
        }
        if !args.dry_run {
            let copies = if copies.len() == 1 { "1 copy".to_owned() } else { format!("{} copies", copies.len()) };
            writeln!(out, "Removed {} and {copies}.", count_of(files.len(), "row"))?;
        }
        out.flush()?;
    }
    for path in &there {
        let path = one_line(&path.display().to_string());
        output::tell(&format!("{path} is still there: remove it, too, or it is counted again"));
    }
    let asides = archive::asides()?;
    if !args.dry_run && !asides.is_empty() {
        let names: Vec<_> = asides.iter().map(|path| one_line(&path.display().to_string())).collect();
        output::tell(&format!("older indexes were put aside and may still name it; nothing needs them: {}", names.join(", ")));
    }
    Ok(0)
}

/// Returns the sessions that are meant.
fn sessions_of(args: &Forget, index: &Index) -> Result<HashSet<String>> {
    if let Some(start) = &args.id {
        return Ok([archive::only(start, sessions::find(index, start)?)?.id].into());
    }
    let wanted = args.project.as_deref().unwrap_or_default().trim_end_matches('/');
    let all = sessions::sessions(index, Prices::embedded(), &Selection::default(), &SessionFilter::default())?;
    let is_of = |folder: &str| !wanted.is_empty() && (folder == wanted || project(folder) == wanted);
    let found: HashSet<String> =
        all.into_iter().map(|one| one.facts).filter(|one| is_of(&one.folder)).map(|one| one.id).collect();
    if found.is_empty() {
        bail!("no session is of the project `{wanted}`: `tapline stats --by project` lists projects");
    }
    Ok(found)
}

fn folder_of_copies() -> PathBuf {
    kept::kept().map(|kept| kept.folder().to_owned()).unwrap_or_default()
}
