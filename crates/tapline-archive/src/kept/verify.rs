//! Reads all copies, to see whether they are still what was copied.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::copy::check;
use super::trailer::Trailer;
use super::{ENDING, Kept, walk};

/// What reading all copies showed.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Verified {
    /// How many copies are what was copied.
    pub whole: usize,
    /// The length of what is in them.
    pub bytes: u64,
    /// Copies that are damaged.
    pub bad: Vec<BadCopy>,
    /// Damaged files that stand aside of a whole copy: it was made again. Nothing needs them.
    pub aside: Vec<PathBuf>,
    /// How many copies were not read, because it was interrupted.
    pub left: usize,
}

/// A damaged copy.
#[derive(Debug)]
#[non_exhaustive]
pub struct BadCopy {
    /// The copy.
    pub path: PathBuf,
    /// What it is a copy of, as far as that is known.
    pub original: PathBuf,
    /// Whether its original is there, so that the copy can be made again.
    pub can_heal: bool,
    /// What is wrong.
    pub error: io::Error,
}

impl Kept {
    /// Reads all copies, and compares them with what was copied: zstd's checksum, the length, and a hash. Passes on how many are
    /// done, and of how many.
    pub fn verify(&self, stop: &AtomicBool, mut progress: impl FnMut(usize, usize)) -> Verified {
        let mut paths = Vec::new();
        walk(self.folder(), &mut |path, _| {
            if path.as_os_str().as_encoded_bytes().ends_with(ENDING.as_bytes()) {
                paths.push(path.to_owned());
            }
        });
        paths.sort();
        let mut verified = Verified::default();
        let mut whole: HashSet<&Path> = HashSet::new();
        let mut nameless: Vec<(&Path, io::Error)> = Vec::new();
        for (done, path) in paths.iter().map(PathBuf::as_path).enumerate() {
            if stop.load(Ordering::Relaxed) {
                verified.left = paths.len() - done;
                break;
            }
            match Trailer::read(path) {
                Err(error) => nameless.push((path, error)),
                Ok(trailer) => match self.is_in_place(path, &trailer).and_then(|()| check(path, &trailer)) {
                    Ok(()) => {
                        (verified.whole, verified.bytes) = (verified.whole + 1, verified.bytes + trailer.len);
                        whole.insert(path);
                    }
                    Err(error) => {
                        // An earlier state is nowhere else.
                        let original = Some(trailer.original).filter(|original| self.place(original) == path);
                        let original = original.unwrap_or_else(|| self.original_at(path));
                        verified.bad.push(BadCopy { path: path.to_owned(), can_heal: original.exists(), original, error });
                    }
                },
            }
            progress(done + 1, paths.len());
        }
        for (path, error) in nameless {
            if current_of(path).is_some_and(|current| whole.contains(&*current)) {
                verified.aside.push(path.to_owned());
                continue;
            }
            let original = self.original_at(path);
            verified.bad.push(BadCopy { path: path.to_owned(), can_heal: original.exists(), original, error });
        }
        verified.bad.sort_by(|one, other| one.path.cmp(&other.path));
        verified
    }
}

impl Kept {
    /// Returns what a file is a copy of, by its place.
    fn original_at(&self, path: &Path) -> PathBuf {
        let packed = Path::new("/").join(path.strip_prefix(self.folder()).unwrap_or(path));
        Some(packed.with_extension("")).filter(|original| original.exists()).unwrap_or(packed)
    }

    /// Fails if a copy says that it is of another file than its place says.
    fn is_in_place(&self, path: &Path, trailer: &Trailer) -> io::Result<()> {
        let place = self.place(&trailer.original);
        if place == path || current_of(path).is_some_and(|current| current == place) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "it says that it is a copy of another file"))
    }
}

/// Returns the copy that a file stands aside of: `a.jsonl.zst` of `a.jsonl.1.zst`.
pub(super) fn current_of(aside: &Path) -> Option<PathBuf> {
    let numbered = aside.with_extension("");
    let is_number = numbered.extension()?.to_str()?.bytes().all(|byte| byte.is_ascii_digit());
    let mut current = numbered.with_extension("").into_os_string();
    current.push(ENDING);
    is_number.then(|| current.into())
}
