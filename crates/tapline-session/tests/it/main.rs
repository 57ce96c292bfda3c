//! Tests of the session: the contract's cases, every fixture in every format, hostile text in every field.

#[cfg(test)]
mod cards;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod checks;
#[cfg(test)]
mod corners;
#[cfg(test)]
mod covering;
#[cfg(test)]
mod dialects;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod growth;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod mutations;
#[cfg(test)]
mod narrow;
#[cfg(test)]
#[cfg(target_os = "linux")] // its sandbox needs namespaces
mod oracle;
#[cfg(test)]
mod otlp;
#[cfg(test)]
mod page;
#[cfg(test)]
mod permissions;
mod policies;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod prose;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod times;
#[cfg(test)]
mod values;
#[cfg(test)]
mod ways;
