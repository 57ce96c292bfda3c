//! Messages that several files have. Reports need to know them before they can count, so they are remembered until the
//! index changes.

use super::{Index, VERSION};
use crate::error::ArchiveError;
use crate::sealed;

impl Index {
    /// Returns the ids of messages that occur more than once, in order, each time with its file: of files that were heard of at
    /// this time or later, in milliseconds since 1970.
    pub(crate) fn copies(&self, since: Option<u64>) -> Result<Vec<(u64, i64)>, ArchiveError> {
        let Some(folder) = self.folder.as_ref().filter(|_| since.is_none()) else { return self.find_copies(since) };
        let stamp: i64 = self.db.query_row("SELECT coalesce(max(stamp), 0) FROM counted", [], |row| row.get(0))?;
        let (file, of) = (folder.join("copies"), (stamp ^ VERSION).cast_unsigned());
        if let Some(bytes) = sealed::read(&file, of) {
            let (copies, _) = bytes.as_chunks::<16>();
            return Ok(copies.iter().map(unpacked).collect());
        }
        let copies = self.find_copies(None)?;
        // What cannot be written is found again next time.
        let _ = sealed::write(&file, copies.iter().flat_map(packed).collect(), of);
        Ok(copies)
    }

    fn find_copies(&self, since: Option<u64>) -> Result<Vec<(u64, i64)>, ArchiveError> {
        let mut ids: Vec<(u64, i64)> = Vec::new();
        self.each_id(since, |file, id| ids.push((id, file)))?;
        keep_likely_copies(&mut ids);
        ids.sort_unstable();
        let copies = ids.chunk_by(|one, other| one.0 == other.0).filter(|copies| copies.len() > 1);
        Ok(copies.flatten().copied().collect())
    }
}

fn packed((id, file): &(u64, i64)) -> [u8; 16] {
    (u128::from(*id) << 64 | u128::from(file.cast_unsigned())).to_be_bytes()
}

#[expect(clippy::cast_possible_truncation, reason = "these are two halves")]
fn unpacked(bytes: &[u8; 16]) -> (u64, i64) {
    let both = u128::from_be_bytes(*bytes);
    ((both >> 64) as u64, (both as u64).cast_signed())
}

/// Drops most of the ids that occur only once, without sorting them: few messages have copies.
fn keep_likely_copies(ids: &mut Vec<(u64, i64)>) {
    let bits = (ids.len() * 16).next_power_of_two().max(64);
    #[expect(clippy::cast_possible_truncation, reason = "the ids are hashes, and only the lower bits are used")]
    let place = |id: u64| (id as usize & (bits - 1)) / 64;
    let (mut once, mut twice) = (vec![0_u64; bits / 64], vec![0_u64; bits / 64]);
    for &(id, _) in &*ids {
        let bit = 1 << (id >> 58);
        twice[place(id)] |= once[place(id)] & bit;
        once[place(id)] |= bit;
    }
    ids.retain(|&(id, _)| twice[place(id)] & (1 << (id >> 58)) != 0);
}
