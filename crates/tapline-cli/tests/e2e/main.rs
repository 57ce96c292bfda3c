//! The end-to-end tests: the real programs, offline, on a scripted model, through `run` and `tee`. `scripts/e2e` installs the
//! programs and runs them.

#[cfg(test)]
mod api_errors;
#[cfg(test)]
mod archive;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod ccusage;
#[cfg(test)]
mod chat;
#[cfg(test)]
mod claude;
#[cfg(test)]
mod codex;
#[cfg(test)]
mod control_requests;
#[cfg(test)]
mod drift;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod options;
#[cfg(test)]
mod permission_rules;
#[cfg(test)]
mod piped_input_and_advice;
#[cfg(test)]
mod prices;
#[cfg(test)]
mod recipes;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod run_stop;
#[cfg(test)]
mod sdk_hosts;
#[cfg(test)]
mod session_control;
#[cfg(test)]
mod session_input;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod statusline;
