//! Tests of the scripted model and of the agent that replays, from outside: over a socket, through pipes.

#[cfg(test)]
mod client;
#[cfg(test)]
mod fake_agent;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod model_api;
#[cfg(test)]
mod recordings;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod turn_choice;
