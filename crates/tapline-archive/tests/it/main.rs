//! Tests of the archive: recordings, files, readers and bytes become reports; requests have prices.

#[cfg(test)]
mod ccusage_mistakes;
#[cfg(test)]
mod constant_memory;
#[cfg(test)]
mod copies_checked;
#[cfg(test)]
mod damaged_files;
#[cfg(test)]
mod denied_calls;
#[cfg(test)]
mod earlier_indexes;
#[cfg(test)]
#[cfg(feature = "parquet")]
mod export;
#[cfg(test)]
mod five_hour_windows;
#[cfg(test)]
mod growing_files;
#[cfg(test)]
mod hidden_requests;
#[cfg(test)]
mod index;
#[cfg(test)]
mod kept_copies;
#[cfg(test)]
mod links;
#[cfg(test)]
mod old_costs;
#[cfg(test)]
mod parity;
#[cfg(test)]
#[cfg(feature = "parquet")]
mod partitions;
#[cfg(test)]
mod places;
#[cfg(test)]
mod prices;
#[cfg(test)]
mod recordings_without_transcripts;
#[cfg(test)]
mod reports;
#[cfg(test)]
mod resumed_costs;
#[cfg(test)]
mod retelling;
#[cfg(test)]
mod search;
#[cfg(test)]
mod service_tiers;
#[cfg(test)]
mod totals;
#[cfg(test)]
mod transcripts;
