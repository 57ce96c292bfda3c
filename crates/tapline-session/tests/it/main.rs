//! Tests of the session: the contract's cases, every fixture in every format, hostile text in every field.

#[cfg(test)]
mod allow_rules;
#[cfg(test)]
mod cards;
#[cfg(test)]
mod checks;
#[cfg(test)]
mod contract_cases;
#[cfg(test)]
mod deny_rules;
#[cfg(test)]
mod dialects;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod linear_time;
#[cfg(test)]
mod markdown;
#[cfg(test)]
mod mutations;
#[cfg(test)]
mod narrow_terminal;
#[cfg(test)]
#[cfg(target_os = "linux")] // its sandbox needs namespaces
mod oracle;
#[cfg(test)]
mod otlp;
#[cfg(test)]
mod page;
#[cfg(test)]
mod permission_rules;
#[cfg(test)]
mod permissions;
mod plausible_figures;
mod policy_mistakes;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod read_stream;
#[cfg(test)]
mod regressions;
#[cfg(test)]
mod resumed_costs;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod rule_mistakes;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod step_ids;
#[cfg(test)]
mod times;
#[cfg(test)]
mod uncounted_requests;
