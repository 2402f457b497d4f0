//! A recorded trace: of each request its time, sizes, hashes and outcome, for `spillway replay` to decide again.
//!
//! What stands in it is what the picker and a model of the endpoints need, and nothing of what was said: no prompt, no answer,
//! no key, no tenant, no address of a client. A prompt is the chain of hashes that prefix affinity makes of it anyway. They
//! cannot be turned back into text; but equal beginnings have equal hashes, so whoever has a trace and guesses a prompt,
//! word for word, can tell whether it was sent.
//!
//! Writing has a thread of its own ([`Recorder`]), the file has a bound (`file.rs`), reading takes any bytes ([`Trace`]).

mod chain;
mod file;
pub mod line;
mod read;
mod recorder;

pub use chain::{Chains, Tip};
pub use read::{Bad, ReadError, Recorded, Trace};
pub use recorder::{Change, Entry, Recorder};
