//! `tapline archive restore`: puts the copies of a session back where its agent finds them.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde_json::json;
use tapline_archive::sessions;
use tapline_session::text::one_line;

use crate::archive::{self, kept};
use crate::args::archive::Restore;
use crate::{exit, output};

pub(super) fn run(args: &Restore) -> Result<u8> {
    let quiet = args.quiet || args.json;
    let archive = archive::open_checked(&[], quiet)?;
    let found = archive::only(&args.id, sessions::find(&archive.index, &args.id)?)?;
    let restored = kept::kept()?.restore(&archive.index, &found.id)?;
    for (path, error) in &restored.failed {
        output::fail(&format!("cannot restore {}: {error}", one_line(&path.display().to_string())));
    }
    let shown = |path: &Path| one_line(&path.display().to_string());
    if !args.json {
        for path in &restored.lost {
            output::tell(&format!("{} has no copy, so it cannot be restored", shown(path)));
        }
    }
    if restored.files.is_empty() && restored.there.is_empty() && restored.failed.is_empty() {
        bail!("no file of session {} has a copy: `tapline archive keep` makes copies before files are deleted", found.id);
    }
    if args.json {
        let list = |paths: &[PathBuf]| paths.iter().map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>();
        let failed: Vec<_> = restored
            .failed
            .iter()
            .map(|(path, error)| json!({"path": path.to_string_lossy(), "error": error.to_string()}))
            .collect();
        let all = json!({
            "session": found.id, "restored": list(&restored.files), "there": list(&restored.there), "lost": list(&restored.lost),
            "failed": failed,
        });
        output::json(&all.to_string())?;
    } else if !args.quiet {
        let mut out = output::stdout();
        for path in &restored.files {
            writeln!(out, "restored  {}", shown(path))?;
        }
        if restored.files.is_empty() && restored.failed.is_empty() {
            writeln!(out, "Nothing to do: the files of session {} are there.", one_line(&found.id))?;
        } else if restored.failed.is_empty() {
            writeln!(out, "`tapline sessions --resume-command {}` prints how to go on.", output::quoted(&found.id))?;
        }
        out.flush()?;
    }
    Ok(if restored.failed.is_empty() { 0 } else { exit::USAGE })
}
