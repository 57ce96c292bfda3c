//! Finds an agent's program: where the caller says, where the environment says, or on PATH.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use tapline_protocol::Agent as Kind;

use crate::error::StartError;
use crate::harness::bin_variable;

/// Finds the program of an agent. `path` is the PATH to search.
pub fn locate(kind: Kind, given: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf, StartError> {
    locate_other(kind, given, path, |_| false)
}

/// Finds the program of an agent, but skips programs that stand in for it and would only find themselves.
pub fn locate_other(
    kind: Kind,
    given: Option<&Path>,
    path: Option<&OsStr>,
    stands_in: impl Fn(&Path) -> bool,
) -> Result<PathBuf, StartError> {
    let named = std::env::var_os(bin_variable(kind)).filter(|value| !value.is_empty()).map(PathBuf::from);
    let wanted = given.map(Path::to_owned).or(named).unwrap_or_else(|| PathBuf::from(kind.name()));
    // As in a shell, a name with a slash is a path, and any other name is searched for.
    let wanted = if wanted.components().count() > 1 || wanted.is_absolute() {
        let found = executable(kind, wanted)?;
        if !stands_in(&found) {
            return Ok(found);
        }
        PathBuf::from(kind.name())
    } else {
        wanted
    };
    let mut refused = None;
    for folder in path.map(std::env::split_paths).into_iter().flatten() {
        let candidate = if folder.as_os_str().is_empty() { Path::new(".").join(&wanted) } else { folder.join(&wanted) };
        match executable(kind, candidate) {
            Ok(found) if stands_in(&found) => {}
            Ok(found) => return Ok(found),
            Err(error @ StartError::NotExecutable { .. }) => refused = refused.or(Some(error)),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or(StartError::NotFound { agent: kind.name(), path: wanted }))
}

fn executable(kind: Kind, path: PathBuf) -> Result<PathBuf, StartError> {
    let agent = kind.name();
    match path.metadata() {
        Ok(meta) if meta.is_file() && may_execute(&meta) => {
            if let Some(why) = no_program(&path) {
                return Err(StartError::NotExecutable { agent, path, error: io::Error::other(why) });
            }
            // The program is started in another folder, so its path must not depend on this one.
            Ok(std::path::absolute(&path).unwrap_or(path))
        }
        Ok(meta) => {
            let why = if meta.is_dir() { "it is a folder" } else { "it is not marked as executable (chmod +x)" };
            Err(StartError::NotExecutable { agent, path, error: io::Error::new(io::ErrorKind::PermissionDenied, why) })
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(StartError::NotExecutable { agent, path, error }),
        Err(_) => Err(StartError::NotFound { agent, path }),
    }
}

fn may_execute(meta: &std::fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o111 != 0
}

/// Says why a file is not a program, if that can be seen. The system would otherwise let a shell read it.
#[cfg(target_os = "linux")]
fn no_program(path: &Path) -> Option<&'static str> {
    use std::io::Read as _;
    let head = |path: &Path| {
        let mut bytes = Vec::new();
        std::fs::File::open(path).ok()?.take(20).read_to_end(&mut bytes).ok().map(|_| bytes)
    };
    // A file that can be executed but not read is left to the system.
    let bytes = head(path)?;
    let foreign = || std::fs::read_dir("/proc/sys/fs/binfmt_misc").is_ok_and(|entries| entries.count() > 2);
    if bytes.starts_with(b"#!")
        || (bytes.starts_with(b"\x7fELF") && machine(&bytes) == machine(&head(Path::new("/proc/self/exe"))?))
    {
        return None;
    }
    // Other kinds of programs may be registered with the system.
    match foreign() {
        true => None,
        false if bytes.starts_with(b"\x7fELF") => Some("it is a program for another system"),
        false => Some("it is not a program (a script starts with #!)"),
    }
}

/// Returns the machine that an ELF file is for.
#[cfg(target_os = "linux")]
fn machine(elf: &[u8]) -> Option<&[u8]> {
    elf.get(18..20)
}

#[cfg(not(target_os = "linux"))]
fn no_program(_: &Path) -> Option<&'static str> {
    None
}
