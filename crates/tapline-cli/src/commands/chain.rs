//! Stand-ins in a row: two installed taplines, a copy of one, or a wrapper. Each tells the next what it has tried, so
//! that together they find the agent and never call each other endlessly.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The variable with which they do so: how many stand-ins there are, the process that set it, and the programs.
pub(super) const CHAIN: &str = "TAPLINE_TEE";
/// The most stand-ins in a row. Agents that start agents count, too.
const LONGEST: usize = 32;

/// A program that was started as the agent this often in one chain is a wrapper that only leads back here.
const OFTEN: usize = 4;

/// The stand-ins before this one.
#[derive(Debug, Default)]
pub(super) struct Chain {
    length: usize,
    programs: Vec<PathBuf>,
    /// Whether there is no other process between the last one and this.
    direct: bool,
}

impl Chain {
    pub(super) fn here() -> Self {
        let told = std::env::var_os(CHAIN).unwrap_or_default();
        let mut words = std::env::split_paths(&told);
        let mut number = || words.next()?.to_str()?.parse::<u32>().ok();
        let (length, teller) = (number().unwrap_or(0) as usize, number());
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
        Self {
            length,
            programs: words.collect(),
            direct: teller.is_some() && (teller == parent || teller == Some(std::process::id())),
        }
    }

    pub(super) fn is_too_long(&self) -> bool {
        self.length >= LONGEST
    }

    /// Returns whether an earlier stand-in is this program, or has taken it for the agent. An agent's own children may
    /// start it again.
    pub(super) fn has(&self, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else { return false };
        let count = self.programs.iter().filter(|program| **program == path).count();
        count >= if self.direct { 1 } else { OFTEN }
    }

    /// Returns the variable for the next one.
    pub(super) fn handed_on(&self, program: &Path) -> OsString {
        let numbers = [(self.length + 1).to_string(), std::process::id().to_string()].map(PathBuf::from);
        let ours = [std::env::current_exe().unwrap_or_default(), program.to_owned()].into_iter();
        let ours = ours.map(|path| path.canonicalize().unwrap_or(path));
        // A path that cannot be in a list is left out. The count still ends an endless chain.
        let programs = self.programs.iter().cloned().chain(ours).filter(|path| !path.to_string_lossy().contains(':'));
        std::env::join_paths(numbers.into_iter().chain(programs)).unwrap_or_default()
    }
}

/// The second line of a stand-in that is a script starts with this, so that it can be recognised.
const MARK: &str = "# a stand-in made by tapline shim";

/// The second line of a stand-in: whether it looks for the agent, or was told what to start or to play.
pub(super) fn mark(searches: bool) -> String {
    if searches { MARK.to_owned() } else { format!("{MARK}: it does not look for the agent") }
}

/// Returns whether a program is tapline itself, or a stand-in that it made.
pub(super) fn stands_in(path: &Path) -> bool {
    is_tapline(path) || mark_of(path).is_some_and(|line| line.starts_with(MARK))
}

/// Returns whether a program is a stand-in that looks for the agent: two of these would only find each other.
pub(super) fn searches(path: &Path) -> bool {
    is_tapline(path) || mark_of(path).is_some_and(|line| line == mark(true))
}

/// Returns whether a program is given by its path, not by its name.
pub(super) fn is_path(program: &Path) -> bool {
    program.components().count() > 1 || program.is_absolute()
}

fn is_tapline(path: &Path) -> bool {
    let own = std::env::current_exe().ok().and_then(|own| own.canonicalize().ok());
    own.is_some() && path.canonicalize().ok() == own
}

/// The second line of a file.
fn mark_of(path: &Path) -> Option<String> {
    // Opening a FIFO could block.
    if !path.is_file() {
        return None;
    }
    let mut head = [0; 128];
    let read = std::fs::File::open(path).and_then(|mut file| std::io::Read::read(&mut file, &mut head)).ok()?;
    String::from_utf8_lossy(&head[..read]).lines().nth(1).map(str::to_owned)
}
