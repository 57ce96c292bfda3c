//! `tapline shim`: a stand-in for an agent, for hosts that should be recorded or get a replay.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tapline_protocol::Agent;
use tapline_recording::create_private_folder;

use super::chain::{is_path, mark, searches, stands_in};
use super::replay::first;
use super::tee::agent_of;
use crate::args::offline::Shim;
use crate::{output, store};

pub(crate) fn run(args: &Shim) -> Result<u8> {
    let replay = args.replay.as_deref().map(store::recorded).transpose()?;
    let recorded = replay.as_deref().map(first).transpose()?.map(|recording| recording.meta.agent);
    let recorded = recorded.flatten().and_then(|name| agent_of(OsStr::new(&name)));
    let kind = args.agent.or(recorded).unwrap_or_default();
    let own = std::env::current_exe().context("cannot find tapline's own program")?;
    create_private_folder(&args.folder).with_context(|| format!("cannot create {}", args.folder.display()))?;
    if let Some(bin) = args.bin.as_deref().filter(|bin| is_path(bin)) {
        let name = bin.display();
        anyhow::ensure!(bin.is_file(), "{name} does not exist: give the agent's program with --bin");
        let itself =
            args.folder.join(kind.name()).canonicalize().is_ok_and(|own| bin.canonicalize().is_ok_and(|bin| bin == own));
        anyhow::ensure!(
            !itself && !searches(bin),
            "--bin: {name} starts tapline again, not the agent; give the agent's own program"
        );
    }
    if let Some(recording) = &replay {
        crate::args::check_replay(recording, &args.args)?;
    }
    let path = args.folder.join(kind.name());
    if path.symlink_metadata().is_ok() && !stands_in(&path) {
        anyhow::bail!("{} exists and was not created by tapline: use another folder", path.display());
    }
    let _ = std::fs::remove_file(&path);
    let made = if replay.is_none() && args.bin.is_none() && args.record_in.is_none() {
        std::os::unix::fs::symlink(&own, &path)
    } else {
        write_script(&path, &script(args, replay.as_deref(), kind, &own)?)
    };
    made.with_context(|| format!("cannot create {}", path.display()))?;
    let mut out = output::stdout();
    writeln!(out, "{}", output::raw(&std::path::absolute(&path).unwrap_or(path).display().to_string()))?;
    out.flush()?;
    Ok(0)
}

fn script(args: &Shim, replay: Option<&Path>, kind: Agent, own: &Path) -> Result<String> {
    let whole = |path: &Path| {
        std::path::absolute(path).map(PathBuf::into_os_string).with_context(|| format!("{} does not exist", path.display()))
    };
    let mut words: Vec<OsString> = vec![own.into()];
    if let Some(recording) = replay {
        words.extend(["replay".into(), whole(recording)?]);
        words.extend(args.args.iter().cloned());
    } else {
        words.extend(["tee".into(), "--agent".into(), kind.name().into()]);
        if let Some(bin) = &args.bin {
            // A plain name is searched for on PATH each time it is started.
            words.extend(["--bin".into(), if is_path(bin) { whole(bin)? } else { bin.clone().into_os_string() }]);
        }
        if let Some(folder) = &args.record_in {
            words.extend(["--record-in".into(), whole(folder)?]);
        }
    }
    let searches = args.replay.is_none() && args.bin.as_deref().is_none_or(|bin| !is_path(bin));
    let quoted: Vec<String> = words.iter().map(|word| output::quoted(&word.to_string_lossy())).collect();
    Ok(format!("#!/bin/sh\n{}\nexec {} -- \"$@\"\n", mark(searches), quoted.join(" ")))
}

fn write_script(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(path)?;
    file.write_all(text.as_bytes())
}
