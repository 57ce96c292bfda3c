//! Tests of the scripted model and of the agent that replays, from outside: over a socket, through pipes.

#[cfg(test)]
mod choosing;
#[cfg(test)]
mod client;
#[cfg(test)]
mod faking;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod recordings;
#[cfg(test)]
mod replaying;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod serving;
