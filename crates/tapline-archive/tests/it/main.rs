//! Tests of the archive: recordings, files, readers and bytes become reports.

#[cfg(test)]
mod reports;
