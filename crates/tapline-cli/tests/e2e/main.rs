//! The end-to-end tests: the real programs, offline, on a scripted model, through `run` and `tee`. `scripts/e2e` installs the
//! programs and runs them.

#[cfg(test)]
mod archive;
#[cfg(test)]
mod asking;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod chatting;
#[cfg(test)]
mod claude;
#[cfg(test)]
mod codex;
#[cfg(test)]
mod drift;
#[cfg(test)]
mod driving;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod failing;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod honesty;
#[cfg(test)]
mod hosts;
#[cfg(test)]
mod options;
#[cfg(test)]
mod peers;
#[cfg(test)]
mod prices;
#[cfg(test)]
mod requesting;
#[cfg(test)]
mod ruling;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod sessions;
#[cfg(test)]
#[path = "../it/signals.rs"]
mod signals;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod statusline;
