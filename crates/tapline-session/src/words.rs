//! Enums that are written as words: the word, `Display`, `FromStr` and serde from one table. Reading back is lenient,
//! because another version may have more words.

/// A word that an enum does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    pub(crate) word: String,
    pub(crate) known: &'static [&'static str],
}

impl UnknownWord {
    /// The words that are known.
    pub fn known(&self) -> &'static [&'static str] {
        self.known
    }
}

impl std::fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is not one of {}", self.word, self.known.join(", "))
    }
}

impl std::error::Error for UnknownWord {}

/// Defines an enum of words. A missing word, or one of another version, is read as the variant after `else`.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $( $(#[$about:meta])* $variant:ident = $word:literal ),+ $(,)? } else $other:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[$about])* $variant, )+ }

        impl $name {
            /// Returns the word in JSON.
            pub fn word(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::$other
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $( $word => Ok(Self::$variant), )+
                    _ => Err($crate::words::UnknownWord { word: word.to_owned(), known: &[$($word),+] }),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(String::deserialize(deserializer)?.parse().unwrap_or_default())
            }
        }
    };
}
pub(crate) use words;
