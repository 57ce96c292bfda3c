//! Where the parts of tables go: a folder, or a bucket of a store that speaks S3. A file is there as a whole or not at all.

#[cfg(feature = "s3")]
mod bucket;

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tapline_recording::create_private_folder;
use tokio::sync::watch;

use super::PartitionsError;
#[cfg(feature = "s3")]
use bucket::Bucket;

/// Where the parts of tables go.
#[derive(Debug)]
pub(super) enum Place {
    Folder(PathBuf),
    #[cfg(feature = "s3")]
    Bucket(Box<Bucket>),
}

/// A file before it is in its place.
pub(super) enum Spooled {
    Memory(Vec<u8>),
    File(File),
}

impl io::Write for Spooled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Memory(memory) => memory.write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::File(file) => file.flush(),
        }
    }
}

impl Place {
    /// Reads an address: a folder, or `s3://BUCKET/PREFIX`. Keys and the address of the store come from the environment.
    pub(super) fn of(address: &str) -> Result<Self, PartitionsError> {
        let wrong = |why: &str| PartitionsError::Address { address: without_password(address), why: why.to_owned() };
        let Some(bucket) = address.strip_prefix("s3://") else {
            if address.contains("://") {
                return Err(wrong("name a folder, or s3://BUCKET/PREFIX"));
            }
            let path = std::path::absolute(address).map_err(|error| wrong(&error.to_string()))?;
            return Ok(Self::Folder(path));
        };
        #[cfg(feature = "s3")]
        return Ok(Self::Bucket(Box::new(Bucket::of(bucket, &wrong)?)));
        #[cfg(not(feature = "s3"))]
        {
            let _ = bucket;
            Err(wrong(
                "this tapline was built without the feature `s3`. The downloads of a release have it; `cargo install tapline-cli --features s3` builds it. A folder works",
            ))
        }
    }

    /// Returns what tells this place from others.
    pub(super) fn identity(&self) -> String {
        match self {
            Self::Folder(path) => format!("folder {}", path.display()),
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => bucket.identity(),
        }
    }

    /// Returns whether a file is known to be missing. A store is not asked.
    pub(super) fn lacks(&self, name: &str) -> bool {
        match self {
            Self::Folder(path) => !path.join(name).is_file(),
            #[cfg(feature = "s3")]
            Self::Bucket(_) => false,
        }
    }

    /// Puts a file there, in the place of an earlier one. Returns its length.
    pub(super) fn put(&self, name: &str, file: Spooled, stop: &watch::Receiver<bool>) -> Result<u64, PartitionsError> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                put_file(&path, file).map_err(|error| PartitionsError::File { path, error })
            }
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => bucket.put(name, file, stop.clone()),
        }
    }
}

/// Writes a file beside its place, and moves it there when the disk has it.
fn put_file(path: &Path, file: Spooled) -> io::Result<u64> {
    let folder = path.parent().unwrap_or(Path::new("."));
    create_private_folder(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Hidden, and with another ending: no reader takes it for a file of the table. The next try writes over it.
    let part = folder.join(format!(".{name}.part"));
    let write = || {
        let mut to = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        let length = match file {
            Spooled::Memory(bytes) => to.write_all(&bytes).map(|()| bytes.len() as u64),
            Spooled::File(mut file) => file.rewind().and_then(|()| io::copy(&mut file, &mut to)),
        }?;
        to.sync_all()?;
        std::fs::rename(&part, path)?;
        File::open(folder)?.sync_all()?;
        Ok(length)
    };
    write().inspect_err(|_| {
        let _ = std::fs::remove_file(&part);
    })
}

/// Returns the address without a name and a password.
fn without_password(endpoint: &str) -> String {
    match (endpoint.split_once("://"), endpoint.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => endpoint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tapline_testkit::TempFolder;
    use tapline_testkit::files::mode;

    use super::*;

    #[test]
    fn addresses_name_a_folder_or_a_bucket_and_never_a_key() {
        for wrong in ["s3://", "s3:///prefix", "s3://key:secret@bucket/prefix", "gs://bucket", "https://bucket", "s3://b/a//c"]
        {
            assert!(Place::of(wrong).is_err(), "{wrong}");
        }
        assert!(matches!(Place::of("tables"), Ok(Place::Folder(path)) if path.is_absolute()));
        assert_eq!(without_password("https://me:secret@host:9000"), "https://host:9000");
    }

    #[test]
    fn a_file_takes_the_place_of_an_earlier_one_and_is_private() -> io::Result<()> {
        let folder = TempFolder::new();
        let path = folder.join("calls/date=unknown/one.parquet");
        for text in ["first", "second"] {
            assert_eq!(put_file(&path, Spooled::Memory(text.into()))?, text.len() as u64);
            assert_eq!(std::fs::read_to_string(&path)?, text);
        }
        assert_eq!(mode(&path), 0o600);
        assert_eq!(std::fs::read_dir(folder.join("calls/date=unknown"))?.count(), 1);
        Ok(())
    }
}
