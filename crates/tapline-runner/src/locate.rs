//! Where an agent's program is: where the caller says, where the environment says, or on PATH.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use tapline_protocol::Agent as Kind;

use crate::error::StartError;
use crate::harness::{bin_variable, name};

/// The program of an agent. `path` is the PATH it is looked for on.
pub fn locate(kind: Kind, given: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf, StartError> {
    let named = std::env::var_os(bin_variable(kind)).filter(|value| !value.is_empty()).map(PathBuf::from);
    let wanted = given.map(Path::to_owned).or(named).unwrap_or_else(|| PathBuf::from(name(kind)));
    // As a shell does: a name with a slash is a path, another is looked for.
    if wanted.components().count() > 1 || wanted.is_absolute() {
        return executable(kind, wanted);
    }
    let mut refused = None;
    for folder in path.map(std::env::split_paths).into_iter().flatten() {
        let candidate = if folder.as_os_str().is_empty() { Path::new(".").join(&wanted) } else { folder.join(&wanted) };
        match executable(kind, candidate) {
            Ok(found) => return Ok(found),
            Err(error @ StartError::NotExecutable { .. }) => refused = refused.or(Some(error)),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or(StartError::NotFound { agent: name(kind), path: wanted }))
}

fn executable(kind: Kind, path: PathBuf) -> Result<PathBuf, StartError> {
    let agent = name(kind);
    match path.metadata() {
        Ok(meta) if meta.is_file() && may_execute(&meta) => {
            // The program is started in another folder: its path must not depend on this one.
            Ok(std::path::absolute(&path).unwrap_or(path))
        }
        Ok(meta) => {
            let why = if meta.is_dir() { "it is a folder" } else { "it lacks the permission (chmod +x)" };
            Err(StartError::NotExecutable { agent, path, error: io::Error::new(io::ErrorKind::PermissionDenied, why) })
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(StartError::NotExecutable { agent, path, error }),
        Err(_) => Err(StartError::NotFound { agent, path }),
    }
}

#[cfg(unix)]
fn may_execute(meta: &std::fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o111 != 0
}

#[cfg(not(unix))]
fn may_execute(_: &std::fs::Metadata) -> bool {
    true
}
