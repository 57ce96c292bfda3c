//! Tests of the archive: recordings, files, readers and bytes become reports; requests have prices.

#[cfg(test)]
mod counting;
#[cfg(test)]
mod damage;
#[cfg(test)]
#[cfg(feature = "export")]
mod export;
#[cfg(test)]
mod following;
#[cfg(test)]
mod index;
#[cfg(test)]
mod keep;
#[cfg(test)]
#[cfg(feature = "export")]
mod partitions;
#[cfg(test)]
mod peers;
#[cfg(test)]
mod places;
#[cfg(test)]
mod prices;
#[cfg(test)]
mod reports;
#[cfg(test)]
mod retelling;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod search;
#[cfg(test)]
mod tempdir;
#[cfg(test)]
mod transcripts;
#[cfg(test)]
mod windows;
