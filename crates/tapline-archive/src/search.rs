//! Full text over all sessions: what people asked, what agents answered, what tools were called with and what they
//! returned.
//!
//! A [`TextIndex`] knows which words stand where, and is brought up to date file by file. A [`SearchQuery`] is read from
//! what a person types.

mod asked;
mod carried;
mod earlier;
mod find;
mod query;
mod reading;
mod results;
mod snippet;
mod store;
mod text_index;
mod words;
mod writing;

pub use crate::said::EntryKind;
pub use query::{FILTERS, QueryError, SearchQuery};
pub use results::{Copies, FoundSession, Hit, SearchFound, SearchOptions, SearchSort, Shown};
pub use snippet::Snippet;
pub use text_index::{TextIndex, TextUpdated};
