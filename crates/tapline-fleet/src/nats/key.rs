//! Who wrote an order or an outcome. Each is signed with the key of a data folder, for the one subject that it is for: a broker, and whoever
//! may write to it, can neither order nor answer for somebody else. The key is kept in the data folder, and never leaves it.

use std::io;

use bytes::Bytes;
use nkeys::{KeyPair, KeyPairType};
use serde::{Deserialize, Serialize};
use tapline_recording::Store;

use super::pieces::{hex, unhex};
use crate::identity::once;

/// The key of a data folder.
pub(crate) struct Key(KeyPair);

/// What stands before what is signed: a line of JSON.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    signature: String,
}

/// The longest such line.
const LONGEST: usize = 512;

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Key").field(&self.public()).finish()
    }
}

impl Key {
    /// Returns the key of a data folder. Makes it if there is none.
    pub(crate) fn of(store: &Store) -> io::Result<Self> {
        let make = || KeyPair::new_user().seed().unwrap_or_default();
        let seed = once(store, "key", make, |seed| KeyPair::from_seed(seed).is_ok())?;
        KeyPair::from_seed(&seed).map(Self).map_err(io::Error::other)
    }

    /// Returns what others know it by.
    pub(crate) fn public(&self) -> String {
        self.0.public_key()
    }

    /// Signs something that is for this subject.
    pub(crate) fn sign(&self, subject: &str, payload: &[u8]) -> Bytes {
        // A key with its seed can sign, and a line of texts be written.
        let signature = self.0.sign(&signed(subject, payload)).unwrap_or_default();
        let mut bytes = serde_json::to_vec(&Line { key: self.public(), signature: hex(&signature) }).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend_from_slice(payload);
        bytes.into()
    }
}

/// Returns who signed something that is for this subject, and what that is.
pub(crate) fn open(subject: &str, bytes: &Bytes) -> Result<(String, Bytes), &'static str> {
    let head = &bytes[..bytes.len().min(LONGEST)];
    let end = head.iter().position(|byte| *byte == b'\n').ok_or(UNSIGNED)?;
    let Line { key, signature } = serde_json::from_slice(&head[..end]).map_err(|_| UNSIGNED)?;
    let (payload, signature) = (bytes.slice(end + 1..), unhex::<64>(&signature).map_err(|_| UNSIGNED)?);
    let known = KeyPair::from_public_key(&key).map_err(|_| UNSIGNED)?;
    known.verify(&signed(subject, &payload), &signature).map_err(|_| "it is not what was signed, or not for this job")?;
    Ok((key, payload))
}

/// Why something is not believed.
const UNSIGNED: &str = "it is not signed";

fn signed(subject: &str, payload: &[u8]) -> Vec<u8> {
    [b"tapline\n", subject.as_bytes(), b"\n", payload].concat()
}

/// A text is no key of a data folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no key of a data folder")]
pub struct WrongKey;

/// Checks a key as [`data_folder_key`] returns it.
pub fn check_key(text: &str) -> Result<String, WrongKey> {
    let key = KeyPair::from_public_key(text).ok().filter(|key| key.key_pair_type() == KeyPairType::User);
    key.map(|key| key.public_key()).ok_or(WrongKey)
}

/// Returns what others know a data folder by: its public key. Makes the key if there is none.
pub fn data_folder_key(store: &Store) -> io::Result<String> {
    Key::of(store).map(|key| key.public())
}

#[cfg(test)]
mod tests {
    use tapline_testkit::TempFolder;

    use super::*;

    #[test]
    fn what_is_signed_is_believed_for_its_subject_only() -> io::Result<()> {
        let (one, other) = (TempFolder::new(), TempFolder::new());
        let (key, another) = (Key::of(&Store::at(&*one))?, Key::of(&Store::at(&*other))?);
        assert_eq!((data_folder_key(&Store::at(&*one))?, check_key(&key.public())), (key.public(), Ok(key.public())));
        assert_ne!(key.public(), another.public());
        let order = key.sign("a.b", b"{\"x\":1}\n");
        assert_eq!(open("a.b", &order), Ok((key.public(), Bytes::from_static(b"{\"x\":1}\n"))));
        assert!(open("a.c", &order).is_err());
        let swapped = String::from_utf8_lossy(&order).replace(&key.public(), &another.public());
        let changed = String::from_utf8_lossy(&order).replace(":1", ":2");
        for wrong in [swapped, changed, "{\"x\":1}".to_owned(), String::new(), "{}\n{}".to_owned(), "é".repeat(LONGEST)] {
            assert!(open("a.b", &wrong.clone().into()).is_err(), "{wrong}");
        }
        for wrong in ["", "U", "SUAACAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAN7EY", &key.public()[1..]] {
            assert!(check_key(wrong).is_err(), "{wrong}");
        }
        Ok(())
    }
}
