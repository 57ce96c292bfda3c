//! Which data folder this is, for brokers and stores: random texts that are made once, and kept in the folder.

use std::fs::OpenOptions;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicU32, Ordering};

use tapline_recording::{Store, create_private_folder};

/// Returns the name of a data folder: 16 hexadecimal digits.
pub(crate) fn identity(store: &Store) -> io::Result<String> {
    let is_sound = |id: &str| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    once(store, "id", || format!("{:016x}", RandomState::new().hash_one(std::process::id())), is_sound)
}

/// Returns the text in a file of a data folder. Makes it if it is missing.
pub(crate) fn once(
    store: &Store,
    name: &str,
    make: impl Fn() -> String,
    is_sound: impl Fn(&str) -> bool,
) -> io::Result<String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = store.root().join("fleet");
    create_private_folder(&folder)?;
    let path = folder.join(name);
    loop {
        if let Ok(text) = std::fs::read_to_string(&path) {
            let text = text.trim().to_owned();
            if is_sound(&text) {
                return Ok(text);
            }
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged: remove it", path.display())));
        }
        // Of two processes that make it at the same time, one is first.
        let part = folder.join(format!(".{name}.{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        writeln!(file, "{}", make())?;
        file.sync_all()?;
        let linked = std::fs::hard_link(&part, &path);
        std::fs::remove_file(&part)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tapline_testkit::TempFolder;

    use super::*;

    #[test]
    fn a_data_folder_has_one_name() -> io::Result<()> {
        let root = TempFolder::new();
        let (one, other) = (Store::at(root.join("one")), Store::at(root.join("other")));
        let id = identity(&one)?;
        assert_eq!(identity(&one)?, id);
        assert_ne!(identity(&other)?, id);
        Ok(())
    }
}
