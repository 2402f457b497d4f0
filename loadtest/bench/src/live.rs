//! One scenario in real time: real gateways over loopback, simulated servers, and the trace that virtual time plays too.
//!
//! It shows whether virtual time tells the truth of the gateway, and it is where other routers are measured beside it. Model
//! time runs `X` times as fast as the clock: what is configured in seconds is divided by `X`, and what is measured is
//! multiplied by it.
//!
//! What a newcomer gets wrong: not everything can be made faster. The time a gateway or the loopback takes, and the time by
//! which timers are late, stay what they are, so a millisecond of theirs comes out as `X` milliseconds. What the gateway
//! adds is measured in each run and taken out; what the test bench adds itself stays in, and the `direct` arm shows it.
//! Two cores do all of it: a run on a busy machine says nothing, and says that it is not valid.

mod arm;
mod background;
mod body;
mod client;
mod clock;
pub mod command;
mod events;
mod fleet;
mod front;
mod load;
mod machine;
mod overhead;
mod peer;
mod process;
mod prompt_ack;
mod relay;
mod report;
mod run;
mod seen;

#[cfg(test)]
mod tests;
