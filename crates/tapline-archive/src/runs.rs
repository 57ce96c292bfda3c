//! The recordings of a session: one for each run, without the copies of runs that were pushed.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::load::SessionFacts;

/// The file in a recording that is being pushed elsewhere: it says under which name. If that is here, both are one run.
pub const PUSHED_AS: &str = "pushed-as.json";
/// The file that says that a recording was pushed to this machine, and under which name.
pub const PUSHED_HERE: &str = crate::index::PUSHED_HERE;

#[derive(Deserialize)]
struct Mark {
    run: String,
}

/// Leaves out the copies of runs whose own recordings are there, too.
fn leave_out_copies<T>(recordings: &mut Vec<(T, PathBuf)>) {
    let run = |folder: &Path, name: &str| {
        let mark = std::fs::read(folder.join(name)).ok()?;
        serde_json::from_slice::<Mark>(&mark).ok().map(|mark| mark.run)
    };
    if recordings.len() < 2 {
        return;
    }
    let is_original = |folder: &Path| !folder.join(PUSHED_HERE).exists();
    let originals: HashSet<String> =
        recordings.iter().filter(|(_, folder)| is_original(folder)).filter_map(|(_, folder)| run(folder, PUSHED_AS)).collect();
    if !originals.is_empty() {
        recordings.retain(|(_, folder)| run(folder, PUSHED_HERE).is_none_or(|run| !originals.contains(&run)));
    }
}

/// Returns the recordings of a session, the oldest run first. Each run has a recording of its own; a transcript has all of them.
pub fn runs(session: &SessionFacts) -> Vec<PathBuf> {
    let there = session.files.iter().filter(|file| !file.gone);
    let mut recordings: Vec<_> = there.filter_map(|file| Some((file.mtime, file.recording.clone()?))).collect();
    recordings.sort();
    leave_out_copies(&mut recordings);
    recordings.into_iter().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use tapline_testkit::TempFolder;

    use super::*;

    #[test]
    fn of_a_run_and_its_pushed_copy_only_the_run_is_told() {
        let folder = TempFolder::new();
        let recording = |name: &str, mark: Option<(&str, &str)>| {
            let path = folder.join(name);
            std::fs::create_dir(&path).unwrap();
            if let Some((file, run)) = mark {
                std::fs::write(path.join(file), format!("{{\"run\":\"{run}\"}}")).unwrap();
            }
            (0, path)
        };
        let plain = recording("plain", None);
        let own = recording("own", Some((PUSHED_AS, "one")));
        let copy = recording("copy", Some((PUSHED_HERE, "one")));
        let other = recording("other", Some((PUSHED_HERE, "two")));
        let mut all = vec![plain.clone(), copy, own.clone(), other.clone()];
        leave_out_copies(&mut all);
        assert_eq!(all, [plain, own, other]);
    }
}
