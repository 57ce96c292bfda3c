//! Tests of the runner: against an agent that misbehaves on demand, from the contract's point of view.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod arguments;
#[cfg(test)]
mod control_requests;
#[cfg(test)]
mod dropped_runs;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod fake_agent;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod many_runs;
#[cfg(all(test, feature = "rmcp"))]
mod mcp_sdk;
#[cfg(test)]
mod permission_rules;
#[cfg(test)]
mod process_chains;
#[cfg(test)]
mod run_end;
#[cfg(test)]
mod scripted_agent;
#[cfg(test)]
mod start;
#[cfg(test)]
mod times;
