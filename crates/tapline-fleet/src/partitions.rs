//! Tables beyond this machine: Parquet in parts, one for each day, in a folder or in a store that speaks S3. Only what has
//! changed is written, each file as a whole.

mod notes;
mod place;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tapline_archive::export::{Export, ExportError, ExportTable, Partition, PartitionContent};
use tapline_archive::{Index, Prices, Selection};
use tapline_recording::{Store, create_private_folder};
use tokio::sync::watch;

use crate::identity::identity;
use notes::Notes;
use place::{Place, Spooled};

/// How many rows are written in one pass over the archive. They are in memory, some 60 MB of them.
const ROWS: u64 = 128 << 10;
/// How many parts are written in one pass over the archive.
const PARTS: usize = 1_024;

/// Why tables cannot be written to a folder or a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionsError {
    /// The address makes no sense, or the environment does not say enough about it.
    #[error("cannot write to `{address}`: {why}")]
    Address {
        /// The address.
        address: String,
        /// Why not.
        why: String,
    },
    /// Another process writes there.
    #[error("another tapline with the same data folder writes to {to}")]
    Busy {
        /// Where.
        to: String,
    },
    /// A file cannot be read or written.
    #[error("cannot write {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The archive cannot be read, or a table cannot be made.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// There is no such bucket.
    #[error("there is no bucket `{bucket}` ({to}): make it first, or check AWS_REGION and AWS_ENDPOINT_URL")]
    NoBucket {
        /// Its name.
        bucket: String,
        /// Where.
        to: String,
    },
    /// The store does not let us write.
    #[error(
        "the store does not let tapline write to {to} ({why}): check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what they may do"
    )]
    Refused {
        /// Where.
        to: String,
        /// The store's own word.
        why: String,
    },
    /// There are no keys.
    #[error("there are no keys for {to}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")]
    NoKeys {
        /// Where.
        to: String,
    },
    /// The store cannot be reached, or failed.
    #[error("cannot write to {to}: {why}")]
    Store {
        /// Where.
        to: String,
        /// The cause.
        why: String,
    },
    /// Somebody said stop.
    #[error("stopped")]
    Stopped,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionsWritten {
    /// The number of parts that were written.
    pub written: usize,
    /// The number of parts that had not changed.
    pub unchanged: usize,
    /// The rows of what was written.
    pub rows: u64,
    /// The bytes of what was written.
    pub bytes: u64,
}

/// A folder or a bucket that has the tables of an archive in parts: `TABLE/date=YYYY-MM-DD/STORE.parquet`, with a name for
/// the data folder, so that several machines can write to one place.
///
/// Its functions wait: call them on a thread that may.
#[derive(Debug)]
pub struct PartitionedStore {
    place: Place,
    /// The name of this machine's files.
    file: String,
    notes: Notes,
    /// Where a file that is too large for memory is written first.
    spool: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl PartitionedStore {
    /// Opens a folder or `s3://BUCKET/PREFIX`. For a store, keys, region and address come from the environment (`AWS_…`).
    /// Nothing is asked of it yet.
    pub fn open(store: &Store, address: &str) -> Result<Self, PartitionsError> {
        let place = Place::of(address)?;
        let folder = store.root().join("parquet");
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |error| PartitionsError::File { path, error }
        };
        create_private_folder(&folder).map_err(fail(&folder))?;
        let id = identity(store).map_err(fail(&store.root().join("fleet")))?;
        let folder = folder.join(format!("{:016x}", fnv(place.identity().as_bytes())));
        create_private_folder(&folder).map_err(fail(&folder))?;
        let lock = folder.join("lock");
        let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&lock);
        let locked = open.map_err(fail(&lock))?;
        match flock(&locked, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(PartitionsError::Busy { to: address.to_owned() }),
            Err(error) => return Err(fail(&lock)(error.into())),
        }
        let path = folder.join("written");
        let notes = Notes::open(path.clone()).map_err(fail(&path))?;
        Ok(Self { place, file: format!("{id}.parquet"), notes, spool: folder.join("spool"), _lock: locked })
    }

    /// Forgets what was written, so that everything is written again: somebody removed files from the store, for example.
    pub fn forget(&mut self) -> Result<(), PartitionsError> {
        let path = self.spool.with_file_name("written");
        self.notes.forget().map_err(|error| PartitionsError::File { path, error })
    }

    /// Writes the parts of all tables that have changed since they were last written, the latest day first. A part whose
    /// rows are all gone is written without rows. What fails is tried again the next time.
    ///
    /// The archive is read once, and once more for every 131,072 rows that have changed.
    pub fn write(
        &mut self,
        export: &Export<'_>,
        index: &Index,
        prices: &Prices,
        selection: &Selection,
        stop: &watch::Receiver<bool>,
    ) -> Result<PartitionsWritten, PartitionsError> {
        let now = export.partitions(index, prices, selection)?;
        let mut done = PartitionsWritten::default();
        let changed = self.changed(&now);
        done.unchanged = now.len() - changed.iter().filter(|(partition, _)| now.contains_key(partition)).count();
        for pass in passes(changed) {
            check(stop)?;
            let mut spooled: BTreeMap<Partition, Spooled> = BTreeMap::new();
            for (partition, rows) in &pass {
                spooled.insert(*partition, self.spooled(*rows)?);
            }
            let outputs = spooled.iter_mut().map(|(partition, file)| (*partition, file));
            let content = export.write_partitions(index, prices, selection, outputs)?;
            for (partition, _) in pass {
                check(stop)?;
                let (Some(file), Some(content)) = (spooled.remove(&partition), content.get(&partition)) else { continue };
                let folder = partition.to_string();
                done.bytes += self.place.put(&format!("{folder}/{}", self.file), file, stop)?;
                let path = self.spool.with_file_name("written");
                self.notes.add(&folder, content).map_err(|error| PartitionsError::File { path, error })?;
                done.written += 1;
                done.rows += content.rows;
            }
        }
        Ok(done)
    }

    /// Returns the parts to write, and how many rows each has: the latest first, those without a day before them. If
    /// the beginning of a session becomes known, or an earlier one, its row leaves one part before it comes into another. So a
    /// reader misses it for a moment, and never has it twice.
    fn changed(&self, now: &BTreeMap<Partition, PartitionContent>) -> Vec<(Partition, u64)> {
        let is_written = |partition: &Partition, content| {
            let folder = partition.to_string();
            self.notes.has(&folder, content) && !self.place.lacks(&format!("{folder}/{}", self.file))
        };
        let changed = now.iter().filter(|(partition, content)| !is_written(partition, content));
        let mut changed: Vec<(Partition, u64)> = changed.map(|(partition, content)| (*partition, content.rows)).collect();
        let known: BTreeMap<String, Partition> = now.keys().map(|partition| (partition.to_string(), *partition)).collect();
        let gone = self.notes.with_rows().filter(|folder| !known.contains_key(*folder));
        changed.extend(gone.filter_map(|folder| Some((named(folder)?, 0))));
        changed.sort_by_key(|(partition, _)| (partition.day.is_some(), Reverse(partition.day), partition.table));
        changed
    }

    /// Returns where a part of so many rows is written first: in memory, or in a file that has no name.
    fn spooled(&self, rows: u64) -> Result<Spooled, PartitionsError> {
        if rows <= ROWS {
            return Ok(Spooled::Memory(Vec::new()));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&self.spool).and_then(|file| std::fs::remove_file(&self.spool).map(|()| file));
        Ok(Spooled::File(file.map_err(|error| PartitionsError::File { path: self.spool.clone(), error })?))
    }
}

/// Divides parts into passes over the archive, so that what is in memory does not grow with it.
fn passes(parts: Vec<(Partition, u64)>) -> Vec<Vec<(Partition, u64)>> {
    let mut passes: Vec<Vec<(Partition, u64)>> = Vec::new();
    let mut left = 0;
    for (partition, rows) in parts {
        match passes.last_mut() {
            Some(pass) if rows <= left && pass.len() < PARTS => pass.push((partition, rows)),
            _ => {
                left = ROWS;
                passes.push(vec![(partition, rows)]);
            }
        }
        left = left.saturating_sub(rows);
    }
    passes
}

fn check(stop: &watch::Receiver<bool>) -> Result<(), PartitionsError> {
    if *stop.borrow() { Err(PartitionsError::Stopped) } else { Ok(()) }
}

/// Reads the folder of a part, as it is written.
fn named(folder: &str) -> Option<Partition> {
    let (table, date) = folder.split_once("/date=")?;
    let table = ExportTable::ALL.into_iter().find(|known| known.name() == table)?;
    if date == "unknown" {
        return Some(Partition::new(table, None));
    }
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let partition = Partition::new(table, Some(i32::try_from(days(year, month, day)).ok()?));
    (partition.to_string() == folder).then_some(partition)
}

/// Returns the days from 1970 to a date.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March have the leap day at their end.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, month) = (year.div_euclid(400), (month + 9) % 12);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// A hash that stays the same: it names a folder.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_read_back_as_what_they_were() {
        for day in (-1_000..60_000).step_by(7).chain([20_773, 20_774, 19_782, 19_783]) {
            let partition = Partition::new(ExportTable::Costs, Some(day));
            assert_eq!(named(&partition.to_string()), Some(partition));
        }
        let unknown = Partition::new(ExportTable::Sessions, None);
        assert_eq!(named(&unknown.to_string()), Some(unknown));
        for wrong in ["", "costs", "costs/date=", "costs/date=2026-02-30", "other/date=unknown", "costs/date=1-2-3"] {
            assert_eq!(named(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_pass_has_few_rows_and_every_part_is_in_one() {
        let part = |day: i32, rows| (Partition::new(ExportTable::Calls, Some(day)), rows);
        let parts = vec![part(1, ROWS), part(2, 1), part(3, ROWS - 1), part(4, 1), part(5, 5 * ROWS), part(6, 0)];
        let passed: Vec<Vec<i32>> =
            passes(parts).into_iter().map(|pass| pass.into_iter().filter_map(|(part, _)| part.day).collect()).collect();
        assert_eq!(passed, [vec![1], vec![2, 3], vec![4], vec![5, 6]]);
        let many: Vec<_> = (0..2_500).map(|day| part(day, 1)).collect();
        assert_eq!(passes(many.clone()).into_iter().map(|pass| pass.len()).collect::<Vec<_>>(), [1_024, 1_024, 452]);
        assert_eq!(passes(many.clone()).concat(), many);
    }
}
