//! Pieces of recordings as they travel: a line of JSON says what is in a message, and the bytes follow. Whatever comes from the broker is
//! checked here, because anybody may have written it.

use std::fmt::Write as _;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The most bytes of files in one message. A broker takes 1 MiB as it comes.
pub(crate) const MOST: usize = 512 << 10;
/// The most bytes of a file in one object of the object store.
pub(crate) const LARGEST_OBJECT: usize = 8 << 20;
/// The longest line that says what is in a message.
const LONGEST_LINE: usize = 16 << 10;
/// The most bytes of one file.
const LARGEST_FILE: u64 = 64 << 30;
/// The longest name of a recording, a batch or an object.
const LONGEST_NAME: usize = 200;
/// The most parts of one message.
const MOST_PARTS: usize = 2 * RecordingFile::ALL.len();

/// A file of a recording. Others do not travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RecordingFile {
    Meta,
    Stdout,
    Stderr,
    Stdin,
    Times,
    Decisions,
    End,
}

impl RecordingFile {
    pub(crate) const ALL: [Self; 7] =
        [Self::Meta, Self::Stdout, Self::Stderr, Self::Stdin, Self::Times, Self::Decisions, Self::End];
    /// Those that only grow.
    pub(crate) const GROWING: [Self; 5] = [Self::Stdout, Self::Stderr, Self::Stdin, Self::Times, Self::Decisions];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta.json",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Stdin => "stdin",
            Self::Times => "times",
            Self::Decisions => "decisions",
            Self::End => "end.json",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|file| file.name() == name)
    }

    /// Returns whether it only grows. Otherwise it is replaced as a whole.
    pub(crate) fn grows(self) -> bool {
        Self::GROWING.contains(&self)
    }
}

/// The SHA-256 of a file.
pub(crate) type Sum = [u8; 32];

/// What is in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) parts: Vec<Part>,
    /// All files of the recording. Nothing more comes after it.
    pub(crate) sealed: Option<Vec<SealedFile>>,
}

/// A part of a file, or all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) file: RecordingFile,
    pub(crate) offset: u64,
    pub(crate) content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Bytes(Bytes),
    /// The bytes are in the object store.
    Object(ObjectPart),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectPart {
    pub(crate) name: String,
    pub(crate) length: usize,
    pub(crate) sum: Sum,
}

/// A file of a recording that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealedFile {
    pub(crate) file: RecordingFile,
    pub(crate) length: u64,
    pub(crate) sum: Sum,
}

/// Why a message is no piece of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WrongPiece {
    #[error("the name is none of a recording")]
    Name,
    #[error("it has no line that says what is in it")]
    Line,
    #[error("it has a file that no recording has")]
    File,
    #[error("it has a file twice, or one that it should not have")]
    Files,
    #[error("an offset or a length is too large")]
    Large,
    #[error("its lengths do not add up")]
    Length,
    #[error("a SHA-256 is none")]
    Sum,
}

#[derive(Serialize, Deserialize)]
struct Line {
    parts: Vec<LinePart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed: Option<LineSeal>,
}

#[derive(Serialize, Deserialize)]
struct LinePart {
    file: String,
    offset: u64,
    length: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    object: Option<LineObject>,
}

#[derive(Serialize, Deserialize)]
struct LineObject {
    name: String,
    sha256: String,
}

#[derive(Serialize, Deserialize)]
struct LineSeal {
    files: Vec<LineFile>,
}

#[derive(Serialize, Deserialize)]
struct LineFile {
    name: String,
    length: u64,
    sha256: String,
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Object(object) => object.length as u64,
        }
    }
}

impl Piece {
    /// Writes the message. What is in it also gives its id: the same piece has the same.
    pub(crate) fn encode(&self) -> (Bytes, String) {
        let part = |part: &Part| LinePart {
            file: part.file.name().to_owned(),
            offset: part.offset,
            length: part.content.len(),
            object: match &part.content {
                Content::Bytes(_) => None,
                Content::Object(object) => Some(LineObject { name: object.name.clone(), sha256: hex(&object.sum) }),
            },
        };
        let file =
            |file: &SealedFile| LineFile { name: file.file.name().to_owned(), length: file.length, sha256: hex(&file.sum) };
        let line = Line {
            parts: self.parts.iter().map(part).collect(),
            sealed: self.sealed.as_ref().map(|files| LineSeal { files: files.iter().map(file).collect() }),
        };
        // Texts and numbers, which JSON can represent.
        let mut payload = serde_json::to_vec(&line).unwrap_or_default();
        let id = hex(&sum(&payload))[..32].to_owned();
        payload.push(b'\n');
        for part in &self.parts {
            if let Content::Bytes(bytes) = &part.content {
                payload.extend_from_slice(bytes);
            }
        }
        (payload.into(), id)
    }

    /// Reads a message.
    pub(crate) fn decode(payload: &Bytes) -> Result<Self, WrongPiece> {
        let head = &payload[..payload.len().min(LONGEST_LINE)];
        let end = head.iter().position(|byte| *byte == b'\n').ok_or(WrongPiece::Line)?;
        let line: Line = serde_json::from_slice(&head[..end]).map_err(|_| WrongPiece::Line)?;
        if line.parts.len() > MOST_PARTS {
            return Err(WrongPiece::Files);
        }
        let mut at = end + 1;
        let mut parts = Vec::with_capacity(line.parts.len());
        for part in line.parts {
            let file = RecordingFile::named(&part.file).ok_or(WrongPiece::File)?;
            let fits = part.offset.checked_add(part.length).is_some_and(|end| end <= LARGEST_FILE);
            if !fits || (!file.grows() && part.offset > 0) {
                return Err(WrongPiece::Large);
            }
            let length = usize::try_from(part.length).map_err(|_| WrongPiece::Large)?;
            let content = if let Some(object) = part.object {
                if length > LARGEST_OBJECT || object.name.len() > 4 * LONGEST_NAME {
                    return Err(WrongPiece::Large);
                }
                Content::Object(ObjectPart { name: object.name, length, sum: unhex(&object.sha256)? })
            } else {
                let end = at.checked_add(length).filter(|end| *end <= payload.len()).ok_or(WrongPiece::Length)?;
                let bytes = payload.slice(at..end);
                at = end;
                Content::Bytes(bytes)
            };
            parts.push(Part { file, offset: part.offset, content });
        }
        if at != payload.len() {
            return Err(WrongPiece::Length);
        }
        let sealed = line.sealed.map(|seal| read_seal(&seal)).transpose()?;
        Ok(Self { parts, sealed })
    }
}

fn read_seal(seal: &LineSeal) -> Result<Vec<SealedFile>, WrongPiece> {
    let mut files: Vec<SealedFile> = Vec::new();
    for LineFile { name, length, sha256 } in &seal.files {
        let file = RecordingFile::named(name).ok_or(WrongPiece::File)?;
        if files.iter().any(|known| known.file == file) {
            return Err(WrongPiece::Files);
        }
        if *length > LARGEST_FILE {
            return Err(WrongPiece::Large);
        }
        files.push(SealedFile { file, length: *length, sum: unhex(sha256)? });
    }
    Ok(files)
}

/// Returns the SHA-256 of bytes.
pub(crate) fn sum(bytes: &[u8]) -> Sum {
    Sha256::digest(bytes).into()
}

/// Writes bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads so many bytes from hexadecimal digits.
pub(crate) fn unhex<const N: usize>(text: &str) -> Result<[u8; N], WrongPiece> {
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return Err(WrongPiece::Sum);
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let (high, low) = digit(digits[0]).zip(digit(digits[1])).ok_or(WrongPiece::Sum)?;
        *byte = u8::try_from(high * 16 + low).map_err(|_| WrongPiece::Sum)?;
    }
    Ok(bytes)
}

/// Checks the name of a recording: it becomes the name of a folder.
pub(crate) fn plain(name: &str) -> Result<&str, WrongPiece> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && name.len() <= LONGEST_NAME && name.chars().all(is_plain) { Ok(name) } else { Err(WrongPiece::Name) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file() -> impl Strategy<Value = RecordingFile> {
        proptest::sample::select(RecordingFile::ALL.to_vec())
    }

    fn part() -> impl Strategy<Value = Part> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| Content::Bytes(bytes.into()));
        let object = ("[a-z/@0-9]{1,40}", 0..LARGEST_OBJECT, any::<[u8; 32]>())
            .prop_map(|(name, length, sum)| Content::Object(ObjectPart { name, length, sum }));
        (file(), 0..LARGEST_FILE / 2, prop_oneof![4 => bytes, 1 => object]).prop_map(|(file, offset, content)| Part {
            file,
            offset: if file.grows() { offset } else { 0 },
            content,
        })
    }

    fn piece() -> impl Strategy<Value = Piece> {
        let file = |file| (0..=LARGEST_FILE, any::<[u8; 32]>()).prop_map(move |(length, sum)| SealedFile { file, length, sum });
        let files = proptest::sample::subsequence(RecordingFile::ALL.to_vec(), 0..=7)
            .prop_flat_map(move |files| files.into_iter().map(file).collect::<Vec<_>>());
        (proptest::collection::vec(part(), 0..8), proptest::option::of(files))
            .prop_map(|(parts, sealed)| Piece { parts, sealed })
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_back(piece in piece()) {
            let (payload, id) = piece.encode();
            prop_assert_eq!(Piece::decode(&payload), Ok(piece.clone()));
            prop_assert_eq!(piece.encode().1, id);
        }

        #[test]
        fn what_is_cut_off_or_has_more_is_refused(piece in piece(), cut in any::<proptest::sample::Index>()) {
            let (payload, _) = piece.encode();
            prop_assert!(Piece::decode(&payload.slice(..cut.index(payload.len()))).is_err());
            let longer: Bytes = [&payload[..], b"x"].concat().into();
            prop_assert_eq!(Piece::decode(&longer), Err(WrongPiece::Length));
        }

        #[test]
        fn anything_can_be_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Piece::decode(&bytes.into());
        }

        #[test]
        fn no_name_leads_elsewhere(name in ".{0,40}") {
            if let Ok(name) = plain(&name) {
                let path = std::path::Path::new("recordings").join(name);
                prop_assert_eq!(path.components().count(), 2);
                prop_assert!(!name.starts_with('.') && !name.contains('/'));
            }
        }
    }

    #[test]
    fn hostile_pieces_are_refused() {
        let zeros = "0".repeat(64);
        let object = |length: u64| {
            format!(
                r#"{{"parts":[{{"file":"stdout","offset":0,"length":{length},"object":{{"name":"a","sha256":"{zeros}"}}}}]}}"#
            )
        };
        let seal = |files: &str| format!(r#"{{"parts":[],"sealed":{{"files":[{files}]}}}}"#);
        let sealed = |name: &str, sum: &str| format!(r#"{{"name":"{name}","length":1,"sha256":"{sum}"}}"#);
        let part = |file: &str, offset: u64, length: u64| {
            format!(r#"{{"parts":[{{"file":"{file}","offset":{offset},"length":{length}}}]}}"#)
        };
        let many = format!(r#"{{"parts":[{}]}}"#, vec![r#"{"file":"times","offset":0,"length":0}"#; MOST_PARTS + 1].join(","));
        for (line, expected) in [
            (String::new(), WrongPiece::Line),
            ("[]".to_owned(), WrongPiece::Line),
            (r#"{"parts":[{"file":"stdout","offset":-1,"length":0}]}"#.to_owned(), WrongPiece::Line),
            (part("../../.bashrc", 0, 0), WrongPiece::File),
            (part("collected.json", 0, 0), WrongPiece::File),
            (part("stdout", u64::MAX, 1), WrongPiece::Large),
            (part("stdout", LARGEST_FILE, 1), WrongPiece::Large),
            (part("meta.json", 1, 0), WrongPiece::Large),
            (part("stdout", 0, 1), WrongPiece::Length),
            (many, WrongPiece::Files),
            (object(LARGEST_OBJECT as u64 + 1), WrongPiece::Large),
            (seal(&[sealed("stdout", &zeros), sealed("stdout", &zeros)].join(",")), WrongPiece::Files),
            (seal(&sealed("stdout", "00")), WrongPiece::Sum),
            (seal(&sealed("stdout", &"é".repeat(32))), WrongPiece::Sum),
            (seal(&sealed("stdout", &"A".repeat(64))), WrongPiece::Sum),
            (seal(&sealed("index.html", &zeros)), WrongPiece::File),
            (" ".repeat(LONGEST_LINE), WrongPiece::Line),
        ] {
            assert_eq!(Piece::decode(&format!("{line}\n").into()), Err(expected), "{line}");
        }
        assert!(Piece::decode(&format!("{}\n", object(5)).into()).is_ok());
    }

    #[test]
    fn only_plain_names_are_taken() {
        for name in ["2026-11-17T19-00-00Z-0a1b2c3d4e-2", "a", "a.b_c-d"] {
            assert_eq!(plain(name), Ok(name));
        }
        for name in ["", "..", "../x", "/etc", "a/b", ".hidden", "-x", "a b", "a\0", "ü", &"a".repeat(LONGEST_NAME + 1)] {
            assert_eq!(plain(name), Err(WrongPiece::Name), "{name}");
        }
    }
}
