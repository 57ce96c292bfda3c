//! Finds out what a program can do from its own help, because an unknown flag would end it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::environment::Variables;
use crate::process::Process;

/// How long the program may take to print its help.
const SAYS_WITHIN: Duration = Duration::from_secs(10);

/// A program with its modification time, and a flag.
type Question = (PathBuf, Option<SystemTime>, &'static str);

/// Returns whether a program's help mentions this flag.
pub(crate) async fn names(program: &Path, environment: &Variables, flag: &'static str) -> bool {
    static KNOWN: Mutex<BTreeMap<Question, bool>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (program.to_owned(), program.metadata().and_then(|meta| meta.modified()).ok(), flag);
    if let Some(named) = known().get(&key) {
        return *named;
    }
    let mut command = Command::new(program);
    command.arg("--help").env_clear().envs(environment);
    let Ok(help) = Process::output(command, SAYS_WITHIN).await else { return false };
    let named = String::from_utf8_lossy(&help).contains(flag);
    known().insert(key, named);
    named
}
