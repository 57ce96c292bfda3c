//! Tests of the binary, as people and scripts use it, and of the architecture.

#[cfg(test)]
mod actions;
#[cfg(test)]
mod advising;
#[cfg(test)]
mod architecture;
#[cfg(test)]
mod archived;
#[cfg(test)]
mod batching;
#[cfg(test)]
mod browsing;
#[cfg(test)]
mod chatting;
#[cfg(test)]
mod checking;
#[cfg(test)]
mod converting;
#[cfg(test)]
mod counting;
#[cfg(test)]
mod error_table;
#[cfg(test)]
mod exporting;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod first;
#[cfg(test)]
mod following;
#[cfg(test)]
mod help;
#[cfg(test)]
mod honesty;
#[cfg(test)]
mod inspecting;
#[cfg(test)]
mod interrupted;
#[cfg(test)]
mod live;
#[cfg(test)]
mod migrating;
#[cfg(test)]
mod newcomer;
#[cfg(test)]
mod offline;
#[cfg(test)]
mod outputs;
#[cfg(test)]
mod partitioning;
#[cfg(test)]
mod passing;
#[cfg(test)]
mod piping;
#[cfg(test)]
mod pricing;
#[cfg(test)]
mod redacting;
#[cfg(test)]
mod retelling;
#[cfg(test)]
mod running;
#[cfg(test)]
mod schemas;
#[cfg(test)]
mod searched;
#[cfg(test)]
mod searching;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod showing;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod statusline;
#[cfg(test)]
mod stopping;
#[cfg(test)]
mod stumbling;
#[cfg(test)]
mod tapline;
#[cfg(test)]
mod telling;
#[cfg(test)]
mod timing;
#[cfg(test)]
mod viewing;
#[cfg(test)]
mod watching;
#[cfg(test)]
mod wording;
#[cfg(test)]
mod workflows;
